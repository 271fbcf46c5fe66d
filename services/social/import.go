package social

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/store"
)

// ImportStore is what an import needs of the database.
type ImportStore interface {
	// Write runs the function in one transaction, as store.Store does.
	Write(ctx context.Context, fn func(tx *store.Tx) error) error
	// ImportProgress is the last line of the source whose follows are in, 0 when there is none.
	ImportProgress(ctx context.Context, source string) (line int64, err error)
}

// ImportOptions says what is imported and who is told.
type ImportOptions struct {
	File   string // a path, or "-" for Input
	Both   bool   // each row is two follows, there and back
	Prefix string // put before every key
	Quiet  bool   // no progress

	Input    io.Reader      // what "-" reads
	Out      io.Writer      // where progress and bad lines are told; nil is nowhere
	Terminal bool           // Out is a terminal: progress is a bar that redraws itself
	Clock    services.Clock // measures the progress; nil is the machine's
	Batch    int            // follows, or recipients of messages, in one transaction, about; 0 is 20,000

	form form // of the file; the zero form is that of follows
}

// form is what the file of an import holds.
type form struct {
	name    string // of the import
	lines   string // what a line should be
	unit    string // what progress counts
	longest int    // bytes of a line
}

var follows = form{name: "follows", lines: "CSV with the columns follower,followee", unit: "follows", longest: maxLineBytes}

func (o ImportOptions) formOf() form {
	if o.form == (form{}) {
		return follows
	}
	return o.form
}

// withDefaults fills in what was left out.
func (o ImportOptions) withDefaults() ImportOptions {
	if o.Clock == nil {
		o.Clock = services.SystemClock{}
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Batch <= 0 {
		o.Batch = defaultBatch
	}
	return o
}

// ImportReport says what became of an import. It stands also beside an error.
type ImportReport struct {
	ResumedAfter int64         // the line after which this run went on; 0: from the start
	Lines        int64         // the last line that was looked at
	Rows         int64         // good rows of this run
	Follows      int64         // follows that are new
	Duplicates   int64         // follows that existed, stood in the file twice, or were kept out by a block
	Bad          int64         // lines that could not be used, those of the runs before included
	BadFile      string        // where they are; "" when there are none
	Took         time.Duration // this run
}

// String is the report for a person, in one line.
func (r ImportReport) String() string {
	var text strings.Builder
	if r.ResumedAfter > 0 {
		fmt.Fprintf(&text, "after line %s: ", grouped(r.ResumedAfter))
	}
	fmt.Fprintf(&text, "%s rows: %s follows are new, %s existed already", grouped(r.Rows), grouped(r.Follows), grouped(r.Duplicates))
	if r.Bad > 0 {
		fmt.Fprintf(&text, "; %s bad lines are in %s", grouped(r.Bad), r.BadFile)
	}
	fmt.Fprintf(&text, "; %.1f s", r.Took.Seconds())
	return text.String()
}

const (
	defaultBatch = 20_000
	// mostKeys bounds the memory for the keys that were met: beyond it they are forgotten and asked for again.
	mostKeys = 1_000_000
	// hopeless is how many bad lines at the start, without one that is good, show that the file is another.
	hopeless = 1_000
)

// ImportFollows takes the follows of a CSV file into the database. A row is follower,followee or
// follower,followee,since; empty lines and lines that begin with # are passed over. A follow without since counts what
// is published after its import. Bad lines are put aside and told of; they are no error. One of them is the last row of a plain
// file that does not end with a line break, because it may have been cut off there. A follow between two of whom
// one blocks the other is left out, and reported with those that existed. The limit of followees does not apply, and no
// jobs are queued: feeds are built from the facts when their readers come.
//
// The place in the file is saved in the transaction of each batch, so that an import of the same file that was broken off
// goes on there and doubles nothing; one that came to its end starts anew. What is not a regular file always starts anew.
//
// INVALID when the file cannot be read, or nothing in it is right; an error also when it breaks off in the middle: what
// was read until then is in.
func ImportFollows(ctx context.Context, db ImportStore, ids interface{ Next() services.PostID }, opts ImportOptions) (ImportReport, error) {
	opts = opts.withDefaults()
	source, err := openSource(opts)
	if err != nil {
		return ImportReport{}, err
	}
	im := &followImport{
		db: db, ids: ids, opts: opts, source: source, keys: newKeyTable(opts.Prefix),
		bad: &badLines{path: source.badPath, out: opts.Out}, started: opts.Clock.Now(),
	}
	im.progress = newProgress(opts, source.size, im.started)
	err = im.run(ctx)
	im.progress.end()
	if fault := im.bad.close(); err == nil && fault != nil {
		err = fault
	}
	if fault := source.close(); err == nil && fault != nil {
		err = fault
	}
	im.report.Took = opts.Clock.Now().Sub(im.started)
	return im.report, err
}

// followImport is one import under way.
type followImport struct {
	db       ImportStore
	ids      interface{ Next() services.PostID }
	opts     ImportOptions
	source   *source
	keys     *keyTable
	bad      *badLines
	progress *progress
	started  time.Time
	report   ImportReport

	batch   []row           // since the last commit
	newest  services.PostID // no since may be later
	hasGood bool
}

// row is one good row; its keys are places in the key table.
type row struct {
	follower, followee int32
	since              services.PostID // 0: the time of the import
}

func (im *followImport) run(ctx context.Context) error {
	if err := im.resume(ctx); err != nil {
		return err
	}
	im.newest = im.latestSince()
	return eachLine(ctx, im, im.opts, im.source, &im.report.Lines)
}

func (im *followImport) full() bool {
	return len(im.batch)*im.edgesPerRow() >= im.opts.Batch || im.bad.waiting() >= im.opts.Batch
}

// resume passes over what an earlier run has done.
func (im *followImport) resume(ctx context.Context) error {
	done, err := resume(ctx, im.db, im.opts, im.source, im.bad, im.progress)
	im.report.ResumedAfter, im.hasGood = done, done > 0
	im.report.Bad, im.report.BadFile = im.bad.count, im.bad.file()
	return err
}

// lineImport is what an import does with the lines of its file.
type lineImport interface {
	// take looks at one line: a good one enters the batch, a bad one is put aside.
	take(ctx context.Context, line []byte) error
	// full says that the batch is to be written.
	full() bool
	// commit writes the batch and the place in the file, 0 when the file has come to its end.
	commit(ctx context.Context, line int64) error
}

// eachLine gives an import the lines of its file, to the end or to where it breaks off; lines is the last one looked at.
func eachLine(ctx context.Context, im lineImport, opts ImportOptions, source *source, lines *int64) error {
	for {
		line, err := source.next()
		*lines = source.line
		if err == io.EOF {
			return im.commit(ctx, 0)
		}
		if err != nil {
			*lines-- // the line that broke off was not whole, all before it were
			if fault := im.commit(ctx, *lines); fault != nil {
				return fault
			}
			return services.Wrapf(services.Invalid, err, "%s breaks off after line %d: what stands before is in", opts.File, *lines)
		}
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

// resume passes over what an earlier run of the same file has done, and answers its last line.
func resume(ctx context.Context, db ImportStore, opts ImportOptions, source *source, bad *badLines, progress *progress) (done int64, err error) {
	if source.identity != "" {
		if done, err = db.ImportProgress(ctx, source.identity); err != nil {
			return 0, fmt.Errorf("the progress of %s: %w", opts.File, err)
		}
	}
	if done == 0 {
		return 0, bad.startAfter(0)
	}
	for source.line < done {
		if _, err := source.next(); err != nil {
			return 0, services.Wrapf(services.Invalid, err, "%s ends at line %d, and line %d was imported before: is it another file?", opts.File, source.line, done)
		}
	}
	progress.resumed(source.bytes())
	_, _ = fmt.Fprintf(opts.Out, "%s: going on after line %s\n", opts.File, grouped(done))
	return done, bad.startAfter(done)
}

// errOpenRow is of the last row of a plain file that does not end with a line break. Where such a file was cut off, half a
// key is as good a key as a whole one.
var errOpenRow = services.Errorf(services.Invalid, "no line break ends this row, so that the file may be cut off in it: if it is whole, import the .bad file")

// take looks at one line: a good one enters the batch, a bad one is put aside.
func (im *followImport) take(_ context.Context, line []byte) error {
	if im.source.line == 1 {
		if header, err := isHeader(line); err != nil || header {
			if err != nil {
				err = fmt.Errorf("%s: %w", im.opts.File, err)
			}
			return err
		}
	}
	if isBlank(line) {
		return nil
	}
	var next row
	var err error
	if im.source.open {
		err = errOpenRow // unread: who stands in a row becomes a user
	} else {
		next, err = im.keys.row(line, im.newest)
	}
	if err == nil {
		im.batch = append(im.batch, next)
		im.hasGood = true
		return nil
	}
	im.progress.end()
	im.bad.add(im.source.line, line, err)
	im.report.Bad, im.report.BadFile = im.bad.count, im.bad.file()
	if !im.hasGood && im.bad.count >= hopeless {
		return services.Errorf(services.Invalid, "%s: not one of its first %d lines is right: it should be %s", im.opts.File, hopeless, follows.lines)
	}
	return nil
}

// commit writes the batch and the place in the file, 0 when the file has come to its end.
func (im *followImport) commit(ctx context.Context, line int64) error {
	// Before the transaction: a bad line that is put aside twice can be taken out again, one that is lost cannot.
	if err := im.bad.flush(); err != nil {
		return err
	}
	var inserted int
	var numbers map[string]services.UserNumber
	fresh := im.keys.fresh()
	edges := make([]services.Edge, 0, len(im.batch)*im.edgesPerRow())
	err := im.db.Write(ctx, func(tx *store.Tx) (err error) {
		if numbers, err = tx.EnsureUsers(ctx, fresh); err != nil {
			return err
		}
		edges = im.edges(edges[:0], numbers)
		if inserted, err = tx.ImportFollows(ctx, edges); err != nil || im.source.identity == "" {
			return err
		}
		return tx.SetImportProgress(ctx, im.source.identity, line)
	})
	if err != nil {
		return fmt.Errorf("%s, lines to %d: %w", im.opts.File, im.report.Lines, err)
	}
	im.keys.learn(numbers)
	im.report.Rows += int64(len(im.batch))
	im.report.Follows += int64(inserted)
	im.report.Duplicates += int64(len(edges) - inserted)
	im.batch = im.batch[:0]
	im.newest = im.latestSince()
	im.progress.show(im.report, im.source.bytes())
	return nil
}

// edges makes follows of the batch, with the numbers of those keys that are new in it.
func (im *followImport) edges(into []services.Edge, numbers map[string]services.UserNumber) []services.Edge {
	now := im.ids.Next()
	for _, next := range im.batch {
		edge := services.Edge{Follower: im.keys.number(next.follower, numbers), Followee: im.keys.number(next.followee, numbers), Since: next.since}
		if edge.Since == 0 {
			edge.Since = now
		}
		into = append(into, edge)
		if im.opts.Both {
			into = append(into, services.Edge{Follower: edge.Followee, Followee: edge.Follower, Since: edge.Since})
		}
	}
	// In the order of the tables' keys, which is also the order of locks: two imports at once do not block each other.
	slices.SortFunc(into, func(a, b services.Edge) int {
		return cmp.Or(cmp.Compare(a.Follower, b.Follower), cmp.Compare(a.Followee, b.Followee))
	})
	return into
}

func (im *followImport) edgesPerRow() int {
	if im.opts.Both {
		return 2
	}
	return 1
}

// latestSince allows for clocks that differ by some minutes.
func (im *followImport) latestSince() services.PostID {
	return services.PostIDAt(im.ids.Next().Time().Add(5 * time.Minute))
}
