package imports

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/importer"
	"tidings/services/live"
	"tidings/services/live/livetest"
	"tidings/services/messages"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/eventually"
)

// interruptedDB is a database in which something happens before a write, or at the end of its transaction. The writes count from 1.
type interruptedDB struct {
	*sql.DB
	writeCount               int            // how many have begun
	beforeWrite, withinWrite map[int]func() // what happens, by the number of the write
}

// Write runs a transaction, and what is to happen before it and at its end.
func (i *interruptedDB) Write(ctx context.Context, fn func(tx *sql.Tx) error) error {
	i.writeCount++
	if happens := i.beforeWrite[i.writeCount]; happens != nil {
		happens()
	}
	return i.DB.Write(ctx, func(tx *sql.Tx) error {
		err := fn(tx)
		if happens := i.withinWrite[i.writeCount]; happens != nil && err == nil {
			// A busy machine may need long for it, and the server would end a transaction that is silent for too long.
			if _, err := sqltest.QueryLines(ctx, tx, `SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
				return err
			}
			happens()
		}
		return err
	})
}

// runStatements runs statements in one transaction, and returns the lines of the last one.
func (im *testImporter) runStatements(texts ...string) (lines []string) {
	im.t.Helper()
	err := im.db.Write(im.t.Context(), func(tx *sql.Tx) (err error) {
		for _, text := range texts {
			if lines, err = sqltest.QueryLines(im.t.Context(), tx, text); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
		return nil
	})
	if err != nil {
		im.t.Error(err)
	}
	return lines
}

// userID is the ID of a user; 0 if there is no such user.
func (im *testImporter) userID(key string) services.UserID {
	im.t.Helper()
	ids, err := people.IDs(im.t.Context(), im.db, []string{key})
	if err != nil {
		im.t.Fatal(err)
	}
	return ids[key]
}

// beginErasureOfAlice is the transaction that begins the erasure of alice.
func (im *testImporter) beginErasureOfAlice() {
	im.t.Helper()
	im.runStatements(`INSERT INTO erasures (id, user_number, key, began_at, done_at, pass, step, after, found, counts)
		SELECT 'e', number, key, 1, 0, 1, '', 0, 0, 'null' FROM users WHERE key = 'alice'`, `DELETE FROM users WHERE key = 'alice'`)
}

// endErasureOfAlice removes all that the erasure of alice finds, and frees the key.
func (im *testImporter) endErasureOfAlice() {
	im.t.Helper()
	of := `(SELECT user_number FROM erasures WHERE id = 'e')`
	im.runStatements(`DELETE FROM follows WHERE follower = `+of+` OR followee = `+of, `DELETE FROM posts WHERE author = `+of, `DELETE FROM shows WHERE host = `+of,
		`DELETE FROM hosts WHERE host = `+of, `DELETE FROM refs WHERE owner = `+of, `UPDATE erasures SET user_number = 0, key = '', done_at = 1 WHERE id = 'e'`)
}

// importOfErasedUser is an import of three lines, each of which names alice.
type importOfErasedUser struct {
	fileText       string // the file
	runImport      func(im *testImporter, db importer.DB, opts importer.Options) (importer.Report, error)
	countStatement string // the statement that counts the rows that user $1 has of the import
}

// importsOfErasedUser are imports of follows, posts and shows, by name.
var importsOfErasedUser = map[string]importOfErasedUser{
	"follows": {
		fileText: "alice,bob\nbob,alice\ncarol,alice\n", runImport: (*testImporter).importFollows,
		countStatement: `SELECT count(*) FROM follows WHERE follower = $1 OR followee = $1`,
	},
	"posts": {
		fileText: threeJSONLines(`{"key":"p%d","author":"alice","at":"2026-01-30T09:30:00Z","body":"one"}`), runImport: (*testImporter).importPosts,
		countStatement: `SELECT count(*) FROM posts WHERE author = $1`,
	},
	"shows": {
		fileText: threeJSONLines(`{"key":"s%d","host":"alice","title":"One","plannedAt":"2026-02-01T09:30:00Z"}`), runImport: (*testImporter).importShows,
		countStatement: `SELECT count(*) FROM shows WHERE host = $1`,
	},
}

// threeJSONLines returns three lines of a format, with the numbers 1 to 3.
func threeJSONLines(format string) (lines string) {
	for i := range 3 {
		lines += fmt.Sprintf(format, i+1) + "\n"
	}
	return lines
}

// countRows counts the rows that a user has of an import.
func (im *testImporter) countRows(of importOfErasedUser, user services.UserID) string {
	im.t.Helper()
	return strings.Join(im.runStatements(strings.ReplaceAll(of.countStatement, "$1", strconv.Itoa(int(user)))), " ")
}

// eachImportOfErasedUser runs a test for each import in batches, on both engines.
func eachImportOfErasedUser(t *testing.T, test func(im *testImporter, of importOfErasedUser)) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		for name, of := range importsOfErasedUser {
			t.Run(name, func(t *testing.T) {
				test(newImporter(t, sqltest.Open(t, sql.Config{URL: newDatabaseURL(t, url)})), of)
			})
		}
	})
}

// newDatabaseURL is a new database of the engine of a URL.
func newDatabaseURL(t *testing.T, url string) string {
	t.Helper()
	if strings.HasPrefix(url, "postgres") {
		return sqltest.Postgres(t)
	}
	return sqltest.SQLite(t)
}

// A user who was erased between two batches is a new user in the later one: nothing is imported for the former ID, which no
// erasure would find again.
func TestAUserIsErasedBetweenTwoBatches(t *testing.T) {
	eachImportOfErasedUser(t, func(im *testImporter, of importOfErasedUser) {
		var former services.UserID
		db := &interruptedDB{DB: im.db, beforeWrite: map[int]func(){2: func() {
			former = im.userID("alice")
			im.beginErasureOfAlice()
			im.endErasureOfAlice()
		}}}
		report, err := of.runImport(im, db, importer.Options{File: im.writeFile("f", of.fileText), BatchSize: 1})
		if err != nil || report.NewItems != 3 {
			im.t.Fatalf("%+v, %v", report, err)
		}
		again := im.userID("alice")
		if again == 0 || again == former {
			im.t.Errorf("the user is %d, was %d", again, former)
		}
		if before, now := im.countRows(of, former), im.countRows(of, again); before != "0" || now != "2" {
			im.t.Errorf("the former ID has %s rows, the new one %s", before, now)
		}
	})
}

// A batch that names a user who is being erased imports nothing. Once the erasure is done, the same command continues there, and
// the user is a new one.
func TestAnErasureIsUnderWayBetweenTwoBatches(t *testing.T) {
	eachImportOfErasedUser(t, func(im *testImporter, of importOfErasedUser) {
		var former services.UserID
		db := &interruptedDB{DB: im.db, beforeWrite: map[int]func(){2: func() {
			former = im.userID("alice")
			im.beginErasureOfAlice()
		}}}
		opts := importer.Options{File: im.writeFile("f", of.fileText), BatchSize: 1}
		report, err := of.runImport(im, db, opts)
		if services.CodeOf(err) != services.Conflict || !strings.Contains(fmt.Sprint(err), `"alice" is being erased`) || report.NewItems != 1 {
			im.t.Errorf("%+v, %v", report, err)
		}
		// The erasure will remove the first row. If the batch added another one, the erasure might not find that row any more.
		if rows := im.countRows(of, former); rows != "1" {
			im.t.Errorf("%s rows are there, of which one was before the erasure", rows)
		}
		im.endErasureOfAlice()
		report, err = of.runImport(im, im.db, opts)
		if err != nil || report.ResumedAfter != 1 || report.NewItems != 2 {
			im.t.Errorf("again: %+v, %v", report, err)
		}
		if before, now := im.countRows(of, former), im.countRows(of, im.userID("alice")); before != "0" || now != "2" {
			im.t.Errorf("the former ID has %s rows, the new one %s", before, now)
		}
	})
}

// A replay ends at an event whose host is being erased, as an import ends at a batch. Once the erasure is done, the same command
// continues there.
func TestAnErasureIsUnderWayDuringAReplay(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		r, of := newReplayWorld(t, addShowService(w)), importsOfErasedUser["shows"]
		opts := importer.Options{File: r.writeFile("f", of.fileText), ReplayFactor: 60, Out: &r.out, Clock: w.Clock}
		db := &interruptedDB{DB: r.db, beforeWrite: map[int]func(){2: r.beginErasureOfAlice}}
		report, err := live.ReplayFile(t.Context(), db, livetest.Service(w), opts)
		if services.CodeOf(err) != services.Conflict || !strings.Contains(fmt.Sprint(err), `line 2: the user "alice" is being erased`) || report.NewItems != 1 {
			t.Errorf("%+v, %v", report, err)
		}
		r.endErasureOfAlice()
		report, err = live.ReplayFile(t.Context(), r.db, livetest.Service(w), opts)
		if err != nil || report.NewItems != 2 || !strings.Contains(r.out.String(), "continuing after event 1") {
			t.Errorf("again: %+v, %v\n%s", report, err, r.out.String())
		}
		if rows := r.countRows(of, r.userID("alice")); rows != "2" {
			t.Errorf("the new user has %s shows, want 2", rows)
		}
	})
}

// An erasure that begins during a batch waits for the end of the batch, however long the batch takes, so that it finds all rows of the
// batch. That holds for a user of an earlier batch, for a user who was there before the import, and for a user in a transaction of a
// replay.
func TestAnErasureWaitsForTheBatch(t *testing.T) {
	imports := map[string]importOfErasedUser{
		"messages": {
			fileText: threeJSONLines(`{"key":"m%d","title":"One","content":"one","to":["alice"]}`),
			runImport: func(im *testImporter, db importer.DB, opts importer.Options) (importer.Report, error) {
				opts.Clock, opts.Quiet = im, true
				return messages.ImportFile(im.t.Context(), db, services.NewIDClock(im, 1), messageTypes, opts)
			},
			countStatement: `SELECT count(*) FROM jobs WHERE kind = 'message.deliver' AND $1 > 0`,
		},
	}
	for name, of := range importsOfErasedUser {
		imports[name] = of
	}
	check := func(im *testImporter, of importOfErasedUser, write int, run func(db importer.DB) error) {
		im.t.Helper()
		im.runStatements(`UPDATE counters SET value = 40 WHERE name = 'users'`, `INSERT INTO users (number, key) VALUES (40, 'alice')`)
		began := make(chan struct{})
		db := &interruptedDB{DB: im.db, withinWrite: map[int]func(){write: func() {
			go func() {
				defer close(began)
				im.beginErasureOfAlice()
			}()
			eventually.Holds(im.t, "the erasure waits", func() bool {
				select {
				case <-began:
					im.t.Error("the erasure began within the batch")
					return true
				default:
				}
				waiting := im.runStatements(`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
				return len(waiting) > 0
			})
		}}}
		if err := run(db); err != nil {
			im.t.Error(err)
		}
		<-began
		if id := im.userID("alice"); id != 0 || im.countRows(of, 40) == "0" {
			im.t.Errorf("the user is %d, with %s rows", id, im.countRows(of, 40))
		}
	}
	for name, of := range imports {
		for when, of := range map[string]struct {
			importOfErasedUser
			batch, write int
		}{"first batch": {of, 100, 1}, "last batch": {of, 1, 3}} {
			t.Run(name+"/"+when, func(t *testing.T) {
				im := newImporter(t, sqltest.Open(t, sql.Config{URL: sqltest.Postgres(t)}))
				check(im, of.importOfErasedUser, of.write, func(db importer.DB) error {
					_, err := of.runImport(im, db, importer.Options{File: im.writeFile("f", of.fileText), BatchSize: of.batch})
					return err
				})
			})
		}
	}
	t.Run("replay", func(t *testing.T) {
		w := addShowService(fanouttest.New(t, fanouttest.Options{SQLURL: sqltest.Postgres(t), RedisURL: "embedded"}))
		r, of := newReplayWorld(t, w), importsOfErasedUser["shows"]
		check(r.testImporter, of, 1, func(db importer.DB) error {
			line, _, _ := strings.Cut(of.fileText, "\n")
			_, err := live.ReplayFile(t.Context(), db, livetest.Service(w), importer.Options{File: r.writeFile("f", line+"\n"), ReplayFactor: 60, Out: &r.out, Clock: w.Clock})
			return err
		})
	})
}
