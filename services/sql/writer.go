package sql

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"tidings/services"
)

// maxGroupFunctions is the number of functions from which on a transaction takes no further request. One WriteAll is never split.
const maxGroupFunctions = 256

// A request of more than maxShortRequestFunctions functions, such as a batch of an ingest, is long, and so is one under
// WithBulkWrites. A user waits for a short request, so it shares no transaction with a long one, and waits for one of them at most:
// the two kinds take turns.
const maxShortRequestFunctions = 20

// bulkWritesKey is the context key of WithBulkWrites.
type bulkWritesKey struct{}

// WithBulkWrites marks the writes under a context as long, however few their functions are. It is for a function whose statements
// write the rows of many users. It matters on SQLite, which has one writer.
func WithBulkWrites(ctx context.Context) context.Context {
	return context.WithValue(ctx, bulkWritesKey{}, true)
}

// Another process, such as a backup, may hold the file's write lock. SQLite waits for it in tries of lockTryPragma each, so that a
// caller whose deadline passes is answered between two of them. A caller without a deadline is answered after maxLockTries tries:
// 5 s.
const (
	lockTryPragma = "PRAGMA busy_timeout = 50" // milliseconds
	maxLockTries  = 100
)

// writer is the only writer of a SQLite file. It takes all waiting requests into one transaction, with a savepoint for each
// function, so that many callers share one wait for the disk. It never waits for more to come: while one group is written the next
// one gathers. Short and long requests (maxShortRequestFunctions) have a queue each, and share no transaction.
//
// A request passes through three functions. write queues it and waits; gatherGroup takes it, unless its caller has given up;
// tryTransaction runs its functions and commits them with those of the group. The caller and the writer both try to set
// takenOrAbandoned, and only the first succeeds. So the functions either run while the caller waits, or never run.
type writer struct {
	store      *DB           // whose writer it is
	db         *sql.DB       // has conn as its only connection
	connMu     sync.Mutex    // held while conn is used: by a group, or by the emptying of the log
	conn       *preparedConn // the only connection that writes
	shortQueue chan *request // the queue of short requests
	longQueue  chan *request // the queue of long requests
	// done is closed when the writer has ended. Only close waits for it.
	done chan struct{}
}

// request is the functions of one call of write, for the writer.
type request struct {
	// ctx bounds the wait for the turn. No statement of fns begins after its deadline; one that has begun runs to its end.
	ctx              context.Context
	fns              []func(*Tx) error
	size             int           // how much of maxGroupFunctions it takes: the number of its functions, or more
	errs             []error       // of each function
	takenOrAbandoned atomic.Bool   // taken by the writer, or abandoned by its own caller, who has given up
	done             chan struct{} // closed when errs is final
	ended            bool          // done is closed; used by the writer only
}

// openWriter opens the only connection that writes. The migrations run on it, before readers exist.
func openWriter(ctx context.Context, s *DB, dsn string) (*writer, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	// The writer holds one connection for good: prepared statements and the transaction belong to it.
	db.SetMaxOpenConns(1)
	w := &writer{store: s, db: db, shortQueue: make(chan *request, maxGroupFunctions), longQueue: make(chan *request, maxGroupFunctions), done: make(chan struct{})}
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if err := s.migrate(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	w.conn = &preparedConn{conn: conn, prepared: map[string]*sql.Stmt{}}
	// Until here the busy_timeout in dsn applies, which is longer: the migrations wait longer for the write lock of the file.
	if err := w.execText(lockTryPragma); err != nil {
		return nil, errors.Join(err, conn.Close(), db.Close())
	}
	go w.run()
	return w, nil
}

// close ends the writer after the queued requests. No write may begin after it.
func (w *writer) close() error {
	// DB.admitWrite refuses writes by now, so nobody sends on the closed channels.
	close(w.shortQueue)
	close(w.longQueue)
	<-w.done
	for _, prepared := range w.conn.prepared {
		_ = prepared.Close() // closing the connection frees it
	}
	return errors.Join(w.conn.conn.Close(), w.db.Close())
}

// write queues the functions and waits for them. A caller whose ctx ends before their turn is answered at once, and one whose
// ctx ends while another process locks the file is answered soon; their functions never run. Once the transaction has begun,
// callers wait, since only the commit can tell the result.
func (w *writer) write(ctx context.Context, fns []func(*Tx) error) []error {
	r, queue := &request{ctx: ctx, fns: fns, size: len(fns), done: make(chan struct{})}, w.shortQueue
	if ctx.Value(bulkWritesKey{}) != nil {
		r.size = max(r.size, maxGroupFunctions) // it takes as long as a whole group
	}
	if r.size > maxShortRequestFunctions {
		queue = w.longQueue
	}
	// The queue is bounded. When it is full callers wait for a place, and their contexts bound that wait too.
	select {
	case queue <- r:
	case <-ctx.Done():
		return repeatError(MapError("wait for a turn to write", ctx.Err()), len(fns))
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		// The writer skips the request when its turn comes.
		if r.takenOrAbandoned.CompareAndSwap(false, true) {
			return repeatError(MapError("wait for a turn to write", ctx.Err()), len(fns))
		}
		<-r.done
	}
	return r.errs
}

// run writes group after group until both queues are closed and empty.
func (w *writer) run() {
	finished := false
	defer func() {
		if finished {
			close(w.done)
			return
		}
		go w.run() // a function ended the goroutine: see commit
	}()
	now, other := w.shortQueue, w.longQueue
	for {
		first, queue := takeRequest(now, other)
		if first == nil {
			break
		}
		if queue == now { // the next turn is the other queue's
			now, other = other, now
		}
		w.commit(gatherGroup(first, queue))
	}
	finished = true
}

// takeRequest takes a request from one of two queues, of the first if both have some, and waits while both are empty. nil: both are
// closed.
func takeRequest(first, second chan *request) (r *request, from chan *request) {
	select {
	case r, open := <-first:
		if open {
			return r, first
		}
	default:
		select {
		case r, open := <-first:
			if open {
				return r, first
			}
		case r, open := <-second:
			if open {
				return r, second
			}
		}
	}
	// One queue is closed, so the other one is closed or will be. The requests that are left in both queues must still be written.
	for _, queue := range []chan *request{first, second} {
		if r, open := <-queue; open {
			return r, queue
		}
	}
	return nil, nil
}

// gatherGroup takes the requests that are in a queue, without waiting for more. A request whose caller has given up is left out.
func gatherGroup(first *request, queue chan *request) []*request {
	var group []*request
	size := 0
	take := func(r *request) {
		if r.ctx.Err() == nil && r.takenOrAbandoned.CompareAndSwap(false, true) {
			group = append(group, r)
			size += r.size
		}
	}
	// Without a limit a group would grow with the load, and so would the wait of the requests behind it.
	take(first)
	for size < maxGroupFunctions {
		select {
		case next, open := <-queue:
			if !open {
				return group
			}
			take(next)
		default:
			return group
		}
	}
	return group
}

// commit writes a group and answers its callers. When SQLite drops the whole transaction, as it does when the disk is full, the
// group is tried again caller by caller, so that only callers that cannot succeed get an error.
func (w *writer) commit(group []*request) {
	if len(group) == 0 {
		return
	}
	w.connMu.Lock()
	defer w.connMu.Unlock()
	answered := false
	defer func() {
		if answered {
			return
		}
		// One of the functions has ended this goroutine (runtime.Goexit): nothing was committed.
		_ = w.execText("ROLLBACK")
		// All requests of the group fail, because it is unknown which function has ended the goroutine.
		for _, r := range group {
			r.fail(services.Errorf(services.Internal, "the write failed"))
			r.end()
		}
	}()
	if broken := w.tryTransaction(group); broken && len(group) > 1 {
		for _, r := range group {
			if !r.ended {
				w.tryTransaction([]*request{r})
			}
		}
	}
	answered = true
	for _, r := range group {
		r.end()
	}
}

// fail gives the error to a caller who is not answered yet.
func (r *request) fail(err error) {
	if !r.ended {
		r.errs = repeatError(err, len(r.fns))
	}
}

// end lets the caller of write return. A second call does nothing.
func (r *request) end() {
	if !r.ended {
		r.ended = true
		close(r.done)
	}
}

// begin begins a transaction and returns the requests of the group that are left for it. A caller whose deadline passes while another
// process locks the file is answered between two tries.
func (w *writer) begin(group []*request) (left []*request, err error) {
	for try := 1; ; try++ {
		// IMMEDIATE takes the write lock now. Taken later, it could be refused in the middle of the transaction.
		err := w.execText("BEGIN IMMEDIATE")
		if !isSQLiteBusy(err) {
			return group, err
		}
		left = nil
		for _, r := range group {
			// A caller with a deadline waits until then. The others wait for maxLockTries tries.
			_, timed := r.ctx.Deadline()
			switch over := r.ctx.Err(); {
			case over != nil:
				r.fail(MapError("wait for the write lock", over))
				r.end()
			case try >= maxLockTries && !timed:
				r.fail(services.Wrapf(services.Unavailable, err, "another process holds the write lock of the database file"))
				r.end()
			default:
				left = append(left, r)
			}
		}
		if group = left; len(group) == 0 {
			return nil, nil
		}
	}
}

// tryTransaction runs one transaction. broken is true when SQLite dropped the transaction before its end, so that it has no effect. An
// error of the commit itself is final: its outcome is unknown, so the transaction is not tried again.
func (w *writer) tryTransaction(group []*request) (broken bool) {
	fail := func(err error) {
		_ = w.execText("ROLLBACK") // there may be nothing left to roll back
		for _, r := range group {
			r.fail(err)
		}
	}
	group, err := w.begin(group)
	if err != nil {
		fail(err)
	}
	if err != nil || len(group) == 0 {
		return false
	}
	signal := false
	for _, r := range group {
		// Each caller has a Tx of its own: the times of the caller's functions rise, and an end hook (TxEndHook), which runs below,
		// gets only the values that these functions kept.
		tx := w.store.newTx(len(r.fns), w.conn)
		// errs is made anew: the request may have been tried before in a group that SQLite dropped.
		r.errs = make([]error, len(r.fns))
		for i, fn := range r.fns {
			if i > 0 && hasOrderedWrites(r.ctx) && services.IsTransient(r.errs[i-1]) {
				r.errs[i] = ErrEarlierWriteFailed
				continue
			}
			failed, err := w.store.runInSavepoint(r.ctx, tx, fn)
			if err != nil {
				fail(causeOfDroppedTx(failed, err))
				return true
			}
			r.errs[i] = failed
			tx.Now = tx.Now.Add(time.Microsecond)
		}
		// The end hooks of the request run without a deadline: each does its work for all functions of the request.
		ends := func(tx *Tx) error { return tx.runEndHooks(context.WithoutCancel(r.ctx)) }
		if err := w.store.callWithRecover(ends, tx); err != nil {
			fail(err)
			return true
		}
		signal = signal || tx.signalsAtCommit
	}
	// COMMIT waits for the disk. All callers of the group share this wait.
	if err := w.execText("COMMIT"); err != nil {
		fail(err)
		return false
	}
	if signal {
		w.store.callOnCommitSignal()
	}
	return false
}

// causeOfDroppedTx returns why SQLite dropped a whole transaction. failed, the error of a function, names the reason if it is
// UNAVAILABLE. err is the error of a later statement, and says only that there is no transaction any more.
func causeOfDroppedTx(failed, err error) error {
	if services.IsUnavailable(failed) {
		return failed
	}
	return services.Wrapf(services.Unavailable, errors.Join(err, failed), "the database does not answer")
}

// execText runs a statement of the writer's own on the writing connection, without a caller's context.
func (w *writer) execText(text string) error {
	_, err := w.conn.exec(context.Background(), text, nil)
	return MapError(text, err)
}
