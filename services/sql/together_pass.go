package sql

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"tidings/services"
)

// This file has the round trips of a batch to PostgreSQL: a pass with the statements of all functions, a prefetch of the rows that
// functions wait for, or one function statement by statement. What the answers mean for the functions is in together.go and
// player.go.

// Long batches run one after the other, on all nodes: they hold locks of many rows for several passes. Two batches that share
// rows, such as likes of one post, would wait for each other, change each other's answers, and so take many more passes.
const (
	longBatch    = 32                    // functions; a batch with more is long
	longBatchKey = "7305534180022318195" // the key of their lock; the locks of limits have keys of two numbers
)

// undoLastPass lists the statements to send before a pass. They roll back the last pass, but not the functions that are final. If the
// transaction has not begun yet, they begin it.
func (t *functionBatch) undoLastPass() []string {
	switch {
	case !t.begun && len(t.fns) > longBatch:
		return []string{"BEGIN ISOLATION LEVEL READ COMMITTED", "SELECT pg_advisory_xact_lock(" + longBatchKey + ")", "SAVEPOINT batch"}
	case !t.begun:
		return []string{"BEGIN ISOLATION LEVEL READ COMMITTED", "SAVEPOINT batch"}
	// The last pass made a savepoint of its own. It hides the older savepoint of that name, which comes before the function at base.
	// So it is released first, and then the transaction is rolled back to the older one.
	case t.placed:
		return []string{"ROLLBACK TO SAVEPOINT batch", "RELEASE SAVEPOINT batch", "ROLLBACK TO SAVEPOINT batch"}
	}
	return []string{"ROLLBACK TO SAVEPOINT batch"}
}

// These limits say how often a long batch prefetches. The first prefetches lead most functions to their ends. After that a pass
// advances as many functions as a prefetch, and also checks guesses in the same round trip, so a prefetch saves time only when
// there is nothing to check. Short batches have too little to repeat, and a prefetch locks rows in another order than a pass does.
const (
	firstPrefetches = 3
	maxPrefetches   = 6 // so that a batch takes hardly more round trips than without them
)

// roundTrip is the statements of one round trip. Each is a step of a function, or a statement of the batch itself, whose step is nil.
type roundTrip struct {
	batch pgx.Batch // the statements
	asked []*step   // of each statement in batch, in order
}

// queue adds a statement of a step, or of the batch itself: then of is nil.
func (r *roundTrip) queue(of *step, text string, args ...any) {
	r.batch.Queue(text, args...)
	r.asked = append(r.asked, of)
}

// send sends the statements of a round trip together, and reads their answers.
func (t *functionBatch) send(ctx context.Context, r *roundTrip) error {
	err := t.read(t.conn.SendBatch(ctx, &r.batch), r.asked)
	t.begun = t.conn.PgConn().TxStatus() != 'I'
	// When a statement could not be sent, neither its function nor the statements that were run before it are known. So all functions run
	// one by one, from the first on, and only the function of that statement fails.
	if err != nil && !services.IsUnavailable(err) && !t.conn.IsClosed() {
		t.singly, t.begun, t.placed, t.whole, t.aborted, t.base, t.cut = true, false, false, false, false, 0, 0
		return t.control(ctx, "ROLLBACK")
	}
	return err
}

// repeatPrefetch makes prefetches as long as they save time. The first round trip of a batch is a pass: it has nothing to repeat yet,
// and its answers are no guesses.
func (t *functionBatch) repeatPrefetch(ctx context.Context) error {
	if len(t.fns) <= longBatch {
		return nil
	}
	for t.begun && !t.aborted && !t.singly && (t.prefetched < firstPrefetches || t.prefetched < maxPrefetches && t.onlyWaits()) {
		if waiting, all := t.weigh(); waiting == 0 || all <= 2*waiting {
			return nil
		}
		if err := t.prefetch(ctx); err != nil {
			return err
		}
		t.prefetched++
		t.play(true)
	}
	return nil
}

// weigh counts the statements of a prefetch, one for each function that waits for rows, and the statements of a pass.
func (t *functionBatch) weigh() (waiting, all int) {
	for _, script := range t.scripts[t.base:] {
		all += len(script.steps)
		if script.waits {
			waiting++
		}
	}
	return waiting, all
}

// onlyWaits reports whether every function that is not settled waits for rows.
func (t *functionBatch) onlyWaits() bool {
	return !slices.ContainsFunc(t.scripts, func(s script) bool { return !s.settled && !s.waits })
}

// prefetch asks for the rows that functions wait for, as the transaction has them now. Nothing is rolled back or repeated, so it
// costs only these statements. The answers are guesses: the writes of the function itself and of the functions before it may not
// have been sent, or may be the writes of the last pass. The next pass undoes the prefetch and checks the answers.
func (t *functionBatch) prefetch(ctx context.Context) error {
	r := &roundTrip{}
	for _, script := range t.scripts[t.base:] {
		if script.waits {
			last := &script.steps[len(script.steps)-1]
			r.queue(last, last.text, last.args...)
		}
	}
	err := t.send(ctx, r)
	t.whole = false
	for _, step := range r.asked {
		step.fromLastPass = false
	}
	// A failed statement aborts the transaction, so nothing more can be prefetched. It need not be a fault of the function: writes that the
	// statement depends on may not have been sent. The next pass sends all in order and shows whether the function really fails.
	if t.aborted {
		t.prefetched = maxPrefetches
	}
	return err
}

// canContinuePass reports whether it is enough to send the steps that are new since the last pass: the answers of that pass still hold, and all
// new steps come after its steps.
func (t *functionBatch) canContinuePass() bool {
	if !t.whole || t.aborted || t.placed {
		return false
	}
	more := false
	for i := t.base; i < len(t.scripts); i++ {
		script := &t.scripts[i]
		fails := script.failed != nil && !script.changedNothing
		// The steps of a function that fails stand between savepoints, so nothing can be sent behind them.
		if len(script.steps) < script.sent || more && script.sent > 0 || fails != script.undone || fails && len(script.steps) > script.sent {
			return false
		}
		for _, step := range script.steps[:script.sent] {
			if !step.fromLastPass {
				return false
			}
		}
		more = more || len(script.steps) > script.sent
	}
	return more
}

// extend sends the steps that the last pass has not sent, and reads their answers.
func (t *functionBatch) extend(ctx context.Context) error {
	t.passes-- // it repeats nothing
	r := &roundTrip{}
	for i := t.base; i < len(t.scripts); i++ {
		script := &t.scripts[i]
		for k := script.sent; k < len(script.steps); k++ {
			r.queue(&script.steps[k], script.steps[k].text, script.steps[k].args...)
		}
		script.sent = len(script.steps)
	}
	return t.send(ctx, r)
}

// pass sends the steps of the functions and reads the answers.
func (t *functionBatch) pass(ctx context.Context) error {
	if t.canContinuePass() {
		return t.extend(ctx)
	}
	r := &roundTrip{}
	if !t.aborted { // nothing can be prepared in an aborted transaction
		for _, text := range t.undoLastPass() {
			r.queue(nil, text)
		}
	} else if err := t.controlAll(ctx, t.undoLastPass()); err != nil {
		return err
	}
	mark := &step{}
	// Final functions are in the transaction already: only the functions from base on are sent.
	for i := t.base; i < len(t.scripts); i++ {
		// All functions before this one were settled. If they still are after this pass, they become final.
		if i == t.cut && i > t.base {
			r.queue(mark, "SAVEPOINT batch")
		}
		script := &t.scripts[i]
		// A function that fails is undone alone, so a savepoint comes before its statements. If it changed no row, it is not undone:
		// that would only release its locks, which may as well be held until the commit.
		script.undone = script.failed != nil && !script.changedNothing
		if script.undone {
			r.queue(nil, savepoint)
		}
		for k := range script.steps {
			step := &script.steps[k]
			step.fromLastPass = false
			// A statement whose error is known is not sent: it would abort the transaction again.
			if step.answer == nil || step.answer.err == nil {
				r.queue(step, step.text, step.args...)
			}
		}
		script.sent = len(script.steps)
		if script.undone {
			r.queue(nil, undo)
			r.queue(nil, release)
		}
	}
	err := t.send(ctx, r)
	// The savepoint has an answer only if nothing before it failed.
	t.placed, t.whole = mark.answer != nil && !t.singly, !t.singly
	return err
}

// controlAll runs statements one by one, up to the first error.
func (t *functionBatch) controlAll(ctx context.Context, texts []string) error {
	for _, text := range texts {
		if err := t.control(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// read takes the answers of a round trip. The error of a statement ends the round trip: the statements after it were not run.
func (t *functionBatch) read(results pgx.BatchResults, asked []*step) error {
	t.aborted = false
	for _, step := range asked {
		got := readAnswer(results)
		if got.err != nil {
			server, ok := errors.AsType[*pgconn.PgError](got.err)
			_, unsent := errors.AsType[pgx.ErrPreprocessingBatch](got.err)
			// The whole transaction is lost: by the connection, a conflict, a statement of the batch itself, or a statement whose
			// function is not known, because all statements were prepared before the first one was run.
			if !ok || unsent || step == nil || conflicting(got.err) || unavailableState(server.Code) {
				_ = results.Close() // the error is known already
				return MapError("run a batch", got.err)
			}
			t.aborted = true
		}
		if step != nil {
			step.answer, step.fromLastPass = &got, true
		}
		if t.aborted {
			break
		}
	}
	if err := results.Close(); err != nil && !t.aborted {
		return MapError("run a batch", err)
	}
	return nil
}

// runAlone runs the next function statement by statement, and makes it final. It waits for each answer, so it cannot guess
// wrong.
func (t *functionBatch) runAlone(ctx context.Context) error {
	if err := t.controlAll(ctx, append(t.undoLastPass(), savepoint)); err != nil {
		return err
	}
	t.begun, t.aborted, t.placed, t.whole = true, false, false, false
	// The functions before this one are final, so the answers to this one are final too: nobody can change the rows that it has locked.
	i := t.base
	p := &player{live: func(text string, args []any) answer {
		batch := &pgx.Batch{}
		batch.Queue(text, args...)
		results := t.conn.SendBatch(ctx, batch)
		got := readAnswer(results)
		if err := results.Close(); got.err == nil {
			got.err = err
		}
		return got
	}}
	t.tx.kept = nil
	if i == len(t.scripts)-1 {
		for _, before := range t.scripts[:i] {
			t.tx.kept = append(t.tx.kept, before.kept...)
		}
	}
	now := t.playOne(i, p)
	if conflicting(now.failed) {
		return now.failed
	}
	// The new savepoint comes after the function, so no later rollback undoes the function.
	end := []string{release, "SAVEPOINT batch"}
	if now.failed != nil {
		end = append([]string{undo}, end...)
	}
	if err := t.controlAll(ctx, end); err != nil {
		return err
	}
	now.settled = true
	t.scripts[i] = now
	for k := i + 1; k < len(t.scripts); k++ { // the rollback has undone their steps of the last pass
		for n := range t.scripts[k].steps {
			t.scripts[k].steps[n].fromLastPass = false
		}
	}
	t.base, t.cut, t.passes = i+1, i+1, 0
	if t.ranAlone++; t.ranAlone == maxAlone {
		t.singly = true
	}
	return nil
}
