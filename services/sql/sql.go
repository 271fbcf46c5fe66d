// Package sql is the engine of SQL: the only importer of database/sql. It knows no feature: the packages above it have the facts
// and their statements.
//
// It guarantees that a write that was answered is on disk, that a transaction is stored whole or not at all, and that
// both engines, SQLite and PostgreSQL, do the same: one set of statements, one set of migrations, one suite of tests.
// Times are kept to the microsecond. It is safe for concurrent use.
//
// When an engine does not do the work (no connection, a full disk, a deadline) the error is UNAVAILABLE and no transaction is half
// done. A commit whose answer was lost may or may not have happened, so a repeated write has to be harmless. When the process
// dies, every write that was answered is kept. A second process on a SQLite file is refused with CONFLICT.
//
// A Statement is written once and translated for each engine (dialect.go). Reads go through the Runner of DB. Writes go
// through Write and WriteAll, which take functions: an engine decides how many share a transaction, and may run a
// function again.
//
//   - SQLite has one writer (writer.go). It takes all waiting requests into one transaction, so that they share one wait for the disk.
//   - PostgreSQL runs a single function as usual (write.go), and the functions of a batch in passes that send the statements of all
//     of them in one round trip (together.go, replayer.go).
//
// A TxEndHook (ends.go) is work that a transaction does once at its end, for all of its functions.
package sql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tidings/services"
)

// Config selects and configures the database.
type Config struct {
	URL      string         // sqlite:FILE, or postgres://USER:PASSWORD@HOST:PORT/DATABASE
	Node     string         // PostgreSQL: this node's name among those that share the database; "" is none
	MaxConns int            // PostgreSQL: connections at most, beside one for heartbeats; 0 is 16
	Clock    services.Clock // nil is the machine's clock
	Log      *slog.Logger   // nil is none

	// Trace is called with the name of each statement before it runs; on PostgreSQL a batch's statements are named when it is
	// committed. Any goroutine may call it; nil traces nothing.
	Trace func(statement string)
}

// defaultMaxConns is the default of Config.MaxConns. With it two nodes and more stay below PostgreSQL's usual limit of 100 connections.
const defaultMaxConns = 16

// DB is an open database.
type DB struct {
	Runner                  // for reads
	name             string // of the database in messages; it has no password
	Node             string // this node's name; "" on SQLite
	LeaseTokenPrefix string // the beginning of the lease tokens of this process
	clock            services.Clock
	log              *slog.Logger
	db               *sql.DB   // PostgreSQL: everything; SQLite: the readers
	heartbeatDB      *sql.DB   // PostgreSQL: a connection for heartbeats only, so that load does not delay them
	Heartbeats       Runner    // runs the node's heartbeats, through heartbeatDB
	writer           *writer   // SQLite only
	fileLock         io.Closer // SQLite only: on the file

	writeRefusals  writeRefusals // whether writes are refused now
	latestTxMicros atomic.Int64  // the latest time given to a transaction, in microseconds
	onCommitSignal []func()      // called after a commit that called SignalAtCommit

	mu     sync.RWMutex // guards closed against writes that are starting
	closed bool         // Close was called
	// activeWrites counts the writes under way. It is raised under mu, so that Close sees every write that was admitted.
	activeWrites sync.WaitGroup
}

// Open opens the database and brings its tables up to date. INVALID for a malformed URL; CONFLICT for a SQLite file that another
// process has open, and for a database that is newer than this program; UNAVAILABLE for a database that cannot be reached or
// opened. The errors name the database and never a password.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	// The tokens of a process begin with a random text, so that it can tell its own leases from those of the process
	// before it.
	s := &DB{clock: cfg.Clock, log: cfg.Log, LeaseTokenPrefix: rand.Text(), Runner: Runner{trace: cfg.Trace, tracesReads: true}}
	if s.clock == nil {
		s.clock = services.SystemClock{}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxConns <= 0 {
		cfg.MaxConns = defaultMaxConns
	}
	if err := s.open(ctx, cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// open chooses the engine by the URL's scheme.
func (s *DB) open(ctx context.Context, cfg Config) error {
	scheme, file, found := strings.Cut(cfg.URL, ":")
	switch {
	case !found:
		return services.Errorf(services.Invalid, "database URL: it has no scheme; expected sqlite:FILE or postgres://USER@HOST/DATABASE")
	case scheme == "sqlite":
		return s.openSQLite(ctx, file)
	case scheme == "postgres" || scheme == "postgresql":
		return s.openPostgres(ctx, cfg)
	default:
		return services.Errorf(services.Invalid, "database URL: the scheme is %s; expected sqlite or postgres", services.Quote(scheme))
	}
}

// Close waits for the writes that have begun, refuses further ones, and closes the database. Reads that begin after that fail. Closing
// again does nothing.
func (s *DB) Close() error {
	s.mu.Lock()
	closed := s.closed
	// From here on admitWrite refuses writes, so activeWrites can only fall.
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.activeWrites.Wait()
	return s.closeAll()
}

// closeAll closes everything that was opened, the lock last, and returns the first error.
func (s *DB) closeAll() error {
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	// Readers go first: SQLite's writer can only empty its log when nobody reads it.
	for _, db := range []*sql.DB{s.db, s.heartbeatDB} {
		if db != nil {
			keep(db.Close())
		}
	}
	if s.writer != nil {
		keep(s.writer.close()) // the last connection to close empties the write-ahead log into the file
	}
	if s.fileLock != nil {
		keep(s.fileLock.Close())
	}
	return MapError("close "+s.name, first)
}

// admitWrite admits a write, unless Close was called. The caller calls s.activeWrites.Done after it.
func (s *DB) admitWrite() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return services.Errorf(services.Unavailable, "the database is closed")
	}
	// The lock is held, so Close has not begun to wait yet.
	s.activeWrites.Add(1)
	return nil
}

// Ping checks that the database answers. UNAVAILABLE when it does not before ctx ends.
func (s *DB) Ping(ctx context.Context) error {
	return MapError("ping "+s.name, s.db.PingContext(ctx))
}

// Now is the time that a transaction or a read uses: UTC, to the microsecond.
func (s *DB) Now() time.Time { return s.clock.Now().UTC().Truncate(time.Microsecond) }

// DialectName is "sqlite" or "postgres".
func (s *DB) DialectName() string { return s.Dialect.String() }
