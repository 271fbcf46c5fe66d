package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/acts"
	"tidings/services/erasures"
	"tidings/services/sql"
)

// eraseOptions are the options of "tidings erase" besides the database. Wait is no timeout of the erasure, only of this
// command.
type eraseOptions struct {
	User string        `kong:"-"` // the user's key
	Wait time.Duration `group:"Erase:" for:"erase" default:"10m" placeholder:"DURATION" min:"0s" max:"24h" help:"how long to wait until the servers have removed everything; 0s: not at all; on SQLite, where none runs, it does not wait"`
}

// eraseArgs are the words after erase.
type eraseArgs struct {
	User string `arg:"" help:"the host application's key of the user"`
}

// erasePoll is the time between two looks at an erasure. A look reads one row by its key. Most erasures are short, and a person
// waits for the answer.
const erasePoll = 200 * time.Millisecond

// openExisting opens a database. The error is NOT_FOUND for a file of SQLite that does not exist: opening it would create an empty
// database. PostgreSQL says by itself that a database is missing.
func openExisting(ctx context.Context, url string) (db *sql.DB, ofSQLite bool, err error) {
	file, ofSQLite := strings.CutPrefix(url, "sqlite:")
	if ofSQLite {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return nil, true, services.Errorf(services.NotFound, "the database %s does not exist: see --data and --database", services.Quote(file))
		}
	}
	db, err = sql.Open(ctx, sql.Config{URL: url, Clock: services.SystemClock{}})
	return db, ofSQLite, err
}

// runErase does "tidings erase": it begins the erasure, and waits for the servers that run it. If the erasure fails, the error says
// why. Erasures are idempotent: the same command again waits for the erasure that runs. Once Begin has committed, the user's key
// is refused, and the servers finish the erasure without this command.
func runErase(ctx context.Context, command Command, out io.Writer) (err error) {
	db, ofSQLite, err := openExisting(ctx, command.Config.DatabaseURL())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var erasure erasures.Erasure
	// The record of the act is in the same database, so that admin { acts } shows the acts of this command too.
	kept := acts.New(acts.Config{DB: db, IDs: services.NewIDClock(services.SystemClock{}, uint16(rand.Uint32()))})
	err = kept.Do(ctx, acts.Act{Action: "tidings erase"}, func(ctx context.Context) (err error) { // the record of the act does not name the key, which is to disappear
		erasure, _, err = erasures.Begin(ctx, db, command.Erase.User)
		return err
	})
	if err != nil {
		return err
	}
	// On SQLite this process holds the lock, so no server runs now, and to wait would be useless: the job waits in the database until
	// a server starts.
	if !ofSQLite {
		if erasure, err = awaitErasure(ctx, db, erasure, command.Erase.Wait); err != nil {
			return err
		}
	}
	return printErasure(erasure, ofSQLite, out)
}

// awaitErasure waits until an erasure is done, at most for the duration most. It returns the newest state in any case: an erasure
// that is not done yet is no error. Other processes do the work, so this process sees only the row.
func awaitErasure(ctx context.Context, db *sql.DB, erasure erasures.Erasure, most time.Duration) (erasures.Erasure, error) {
	ticker := time.NewTicker(erasePoll)
	defer ticker.Stop()
	for until := time.Now().Add(most); !erasure.Done() && time.Now().Before(until); {
		select {
		case <-ctx.Done():
			return erasure, nil // the servers continue the erasure
		case <-ticker.C:
		}
		// An error after the end of ctx is caused by that end, and is no failure.
		now, found, err := erasures.ByName(ctx, db, erasure.Name)
		if err != nil && ctx.Err() == nil {
			return erasure, err
		}
		if found {
			erasure = now
		}
	}
	return erasure, nil
}

// printErasure prints how far an erasure is, and what was removed until now. The name is printed last: the erasure can be found
// by its name when the key means nothing any more.
func printErasure(erasure erasures.Erasure, ofSQLite bool, out io.Writer) error {
	// The text is one write, so that a pipe gets all of it or nothing.
	var text strings.Builder
	switch {
	case erasure.Done():
		fmt.Fprintln(&text, "Nothing is left of the user. Removed:")
	case ofSQLite:
		fmt.Fprintln(&text, "The user is gone, and their key is refused. The server removes the rest when it runs. Removed so far:")
	default:
		fmt.Fprintln(&text, "The user is gone, and their key is refused. The servers go on removing the rest: ask again. Removed so far:")
	}
	for _, kind := range erasure.RemovedKinds() {
		fmt.Fprintf(&text, "%8d %s\n", erasure.Removed[kind], kind)
	}
	fmt.Fprintf(&text, "The erasure is %s.\n", erasure.Name)
	_, err := io.WriteString(out, text.String())
	return err
}

// Help is the text of tidings erase --help above its flags.
func (eraseArgs) Help() string {
	return `Examples:

  tidings erase alice --database postgres://tidings@db/tidings
  tidings erase alice --data ./data

The user is gone at once: nobody reads them, and their key is refused. The servers then remove everything that they did, and print
here what it was. Others' counts are as if the user had never acted. Repeated meanwhile, the command goes on waiting. The exit code is
1 if there is no user with the key. On SQLite the server must not run at the same time, and removes the rest when it runs again; the
mutation eraseUser does the same while it does.

It cannot be undone. Export the user first if you must be able to answer for their data.
`
}
