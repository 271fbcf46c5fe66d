package sql

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"tidings/services"
	"tidings/services/trace"
)

// Tx is one write transaction, or one part of a shared one. It is valid until its function returns and must not leave the
// goroutine that it was given to.
type Tx struct {
	// Now is the time of one function of WriteAll: UTC, to the microsecond. The time of the next function is one microsecond
	// later, so that the facts of a batch sort in the order of its functions.
	Now time.Time

	// eventMoment is set while a function applies an event of the past: it is the ID of the moment at which that event happened,
	// see SetEventMoment. 0: the event happens now.
	eventMoment    services.SortableID
	momentOfNewIDs services.SortableID                                       // the moment of new IDs; 0: that of the commit. See SetMomentOfNewIDs
	newID          func(next func() services.SortableID) services.SortableID // makes the IDs of NewID, the same in each run; nil: all are new
	readClock      func(read func() time.Time) time.Time                     // makes the times of ReadClock, the same in each run; nil: all are new
	Began          time.Time                                                 // the clock's time, at most the first Now: new jobs are due then
	endHookValues  []endHookValue                                            // the values that KeepForEndHook kept
	// signalsAtCommit says that the functions of OnCommitSignal are called after the commit. It stays true when the function that
	// set it fails and is rolled back: an extra signal does no harm.
	signalsAtCommit bool
	Runner
}

// maxTxTimeAhead is the longest time that the times of transactions may be ahead of the clock. A batch of 500 uses half a millisecond.
// If the times are further ahead, the clock was set back, and transactions follow the clock again.
const maxTxTimeAhead = time.Second

// newTx makes a transaction of some functions. Transactions' times go back only if the clock was set back by more than maxTxTimeAhead.
// The times of a batch are later than all times that were given before, and each of its functions has its own microsecond. Two
// single functions may share a microsecond.
func (s *DB) newTx(functions int, db queryer) *Tx {
	// This takes no lock: many transactions begin at once on PostgreSQL, and each takes a range of times of its own.
	began := Micros(s.Now())
	for {
		given, first := s.latestTxMicros.Load(), began
		ahead := given - began
		if (ahead > 0 || ahead == 0 && functions > 1) && ahead <= maxTxTimeAhead.Microseconds() {
			first = given + 1
		}
		if s.latestTxMicros.CompareAndSwap(given, first+int64(functions)-1) {
			return &Tx{Now: FromMicros(first), Began: FromMicros(began), Runner: Runner{Dialect: s.Dialect, db: db, trace: s.trace}}
		}
	}
}

// NewID makes an id for a row of this transaction. When a function is run again in its transaction, it gets the same ID: every
// argument of a statement must come from arguments, from reads, from Now, from ReadClock or from NewID.
//
// For an event in the past the ID is always that of its moment.
func (tx *Tx) NewID(ids *services.IDClock) services.SortableID {
	if tx.momentOfNewIDs != 0 {
		return tx.momentOfNewIDs
	}
	if tx.newID == nil {
		return ids.Next()
	}
	return tx.newID(ids.Next)
}

// ReadClock reads a clock other than the transaction's. When a function is run again it gets the same time, as it gets the same ids: a
// function that reads the clock directly would issue different statements in each run, and its batch would take many more passes.
func (tx *Tx) ReadClock(read func() time.Time) time.Time {
	if tx.readClock == nil {
		return read()
	}
	return tx.readClock(read)
}

// Write runs fn in a transaction and returns after the commit is on disk. An error of fn rolls everything back and is returned
// unchanged; a panic also rolls everything back and becomes INTERNAL. fn may run more than once, so it must touch only tx and
// variables that it sets afresh, and it must not call the DB. UNAVAILABLE when the engine did not do the work; after a lost
// connection the transaction may be committed all the same.
func (s *DB) Write(ctx context.Context, fn func(tx *Tx) error) error {
	return s.write(ctx, []func(*Tx) error{fn}, s.tryAlone)[0]
}

// WriteAll runs the functions one after the other in one transaction, each at a time of its own. A failing function is rolled
// back alone, and errs has its error at its index. When the commit fails every index has that error. On PostgreSQL their
// statements go out together, so each function must be deterministic: what it writes comes from its arguments, from its reads,
// from Now, ReadClock and NewID. What Write says of panics, of repeated runs and of UNAVAILABLE applies to each function. Functions
// that need the effects of earlier ones run under WithOrderedWrites.
func (s *DB) WriteAll(ctx context.Context, fns []func(tx *Tx) error) (errs []error) {
	return s.write(ctx, fns, s.tryTogether)
}

// postgresTry runs functions in one transaction of PostgreSQL. again is true when the transaction had no effect and is likely to
// succeed when repeated, except on the last try.
type postgresTry func(ctx context.Context, fns []func(*Tx) error, last bool) (errs []error, again bool)

// write runs functions in one transaction, with the errors of WriteAll. On PostgreSQL, try runs them.
func (s *DB) write(ctx context.Context, fns []func(tx *Tx) error, try postgresTry) (errs []error) {
	if len(fns) == 0 {
		return nil
	}
	if err := s.admitWrite(); err != nil {
		return repeatError(err, len(fns))
	}
	defer s.activeWrites.Done()
	if added := addedWriteOf(ctx); added != nil {
		fns = added.wrap(ctx, fns)
		defer func() { added.recordOutcome(errs) }()
	}
	// The span covers the caller's wait: on SQLite several callers share one transaction.
	ctx, span := trace.Start(ctx, "sql", "transaction")
	span.SetCount(len(fns))
	if s.Dialect == SQLite {
		errs = s.writer.write(ctx, fns)
	} else {
		errs = s.writePostgres(ctx, fns, try)
	}
	s.noteWriteRefusal(errs)
	span.End(errs[0])
	return errs
}

// repeatError returns a list of n times the same error, for n functions.
func repeatError(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// maxWriteTries is the greatest number of runs of a PostgreSQL transaction that conflicts with others: the first and 5 repeats.
const maxWriteTries = 6

// writePostgres runs the functions, and repeats them while PostgreSQL aborts them in favour of other transactions, as it does with
// one side of a deadlock. It also repeats them after this process stood still for too long, and after a connection was lost before
// COMMIT.
func (s *DB) writePostgres(ctx context.Context, fns []func(*Tx) error, run postgresTry) []error {
	if err := refuseWriteIfReadsLimited(ctx); err != nil {
		return repeatError(err, len(fns))
	}
	// On the last try a function that was aborted keeps its error, and the others of its batch are committed.
	for try := 1; ; try++ {
		errs, again := run(ctx, fns, try == maxWriteTries)
		if !again {
			return errs
		}
		// Transactions that conflicted once conflict again unless their waits differ.
		if services.Sleep(ctx, rand.N(time.Duration(1<<try)*2*time.Millisecond)) != nil {
			return repeatError(MapError("write again after a conflict", context.Cause(ctx)), len(fns))
		}
	}
}

// tryAlone runs one function in a transaction of PostgreSQL. The function waits for the answer to each of its statements. tryAlone is a
// postgresTry.
func (s *DB) tryAlone(ctx context.Context, fns []func(*Tx) error, last bool) (errs []error, again bool) {
	end := func(err error) ([]error, bool) {
		return []error{err}, !last && (isWorthRetry(err) || isConnectionLost(ctx, err))
	}
	// With read committed, each statement sees what is committed by then. A statement locks the rows that it reads if they must not
	// change meanwhile.
	dbTx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return []error{MapError("begin", err)}, false
	}
	defer func() { _ = dbTx.Rollback() }() // does nothing after a commit
	// The time is taken after BEGIN, which may have waited for a connection: an earlier time would precede those of transactions
	// that began meanwhile.
	tx := s.newTx(1, transaction{dbTx})
	if err := s.callWithRecover(fns[0], tx); err != nil {
		return end(err)
	}
	if err := s.callWithRecover(func(tx *Tx) error { return tx.runEndHooks(ctx) }, tx); err != nil {
		return end(err)
	}
	// After a lost connection it is unknown whether the transaction was committed. The error is UNAVAILABLE, which claims neither.
	err = dbTx.Commit()
	if err == nil && tx.signalsAtCommit {
		s.callOnCommitSignal()
	}
	return []error{MapError("commit", err)}, isConflict(err) && !last
}

// These statements are for the savepoint around one function. Its name may repeat: a savepoint hides an older one of its name until it
// is released.
const (
	savepoint = "SAVEPOINT part"
	undo      = "ROLLBACK TO SAVEPOINT part"
	release   = "RELEASE SAVEPOINT part"
)

// runInSavepoint runs one function with a savepoint around it. failed is the function's own error. err is an error of the whole
// transaction, which then has no effect.
func (s *DB) runInSavepoint(ctx context.Context, tx *Tx, fn func(*Tx) error) (failed, err error) {
	if err := tx.execText(ctx, savepoint); err != nil {
		return nil, err
	}
	// Values that a failed function kept for the end of the transaction are dropped with its writes.
	before := len(tx.endHookValues)
	failed = s.callWithRecover(fn, tx)
	if failed != nil {
		tx.endHookValues = tx.endHookValues[:before]
		if err := tx.execText(ctx, undo); err != nil {
			return failed, err
		}
	}
	return failed, tx.execText(ctx, release)
}

// RunInSavepoint runs fn as a part of the transaction: an error of fn rolls back only the work of fn, and is returned as failed.
// err is an error of the transaction: return it. PostgreSQL refuses every statement after a failed one until a savepoint is rolled
// back to, so this is the only way to go on after an error of a statement.
func (tx *Tx) RunInSavepoint(ctx context.Context, fn func() error) (failed, err error) {
	if err := tx.execText(ctx, "SAVEPOINT attempt"); err != nil {
		return nil, err
	}
	before := len(tx.endHookValues)
	if failed = fn(); failed != nil {
		tx.endHookValues = tx.endHookValues[:before]
		if err := tx.execText(ctx, "ROLLBACK TO SAVEPOINT attempt"); err != nil {
			if services.IsUnavailable(failed) {
				err = failed // the engine gave up the transaction, and this is the cause
			}
			return failed, err
		}
	}
	return failed, tx.execText(ctx, "RELEASE SAVEPOINT attempt")
}

// execText runs a statement that has no parameters and no name.
func (tx *Tx) execText(ctx context.Context, text string) error {
	if tx.Dialect == SQLite { // a rollback must run even if the caller's context has ended
		ctx = context.WithoutCancel(ctx)
	}
	_, err := tx.db.exec(ctx, text, nil)
	return MapError(text, err)
}

// callWithRecover runs the function and turns a panic into an error: one caller's bug must not end the writer that serves all.
func (s *DB) callWithRecover(fn func(*Tx) error, tx *Tx) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = s.logPanic(cause)
		}
	}()
	return fn(tx)
}

// logPanic logs a panic with its stack, and returns the error that the caller gets instead.
func (s *DB) logPanic(cause any) error {
	s.log.Error("a write panicked", "error", services.NewPanicError(cause))
	return services.Wrapf(services.Internal, fmt.Errorf("panic: %v", cause), "the write failed")
}
