package sql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"tidings/services"
)

// sessionSettings are applied to each new connection. An acknowledged write must be on disk whatever the server's default, and
// a hanging node must not hold row locks for longer than others wait before they take over. Every query here is made of short
// index walks, many with a limit. The settings keep the planner from reading a whole table, or compiling the query, because its
// statistics are old or missing.
const sessionSettings = `SELECT
	CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', false) END,
	set_config('idle_in_transaction_session_timeout', '3s', false),
	set_config('enable_seqscan', 'off', false), set_config('enable_bitmapscan', 'off', false),
	set_config('enable_hashjoin', 'off', false), set_config('enable_mergejoin', 'off', false), set_config('jit', 'off', false)`

// clientCheckSetting is a further setting of a connection: a long statement ends within this time after its client has gone, and
// releases its row locks. PostgreSQL before 14, and some systems, lack the setting.
const clientCheckSetting = `SET client_connection_check_interval = '1s'`

// maxConnIdleTime is the time after which an idle connection is closed, so that dead ones disappear soon after a restart of the
// server.
const maxConnIdleTime = 5 * time.Minute

// tcpUserTimeout is the time after which a machine that no longer answers is given up. Requests have deadlines of their own; jobs
// and the readers of the changelog have none, and would wait for as long as the system does.
const tcpUserTimeout = 10 * time.Second

// dialer makes the connections to PostgreSQL. A connection without traffic is probed, so that a statement that waits for its answer also
// ends when the connection is lost.
var dialer = net.Dialer{Control: setTCPUserTimeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}}

// lockTimeoutSetting is for the connections of migrations. While a step waits for the lock of a table, all later statements on the
// table wait behind it, also those of the running nodes. A backup or a long report may read the table for long, so the step gives up
// soon, and is tried again.
const lockTimeoutSetting = `SET lock_timeout = '2s'`

// reconnectTimeout is how long a start tries to connect again to a server that has answered before and is too busy now.
const reconnectTimeout = 30 * time.Second

// openPostgres connects and brings the tables up to date. On an error it closes everything that it opened.
func (s *DB) openPostgres(ctx context.Context, cfg Config) (err error) {
	if err := s.dialPostgres(ctx, cfg); err != nil {
		return err
	}
	if err = s.migrateWithRetries(ctx, cfg.URL); err != nil {
		_ = s.closeAll() // the error of opening is the one that matters
	}
	return err
}

// migrateWithRetries brings the tables up to date, as often as it takes to have the lock of each table. The server has answered
// already.
func (s *DB) migrateWithRetries(ctx context.Context, url string) error {
	config, err := postgresConfig(url)
	if err != nil {
		return err
	}
	db := openPool(config, lockTimeoutSetting)
	defer db.Close()
	var busySince time.Time // when a connection was too slow for the first time; zero once the server has answered again
	for {
		err := s.migrate(ctx, db)
		failed, _ := errors.AsType[*pgconn.PgError](err)
		_, connecting := errors.AsType[*pgconn.ConnectError](err)
		switch {
		case failed != nil && failed.Code == "55P03": // the lock was not free in time
			s.log.Warn("the migration waits for a table that others use, such as a backup; it is tried again", "error", err)
			busySince = time.Time{}
		case failed != nil && failed.Code == "25P03": // no statement came in time
			s.log.Warn("this machine is so busy that the database has ended the migration; it is tried again", "error", err)
			busySince = time.Time{}
		case connecting && errors.Is(err, context.DeadlineExceeded) && (busySince.IsZero() || time.Since(busySince) < reconnectTimeout):
			if busySince.IsZero() {
				busySince = time.Now()
			}
			s.log.Warn("the database is slow to take a connection for the migration; it is tried again", "error", err)
		default:
			return err
		}
		if services.Sleep(ctx, time.Second) != nil {
			return err
		}
	}
}

// postgresConfig parses the URL of a database, and bounds the time to connect.
func postgresConfig(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		// The cause would show the URL, and with it a password.
		return nil, services.Errorf(services.Invalid, "database URL: %s; expected postgres://USER:PASSWORD@HOST:PORT/DATABASE", urlFault(url))
	}
	// By default the driver waits for an absent machine as long as the system does, which is minutes.
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 5 * time.Second
	}
	config.DialFunc = dialer.DialContext
	return config, nil
}

// openPool makes a pool whose connections begin with sessionSettings and further settings.
func openPool(config *pgx.ConnConfig, more ...string) *sql.DB {
	return stdlib.OpenDB(*config, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		for _, settings := range append([]string{sessionSettings}, more...) {
			if _, err := conn.Exec(ctx, settings); err != nil {
				return err
			}
		}
		_, err := conn.Exec(ctx, clientCheckSetting)
		// An older server has no such setting. It is a safeguard, and not worth a refusal to start.
		if _, refused := errors.AsType[*pgconn.PgError](err); refused {
			return nil
		}
		return err
	}))
}

// dialPostgres connects, and changes nothing in the database.
func (s *DB) dialPostgres(ctx context.Context, cfg Config) (err error) {
	s.Dialect, s.Node = Postgres, cfg.Node
	config, err := postgresConfig(cfg.URL)
	if err != nil {
		return err
	}
	s.name = fmt.Sprintf("PostgreSQL database %s of user %s at %s:%d", config.Database, config.User, config.Host, config.Port)
	s.db, s.heartbeatDB = openPool(config), openPool(config)
	// The node's heartbeats have a pool of their own: they must come also while all other connections wait for locks.
	s.heartbeatDB.SetMaxOpenConns(1)
	s.Heartbeats = Runner{Dialect: Postgres, db: pool{s.heartbeatDB}, trace: s.trace}
	s.db.SetMaxOpenConns(cfg.MaxConns)
	// All open connections may be idle: a burst must not pay for new connections, which take some round trips each.
	s.db.SetMaxIdleConns(cfg.MaxConns)
	s.db.SetConnMaxIdleTime(maxConnIdleTime)
	s.Runner.db = pool{s.db}
	defer func() {
		if err != nil {
			_ = s.closeAll() // the error of opening is the one that matters
		}
	}()
	if err := s.db.PingContext(ctx); err != nil {
		// A server that answers with a refusal gives the reason: a wrong password, a database that does not exist.
		if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && !strings.HasPrefix(refusal.Code, "57P") {
			return services.Errorf(services.Unavailable, "the %s: the server refuses: %s (%s)", s.name, refusal.Message, refusal.Code)
		}
		return services.Wrapf(services.Unavailable, err, "the %s does not answer", s.name)
	}
	return nil
}

// sslModes are the values of the parameter sslmode that PostgreSQL's own clients know.
var sslModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

// urlFault says why the driver rejects a URL. It repeats nothing of the URL but the name of a parameter, since the URL may hold
// a password.
func urlFault(text string) string {
	// The reasons are looked for here, because the driver's own would quote the URL.
	parsed, err := url.Parse(text)
	if err != nil {
		return "it is not well formed (in a password, characters with a meaning in URLs are written as %XX)"
	}
	parameters := parsed.Query()
	if mode := parameters.Get("sslmode"); parameters.Has("sslmode") && !slices.Contains(sslModes, mode) {
		return "sslmode must be one of " + strings.Join(sslModes, ", ")
	}
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey", "passfile", "servicefile"} {
		if parameters.Has(name) {
			return "one of its parameters is not valid, or the file that " + name + " names cannot be read"
		}
	}
	return "the host, the port or one of its parameters is not valid"
}
