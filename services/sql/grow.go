package sql

import (
	"context"
	"database/sql"
	"errors"

	"tidings/services"
)

// On a disk that is nearly full, a write that fits into an existing page succeeds, and the next write of a user needs a new page and
// fails. So a node that was refused asks for growth: room for many writes, which is given back at once.

// The statements grow the database by 1 MiB. Both make a table that nobody else ever sees, because its transaction is rolled back. On
// PostgreSQL the file of a table grows with each page, before anything is committed. UNLOGGED keeps the rows out of PostgreSQL's own
// log, which would not give them back. A row takes 36 bytes.
const (
	growPostgres = `CREATE UNLOGGED TABLE tidings_growth AS SELECT value FROM generate_series(1, 30000) AS value`
	growSQLite   = `CREATE TABLE tidings_growth (value BLOB); INSERT INTO tidings_growth VALUES (zeroblob(1048576))`
)

// growPragmas make SQLite write changed pages to its log before the commit: ten pages are all that it may hold in memory.
var growPragmas = []string{"cache_size(10)", "busy_timeout(50)", "temp_store(MEMORY)"}

// errRollbackGrowth ends the transaction of a growth that succeeded.
var errRollbackGrowth = errors.New("the growth is given back")

// checkCanGrow checks that the database can grow. What grew is free again when it returns, whether it succeeded or not.
func (s *DB) checkCanGrow(ctx context.Context) error {
	if s.Dialect == SQLite {
		return s.checkWALCanGrow(ctx)
	}
	err := s.Write(ctx, func(tx *Tx) error {
		if _, err := tx.db.exec(ctx, growPostgres, nil); err != nil {
			return MapError("grow", err)
		}
		return errRollbackGrowth
	})
	if errors.Is(err, errRollbackGrowth) {
		return nil
	}
	// The user may not create tables, or a trigger forbids it: then the test write alone decides, or the node would never be ready.
	if !services.IsUnavailable(err) {
		s.log.Debug("it is unknown whether the database can grow", "error", err)
		return nil
	}
	return err
}

// checkWALCanGrow checks that SQLite's write-ahead log can grow, because a write needs room in the log first.
func (s *DB) checkWALCanGrow(ctx context.Context) error {
	// The log may be what has filled the disk. It is copied into the file only after a commit, and no commit fits any more: so it is
	// emptied here. If that fails, the growth shows whether the log has room.
	s.tryEmptyWAL(ctx)
	err := s.admitWrite()
	if err != nil {
		return err
	}
	defer s.activeWrites.Done()
	if err = s.writer.checkWALCanGrow(ctx); err == nil || isWriteRefusal(err) {
		s.tryEmptyWAL(ctx) // a rollback leaves the log as long as it grew
	}
	return err
}

// tryEmptyWAL empties the write-ahead log, if it can: the disk may be full, so it only logs an error.
func (s *DB) tryEmptyWAL(ctx context.Context) {
	if _, err := s.EmptyWAL(ctx); err != nil {
		s.log.Debug("the write-ahead log cannot be emptied", "error", err)
	}
}

// checkWALCanGrow makes the log grow in the writer's turn, through another connection, because the writer's connection keeps
// changed pages in memory.
func (w *writer) checkWALCanGrow(ctx context.Context) (err error) {
	w.connMu.Lock()
	defer w.connMu.Unlock()
	db, err := sql.Open("sqlite", sqliteDSN(w.store.name, "rw", growPragmas))
	if err != nil {
		return MapError("grow", err)
	}
	defer func() { _ = db.Close() }() // nothing was committed, so its error does not matter
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return MapError("grow", err)
	}
	defer func() { _ = tx.Rollback() }() // a full disk has rolled back already
	_, err = tx.ExecContext(ctx, growSQLite)
	return MapError("grow", err)
}
