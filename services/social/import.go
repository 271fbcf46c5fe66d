package social

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/importer"
	"tidings/services/people"
	"tidings/services/projector"
	"tidings/services/sql"
)

// importForm is the form of a file of follows.
var importForm = importer.Form{
	Name: "follows", ExpectedLine: "CSV with the columns follower,followee", CountedUnit: "follows", MaxBytesPerLine: maxLineBytes,
}

// Import is the import of follows. activeFor is the setting of how long users count as active.
func Import(activeFor time.Duration) importer.Kind {
	return importer.Kind{
		Form: importForm, Objects: "follows", FileFormat: "CSV", Help: importHelp,
		Examples: []string{
			"tidings import follows follows.csv.gz",
			"tidings import follows friends.csv --both --prefix u --database postgres://tidings@db/tidings",
			"zcat follows.csv.gz | tidings import follows -",
		},
		Import: func(ctx context.Context, db *sql.DB, ids *services.IDClock, opts importer.Options) (importer.Report, error) {
			return ImportFile(ctx, db, ids, opts)
		},
		// Follows change feeds that exist already, how many followers an author has, and with it the mode of their posts.
		AfterImport: func(ctx context.Context, db *sql.DB) error {
			return errors.Join(projector.QueueRefillsAfterImport(ctx, db, activeFor), fanout.QueueUpdateAllModes(ctx, db))
		},
	}
}

// importHelp is the part of tidings import --help on follows.
const importHelp = `Follows: FILE is CSV, gzipped or not; - is the standard input. The columns are follower,followee or
follower,followee,since: the host application's keys of users (1 to 128 printable characters; as they are, in quotes if
they have a comma or a quote, or if the line would begin with #) and a time in RFC 3339. Posts that the followee publishes after since count as new for the follower; without it, posts
published after the import do.

A first line with names of columns is recognised: follower,followee, from,to, source,target, user_id,friend_id and
the like. If it names the followee first, the file is refused. A first line with other names is a row if both are
valid keys.
`

// ImportFile imports the follows of a CSV file. A row is follower,followee or follower,followee,since; empty lines and lines that
// begin with # are passed over. A follow without since counts what is published after its import. Bad lines are put aside and
// reported; they are no error. The last row of a plain file is a bad line if it does not end with a line break, because it may
// have been cut off there. A follow between users of which one blocks the other is omitted, and counts as a duplicate. The limit
// of followees does not apply, and no jobs are queued: feeds are built from the facts when their readers come.
//
// The position in the file is saved in the transaction of each batch, so that after an interrupted import, the next import of the
// same file continues there and doubles nothing. After a completed import it starts anew. An input that is not a regular file
// always starts anew.
//
// The error is INVALID if the file cannot be read, names its columns in the wrong order, begins with 1,000 bad lines, or is cut
// off. The lines before the end of a file that is cut off are imported.
func ImportFile(ctx context.Context, db importer.DB, ids interface{ Next() services.SortableID }, opts importer.Options) (importer.Report, error) {
	run, err := importer.Open(db, opts, importForm)
	if err != nil {
		return importer.Report{}, err
	}
	im := &followImport{Run: run, ids: ids, keys: people.NewKeyTable(opts.KeyPrefix)}
	im.maxSince = im.latestAllowedSince()
	return run.ImportLines(ctx, im)
}

// followImport is one import of follows under way.
type followImport struct {
	*importer.Run
	ids  interface{ Next() services.SortableID } // gives the present time, as IDs
	keys *people.KeyTable                        // the keys of users that the file names

	firstLineRead bool                // a line was read that is no comment
	batch         []followRow         // since the last commit
	maxSince      services.SortableID // a since after this one is refused
}

// followRow is one good row; its keys are indexes in the key table.
type followRow struct {
	follower, followee int32               // indexes in the key table
	since              services.SortableID // 0: the time of the import
}

// BatchFull reports whether the batch must be written. It counts follows rather than rows, because BatchSize bounds the size of a
// transaction.
func (im *followImport) BatchFull() bool {
	return im.Full(len(im.batch)*im.edgesPerRow(), 0)
}

// errOpenRow refuses a last row without a line break in a plain file: if the file was cut off, the row may end with half a
// key, which looks like a key.
var errOpenRow = services.Errorf(services.Invalid, "the row does not end with a line break, so it may be cut off: if it is complete, import the .bad file")

// AddLine parses one line: a good one enters the batch, a bad one is put aside.
func (im *followImport) AddLine(_ context.Context, line []byte) error {
	if importer.IsBlank(line) {
		return nil
	}
	// Only the first line that is no comment can be a header. A resumed run begins after it.
	first := !im.firstLineRead && im.Report.ResumedAfter == 0
	im.firstLineRead = true
	if first {
		if header, err := isHeader(line); err != nil || header {
			if err != nil {
				err = fmt.Errorf("%s: %w", im.Opts.File, err)
			}
			return err
		}
	}
	var next followRow
	var err error
	if im.LacksLineBreak() {
		err = errOpenRow // leave it out: the keys in a row become users
	} else {
		next, err = parseRow(line, im.keys, im.maxSince)
	}
	if err != nil {
		return im.RefuseLine(line, err)
	}
	im.batch = append(im.batch, next)
	im.FoundGoodLine()
	return nil
}

// Commit writes the batch and the position in the file, which is 0 at the end of the file.
func (im *followImport) Commit(ctx context.Context, line int64) error {
	if err := im.FlushBadLines(); err != nil {
		return err
	}
	var inserted int
	var users map[string]services.UserID
	used := make([]int32, 0, 2*len(im.batch))
	for _, next := range im.batch {
		used = append(used, next.follower, next.followee)
	}
	// Write may run its function again, after a conflict with another transaction: it must set every variable anew.
	edges := make([]services.FollowEdge, 0, len(im.batch)*im.edgesPerRow())
	err := im.DB.Write(ctx, func(tx *sql.Tx) (err error) {
		if users, err = im.keys.EnsureUsers(ctx, tx, used); err != nil {
			return err
		}
		// The follows are made here, because the IDs of new keys are known here only, and anew for each run.
		edges = im.edges(edges[:0], users)
		if inserted, err = people.ImportFollows(ctx, tx, edges); err != nil {
			return err
		}
		return im.SavePosition(ctx, tx, line)
	})
	if err != nil {
		return im.WithPosition(err)
	}
	// The table learns the IDs only after the commit: a rollback removes new users, and their IDs go to other users.
	im.keys.RememberIDs(users)
	im.Committed(importer.Report{GoodRows: int64(len(im.batch)), NewItems: int64(inserted), SkippedRows: int64(len(edges) - inserted)})
	im.batch = im.batch[:0]
	im.maxSince = im.latestAllowedSince()
	return nil
}

// edges makes the follows of the batch. users has the IDs that the transaction has read.
func (im *followImport) edges(into []services.FollowEdge, users map[string]services.UserID) []services.FollowEdge {
	// One ID serves the batch: follows without a time begin together, before anything that is published after the
	// commit.
	now := im.ids.Next()
	for _, next := range im.batch {
		edge := services.FollowEdge{Follower: im.keys.ID(next.follower, users), Followee: im.keys.ID(next.followee, users), PostsCountAfter: services.PostID(next.since)}
		if edge.PostsCountAfter == 0 {
			edge.PostsCountAfter = services.PostID(now)
		}
		into = append(into, edge)
		if im.Opts.BothDirections {
			into = append(into, services.FollowEdge{Follower: edge.Followee, Followee: edge.Follower, PostsCountAfter: edge.PostsCountAfter})
		}
	}
	// Sort by the IDs, which is also the order of locks: two imports at once do not deadlock.
	slices.SortFunc(into, func(a, b services.FollowEdge) int {
		return cmp.Or(cmp.Compare(a.Follower, b.Follower), cmp.Compare(a.Followee, b.Followee))
	})
	return into
}

// edgesPerRow is how many follows a row makes.
func (im *followImport) edgesPerRow() int {
	if im.Opts.BothDirections {
		return 2
	}
	return 1
}

// latestAllowedSince is the latest moment that a row may name: five minutes ahead, because the clocks of the application and of
// this machine differ. It is taken anew for each batch, since an import may last for hours.
func (im *followImport) latestAllowedSince() services.SortableID {
	return services.SortableIDAt(im.ids.Next().Time().Add(5 * time.Minute))
}
