package sql

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"tidings/services"
)

// sessionSettings are made on each new connection. An answered write must be on disk whatever the server's
// default, and a node that hangs must not hold its rows for longer than others wait before they take over. Every query here is made of short walks along
// indexes, many of which end at a limit: the planner shall not guess, from statistics that are old or not there yet,
// that reading a whole table, or compiling the query, is worth it.
const sessionSettings = `SELECT
	CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', false) END,
	set_config('idle_in_transaction_session_timeout', '3s', false),
	set_config('enable_seqscan', 'off', false), set_config('enable_bitmapscan', 'off', false),
	set_config('enable_hashjoin', 'off', false), set_config('enable_mergejoin', 'off', false), set_config('jit', 'off', false)`

// endsWithItsClient is a further setting of a connection: a statement that runs for long ends within this time after its client has
// gone, and gives up the rows that it has locked. PostgreSQL before 14, and some systems, know no such setting.
const endsWithItsClient = `SET client_connection_check_interval = '1s'`

// idleConnections end after this time, so that a server that was restarted is soon rid of dead ones.
const idleConnections = 5 * time.Minute

func (s *DB) openPostgres(ctx context.Context, cfg Config) (err error) {
	s.Dialect, s.Node = Postgres, cfg.Node
	config, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		// The cause would show the URL, and with it a password.
		return services.Errorf(services.Invalid, "database URL: %s; expected postgres://USER:PASSWORD@HOST:PORT/DATABASE", wrongIn(cfg.URL))
	}
	s.name = fmt.Sprintf("PostgreSQL database %s of user %s at %s:%d", config.Database, config.User, config.Host, config.Port)
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 5 * time.Second
	}
	begun := stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, sessionSettings); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, endsWithItsClient)
		if _, refused := errors.AsType[*pgconn.PgError](err); refused {
			return nil
		}
		return err
	})
	s.db, s.beats = stdlib.OpenDB(*config, begun), stdlib.OpenDB(*config, begun)
	s.beats.SetMaxOpenConns(1)
	s.Pulse = Runner{Dialect: Postgres, db: pool{s.beats}, trace: s.trace}
	s.db.SetMaxOpenConns(cfg.MaxConns)
	s.db.SetMaxIdleConns(cfg.MaxConns)
	s.db.SetConnMaxIdleTime(idleConnections)
	s.Runner.db = pool{s.db}
	defer func() {
		if err != nil {
			_ = s.release() // the reason why it did not open is what counts
		}
	}()
	if err := s.db.PingContext(ctx); err != nil {
		if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && !strings.HasPrefix(refusal.Code, "57P") {
			return services.Errorf(services.Unavailable, "the %s: the server refuses: %s (%s)", s.name, refusal.Message, refusal.Code)
		}
		return services.Wrapf(services.Unavailable, err, "the %s does not answer", s.name)
	}
	return s.migrate(ctx, s.db)
}

// sslModes are those of PostgreSQL's own clients.
var sslModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

// wrongIn says what is wrong in a URL that the driver does not take, and repeats nothing of it but the name of a parameter.
func wrongIn(text string) string {
	parsed, err := url.Parse(text)
	if err != nil {
		return "it is not well formed (in a password, letters that mean something in a URL are written as %XX)"
	}
	parameters := parsed.Query()
	if mode := parameters.Get("sslmode"); parameters.Has("sslmode") && !slices.Contains(sslModes, mode) {
		return "sslmode must be one of " + strings.Join(sslModes, ", ")
	}
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey", "passfile", "servicefile"} {
		if parameters.Has(name) {
			return "one of its parameters is not a good one, or the file that " + name + " names cannot be read"
		}
	}
	return "the host, the port or one of its parameters is not a good one"
}
