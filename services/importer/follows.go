package importer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

// followForm is the form of a file of follows.
var followForm = fileForm{name: "follows", expectedLine: "CSV with the columns follower,followee", countedUnit: "follows", maxBytesPerLine: maxLineBytes}

// Follows imports the follows of a CSV file. A row is follower,followee or follower,followee,since; empty lines and lines that
// begin with # are passed over. A follow without since counts what is published after its import. Bad lines are put aside and
// reported; they are no error. The last row of a plain file is a bad line if it does not end with a line break, because it may
// have been cut off there. A follow between users of which one blocks the other is omitted, and counts as a duplicate. The limit
// of followees does not apply, and no jobs are queued: feeds are built from the facts when their readers come.
//
// The place in the file is saved in the transaction of each batch, so that after an interrupted import, the next import of the
// same file continues there and doubles nothing. After a completed import it starts anew. An input that is not a regular file
// always starts anew.
//
// The error is INVALID if the file cannot be read, names its columns in the wrong order, begins with 1,000 bad lines, or is cut
// off. The lines before the end of a file that is cut off are imported.
func Follows(ctx context.Context, db Store, ids interface{ Next() services.PostID }, opts Options) (Report, error) {
	run, err := newRun(db, opts, followForm)
	if err != nil {
		return Report{}, err
	}
	im := &followImport{fileRun: run, ids: ids, keys: newKeyTable(opts.KeyPrefix)}
	im.maxSince = im.latestAllowedSince()
	return run.importLines(ctx, im)
}

// followImport is one import of follows under way.
type followImport struct {
	*fileRun
	ids  interface{ Next() services.PostID } // gives the present time, as IDs
	keys *keyTable                           // the keys of users that the file names

	firstLineRead bool            // a line was read that is no comment
	batch         []followRow     // since the last commit
	maxSince      services.PostID // a since after this one is refused
}

// followRow is one good row; its keys are indexes in the key table.
type followRow struct {
	follower, followee int32           // indexes in the key table
	since              services.PostID // 0: the time of the import
}

// batchFull reports whether the batch must be written. It counts follows rather than rows, because BatchSize bounds the size of a
// transaction.
func (im *followImport) batchFull() bool {
	return len(im.batch)*im.edgesPerRow() >= im.opts.BatchSize || im.bad.pendingLines() >= im.opts.BatchSize
}

// errOpenRow refuses a last row without a line break in a plain file: if the file was cut off, the row may end with half a
// key, which looks like a key.
var errOpenRow = services.Errorf(services.Invalid, "the row does not end with a line break, so it may be cut off: if it is complete, import the .bad file")

// addLine parses one line: a good one enters the batch, a bad one is put aside.
func (im *followImport) addLine(_ context.Context, line []byte) error {
	if isBlank(line) {
		return nil
	}
	// Only the first line that is no comment can be a header. A resumed run begins after it.
	first := !im.firstLineRead && im.report.ResumedAfter == 0
	im.firstLineRead = true
	if first {
		if header, err := isHeader(line); err != nil || header {
			if err != nil {
				err = fmt.Errorf("%s: %w", im.opts.File, err)
			}
			return err
		}
	}
	var next followRow
	var err error
	if im.source.noLineBreak {
		err = errOpenRow // leave it out: the keys in a row become users
	} else {
		next, err = im.keys.row(line, im.maxSince)
	}
	if err != nil {
		return im.refuseLastLine(line, err)
	}
	im.batch = append(im.batch, next)
	im.hasGoodLine = true
	return nil
}

// commit writes the batch and the position in the file, which is 0 at the end of the file.
func (im *followImport) commit(ctx context.Context, line int64) error {
	// Flush before the transaction: a bad line that is written twice can be removed again, a lost one cannot be restored.
	if err := im.bad.flush(); err != nil {
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
	err := im.db.Write(ctx, func(tx *sql.Tx) (err error) {
		if users, err = im.keys.ensureUsers(ctx, tx, used); err != nil {
			return err
		}
		// The follows are made here, because the IDs of new keys are known here only, and anew for each run.
		edges = im.edges(edges[:0], users)
		if inserted, err = people.ImportFollows(ctx, tx, edges); err != nil || im.source.progressKey == "" {
			return err
		}
		return setProgress(ctx, tx, im.source.progressKey, line)
	})
	if err != nil {
		return im.withPosition(err)
	}
	// The table learns the IDs only after the commit: a rollback removes new users, and their IDs go to other users.
	im.keys.rememberIDs(users)
	im.report.GoodRows += int64(len(im.batch))
	im.report.NewItems += int64(inserted)
	im.report.SkippedRows += int64(len(edges) - inserted)
	im.batch = im.batch[:0]
	im.maxSince = im.latestAllowedSince()
	im.showProgress()
	return nil
}

// edges makes the follows of the batch. users has the IDs that the transaction has read.
func (im *followImport) edges(into []services.FollowEdge, users map[string]services.UserID) []services.FollowEdge {
	// One ID serves the batch: follows without a time begin together, before anything that is published after the
	// commit.
	now := im.ids.Next()
	for _, next := range im.batch {
		edge := services.FollowEdge{Follower: im.keys.id(next.follower, users), Followee: im.keys.id(next.followee, users), PostsCountAfter: next.since}
		if edge.PostsCountAfter == 0 {
			edge.PostsCountAfter = now
		}
		into = append(into, edge)
		if im.opts.BothDirections {
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
	if im.opts.BothDirections {
		return 2
	}
	return 1
}

// latestAllowedSince is the latest moment that a row may name: five minutes ahead, because the clocks of the application and of
// this machine differ. It is taken anew for each batch, since an import may last for hours.
func (im *followImport) latestAllowedSince() services.PostID {
	return services.PostIDAt(im.ids.Next().Time().Add(5 * time.Minute))
}
