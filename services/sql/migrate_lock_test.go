package sql_test

import (
	"context"
	stdsql "database/sql"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// migrationWaitHandler receives the log, and tells when a migration waits for a table.
type migrationWaitHandler struct {
	slog.Handler
	waitLogged chan struct{} // gets a value when the log says that a migration waits, unless the last value is still in it
}

// Handle looks only for the log line of a migration that waits.
func (w migrationWaitHandler) Handle(_ context.Context, record slog.Record) error {
	if strings.Contains(record.Message, "the migration waits for a table") {
		select {
		case w.waitLogged <- struct{}{}:
		default:
		}
	}
	return nil
}

// While a backup reads a table, the node that brings the tables up to date waits, and the statements of the other nodes do not wait
// behind it.
func TestAMigrationThatWaitsForALockBlocksNoStatements(t *testing.T) {
	url := sqltest.NewServer(t).NewDatabase(t)
	if err := sql.MigrateTo(t.Context(), url, 95); err != nil {
		t.Fatal(err)
	}
	others, err := stdsql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	backup, err := others.BeginTx(t.Context(), nil)
	if err == nil {
		_, err = backup.ExecContext(t.Context(), `LOCK TABLE mentions IN ACCESS SHARE MODE`)
	}
	if err != nil {
		t.Fatal(err)
	}
	waiting, opened := migrationWaitHandler{slog.NewTextHandler(io.Discard, nil), make(chan struct{}, 1)}, make(chan error, 1)
	var db *sql.DB
	go func() {
		var err error
		db, err = sql.Open(t.Context(), sql.Config{URL: url, Log: slog.New(waiting)})
		opened <- err
	}()
	for range 2 { // the migration is tried again
		select {
		case <-waiting.waitLogged:
		case err := <-opened:
			t.Fatalf("the migration ended while the table was locked: %v", err)
		case <-time.After(time.Minute):
			t.Fatal("the migration does not say that it waits")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if _, err := others.ExecContext(ctx, `DELETE FROM mentions WHERE post = 1`); err != nil {
			t.Errorf("a statement of another node: %v", err)
		}
		cancel()
	}
	if err := backup.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// The database ends the transaction of a node that is silent in it for too long, as a node on an overloaded machine may be. A
// migration is then tried again.
func TestAMigrationThatWasTooSlowIsTriedAgain(t *testing.T) {
	url := sqltest.NewServer(t).NewDatabase(t)
	// The trigger raises PostgreSQL's own error when the third table is made. The first is the table of goose, the library of migrations,
	// which goose by itself tries again to make. The sequence keeps its value although the transaction is undone.
	admin, err := stdsql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.ExecContext(t.Context(), `CREATE SEQUENCE tries;
		CREATE FUNCTION interrupt() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('tries') = 3 THEN RAISE 'terminating connection due to idle-in-transaction timeout' USING ERRCODE = '25P03'; END IF;
		END $$;
		CREATE EVENT TRIGGER interrupt ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION interrupt()`); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open(t.Context(), sql.Config{URL: url, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	var tries int
	if err := admin.QueryRowContext(t.Context(), `SELECT last_value FROM tries`).Scan(&tries); err != nil || tries < 4 {
		t.Errorf("%d tables were made: %v", tries, err)
	}
}

// A server that has answered may be too busy for the next connection: the start connects again.
func TestAStartWaitsForABusyServer(t *testing.T) {
	url, trips := sqltest.CountRoundTrips(t, sqltest.NewServer(t).NewDatabase(t))
	trips.IgnoreConnection(2)
	db, err := sql.Open(t.Context(), sql.Config{URL: url + "&connect_timeout=3", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if got := trips.ConnectionCount(); got < 3 {
		t.Errorf("%d connections, want one without an answer and one after it", got)
	}
}
