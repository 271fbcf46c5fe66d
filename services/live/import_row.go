package live

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/refs"
	"tidings/services/sql"
)

// showRow is one line: a show with the times that it has reached.
type showRow struct {
	Key       string       `json:"key"`  // the ref of the show
	Host      string       `json:"host"` // the key of the host
	Title     string       `json:"title"`
	PlannedAt importedTime `json:"plannedAt"`
	StartedAt importedTime `json:"startedAt"`
	EndedAt   importedTime `json:"endedAt"`
	Cancelled bool         `json:"cancelled"`
	CoverURL  string       `json:"coverUrl"`
	ReplayURL string       `json:"replayUrl"`

	lineNumber int64  // the number of the line in the file
	line       []byte // the text of the line, for the file of bad lines
}

// importedTime is a moment in RFC 3339, or in milliseconds since 1970 as a number or as a text of digits; to the millisecond,
// which is the precision of shows. The zero time is none.
type importedTime struct{ time.Time }

// UnmarshalJSON reads a moment; null and "" are none.
func (t *importedTime) UnmarshalJSON(text []byte) error {
	word := string(text)
	if len(text) > 0 && text[0] == '"' {
		if err := json.Unmarshal(text, &word); err != nil {
			return err
		}
	}
	if word == "null" || word == "" {
		return nil
	}
	// Digits alone are milliseconds, quoted or not: exports write numbers of that size as texts.
	if ms, err := strconv.ParseInt(word, 10, 64); err == nil {
		t.Time = time.UnixMilli(ms).UTC()
		return nil
	}
	at, err := time.Parse(time.RFC3339, word)
	if err != nil {
		return services.Errorf(services.Invalid, "%s is not a time: one like 2026-01-31T20:00:00Z, or milliseconds, is needed", services.Quote(word))
	}
	t.Time = at.UTC().Truncate(time.Millisecond)
	return nil
}

// parseShowRow parses a line, without looking anything up.
func parseShowRow(line []byte, keys *people.KeyTable, now time.Time) (row showRow, err error) {
	if err := importForm.ReadObject(line, &row, "key, host, title, plannedAt, startedAt, endedAt, cancelled, coverUrl and replayUrl"); err != nil {
		return row, err
	}
	if err := refs.CheckKey("key", row.Key); err != nil {
		return row, err
	}
	if err := keys.CheckKey([]byte(row.Host)); err != nil {
		return row, services.Errorf(services.Invalid, "host: %s", err)
	}
	if err := services.CheckFilled("title", row.Title, maxShowTitle); err != nil {
		return row, err
	}
	for field, url := range map[string]string{"coverUrl": row.CoverURL, "replayUrl": row.ReplayURL} {
		if err := services.CheckURL(field, url); err != nil {
			return row, err
		}
	}
	return row, row.checkTimes(now)
}

// checkTimes checks that the times of a row can be those of a show: in order, and none in the future but the plan. Boards sort by
// these times, so a show with a wrong time would stay at the top.
func (r showRow) checkTimes(now time.Time) error {
	text := func(t importedTime) string { return t.Format(time.RFC3339Nano) }
	switch first := time.UnixMilli(1); {
	case r.PlannedAt.IsZero():
		return services.Errorf(services.Invalid, "plannedAt is needed")
	case r.PlannedAt.Before(first) || r.PlannedAt.After(now.Add(maxShowAhead)):
		return services.Errorf(services.Invalid, "plannedAt is %s: it is before 1970 or more than %d days ahead", text(r.PlannedAt), maxShowAhead/(24*time.Hour))
	case r.Cancelled && (!r.StartedAt.IsZero() || !r.EndedAt.IsZero()):
		return services.Errorf(services.Conflict, "cancelled: a show that has started or ended cannot be cancelled")
	case !r.EndedAt.IsZero() && r.StartedAt.IsZero():
		return services.Errorf(services.Invalid, "endedAt is %s: startedAt is needed too", text(r.EndedAt))
	case !r.StartedAt.IsZero() && (r.StartedAt.Before(first) || r.StartedAt.After(now)):
		return services.Errorf(services.Invalid, "startedAt is %s: it is before 1970 or in the future", text(r.StartedAt))
	case !r.EndedAt.IsZero() && r.EndedAt.Before(r.StartedAt.Time):
		return services.Errorf(services.Invalid, "endedAt is %s: it is before startedAt, %s", text(r.EndedAt), text(r.StartedAt))
	case r.EndedAt.After(now):
		return services.Errorf(services.Invalid, "endedAt is %s: it is in the future", text(r.EndedAt))
	}
	return nil
}

// otherHostError is the error for a row whose key belongs to another host's show: followers of that host may have the show in their
// lists.
func (r showRow) otherHostError(host string) error {
	return services.Errorf(services.Conflict, "key: %s is a show of %s: it cannot be moved to another host", services.Quote(r.Key), services.Quote(host))
}

// toShow makes the show of a row, except for its host.
func (r showRow) toShow(id services.ShowID, now time.Time) Show {
	show := Show{
		ID: id, Title: r.Title, CoverURL: r.CoverURL, ReplayURL: r.ReplayURL, Status: ShowUpcoming,
		PlannedAt: r.PlannedAt.Time, StartedAt: r.StartedAt.Time, EndedAt: r.EndedAt.Time, UpdatedAt: now,
	}
	switch {
	case r.Cancelled:
		// The file has no time of the cancellation: the planned time is taken, or now if that is earlier.
		show.Status, show.CancelledAt = ShowCancelled, r.PlannedAt.Time
		// To the millisecond, as the plan is.
		if now = now.Truncate(time.Millisecond); now.Before(show.CancelledAt) {
			show.CancelledAt = now
		}
	case !r.EndedAt.IsZero():
		show.Status = ShowReplay
	case !r.StartedAt.IsZero():
		show.Status = ShowLive
	}
	return show
}

// showRef is the ref of a show with a key.
func showRef(key string) services.Ref { return services.Ref{Type: services.ShowType, Text: key} }

// storedHostKeys finds the shows of a batch that exist already. It returns the key of the host, with the prefix, by the key of the
// show.
func storedHostKeys(ctx context.Context, stored sql.Reader, batch []showRow) (map[string]string, error) {
	known, err := refs.FindKeys(ctx, stored, services.ShowType, services.Map(batch, func(row showRow) string { return row.Key }))
	if err != nil || len(known) == 0 {
		return map[string]string{}, err
	}
	ids := make([]services.UserID, 0, len(known))
	for _, holder := range known {
		ids = append(ids, holder.Owner)
	}
	slices.Sort(ids)
	// people.ByID omits a host who is being erased, so the host of their shows is "" here. A row of such a show then names another
	// host, and is bad.
	users, err := people.ByID(ctx, stored, slices.Compact(ids))
	hosts := make(map[string]string, len(known))
	for ref, holder := range known {
		hosts[ref.Text] = users[holder.Owner].Key
	}
	return hosts, err
}
