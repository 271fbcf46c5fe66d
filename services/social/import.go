package social

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
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

	form  form                                             // of the file; the zero form is that of follows
	sleep func(ctx context.Context, d time.Duration) error // waits, in a replay; nil is the machine's way
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
	if o.sleep == nil {
		o.sleep = sleep
	}
	if o.Batch <= 0 {
		o.Batch = defaultBatch
	}
	return o
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
	run, err := newRun(db, opts, follows)
	if err != nil {
		return ImportReport{}, err
	}
	im := &followImport{importRun: run, ids: ids, keys: newKeyTable(opts.Prefix)}
	im.newest = im.latestSince()
	return run.all(ctx, im)
}

// followImport is one import of follows under way.
type followImport struct {
	*importRun
	ids  interface{ Next() services.PostID }
	keys *keyTable

	batch  []row           // since the last commit
	newest services.PostID // no since may be later
}

// row is one good row; its keys are places in the key table.
type row struct {
	follower, followee int32
	since              services.PostID // 0: the time of the import
}

func (im *followImport) full() bool {
	return len(im.batch)*im.edgesPerRow() >= im.opts.Batch || im.bad.waiting() >= im.opts.Batch
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
	if err != nil {
		return im.refuse(line, err)
	}
	im.batch = append(im.batch, next)
	im.hasGood = true
	return nil
}

// commit writes the batch and the place in the file, 0 when the file has come to its end.
func (im *followImport) commit(ctx context.Context, line int64) error {
	// Before the transaction: a bad line that is put aside twice can be taken out again, one that is lost cannot.
	if err := im.bad.flush(); err != nil {
		return err
	}
	var inserted int
	var numbers map[string]services.UserID
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
		return im.at(err)
	}
	im.keys.learn(numbers)
	im.report.Rows += int64(len(im.batch))
	im.report.New += int64(inserted)
	im.report.Duplicates += int64(len(edges) - inserted)
	im.batch = im.batch[:0]
	im.newest = im.latestSince()
	im.tell()
	return nil
}

// edges makes follows of the batch, with the numbers of those keys that are new in it.
func (im *followImport) edges(into []services.Edge, numbers map[string]services.UserID) []services.Edge {
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
