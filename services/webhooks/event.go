package webhooks

import (
	"encoding/json"
	"time"

	"tidings/services"
	"tidings/services/stream"
)

// The types of events.
const (
	changedEvent = "badges.changed" // a user's badges changed
	testEvent    = "webhooks.test"  // an operator tests the endpoint
)

// event is the body of a request, as the Standard Webhooks specification defines it.
type event struct {
	Type      string `json:"type"`
	Timestamp string `json:"timestamp"`
	Data      any    `json:"data"` // badges, or for a testEvent the name of the webhook
}

// badges are the data of a changedEvent, with the names of BadgeChange in the schema: an application reads both by one type.
type badges struct {
	UserID  string   `json:"userId"`
	Key     string   `json:"key"`
	Version string   `json:"version"`
	Total   int      `json:"total"`
	Display string   `json:"display"`
	Sources []count  `json:"sources"` // the counts that the filter chooses
	Dots    []string `json:"dots"`    // the names of the dots that are lit
	Quiet   bool     `json:"quiet"`   // the user's quiet hours are in effect
	Cause   *cause   `json:"cause"`   // null: nothing alerts
	Silent  bool     `json:"silent"`  // nothing in this change may alert the user
}

// count is one part of the badges. Part is null where a source has one count.
type count struct {
	Source  services.Source `json:"source"`
	Part    *string         `json:"part"`
	Count   int             `json:"count"`
	Display string          `json:"display"`
	InTotal bool            `json:"inTotal"`
	Changed bool            `json:"changed"` // since the last version that the endpoint has
}

// cause is the newest item that alerts the user.
type cause struct {
	Source services.Source `json:"source"`
	Part   *string         `json:"part"`
	ItemID string          `json:"itemId"`
	At     string          `json:"at"`
}

// timeText prints a time to the millisecond, always with the same number of digits, so that texts sort as their times do.
func timeText(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// nilIfEmpty returns nil for an empty text.
func nilIfEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// eventBody is the text of a request. It is made once for each attempt, and the same bytes are signed and sent.
func eventBody(kind string, at time.Time, data any) []byte {
	text, err := json.Marshal(event{Type: kind, Timestamp: timeText(at), Data: data})
	if err != nil {
		panic("webhooks: an event that is not JSON: " + err.Error())
	}
	return text
}

// changeBody makes the body about a change, for an endpoint that has all changes of the user up to base; no change up to heard
// alerts. A part that is 0 is left out, unless it changed after base: the endpoint must learn that it became 0.
func (f Filter) changeBody(change stream.Change, base, heard uint64) []byte {
	state := change.State
	data := badges{
		UserID: services.GlobalID(services.UserType, change.Key), Key: change.Key, Version: stream.VersionText(change.Seq),
		Total: state.Total.Value, Display: state.Total.Display, Sources: []count{}, Dots: []string{}, Quiet: state.Quiet, Silent: true,
	}
	if !f.OnlyTotals {
		for _, part := range state.Parts {
			// Changed after base, and not only in the user's last change: changes between the two may have been replaced.
			changed := part.ChangedVersion > base
			if f.chooses(part.Source, part.Name) && (part.Value > 0 || changed) {
				data.Sources = append(data.Sources, count{part.Source, nilIfEmpty(part.Name), part.Value, part.Display, part.InTotal, changed})
			}
		}
		// A filter by sources cannot name a dot, so it chooses none.
		if len(f.Sources) == 0 {
			data.Dots = append(data.Dots, state.Dots...)
		}
	}
	// In quiet hours nothing alerts; the change itself is sent, as counts have to be right all the time.
	if !state.Quiet {
		if newest := state.NewestAlertOf(f.chooses, max(base, heard)); newest != nil {
			data.Silent, data.Cause = false, &cause{newest.Source, nilIfEmpty(newest.Part), newest.ID, timeText(newest.At)}
		}
	}
	return eventBody(changedEvent, change.At, data)
}
