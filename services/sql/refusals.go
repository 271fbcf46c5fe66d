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

// An engine whose disk is full, or that became read only, still answers reads. From its first refusal on the Store says
// that it takes no writes, until one that Watch makes each second is on disk again: a node that does not write could not
// tell otherwise, and what finds nothing to write is no proof.

const (
	watchEvery = time.Second
	probeTime  = 5 * time.Second
)

// probeWrite changes nothing, and yet needs what every write needs.
var probeWrite = NewStatement("try to write", `UPDATE counters SET value = value WHERE name = 'users'`)

// refusals say whether writes are refused. They are safe for concurrent use.
type refusals struct{ on atomic.Bool }

// RefusesWrites says that the engine answers and takes no writes: every mutation would fail.
func (s *DB) RefusesWrites() bool { return s.refusals.on.Load() }

// noteRefusal looks at how a transaction ended.
func (s *DB) noteRefusal(errs []error) {
	for _, err := range errs {
		if Refused(err) && !s.refusals.on.Swap(true) {
			s.log.Error("the database takes no writes; this node is not ready until it does", "error", err)
		}
	}
}

// Refused says of an error that the engine is there and has no room, or may not write.
func Refused(err error) bool {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return server.Code == "53100" || server.Code == "25006" || server.Code == "58030"
	}
	if file, ok := errors.AsType[*sqlitedriver.Error](err); ok {
		switch file.Code() & 0xff {
		case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY:
			return true
		}
	}
	// A write of SQLite beyond the largest size of a file ends like this, without a type of its own.
	return err != nil && strings.Contains(err.Error(), "file too large")
}

// CheckWrites tries to write, when the last that is known is that writes are refused.
func (s *DB) CheckWrites(ctx context.Context) error {
	if !s.RefusesWrites() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	err := s.Write(ctx, func(tx *Tx) error {
		_, err := tx.Run(ctx, probeWrite)
		return err
	})
	if err == nil && s.refusals.on.Swap(false) {
		s.log.Info("the database takes writes again")
	}
	return err
}

// Watch looks each second whether writes that were refused are taken again, until ctx ends.
func (s *DB) Watch(ctx context.Context) error {
	return services.Every(ctx, watchEvery, func(ctx context.Context) {
		if err := s.CheckWrites(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("the database takes no writes still", "error", err)
		}
	})
}
