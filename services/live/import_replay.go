package live

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"tidings/services"
	"tidings/services/importer"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/refs"
	"tidings/services/sql"
)

// ShowService schedules, starts, ends and cancels shows with the commands that hosts use in the API, and so with reminders,
// pushes and jobs.
type ShowService interface {
	Schedule(host services.UserID, draft ShowDraft) *jobs.Command
	Start(host services.UserID, id services.ShowID, at time.Time) *jobs.Command
	End(host services.UserID, id services.ShowID, at time.Time, replayURL string) *jobs.Command
	Cancel(host services.UserID, id services.ShowID) *jobs.Command
}

// scheduleLeadTime is the time from the scheduling of a show to its plan or its start, whichever is earlier, by the clock of the
// file: files do not say when a show was announced.
const scheduleLeadTime = time.Hour

// replayKeysPerLookup bounds how many shows of a file one statement looks up.
const replayKeysPerLookup = 20_000

// showStep is the kind of an event. If two events of a show have the same time, the lower step comes first: a show is scheduled
// before it starts.
type showStep int

const (
	stepSchedule showStep = iota
	stepCancel
	stepStart
	stepEnd
)

// showEvent is one step of one row, at its time in the file. rowIndex is an index in showReplayRun.rows.
type showEvent struct {
	at       time.Time
	step     showStep
	rowIndex int
}

// showReplayRun is one run of ReplayFile. It holds the whole file, because the events are in another order than the rows.
// rows and events do not change once the file was read.
type showReplayRun struct {
	*importer.Run
	service ShowService // applies the events to shows

	rows   []showRow   // the good lines of the file, one for each show
	events []showEvent // all steps of the rows, in the order of their times
	// began and firstEventAt are the same moment on two clocks: replayTime converts between them.
	began        time.Time // by this machine's clock
	firstEventAt time.Time // the time of this run's first event in the file
}

// ReplayFile replays the shows of a file, in the format of ImportFile, from now on and Options.ReplayFactor times as fast as they
// happened; the factor is not 0. Each show is scheduled an hour of the file's time before its plan or its start, whichever is earlier; then it starts, ends or is cancelled
// through the service, with all effects, in the order of the events. Their times are shifted and scaled, so that the first event is
// now. On a slow machine, late events run at once.
//
// After a run that was interrupted, also by ctx, the next run continues with the next event, and its time is then now. The stored
// position is a count of events, so the rows of the file must be the same in both runs. Bad lines are put aside and reported. A show that
// exists already is not scheduled again, and its other events happen. Nothing happens before the whole file was read.
func ReplayFile(ctx context.Context, db importer.DB, service ShowService, opts importer.Options) (importer.Report, error) {
	run, err := importer.OpenReplay(db, opts, importForm)
	if err != nil {
		return importer.Report{}, err
	}
	re := &showReplayRun{Run: run, service: service}
	return re.run(ctx)
}

// run reads the file, and then applies its events at their times.
func (re *showReplayRun) run(ctx context.Context) (importer.Report, error) {
	err := re.readFile(ctx)
	if err == nil {
		err = re.runEvents(ctx)
	}
	return re.Close(err)
}

// readFile reads the whole file and sorts the events. A repeated line of a key is ignored; a line that moves a show of the file or
// the database to another host is bad.
func (re *showReplayRun) readFile(ctx context.Context) error {
	// The table only checks that a host's key is valid: the events make the users.
	keys, hosts := people.NewKeyTable(re.Opts.KeyPrefix), map[string]string{}
	err := re.ReadAll(func(line []byte) error {
		row, err := parseShowRow(line, keys, re.Opts.Clock.Now())
		host, known := hosts[row.Key]
		if err == nil && known && host != re.Opts.KeyPrefix+row.Host {
			err = row.otherHostError(host)
		}
		if err != nil {
			return re.RefuseLine(line, err)
		}
		re.FoundGoodLine()
		if re.Report.GoodRows++; known {
			re.Report.SkippedRows++
			return nil
		}
		hosts[row.Key] = re.Opts.KeyPrefix + row.Host
		row.lineNumber, row.line = re.LineNumber(), bytes.Clone(line)
		re.rows = append(re.rows, row)
		return nil
	})
	if err != nil {
		return err
	}
	// The keys may name shows of the database: look them up in parts, so that no statement carries the whole file.
	for part := range slices.Chunk(re.rows, replayKeysPerLookup) {
		stored, err := storedHostKeys(ctx, re.DB, part)
		if err != nil {
			return err
		}
		maps.Copy(hosts, stored)
	}
	// Set aside the rows that would move a show to another host. Rows of the same host stay: applyEvent does not schedule a show
	// that exists.
	re.rows = slices.DeleteFunc(re.rows, func(row showRow) bool {
		host := hosts[row.Key]
		moves := host != re.Opts.KeyPrefix+row.Host
		if moves {
			re.PutAside(row.lineNumber, row.line, row.otherHostError(host))
		}
		return moves
	})
	re.events = eventsOf(re.rows)
	return re.FlushBadLines()
}

// eventsOf returns all events of the rows in the order of their times. The events of one show are in the order that a show needs.
func eventsOf(rows []showRow) []showEvent {
	var events []showEvent
	for i, row := range rows {
		// A show may have started before the time that was planned. It is announced before its start all the same.
		first := row.PlannedAt.Time
		if !row.StartedAt.IsZero() && row.StartedAt.Before(first) {
			first = row.StartedAt.Time
		}
		events = append(events, showEvent{first.Add(-scheduleLeadTime), stepSchedule, i})
		// The order does not matter here, because all events are sorted below.
		for step, at := range map[showStep]time.Time{stepStart: row.StartedAt.Time, stepEnd: row.EndedAt.Time} {
			if !at.IsZero() {
				events = append(events, showEvent{at, step, i})
			}
		}
		if row.Cancelled {
			events = append(events, showEvent{row.PlannedAt.Time, stepCancel, i})
		}
	}
	slices.SortFunc(events, func(a, b showEvent) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.rowIndex, b.rowIndex), cmp.Compare(a.step, b.step))
	})
	return events
}

// runEvents waits for the time of each event and applies it. The end of ctx is no error: the operator stopped the replay.
func (re *showReplayRun) runEvents(ctx context.Context) error {
	done, err := re.SavedEvents(ctx)
	if err != nil {
		return err
	}
	// The file was replayed to its end. Unlike an import it does not start anew: its shows exist.
	if done >= int64(len(re.events)) {
		return nil
	}
	if done > 0 {
		_, _ = fmt.Fprintf(re.Opts.Out, "%s: continuing after event %s\n", re.Opts.File, humanize.Comma(done))
	}
	// The first event that is left happens now, so that an interruption leaves no burst of late events.
	re.began, re.firstEventAt = re.Opts.Clock.Now(), re.events[done].at
	for i := done; i < int64(len(re.events)); i++ {
		event := re.events[i]
		if err := re.Opts.Sleep(ctx, re.replayTime(event.at).Sub(re.Opts.Clock.Now())); err != nil {
			_, _ = fmt.Fprintf(re.Opts.Out, "%s: stopped at %s after %s of %s events; the next run continues there\n",
				re.Opts.File, event.at.Format(time.RFC3339), humanize.Comma(i), humanize.Comma(int64(len(re.events))))
			return nil
		}
		// An event that has begun is finished, and its position in the file is stored.
		if err := re.applyEvent(context.WithoutCancel(ctx), event, i+1); err != nil {
			return fmt.Errorf("%s, line %d: %w", re.Opts.File, re.rows[event.rowIndex].lineNumber, err)
		}
		re.ShowEvent(i+1, int64(len(re.events)), event.at)
	}
	return nil
}

// replayTime converts a time of the file into the time of the replay. The bound keeps the result within a Duration, even if a
// wrong file spans centuries.
func (re *showReplayRun) replayTime(at time.Time) time.Time {
	after := float64(at.Sub(re.firstEventAt)) / float64(re.Opts.ReplayFactor)
	return re.began.Add(time.Duration(min(after, math.MaxInt64/4)))
}

// applyEvent applies one event and saves the progress in one transaction: a crash repeats no event and skips none. If the show
// refuses the event, because another client has changed the show meanwhile, or because it is gone, the event is reported and skipped.
// If its host is being erased, applyEvent fails, and the next run begins with the event.
func (re *showReplayRun) applyEvent(ctx context.Context, event showEvent, number int64) error {
	row := re.rows[event.rowIndex]
	// The show is read for each event, because another client may have made, started or cancelled it since the last event.
	known, err := refs.FindKeys(ctx, re.DB, services.ShowType, []string{row.Key})
	if err != nil {
		return err
	}
	show, exists := known[showRef(row.Key)]
	// A schedule makes a show that does not exist; the other steps need an existing show. Other cases are repeats, or follow a
	// schedule that was refused.
	happens := exists == (event.step != stepSchedule)
	if event.step == stepSchedule && exists {
		re.Report.SkippedRows++
	}
	// Write may run its function again, so the show is counted once the transaction is committed.
	var made, refused bool
	err = re.DB.Write(ctx, func(tx *sql.Tx) error {
		made, refused = false, false
		if happens {
			cmd, err := re.command(ctx, tx, event, row, show)
			if err != nil {
				return err
			}
			// Only Apply runs: its jobs, which are queued in this transaction, do the work of AfterCommit a little later.
			if _, err := cmd.Apply(ctx, tx); err != nil {
				refused = true
				return err
			}
			made = event.step == stepSchedule
		}
		return re.SavePosition(ctx, tx, number)
	})
	// The event can never succeed. Save the position alone, or every further run would stop here.
	code := services.CodeOf(err)
	if refused && slices.Contains([]services.Code{services.Conflict, services.Invalid, services.Forbidden, services.NotFound}, code) {
		_, _ = fmt.Fprintf(re.Opts.Out, "line %d: %s\n", row.lineNumber, err)
		return re.DB.Write(ctx, func(tx *sql.Tx) error { return re.SavePosition(ctx, tx, number) })
	}
	if made {
		re.Report.NewItems++
	}
	return err
}

// command makes the command of an event, for the transaction. show is the existing show of the row's key; a schedule has none, and its
// host becomes a user with the first show. It fails if the host is being erased.
func (re *showReplayRun) command(ctx context.Context, tx *sql.Tx, event showEvent, row showRow, show refs.RefHolder) (*jobs.Command, error) {
	// The zero time means now. With its old time from the file, the event would alert nobody.
	id, now := services.ShowID(show.Object.Number), time.Time{}
	switch event.step {
	case stepCancel:
		return re.service.Cancel(show.Owner, id), nil
	case stepStart:
		return re.service.Start(show.Owner, id, now), nil
	case stepEnd:
		return re.service.End(show.Owner, id, now, row.ReplayURL), nil
	}
	key := re.Opts.KeyPrefix + row.Host
	ids, err := people.EnsureLocked(ctx, tx, []string{key}, nil)
	if err != nil {
		return nil, err
	}
	// A plan must be in the future, even if this event is late.
	plan := re.replayTime(row.PlannedAt.Time)
	if soonest := tx.Now.Add(time.Second); plan.Before(soonest) {
		plan = soonest
	}
	// The command claims the ref with the show, so that the later steps find it, also after a restart.
	cmd := re.service.Schedule(ids[key], ShowDraft{Title: row.Title, CoverURL: row.CoverURL, PlannedAt: plan})
	refs.LabelOnCreate(cmd, services.ShowType, services.Label{Ref: row.Key})
	return cmd, nil
}
