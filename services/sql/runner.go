package sql

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"

	"tidings/services"
	"tidings/services/trace"
)

// queryer sends SQL to a pool, to a transaction, or to SQLite's one writing connection. In a batch on PostgreSQL it is
// a replayer, which itself holds no connection.
type queryer interface {
	query(ctx context.Context, text string, args []any) (resultRows, error)
	exec(ctx context.Context, text string, args []any) (sql.Result, error)
}

// resultRows is what a query returns: the rows of database/sql, or those that a replayer holds.
type resultRows interface {
	Next() bool
	Scan(into ...any) error
	Err() error
	Close() error
}

// Runner runs statements and gives their errors a meaning. Both DB, for reading, and Tx are Runners.
type Runner struct {
	Dialect     dialect                // the engine: it chooses the text of each statement
	db          queryer                // where the statements go
	trace       func(statement string) // called with the name of each statement; nil: not traced
	tracesReads bool                   // each read has a trace span; false in a transaction: all its statements share one span
}

// traceName tells the tracer of a test which statement comes.
func (r Runner) traceName(st Statement) {
	if r.trace != nil {
		r.trace(st.name)
	}
}

// Each calls scan for every row. scan gets the row's Scan.
func (r Runner) Each(ctx context.Context, st Statement, args []any, scan func(into func(...any) error) error) (err error) {
	r.traceName(st)
	if r.tracesReads {
		var span trace.Span
		ctx, span = trace.Start(ctx, "sql", st.name)
		defer func() { span.End(err) }()
	}
	rows, err := r.db.query(ctx, st.texts[r.Dialect], r.Dialect.bind(args))
	if err != nil {
		return MapError(st.name, err)
	}
	// Err below returns an error of the rows; Close only gives the connection back.
	defer rows.Close()
	for rows.Next() {
		// A scan may itself return an error with a meaning, which MapError leaves as it is.
		if err := scan(rows.Scan); err != nil {
			return MapError(st.name, err)
		}
	}
	return MapError(st.name, rows.Err())
}

// One reads the first row, if there is one. Without a row, into stays unchanged.
func (r Runner) One(ctx context.Context, st Statement, args []any, into ...any) (found bool, err error) {
	// The other rows are read to their end, so that their error is not lost.
	err = r.Each(ctx, st, args, func(scan func(...any) error) error {
		if found {
			return nil
		}
		found = true
		return scan(into...)
	})
	return found, err
}

// Reader runs statements that read: a Runner, a DB, a Tx.
type Reader interface {
	// Each calls scan for every row, and One reads the first row, if there is one: see the methods of Runner.
	Each(ctx context.Context, st Statement, args []any, scan func(into func(...any) error) error) error
	One(ctx context.Context, st Statement, args []any, into ...any) (found bool, err error)
}

// ReadColumn reads the rows of a statement with one column.
func ReadColumn[T any](ctx context.Context, r Reader, st Statement, args ...any) (values []T, err error) {
	err = r.Each(ctx, st, args, func(scan func(...any) error) error {
		var value T
		err := scan(&value)
		values = append(values, value)
		return err
	})
	return values, err
}

// Run executes a statement that changes rows, and returns the number of changed rows.
func (r Runner) Run(ctx context.Context, st Statement, args ...any) (int, error) {
	r.traceName(st)
	result, err := r.db.exec(ctx, st.texts[r.Dialect], r.Dialect.bind(args))
	if err != nil {
		return 0, MapError(st.name, err)
	}
	changed, err := result.RowsAffected()
	return int(changed), MapError(st.name, err)
}

// Insert inserts the rows and returns the number of inserted rows.
func (r Runner) Insert(ctx context.Context, ins Insertion, all [][]any) (inserted int, err error) {
	if len(all) == 0 {
		return 0, nil
	}
	// On PostgreSQL all rows share one round trip; SQLite is fastest with one row at a time.
	calls := all
	if r.Dialect == Postgres {
		calls = [][]any{ins.columnArrays(all)}
	}
	for _, args := range calls {
		changed, err := r.Run(ctx, ins.Statement, args...)
		if err != nil {
			return inserted, err
		}
		inserted += changed
	}
	return inserted, nil
}

// readsLeftKey is the context key of the counter of LimitReads.
type readsLeftKey struct{}

// LimitReads bounds, on PostgreSQL, how many more reads a DB answers under a context, and forbids writes under it. Beyond the
// bound a read is UNAVAILABLE without a query. It is for callers that read much in bulk and can do without the rest.
func LimitReads(ctx context.Context, reads int) context.Context {
	left := &atomic.Int64{}
	left.Store(int64(reads))
	return context.WithValue(ctx, readsLeftKey{}, left)
}

// errTooManyReads refuses a read beyond the bound of LimitReads, or a write under it. UNAVAILABLE makes callers leave the rest to a job.
var errTooManyReads = services.Errorf(services.Unavailable, "there were too many reads at once")

// takeRemainingRead takes one read from the counter, if there is one.
func takeRemainingRead(ctx context.Context) error {
	if left, limited := ctx.Value(readsLeftKey{}).(*atomic.Int64); limited && left.Add(-1) < 0 {
		return errTooManyReads
	}
	return nil
}

// refuseWriteIfReadsLimited returns an error under LimitReads: a caller that can do without reads can do without a write.
func refuseWriteIfReadsLimited(ctx context.Context) error {
	if ctx.Value(readsLeftKey{}) != nil {
		return errTooManyReads
	}
	return nil
}

// pool reads from PostgreSQL, whose driver keeps prepared statements itself.
type pool struct{ db *sql.DB }

// query counts against LimitReads: each query is a round trip.
func (p pool) query(ctx context.Context, text string, args []any) (resultRows, error) {
	if err := takeRemainingRead(ctx); err != nil {
		return nil, err
	}
	return p.db.QueryContext(ctx, text, args...)
}

// exec is for statements outside of transactions: heartbeats.
func (p pool) exec(ctx context.Context, text string, args []any) (sql.Result, error) {
	return p.db.ExecContext(ctx, text, args...)
}

// transaction runs statements in a transaction of database/sql, to write to PostgreSQL or to read one snapshot.
type transaction struct{ tx *sql.Tx }

// query does not count against LimitReads: a limited context has no transaction.
func (t transaction) query(ctx context.Context, text string, args []any) (resultRows, error) {
	return t.tx.QueryContext(ctx, text, args...)
}

// exec changes rows in the transaction.
func (t transaction) exec(ctx context.Context, text string, args []any) (sql.Result, error) {
	return t.tx.ExecContext(ctx, text, args...)
}

// preparedPool reads from SQLite, whose driver compiles a text on every call unless it is prepared.
type preparedPool struct {
	db       *sql.DB
	prepared sync.Map // text -> *sql.Stmt
}

// statement prepares a text once. If two callers prepare it at the same time, one of the two statements is closed again.
// Statements are never dropped: the program has a few hundred.
func (p *preparedPool) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	if known, ok := p.prepared.Load(text); ok {
		return known.(*sql.Stmt), nil
	}
	made, err := p.db.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	if known, lost := p.prepared.LoadOrStore(text, made); lost {
		return known.(*sql.Stmt), made.Close()
	}
	return made, nil
}

// query reads by a prepared statement, on any free connection of the pool.
func (p *preparedPool) query(ctx context.Context, text string, args []any) (resultRows, error) {
	st, err := p.statement(ctx, text)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

// exec completes the interface: readers of SQLite write nothing.
func (p *preparedPool) exec(ctx context.Context, text string, args []any) (sql.Result, error) {
	st, err := p.statement(ctx, text)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}

// preparedConn is SQLite's one writing connection. Only the holder of the writer's turn uses it.
type preparedConn struct {
	conn     *sql.Conn
	prepared map[string]*sql.Stmt // by text
}

// statement prepares a text once on the connection.
func (p *preparedConn) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	if known, ok := p.prepared[text]; ok {
		return known, nil
	}
	made, err := p.conn.PrepareContext(ctx, text)
	if err == nil {
		p.prepared[text] = made
	}
	return made, err
}

// detachUnlessExpired applies a caller's deadline before a statement and never within one: interrupting a statement rolls back
// SQLite's whole transaction, and with it the work of the other callers in the group.
func detachUnlessExpired(ctx context.Context) (context.Context, error) {
	if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
		return ctx, err
	}
	return context.WithoutCancel(ctx), nil
}

// query runs a statement of the transaction. Once the statement has begun, it runs to its end.
func (p *preparedConn) query(ctx context.Context, text string, args []any) (resultRows, error) {
	ctx, err := detachUnlessExpired(ctx)
	if err != nil {
		return nil, err
	}
	st, err := p.statement(ctx, text)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

// exec runs a statement that changes rows. Once it has begun, it runs to its end.
func (p *preparedConn) exec(ctx context.Context, text string, args []any) (sql.Result, error) {
	ctx, err := detachUnlessExpired(ctx)
	if err != nil {
		return nil, err
	}
	st, err := p.statement(ctx, text)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}
