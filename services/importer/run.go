package importer

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"tidings/services"
	"tidings/services/sql"
)

// Report is the result of an import. It is valid also with an error.
type Report struct {
	Kind         string        // the kind of import, by the name of its Form
	ResumedAfter int64         // the line of the file after which this run went on; 0: from the start
	LastLine     int64         // the last line that was read
	GoodRows     int64         // good rows of this run
	NewItems     int64         // items that did not exist before
	SkippedRows  int64         // rows that existed already or came twice, and follows that a block forbids
	Recipients   int64         // recipients named in rows of messages; a user who has a message does not get it again
	BadLines     int64         // lines that could not be used, including lines of earlier runs
	BadFile      string        // the file with the bad lines; "" when there are none
	Took         time.Duration // how long this run took

	CountsRecipients bool // the import has a Form that NamesRecipients
}

// String is the report for a person, in one line.
func (r Report) String() string {
	var text strings.Builder
	if r.ResumedAfter > 0 {
		fmt.Fprintf(&text, "after line %s: ", humanize.Comma(r.ResumedAfter))
	}
	fmt.Fprintf(&text, "%s rows: %s %s are new, ", humanize.Comma(r.GoodRows), humanize.Comma(r.NewItems), r.Kind)
	if r.CountsRecipients {
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
	if r.CountsRecipients {
		return r.Recipients
	}
	return r.NewItems + r.SkippedRows
}

// Run is one run over a file, with the parts that all imports share. One goroutine uses it. An import embeds it, and the method
// ImportLines passes the lines to the import.
type Run struct {
	DB   DB
	Opts Options // with their defaults
	// Report counts committed items, except that its LastLine is the last line read, and a replay counts its rows as it reads them.
	Report Report

	form        Form        // the form of the lines
	source      *importFile // the file that is read
	bad         *badLines   // writes the bad lines to a file of their own
	progress    *progress   // shows how far the import is
	started     time.Time   // when this run began
	hasGoodLine bool        // a line was good, in this run or an earlier run of the file
}

// Lines handles the lines of an import's file.
type Lines interface {
	// AddLine parses one line: a good one enters the batch, a bad one is put aside.
	AddLine(ctx context.Context, line []byte) error
	// BatchFull reports whether the batch must be written.
	BatchFull() bool
	// Commit writes the batch and the position in the file, 0 at the end of the file.
	Commit(ctx context.Context, line int64) error
}

// Open opens the file of an import. The caller calls ImportLines, which closes the files, or calls Close.
func Open(db DB, opts Options, form Form) (*Run, error) {
	opts = opts.withDefaults()
	// Nothing before this can fail. From here on Close must be called to close the file.
	source, err := openSource(opts, form)
	if err != nil {
		return nil, err
	}
	run := &Run{
		DB: db, Opts: opts, form: form, source: source, started: opts.Clock.Now(),
		Report: Report{Kind: form.Name, CountsRecipients: form.NamesRecipients},
		bad:    &badLines{path: source.badLinesPath, out: opts.Out, maxKeptBytes: form.MaxBytesPerLine},
	}
	run.progress = newProgress(opts, form, source.size, run.started)
	return run, nil
}

// ImportLines passes an import the lines of its file, from the end of an interrupted earlier run, and closes the files.
func (r *Run) ImportLines(ctx context.Context, im Lines) (Report, error) {
	err := r.skipImported(ctx)
	if err == nil {
		err = r.eachLine(ctx, im)
	}
	return r.Close(err)
}

// Close closes the files, after success or failure, and completes the report.
func (r *Run) Close(err error) (Report, error) {
	r.progress.clearBar()
	// The first error is reported: a later one follows from it, or means that a file could not be closed.
	for _, closing := range []func() error{r.bad.close, r.source.close} {
		if fault := closing(); err == nil {
			err = fault
		}
	}
	r.Report.BadLines, r.Report.BadFile = r.bad.count, r.bad.pathIfAny()
	r.Report.Took = r.Opts.Clock.Now().Sub(r.started)
	return r.Report, err
}

// eachLine passes an import the lines of its file, up to the end or a read error.
func (r *Run) eachLine(ctx context.Context, im Lines) error {
	lines := &r.Report.LastLine
	for {
		// A line is valid until the next call, so AddLine copies the parts that it keeps.
		line, err := r.source.nextLine()
		*lines = r.source.lineNumber
		if err == io.EOF {
			// The rest of the batch and the end of the import are written in one transaction.
			return im.Commit(ctx, 0)
		}
		if err != nil {
			*lines-- // the truncated line was incomplete, and those before it were complete
			if fault := im.Commit(ctx, *lines); fault != nil {
				return fault
			}
			return services.Wrapf(services.Invalid, err, "%s is cut off after line %d: the lines before are imported", r.Opts.File, *lines)
		}
		// A bad line is no error here: only a fault of the database is, or a file that is wrong as a whole.
		if err := im.AddLine(ctx, line); err != nil {
			return err
		}
		if im.BatchFull() {
			if err := im.Commit(ctx, *lines); err != nil {
				return err
			}
		}
	}
}

// skipImported skips the lines that an earlier run of the same file has imported. These lines are read nevertheless, because a packed
// file cannot be entered in the middle and lines have no fixed length.
func (r *Run) skipImported(ctx context.Context) error {
	done, err := r.savedPosition(ctx)
	if err != nil {
		return err
	}
	// The import is new, or an earlier import came to its end and this one starts anew.
	if done == 0 {
		return r.bad.reopenCutAfter(0)
	}
	for r.source.lineNumber < done {
		// The file has fewer lines than before, although its first bytes and its size are the same: it was edited.
		if _, err := r.source.nextLine(); err != nil {
			return services.Wrapf(services.Invalid, err, "%s ends at line %d, and line %d was imported before: is it another file?", r.Opts.File, r.source.lineNumber, done)
		}
	}
	r.progress.startAt(r.source.bytesRead())
	_, _ = fmt.Fprintf(r.Opts.Out, "%s: continuing after line %s\n", r.Opts.File, humanize.Comma(done))
	// The earlier run got this far, so the file has good lines: RefuseLine does not take it for a wrong file.
	r.Report.ResumedAfter, r.hasGoodLine = done, true
	return r.bad.reopenCutAfter(done)
}

// RefuseLine puts aside the line that was read last. It returns an error after many bad lines without a good one: an import of the
// wrong file stops soon, and does not copy the whole file into the file of bad lines.
func (r *Run) RefuseLine(line []byte, reason error) error {
	r.PutAside(r.source.lineNumber, line, reason)
	if !r.hasGoodLine && r.bad.count >= badLinesUntilStop {
		return services.Errorf(services.Invalid, "%s: none of its first %d lines is valid: it should be %s", r.Opts.File, badLinesUntilStop, r.form.ExpectedLine)
	}
	return nil
}

// PutAside records a bad line, which need not be the one that was read last. It ends the progress bar first, so that the message
// about the line is printed on a line of its own.
func (r *Run) PutAside(number int64, line []byte, reason error) {
	r.progress.clearBar()
	r.bad.add(number, line, reason)
}

// WithPosition adds the position in the file to an error.
func (r *Run) WithPosition(err error) error {
	return fmt.Errorf("%s, lines to %d: %w", r.Opts.File, r.Report.LastLine, err)
}

// Committed adds the rows of a batch to the report, once they are committed, and shows the progress.
func (r *Run) Committed(batch Report) {
	r.Report.GoodRows += batch.GoodRows
	r.Report.NewItems += batch.NewItems
	r.Report.SkippedRows += batch.SkippedRows
	r.Report.Recipients += batch.Recipients
	r.progress.show(r.Report, r.source.bytesRead())
}

// Full reports whether a batch has reached one of three limits: the rows of a transaction, the memory for its texts, and bad lines
// that wait to be written.
func (r *Run) Full(rows, textBytes int) bool {
	return rows >= r.Opts.BatchSize || textBytes >= maxBatchTextBytes || r.bad.pendingLines() >= r.Opts.BatchSize
}

// FoundGoodLine notes that a line was good: the file is one of this kind.
func (r *Run) FoundGoodLine() { r.hasGoodLine = true }

// LineNumber is the number of the line that was read last, from 1.
func (r *Run) LineNumber() int64 { return r.source.lineNumber }

// LacksLineBreak reports that the line that was read last ends with the file and not with a line break, so that it may be cut off. It
// is false for a packed file, which shows by itself where it is cut off.
func (r *Run) LacksLineBreak() bool { return r.source.noLineBreak }

// FlushBadLines writes the bad lines that wait. Every commit calls it before its transaction: a bad line that is written twice can be
// removed again, a lost one cannot be restored.
func (r *Run) FlushBadLines() error { return r.bad.flush() }

// SavePosition saves the position in the file in the transaction that writes the lines before it. It does nothing for an input that
// cannot be read again.
func (r *Run) SavePosition(ctx context.Context, tx *sql.Tx, position int64) error {
	if r.source.progressKey == "" {
		return nil
	}
	return setProgress(ctx, tx, r.source.progressKey, position)
}

// savedPosition is the position that an earlier run of the file has saved; 0 for none.
func (r *Run) savedPosition(ctx context.Context) (position int64, err error) {
	if r.source.progressKey == "" {
		return 0, nil
	}
	if position, err = readProgress(ctx, r.DB, r.source.progressKey); err != nil {
		return 0, fmt.Errorf("the progress of %s: %w", r.Opts.File, err)
	}
	return position, nil
}
