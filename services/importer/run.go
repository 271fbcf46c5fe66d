package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"tidings/services"
)

// Report is the result of an import. It is valid also with an error.
type Report struct {
	Kind         string        // the kind of import: follows, messages, posts or shows
	ResumedAfter int64         // the line of the file after which this run went on; 0: from the start
	LastLine     int64         // the last line that was read
	GoodRows     int64         // good rows of this run
	NewItems     int64         // items that did not exist before
	SkippedRows  int64         // rows that existed already or came twice, and follows that a block forbids
	Recipients   int64         // recipients named in rows of messages; a user who has a message does not get it again
	BadLines     int64         // lines that could not be used, including lines of earlier runs
	BadFile      string        // the file with the bad lines; "" when there are none
	Took         time.Duration // how long this run took
}

// String is the report for a person, in one line.
func (r Report) String() string {
	var text strings.Builder
	if r.ResumedAfter > 0 {
		fmt.Fprintf(&text, "after line %s: ", humanize.Comma(r.ResumedAfter))
	}
	fmt.Fprintf(&text, "%s rows: %s %s are new, ", humanize.Comma(r.GoodRows), humanize.Comma(r.NewItems), r.Kind)
	if r.Kind == messageForm.name {
		fmt.Fprintf(&text, "to %s recipients", humanize.Comma(r.Recipients))
	} else {
		fmt.Fprintf(&text, "%s existed already", humanize.Comma(r.SkippedRows))
	}
	if r.BadLines > 0 {
		fmt.Fprintf(&text, "; %s bad lines are in %s", humanize.Comma(r.BadLines), r.BadFile)
	}
	fmt.Fprintf(&text, "; %.1f s", r.Took.Seconds())
	return text.String()
}

// progressCount is the number that the progress shows. A message is one row of the report but may have a million recipients, which
// are the work.
func (r Report) progressCount() int64 {
	if r.Kind == messageForm.name {
		return r.Recipients
	}
	return r.NewItems + r.SkippedRows
}

// fileRun is one run over a file, with the parts that all imports share. One goroutine uses it. An import embeds it, and the
// method importLines passes the lines to the import.
type fileRun struct {
	db       Store
	opts     Options
	form     fileForm    // the form of the lines
	source   *importFile // the file that is read
	bad      *badLines   // writes the bad lines to a file of their own
	progress *progress   // shows how far the import is
	started  time.Time   // when this run began
	// report counts committed items, except that its LastLine is the last line read, and a replay counts its rows as it reads them.
	report      Report
	hasGoodLine bool // a line was good, in this run or an earlier run of the file
}

// lineImport handles the lines of an import's file.
type lineImport interface {
	// addLine parses one line: a good one enters the batch, a bad one is put aside.
	addLine(ctx context.Context, line []byte) error
	// batchFull reports whether the batch must be written.
	batchFull() bool
	// commit writes the batch and the position in the file, 0 at the end of the file.
	commit(ctx context.Context, line int64) error
}

// newRun opens the file of an import. The caller calls importLines, which closes the files, or calls close.
func newRun(db Store, opts Options, form fileForm) (*fileRun, error) {
	// The form travels with the options, because opening the source and drawing the progress need it.
	opts.form = form
	opts = opts.withDefaults()
	// Nothing before this can fail. From here on close must be called to close the file.
	source, err := openSource(opts)
	if err != nil {
		return nil, err
	}
	run := &fileRun{
		db: db, opts: opts, form: form, source: source, started: opts.Clock.Now(), report: Report{Kind: form.name},
		bad: &badLines{path: source.badLinesPath, out: opts.Out, maxKeptBytes: form.maxBytesPerLine},
	}
	run.progress = newProgress(opts, source.size, run.started)
	return run, nil
}

// importLines passes an import the lines of its file, from the end of an interrupted earlier run, and closes the files.
func (r *fileRun) importLines(ctx context.Context, im lineImport) (Report, error) {
	err := r.skipImported(ctx)
	if err == nil {
		err = r.eachLine(ctx, im)
	}
	return r.close(err)
}

// close closes the files, after success or failure, and completes the report.
func (r *fileRun) close(err error) (Report, error) {
	r.progress.clearBar()
	// The first error is reported: a later one follows from it, or means that a file could not be closed.
	for _, closing := range []func() error{r.bad.close, r.source.close} {
		if fault := closing(); err == nil {
			err = fault
		}
	}
	r.report.BadLines, r.report.BadFile = r.bad.count, r.bad.pathIfAny()
	r.report.Took = r.opts.Clock.Now().Sub(r.started)
	return r.report, err
}

// eachLine passes an import the lines of its file, up to the end or a read error.
func (r *fileRun) eachLine(ctx context.Context, im lineImport) error {
	lines := &r.report.LastLine
	for {
		// A line is valid until the next call, so addLine copies the parts that it keeps.
		line, err := r.source.nextLine()
		*lines = r.source.lineNumber
		if err == io.EOF {
			// The rest of the batch and the end of the import are written in one transaction.
			return im.commit(ctx, 0)
		}
		if err != nil {
			*lines-- // the truncated line was incomplete, and those before it were complete
			if fault := im.commit(ctx, *lines); fault != nil {
				return fault
			}
			return services.Wrapf(services.Invalid, err, "%s is cut off after line %d: the lines before are imported", r.opts.File, *lines)
		}
		// A bad line is no error here: only a fault of the database is, or a file that is wrong as a whole.
		if err := im.addLine(ctx, line); err != nil {
			return err
		}
		if im.batchFull() {
			if err := im.commit(ctx, *lines); err != nil {
				return err
			}
		}
	}
}

// planTries is how often a batch is planned at most. A plan fails only if another client publishes in the same milliseconds,
// or takes the same keys, between plan and commit: for a file of the past that hardly happens once.
const planTries = 10

// commitPlan plans a batch and writes its new items. write returns errKeyOrIDTaken if the plan is no longer valid. rows is the
// number of good rows, which planning may lower.
func commitPlan[P any](ctx context.Context, r *fileRun, plan func(context.Context) ([]P, error), write func(context.Context, []P) error, rows func() int) (err error) {
	var planned []P
	for range planTries {
		// Each plan reads anew what exists, including IDs and keys that another client has taken since the plan before.
		if planned, err = plan(ctx); err != nil {
			break
		}
		if err = write(ctx, planned); !errors.Is(err, errKeyOrIDTaken) {
			break
		}
	}
	if err != nil {
		return r.withPosition(err)
	}
	r.report.GoodRows += int64(rows())
	r.report.NewItems += int64(len(planned))
	r.report.SkippedRows += int64(rows() - len(planned))
	r.showProgress()
	return nil
}

// skipImported skips the lines that an earlier run of the same file has imported. These lines are read nevertheless, because a packed
// file cannot be entered in the middle and lines have no fixed length.
func (r *fileRun) skipImported(ctx context.Context) (err error) {
	var done int64
	if r.source.progressKey != "" {
		if done, err = readProgress(ctx, r.db, r.source.progressKey); err != nil {
			return fmt.Errorf("the progress of %s: %w", r.opts.File, err)
		}
	}
	// The import is new, or an earlier import came to its end and this one starts anew.
	if done == 0 {
		return r.bad.reopenCutAfter(0)
	}
	for r.source.lineNumber < done {
		// The file has fewer lines than before, although its first bytes and its size are the same: it was edited.
		if _, err := r.source.nextLine(); err != nil {
			return services.Wrapf(services.Invalid, err, "%s ends at line %d, and line %d was imported before: is it another file?", r.opts.File, r.source.lineNumber, done)
		}
	}
	r.progress.startAt(r.source.bytesRead())
	_, _ = fmt.Fprintf(r.opts.Out, "%s: continuing after line %s\n", r.opts.File, humanize.Comma(done))
	// The earlier run got this far, so the file has good lines: refuseLastLine does not take it for a wrong file.
	r.report.ResumedAfter, r.hasGoodLine = done, true
	return r.bad.reopenCutAfter(done)
}

// refuseLastLine puts aside the line that was read last. It returns an error after many bad lines without a good one: an import of the
// wrong file stops soon, and does not copy the whole file into the file of bad lines.
func (r *fileRun) refuseLastLine(line []byte, reason error) error {
	r.recordBadLine(r.source.lineNumber, line, reason)
	if !r.hasGoodLine && r.bad.count >= badLinesUntilStop {
		return services.Errorf(services.Invalid, "%s: none of its first %d lines is valid: it should be %s", r.opts.File, badLinesUntilStop, r.form.expectedLine)
	}
	return nil
}

// recordBadLine records a bad line, which need not be the one that was read last. It ends the progress bar first, so that the message
// about the line is printed on a line of its own.
func (r *fileRun) recordBadLine(number int64, line []byte, reason error) {
	r.progress.clearBar()
	r.bad.add(number, line, reason)
}

// withPosition adds the position in the file to an error.
func (r *fileRun) withPosition(err error) error {
	return fmt.Errorf("%s, lines to %d: %w", r.opts.File, r.report.LastLine, err)
}

// showProgress shows how far the import is.
func (r *fileRun) showProgress() { r.progress.show(r.report, r.source.bytesRead()) }
