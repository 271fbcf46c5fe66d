package importer

import (
	"context"
	"io"
	"time"

	"tidings/services"
)

// OpenReplay opens a file whose events happen one by one, at their times. The caller calls ReadAll, applies the events, and calls
// Close.
func OpenReplay(db DB, opts Options, form Form) (*Run, error) {
	run, err := Open(db, opts, form)
	if err == nil && run.source.progressKey != "" {
		run.source.progressKey += ":replay" // the position of an import counts lines, that of a replay events
	}
	return run, err
}

// ReadAll passes the lines of the whole file to add, which may put them aside. A file that is cut off is INVALID: nothing of it must
// happen, because its last items would have no end.
func (r *Run) ReadAll(add func(line []byte) error) error {
	// Every run reads the whole file, so the bad lines are written anew too.
	if err := r.bad.reopenCutAfter(0); err != nil {
		return err
	}
	for {
		line, err := r.source.nextLine()
		if err == io.EOF {
			return nil
		}
		r.Report.LastLine = r.source.lineNumber
		if err != nil {
			return services.Wrapf(services.Invalid, err, "%s is cut off in line %d: nothing is replayed", r.Opts.File, r.source.lineNumber)
		}
		if IsBlank(line) {
			continue
		}
		if err := add(line); err != nil {
			return err
		}
	}
}

// SavedEvents is the number of events that earlier runs of the file have applied.
func (r *Run) SavedEvents(ctx context.Context) (int64, error) { return r.savedPosition(ctx) }

// ShowEvent shows how far a replay is: its last event, and the time of that event.
func (r *Run) ShowEvent(event, events int64, at time.Time) {
	r.progress.showReplayProgress(r.Report, event, events, at)
}
