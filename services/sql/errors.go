package sql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	sqlitedriver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"tidings/services"
)

// MapError gives an engine's error its meaning: UNAVAILABLE when the engine did not do the work and may do it later, else a plain
// error, which is INTERNAL. what names the statement or the step. Callers decide by the code alone: a job waits on UNAVAILABLE, and
// counts a failed try on any other code.
func MapError(what string, err error) error {
	if err == nil {
		return nil
	}
	// An error that has a code already, such as a function's own refusal, is returned unchanged.
	if _, known := errors.AsType[*services.Error](err); known {
		return err
	}
	// The caller's deadline has passed. The message says so, because the database itself may work.
	if errors.Is(err, context.DeadlineExceeded) {
		return services.Wrapf(services.Unavailable, fmt.Errorf("%s: %w", what, err), "the operation took too long: try again")
	}
	if isUnavailable(err) {
		return services.Wrapf(services.Unavailable, fmt.Errorf("%s: %w", what, err), "the database does not answer")
	}
	return fmt.Errorf("sql: %s: %w", what, err)
}

// isUnavailable reports whether an error means that the engine did not do the work. Errors of the network and of the driver are of
// many types; errors of the engines have codes.
func isUnavailable(err error) bool {
	for _, known := range []error{
		context.Canceled, context.DeadlineExceeded, driver.ErrBadConn, sql.ErrConnDone, sql.ErrTxDone,
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, pgx.ErrTxCommitRollback,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return isUnavailableSQLState(server.Code)
	}
	// isUnavailableSQLiteCode looks only at the low byte of an extended code, which is its kind.
	if file, ok := errors.AsType[*sqlitedriver.Error](err); ok {
		return isUnavailableSQLiteCode(file.Code())
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	// Two errors of the driver and of database/sql have no type of their own.
	text := err.Error()
	return connecting || network || strings.Contains(text, "conn closed") || strings.Contains(text, "database is closed")
}

// isUnavailableSQLState reports whether a PostgreSQL SQLSTATE means that the server did not do the work and may do it later.
func isUnavailableSQLState(code string) bool {
	switch code {
	case "25006", // read only: a standby, or a database that an administrator protects
		idleInTxTimeoutSQLState,
		"40001", // serialization failure, still after the retries
		"40P01", // deadlock, still after the retries
		"55P03", // a lock could not be had in time
		"57014", // cancelled, by our deadline or an administrator
		"58030": // an I/O error of the server
		return true
	}
	class := code[:min(2, len(code))]
	// 08 connection, 28 authorization, 53 resources (disk full, too many connections), 57P shutting down.
	return class == "08" || class == "28" || class == "53" || strings.HasPrefix(code, "57P")
}

// isUnavailableSQLiteCode reports whether a SQLite result code means that SQLite did not do the work and may do it later.
func isUnavailableSQLiteCode(code int) bool {
	switch code & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_PERM, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// isSQLiteBusy reports whether another process holds the lock of the SQLite file. Within this process nobody else writes.
func isSQLiteBusy(err error) bool {
	file, ok := errors.AsType[*sqlitedriver.Error](err)
	return ok && file.Code()&0xff == sqlite3.SQLITE_BUSY
}

// isWorthRetry reports whether a transaction that failed with an error had no effect and is worth a repetition.
func isWorthRetry(err error) bool { return isConflict(err) || errors.Is(err, errOverLimit) }

// isConflict reports whether PostgreSQL aborted this transaction in favour of another, or because this process paused and its
// next statement came too late. The transaction has no effect, and the same work is likely to succeed when repeated.
func isConflict(err error) bool {
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (server.Code == "40001" || server.Code == "40P01" || server.Code == idleInTxTimeoutSQLState)
}

// isConnectionLost reports whether the connection was lost while the caller still had time. If COMMIT was not sent, the transaction
// has no effect. If COMMIT was sent, the outcome is unknown.
func isConnectionLost(ctx context.Context, err error) bool {
	_, network := errors.AsType[*net.OpError](err)
	return ctx.Err() == nil && (network || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF))
}

// idleInTxTimeoutSQLState is the SQLSTATE of a transaction whose next statement did not come in time.
const idleInTxTimeoutSQLState = "25P03"
