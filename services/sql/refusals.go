package sql

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	sqlitedriver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"tidings/services"
)

// An engine with a full disk, or one that became read-only, still answers reads. From the first refused write on, the DB reports
// that it takes no writes, until a test write, which WatchWrites makes each second, succeeds. Only a real write can tell: without
// a write a node learns nothing, and an update that matches no row proves nothing.

// writeProbeTimeout is longer than a caller would wait, because a disk that has just got free space may be slow.
const (
	writeProbeInterval = time.Second // between two test writes
	writeProbeTimeout  = 5 * time.Second
)

// probeWrite changes no value, and yet needs the rights and the locks that a write needs. The row is there from the first migration
// on. It needs hardly any room, so its success does not show that the next write of a user has room too: checkCanGrow shows that.
var probeWrite = NewStatement("try to write", `UPDATE counters SET value = value WHERE name = 'users'`)

// writeRefusals records whether writes are refused. It is safe for concurrent use.
type writeRefusals struct{ on atomic.Bool }

// RefusesWrites reports that the engine answers reads and takes no writes: every mutation would fail.
func (s *DB) RefusesWrites() bool { return s.writeRefusals.on.Load() }

// noteWriteRefusal records from the errors of a transaction whether writes are refused.
func (s *DB) noteWriteRefusal(errs []error) {
	for _, err := range errs {
		if isWriteRefusal(err) && !s.writeRefusals.on.Swap(true) {
			s.log.Error("the database refuses writes; this node is not ready until it accepts them", "error", err)
		}
	}
}

// isWriteRefusal reports whether an error means that the engine answers but cannot write: it has no room, may not write, or its
// disk fails. It is narrower than UNAVAILABLE: an engine that does not answer refuses nothing.
func isWriteRefusal(err error) bool {
	// 53100 is a full disk, 25006 a database that is read only, 58030 an I/O error.
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return server.Code == "53100" || server.Code == "25006" || server.Code == "58030"
	}
	if file, ok := errors.AsType[*sqlitedriver.Error](err); ok {
		switch file.Code() & 0xff {
		case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY:
			return true
		}
	}
	// SQLite's error for a write beyond the maximum size of a file has no type of its own.
	return err != nil && strings.Contains(err.Error(), "file too large")
}

// CheckWrites makes a test write if the last writes were refused. Otherwise it does nothing, so that WatchWrites can call it each
// second.
func (s *DB) CheckWrites(ctx context.Context) error {
	if !s.RefusesWrites() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeProbeTimeout)
	defer cancel()
	err := s.checkCanGrow(ctx)
	if err == nil {
		err = s.Write(ctx, func(tx *Tx) error {
			_, err := tx.Run(ctx, probeWrite)
			return err
		})
	}
	if err == nil && s.writeRefusals.on.Swap(false) {
		s.log.Info("the database accepts writes again")
	}
	return err
}

// WatchWrites checks each second whether refused writes work again, until ctx ends.
func (s *DB) WatchWrites(ctx context.Context) error {
	return services.Every(ctx, writeProbeInterval, func(ctx context.Context) {
		if err := s.CheckWrites(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("the database still refuses writes", "error", err)
		}
	})
}
