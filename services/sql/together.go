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
// If f1 has written b, the second answer to f2's read differs from the first, and f2's write may differ too. Then f1 is final: its work
// stays in the transaction, with a savepoint after it, and a third pass sends f2 alone.
//
// If the functions repeat all statements of the last pass and only add further ones behind them, nothing is rolled back, and the
// next pass sends only what was added. So a single function takes a round trip for each answer that it waits for.

// After maxBatchPasses passes in which no further function became final (its work stays in the transaction), the next function runs
// alone, statement by statement. The rows that it locks stay locked, so that other transactions that keep changing the same rows cannot
// delay the batch forever. After maxFunctionsRunAlone such functions the rest of the batch runs statement by statement.
const (
	maxBatchPasses       = 16
	maxFunctionsRunAlone = 4
)

// functionRun records the steps of a function's last run. A final function is one whose steps are kept in the transaction, so that it is
// not run again: see functionBatch.
type functionRun struct {
	steps          []recordedStatement
	waitsForAnswer bool  // the run ended because it needs the answer of its last step
	failed         error // the error of the run
	changedNothing bool  // certainly no statement of the run changed a row: see replayer.mayHaveChangedRows
	rolledBack     bool  // the last pass undid the steps after sending them, because the function fails
	sentSteps      int   // the number of steps in the last pass
	settled        bool  // the run repeated the steps that were sent, with PostgreSQL's answers to all of them
	// endHookValues are the values that this run kept for the end hooks (TxEndHook); a function that failed has none.
	endHookValues []endHookValue
}

// functionBatch is a batch on one connection.
type functionBatch struct {
	store             *DB
	conn              *pgx.Conn
	tx                *Tx                     // is passed to each of fns in turn
	firstFunctionTime time.Time               // Tx.Now of the first function
	orderedWrites     bool                    // no function runs after one that failed for now: see WithOrderedWrites
	fns               []func(*Tx) error       // the functions of the batch, and behind them one that runs the end hooks
	runs              []functionRun           // the last run of each of fns
	idsByCall         [][]services.SortableID // [k][i] is the ID of the call k of NewID by the function i
	clockReadings     [][]time.Time           // [i] are the times of the calls of ReadClock by the function i

	finalFunctions          int  // functions before this index are final: they are settled, and a savepoint follows them
	savepointBeforeFunction int  // the next pass puts a savepoint before this function
	txHasOnlyLastPass       bool // the transaction has the steps of the last pass, and nothing else
	savepointPlaced         bool // the last pass placed a savepoint, and finalFunctions has not moved to it
	begun                   bool // the transaction has begun
	committing              bool // COMMIT may have been sent: after an error the outcome of the transaction is unknown
	aborted                 bool // an error of a statement ended the last round trip
	prefetches              int  // the number of prefetches of the whole batch
	passes                  int  // the number of passes since finalFunctions last moved
	functionsRunAlone       int  // functions that were run alone
	restRunsAlone           bool // all further functions run alone; also set if a statement could not be sent: then only its function fails
}

// tryTogether runs a batch in one transaction of PostgreSQL. It is a postgresTry, and again is also true if PostgreSQL aborted just one
// of the functions in favour of another transaction.
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
		t := &functionBatch{store: s, conn: raw.(*stdlib.Conn).Conn(), tx: s.newTx(len(fns), nil), orderedWrites: hasOrderedWrites(ctx), runs: make([]functionRun, len(fns)+1), clockReadings: make([][]time.Time, len(fns)+1)}
		t.firstFunctionTime = t.tx.Now
		// One more function runs after all of fns: for each TxEndHook, it passes on the values that fns have kept for it.
		t.fns = append(append(t.fns, fns...), func(tx *Tx) error { return tx.runEndHooks(ctx) })
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
	return repeatError(MapError("write a batch", err), len(fns)), !last && (isWorthRetry(err) || !committing && isConnectionLost(ctx, err))
}

// rollback ends a transaction without a result. An error means that the connection is unusable.
func (t *functionBatch) rollback() error {
	if t.conn.IsClosed() {
		return driver.ErrBadConn
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return t.execText(ctx, "ROLLBACK")
}

// execText runs statements without parameters in one round trip, also in a transaction that an error has aborted.
func (t *functionBatch) execText(ctx context.Context, texts string) error {
	_, err := t.conn.PgConn().Exec(ctx, texts).ReadAll()
	return MapError(texts, err)
}

// run makes passes until all functions are settled, and commits.
func (t *functionBatch) run(ctx context.Context, last bool) (errs []error, err error) {
	for t.replayFunctions(false); !t.finalizeSettled(); t.replayFunctions(false) {
		if err := cmp.Or(ctx.Err(), t.firstConflict()); err != nil && (ctx.Err() != nil || !last) {
			return nil, err
		}
		if err := t.repeatPrefetch(ctx); err != nil {
			return nil, err
		}
		step := t.sendPass
		if t.passes++; t.passes > maxBatchPasses || t.restRunsAlone {
			step = t.runNextFunctionAlone
		}
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	end := len(t.runs) - 1
	// An end hook that failed is an error of the whole transaction: its values come from many functions.
	if failed := t.runs[end].failed; failed != nil {
		return nil, failed
	}
	if err := t.firstConflict(); err != nil && !last {
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
	if t.tx.signalsAtCommit {
		t.store.callOnCommitSignal()
	}
	errs = make([]error, end)
	// The tracer of a test gets each statement once, however many passes sent it.
	for i, script := range t.runs {
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

// firstConflict is the error of the first function that PostgreSQL aborted in favour of another transaction. The whole batch
// is repeated then: what the function had read may have changed.
func (t *functionBatch) firstConflict() error {
	for _, script := range t.runs {
		if isConflict(script.failed) {
			return script.failed
		}
	}
	return nil
}

// replayFunctions runs the functions that are not final with the answers known so far. After a prefetch it runs only the functions that
// waited, because they have new answers, and the last function, because the others may have kept more values for the end hooks, which it
// runs.
func (t *functionBatch) replayFunctions(prefetched bool) {
	var all []endHookValue
	earlierSettled := true // all functions before are final or settled
	for i := range t.runs {
		end := i == len(t.runs)-1
		// The end hooks of a single function wait for it: values that it has not kept yet would change their statements.
		if end && i == 1 && t.runs[0].waitsForAnswer {
			t.runs[i] = functionRun{}
			break
		}
		if i >= t.finalFunctions && (!prefetched || end || t.runs[i].waitsForAnswer) {
			t.tx.endHookValues = nil
			if end { // the last function runs the end hooks of all others
				t.tx.endHookValues = all
			}
			t.runs[i] = t.replayFunction(i, &replayer{lastPassSteps: t.runs[i].steps, earlierFunctionsSettled: earlierSettled, repeatsLastPass: true})
		}
		earlierSettled = earlierSettled && (i < t.finalFunctions || t.runs[i].settled)
		all = append(all, t.runs[i].endHookValues...)
	}
}

// replayFunction runs one function with the known answers. Its times and IDs are those of its last run: with new ones it would
// issue other statements and never settle. It is settled if it issued exactly the statements that were sent, with PostgreSQL's
// answers to all of them.
func (t *functionBatch) replayFunction(i int, p *replayer) (now functionRun) {
	before := t.runs[i]
	calls := 0
	t.tx.Now = t.firstFunctionTime.Add(time.Duration(i) * time.Microsecond)
	t.tx.Runner = Runner{Dialect: Postgres, db: p, trace: p.setNextStatementName}
	t.tx.newID = func(next func() services.SortableID) services.SortableID {
		calls++
		return t.idOfCall(i, calls-1, next)
	}
	reads := 0
	t.tx.readClock = func(read func() time.Time) time.Time {
		if reads++; reads > len(t.clockReadings[i]) {
			t.clockReadings[i] = append(t.clockReadings[i], read())
		}
		return t.clockReadings[i][reads-1]
	}
	now.failed = t.callFunction(i)
	now.steps, now.waitsForAnswer = p.steps, p.waitsForAnswer
	// The error of a function that was stopped means nothing: the function has not reached its end.
	if now.waitsForAnswer {
		now.failed = nil
	}
	if now.failed == nil {
		now.endHookValues = t.tx.endHookValues
	}
	now.changedNothing, now.rolledBack, now.sentSteps = !p.mayHaveChangedRows(), before.rolledBack, before.sentSteps
	// Settled: this run issued the statements that were sent, and allAnswersFromLastPass reports that each answer is PostgreSQL's.
	// Its changes are in the transaction, or are undone if it failed.
	sent := t.begun && len(before.steps) == len(now.steps) && (now.changedNothing || now.rolledBack == (now.failed != nil))
	now.settled = sent && !now.waitsForAnswer && p.allAnswersFromLastPass()
	return now
}

// callFunction runs a function, turns a panic into an error, and stops the function where it needs an unknown answer. Under
// WithOrderedWrites it does not run a function if the function before has failed for now, as far as the answers are known. With other
// answers, the next pass runs it.
func (t *functionBatch) callFunction(i int) (err error) {
	if end := i == len(t.fns)-1; t.orderedWrites && i > 0 && !end && services.IsTransient(t.runs[i-1].failed) {
		return ErrEarlierWriteFailed
	}
	defer func() {
		if cause := recover(); cause != nil && cause != any(errAnswerUnknown) {
			err = t.store.logPanic(cause)
		}
	}()
	return t.fns[i](t.tx)
}

// idOfCall returns the ID for a function's call of NewID. It is the same in every pass, and the IDs rise in the order of the functions:
// idsByCall[k] has an ID for the call k of each function.
func (t *functionBatch) idOfCall(function, call int, next func() services.SortableID) services.SortableID {
	for call >= len(t.idsByCall) {
		ids := make([]services.SortableID, len(t.runs))
		for i := range ids {
			ids[i] = next()
		}
		t.idsByCall = append(t.idsByCall, ids)
	}
	return t.idsByCall[call][function]
}

// finalizeSettled makes the functions before the savepoint of the last pass final if all of them are settled. It reports whether all
// functions are settled in a transaction that can be committed: a transaction that the last pass aborted needs another pass,
// without the failing statement.
func (t *functionBatch) finalizeSettled() bool {
	first := t.finalFunctions
	for first < len(t.runs) && t.runs[first].settled {
		first++
	}
	if t.savepointPlaced && first >= t.savepointBeforeFunction && !t.aborted {
		t.finalFunctions, t.passes, t.savepointPlaced = t.savepointBeforeFunction, 0, false
	}
	t.savepointBeforeFunction = first
	return first == len(t.runs) && !t.aborted
}
