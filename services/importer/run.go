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
	What         string        // the kind of import: follows, messages, posts or shows
	ResumedAfter int64         // the line after which this run went on; 0: from the start
	Lines        int64         // the last line that was read
	Rows         int64         // good rows of this run
	New          int64         // items that did not exist before
	NotNew       int64         // rows that existed already or came twice, and follows that a block forbids
	Recipients   int64         // recipients named in rows of messages; a user who has a message does not get it again
	Bad          int64         // lines that could not be used, including lines of earlier runs
	BadFile      string        // the file with the bad lines; "" when there are none
	Took         time.Duration // this run
}

// String is the report for a person, in one line.
func (r Report) String() string {
	var text strings.Builder
	if r.ResumedAfter > 0 {
		fmt.Fprintf(&text, "after line %s: ", humanize.Comma(r.ResumedAfter))
	}
	fmt.Fprintf(&text, "%s rows: %s %s are new, ", humanize.Comma(r.Rows), humanize.Comma(r.New), r.What)
	if r.What == messageForm.name {
		fmt.Fprintf(&text, "to %s recipients", humanize.Comma(r.Recipients))
	} else {
		fmt.Fprintf(&text, "%s existed already", humanize.Comma(r.NotNew))
	}
	if r.Bad > 0 {
		fmt.Fprintf(&text, "; %s bad lines are in %s", humanize.Comma(r.Bad), r.BadFile)
	}
	fmt.Fprintf(&text, "; %.1f s", r.Took.Seconds())
	return text.String()
}

// counted is the number that the progress shows. A message is one row of the report but may have a million recipients, which
// are the work.
func (r Report) counted() int64 {
	if r.What == messageForm.name {
		return r.Recipients
	}
	return r.New + r.NotNew
}

// fileRun is one run over a file, with the parts that all imports share. One goroutine uses it. An import embeds it, and the
// method importLines passes the lines to the import.
type fileRun struct {
	db       Store
	opts     Options
	form     form
	source   *source
	bad      *badLines
	progress *progress
	started  time.Time
	// report counts committed items, except that its Lines is the last line read, and a replay counts its rows as it reads them.
	report  Report
	hasGood bool // a line was right, in this run or before
}

// lineImport handles the lines of an import's file.
type lineImport interface {
	// take parses one line: a good one enters the batch, a bad one is put aside.
	take(ctx context.Context, line []byte) error
	// full reports whether the batch must be written.
	full() bool
	// commit writes the batch and the position in the file, 0 at the end of the file.
	commit(ctx context.Context, line int64) error
}

// newRun opens the file of an import. The caller calls importLines, which closes the files, or calls close.
func newRun(db Store, opts Options, form form) (*fileRun, error) {
	// The form travels with the options, because opening the source and drawing the progress need it.
	opts.form = form
	opts = opts.withDefaults()
	// Nothing before this can fail. From here on close must be called to close the file.
	source, err := openSource(opts)
	if err != nil {
		return nil, err
	}
	run := &fileRun{
		db: db, opts: opts, form: form, source: source, started: opts.Clock.Now(), report: Report{What: form.name},
		bad: &badLines{path: source.badPath, out: opts.Out, longest: form.longest},
	}
	run.progress = newProgress(opts, source.size, run.started)
	return run, nil
}

// importLines passes an import the lines of its file, from the end of an interrupted earlier run, and closes the files.
func (r *fileRun) importLines(ctx context.Context, im lineImport) (Report, error) {
	err := r.resume(ctx)
	if err == nil {
		err = r.eachLine(ctx, im)
	}
	return r.close(err)
}

// close closes the files, after success or failure, and completes the report.
func (r *fileRun) close(err error) (Report, error) {
	r.progress.end()
	// The first error is reported: a later one follows from it, or means that a file could not be closed.
	for _, closing := range []func() error{r.bad.close, r.source.close} {
		if fault := closing(); err == nil {
			err = fault
		}
	}
	r.report.Bad, r.report.BadFile = r.bad.count, r.bad.file()
	r.report.Took = r.opts.Clock.Now().Sub(r.started)
	return r.report, err
}

// eachLine passes an import the lines of its file, up to the end or a read error.
func (r *fileRun) eachLine(ctx context.Context, im lineImport) error {
	lines := &r.report.Lines
	for {
		// A line is valid until the next call, so take copies the parts that it keeps.
		line, err := r.source.next()
		*lines = r.source.line
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
		if err := im.take(ctx, line); err != nil {
			return err
		}
		if im.full() {
			if err := im.commit(ctx, *lines); err != nil {
				return err
			}
		}
	}
}

// planTries is how often a batch is planned at most. A plan fails only if another client publishes in the same milliseconds,
// or takes the same keys, between plan and commit: for a file of the past that hardly happens once.
const planTries = 10

// commitPlan plans a batch and writes its new items. write returns errTaken if the plan is no longer valid. rows is the
// number of good rows, which planning may lower.
func commitPlan[P any](ctx context.Context, r *fileRun, plan func(context.Context) ([]P, error), write func(context.Context, []P) error, rows func() int) (err error) {
	var planned []P
	for range planTries {
		// Each plan reads anew what exists, including IDs and keys that another client has taken since the plan before.
		if planned, err = plan(ctx); err != nil {
			break
		}
		if err = write(ctx, planned); !errors.Is(err, errTaken) {
			break
		}
	}
	if err != nil {
		return r.at(err)
	}
	r.report.Rows += int64(rows())
	r.report.New += int64(len(planned))
	r.report.NotNew += int64(rows() - len(planned))
	r.showProgress()
	return nil
}

// resume skips the lines that an earlier run of the same file has imported. These lines are read nevertheless, because a packed
// file cannot be entered in the middle and lines have no fixed length.
func (r *fileRun) resume(ctx context.Context) (err error) {
	var done int64
	if r.source.identity != "" {
		if done, err = readProgress(ctx, r.db, r.source.identity); err != nil {
			return fmt.Errorf("the progress of %s: %w", r.opts.File, err)
		}
	}
	// The import is new, or an earlier import came to its end and this one starts anew.
	if done == 0 {
		return r.bad.startAfter(0)
	}
	for r.source.line < done {
		// The file has fewer lines than before, although its first bytes and its size are the same: it was edited.
		if _, err := r.source.next(); err != nil {
			return services.Wrapf(services.Invalid, err, "%s ends at line %d, and line %d was imported before: is it another file?", r.opts.File, r.source.line, done)
		}
	}
	r.progress.startAt(r.source.bytes())
	_, _ = fmt.Fprintf(r.opts.Out, "%s: continuing after line %s\n", r.opts.File, humanize.Comma(done))
	// The earlier run got this far, so the file has good lines: refuse need not doubt it.
	r.report.ResumedAfter, r.hasGood = done, true
	return r.bad.startAfter(done)
}

// refuse puts the last line aside. It returns an error after many bad lines without a good one: an import of the wrong file should
// stop soon, and not fill a second file with a copy.
func (r *fileRun) refuse(line []byte, reason error) error {
	r.putAside(r.source.line, line, reason)
	if !r.hasGood && r.bad.count >= hopeless {
		return services.Errorf(services.Invalid, "%s: none of its first %d lines is valid: it should be %s", r.opts.File, hopeless, r.form.lines)
	}
	return nil
}

// putAside records a bad line, which need not be the one that was read last. It ends the progress bar first, so that the message
// about the line is printed on a line of its own.
func (r *fileRun) putAside(number int64, line []byte, reason error) {
	r.progress.end()
	r.bad.add(number, line, reason)
}

// at adds the position in the file to an error.
func (r *fileRun) at(err error) error {
	return fmt.Errorf("%s, lines to %d: %w", r.opts.File, r.report.Lines, err)
}

// showProgress shows how far the import is.
func (r *fileRun) showProgress() { r.progress.show(r.report, r.source.bytes()) }
