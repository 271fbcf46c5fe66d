package sql

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"tidings/services"
)

// The functions of a batch run one after the other, and on PostgreSQL each statement of each would wait for its answer: thousands
// of round trips. So a batch goes out in passes. A pass runs every function as far as answers are known, sends the statements of
// all of them, in the order of the functions, in one round trip, and reads the answers. The next pass rolls this pass back and
// repeats it with the answers. When the functions run with the answers of a pass and issue exactly the statements of that pass,
// the result is the same as if they had run one by one, and it is committed.
//
// A function does not wait for a statement that only changes rows: its count is guessed, and checked afterwards. Where functions
// need rows, a long batch prefetches them: it asks for these rows alone, and does not repeat the statements before them, so the
// answers are guesses too. A long batch begins with a short pass and some prefetches. Then the statements of most functions are
// known, and the pass that sends all of them is often the last. Since a pass keeps the order, a function sees the writes of the
// functions before it. A wrong guess costs a pass and is never committed.
//
// Two functions that each read a row and then write another take two round trips; one by one they would take four and more:
//
//	pass 1   f1: read a             f2: read b             both wait for their rows
//	pass 2   f1: read a, write c    f2: read b, write d    the same reads, and the writes that follow from their answers
//
// If f1 has written b, the second answer to f2's read differs from the first, and f2's write may differ too. Then f1 is final,
// with a savepoint after it, and a third pass sends f2 alone.
//
// If the functions repeat all statements of the last pass and only add further ones behind them, nothing is rolled back, and the next pass
// sends only what was added. So a single function takes a round trip for each answer that it waits for.

// After maxPasses passes in which no further function became final, the next function runs alone, statement by statement. The rows that
// it locks stay locked, so that other transactions that keep changing the same rows cannot delay the batch forever. After maxAlone such
// functions the rest of the batch runs statement by statement.
const (
	maxPasses = 16
	maxAlone  = 4
)

// script records the steps of a function's last run. The steps of a final function are its statements in the transaction.
type script struct {
	steps          []step
	waits          bool  // the run ended because it needs the answer of its last step
	failed         error // the error of the run
	changedNothing bool  // no statement of the run may have changed a row: see player.changed
	undone         bool  // the last pass undid the steps after sending them, because the function fails
	sent           int   // the number of steps in the last pass
	settled        bool  // the run repeated the steps that were sent, with their answers
	// kept are the values of this run for the ends; a function that failed has none.
	kept []keptValue
}

// functionBatch is a batch on one connection.
type functionBatch struct {
	store   *DB
	conn    *pgx.Conn
	tx      *Tx
	first   time.Time // the time of the first function
	inOrder bool      // see InOrder
	fns     []func(*Tx) error
	scripts []script
	ids     [][]services.PostID // ids[k][i] is the ID of the call k of NewID by the function i
	moments [][]time.Time       // moments[i] are the times of the calls of ReadClock by the function i

	base       int  // functions before it are final: they are settled and a savepoint follows them
	cut        int  // the next pass puts a savepoint before this function
	whole      bool // the transaction has the steps of the last pass, and nothing else
	placed     bool // the last pass placed a savepoint, and base has not moved to it
	begun      bool // the transaction has begun
	committing bool // COMMIT may have been sent: after an error the outcome of the transaction is unknown
	aborted    bool // an error of a statement ended the last round trip
	prefetched int  // the number of prefetches of the whole batch
	passes     int  // the number of passes since base last moved
	ranAlone   int  // functions that were run alone
	singly     bool // each further function runs alone; also set when a statement could not be sent, so that only its own function fails
}

// tryTogether is a tryPostgres for a batch. again is also true if PostgreSQL aborted just one of the functions in favour of another
// transaction.
func (s *DB) tryTogether(ctx context.Context, fns []func(*Tx) error, last bool) (errs []error, again bool) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return repeatError(MapError("begin", err), len(fns)), false
	}
	committing := false
	defer func() { _ = conn.Close() }() // it goes back to the pool
	// The driver's own connection is needed: database/sql has no batches.
	err = conn.Raw(func(raw any) error {
		// The transaction begins with the first pass, so that BEGIN needs no round trip of its own.
		t := &functionBatch{store: s, conn: raw.(*stdlib.Conn).Conn(), tx: s.newTx(len(fns), nil), inOrder: isInOrder(ctx), scripts: make([]script, len(fns)+1), moments: make([][]time.Time, len(fns)+1)}
		t.first = t.tx.Now
		// One more function runs after all of fns: for each EndHook, it passes on the values that fns have kept for it.
		t.fns = append(append(t.fns, fns...), func(tx *Tx) error { return tx.runEnds(ctx) })
		var err error
		errs, err = t.run(ctx, last)
		committing = t.committing
		if err != nil && t.rollback() != nil {
			return errors.Join(err, driver.ErrBadConn) // the pool drops the connection
		}
		return err
	})
	if err == nil {
		return errs, false
	}
	return repeatError(MapError("write a batch", err), len(fns)), !last && (worthAgain(err) || !committing && isConnectionLost(ctx, err))
}

// rollback ends a transaction without a result. An error means that the connection is unusable.
func (t *functionBatch) rollback() error {
	if t.conn.IsClosed() {
		return driver.ErrBadConn
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return t.control(ctx, "ROLLBACK")
}

// control runs statements without parameters in one round trip, also in a transaction that an error has aborted.
func (t *functionBatch) control(ctx context.Context, texts string) error {
	_, err := t.conn.PgConn().Exec(ctx, texts).ReadAll()
	return MapError(texts, err)
}

// run makes passes until all functions are settled, and commits.
func (t *functionBatch) run(ctx context.Context, last bool) (errs []error, err error) {
	for t.play(false); !t.settle(); t.play(false) {
		if err := cmp.Or(ctx.Err(), t.conflict()); err != nil && (ctx.Err() != nil || !last) {
			return nil, err
		}
		if err := t.repeatPrefetch(ctx); err != nil {
			return nil, err
		}
		step := t.pass
		if t.passes++; t.passes > maxPasses || t.singly {
			step = t.runAlone
		}
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	end := len(t.scripts) - 1
	// An end that failed is an error of the whole transaction: its values come from many functions.
	if failed := t.scripts[end].failed; failed != nil {
		return nil, failed
	}
	if err := t.conflict(); err != nil && !last {
		return nil, err
	}
	t.committing = true
	// PostgreSQL answers COMMIT of an aborted transaction with ROLLBACK, and without an error.
	tag, err := t.conn.Exec(ctx, "COMMIT")
	if err == nil && tag.String() != "COMMIT" {
		err = pgx.ErrTxCommitRollback
	}
	if err != nil {
		return nil, MapError("commit", err)
	}
	if t.tx.signalled {
		t.store.callOnSignal()
	}
	errs = make([]error, end)
	// The tracer of a test gets each statement once, however many passes sent it.
	for i, script := range t.scripts {
		if i < end {
			errs[i] = script.failed
		}
		for _, step := range script.steps {
			if t.store.trace != nil && step.name != "" {
				t.store.trace(step.name)
			}
		}
	}
	return errs, nil
}

// conflict is the error of the first function that PostgreSQL aborted in favour of another transaction. The whole batch
// is repeated then: what the function had read may have changed.
func (t *functionBatch) conflict() error {
	for _, script := range t.scripts {
		if conflicting(script.failed) {
			return script.failed
		}
	}
	return nil
}

// play runs the functions that are not final with the answers known so far. After a prefetch it runs only the functions that
// waited, because they have new answers, and the last function, because the others may have kept more values for the ends.
func (t *functionBatch) play(prefetched bool) {
	var all []keptValue
	sure := true // all functions before are final or settled
	for i := range t.scripts {
		end := i == len(t.scripts)-1
		// The ends of a single function wait for it: values that it has not kept yet would change their statements.
		if end && i == 1 && t.scripts[0].waits {
			t.scripts[i] = script{}
			break
		}
		if i >= t.base && (!prefetched || end || t.scripts[i].waits) {
			t.tx.kept = nil
			if end { // the last function runs the ends of all others
				t.tx.kept = all
			}
			t.scripts[i] = t.playOne(i, &player{lastSteps: t.scripts[i].steps, earlierSettled: sure, repeatsLastPass: true})
		}
		sure = sure && (i < t.base || t.scripts[i].settled)
		all = append(all, t.scripts[i].kept...)
	}
}

// playOne runs one function with the known answers. Its times and IDs are those of its last run: with new ones it would issue other
// statements and never settle. It is settled if it issued exactly the statements that were sent, with PostgreSQL's answers to all of them.
func (t *functionBatch) playOne(i int, p *player) (now script) {
	before := t.scripts[i]
	calls := 0
	t.tx.Now = t.first.Add(time.Duration(i) * time.Microsecond)
	t.tx.Runner = Runner{Dialect: Postgres, db: p, trace: p.note}
	t.tx.newID = func(next func() services.PostID) services.PostID {
		calls++
		return t.id(i, calls-1, next)
	}
	reads := 0
	t.tx.readClock = func(read func() time.Time) time.Time {
		if reads++; reads > len(t.moments[i]) {
			t.moments[i] = append(t.moments[i], read())
		}
		return t.moments[i][reads-1]
	}
	now.failed = t.call(i)
	now.steps, now.waits = p.steps, p.waits
	// The error of a function that was stopped means nothing: the function has not reached its end.
	if now.waits {
		now.failed = nil
	}
	if now.failed == nil {
		now.kept = t.tx.kept
	}
	now.changedNothing, now.undone, now.sent = !p.changed(), before.undone, before.sent
	// Settled: this run issued the statements that were sent, and allFromLastPass reports that each answer is PostgreSQL's. Its changes are
	// in the transaction, or are undone if it failed.
	sent := t.begun && len(before.steps) == len(now.steps) && (now.changedNothing || now.undone == (now.failed != nil))
	now.settled = sent && !now.waits && p.allFromLastPass()
	return now
}

// call runs a function as DB.call does, and stops it where it needs an unknown answer. With InOrder, a function is behind only as
// far as the answers are known: the next pass calls it again.
func (t *functionBatch) call(i int) (err error) {
	if end := i == len(t.fns)-1; t.inOrder && i > 0 && !end && services.FailedForNow(t.scripts[i-1].failed) {
		return ErrBehind
	}
	defer func() {
		if cause := recover(); cause != nil && cause != any(errWaits) {
			err = t.store.logPanic(cause)
		}
	}()
	return t.fns[i](t.tx)
}

// id returns the ID for a function's call of NewID. It is the same in every pass, and the IDs rise in the order of the functions:
// row k has an ID for each function's call k.
func (t *functionBatch) id(function, call int, next func() services.PostID) services.PostID {
	for call >= len(t.ids) {
		ids := make([]services.PostID, len(t.scripts))
		for i := range ids {
			ids[i] = next()
		}
		t.ids = append(t.ids, ids)
	}
	return t.ids[call][function]
}

// settle makes the functions before the savepoint of the last pass final if all of them are settled. It reports whether all
// functions are settled in a transaction that can be committed: a transaction that the last pass aborted needs another pass,
// without the failing statement.
func (t *functionBatch) settle() bool {
	first := t.base
	for first < len(t.scripts) && t.scripts[first].settled {
		first++
	}
	if t.placed && first >= t.cut && !t.aborted {
		t.base, t.passes, t.placed = t.cut, 0, false
	}
	t.cut = first
	return first == len(t.scripts) && !t.aborted
}
