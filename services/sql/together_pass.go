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
// replayer.go.

// Long batches run one after the other, on all nodes: they hold locks of many rows for several passes. Two batches that share
// rows, such as likes of one post, would wait for each other, change each other's answers, and so take many more passes.
const (
	longBatchSize    = 32                    // functions; a batch with more is long
	longBatchLockKey = "7305534180022318195" // the key of the advisory lock of long batches; locks of OwnerLimit have keys of two numbers
)

// undoStatements lists the statements to send before a pass. They roll back the last pass, but not the functions that are final. If
// the transaction has not begun yet, they begin it.
func (t *functionBatch) undoStatements() []string {
	switch {
	case !t.begun && len(t.fns) > longBatchSize:
		return []string{"BEGIN ISOLATION LEVEL READ COMMITTED", "SELECT pg_advisory_xact_lock(" + longBatchLockKey + ")", "SAVEPOINT batch"}
	case !t.begun:
		return []string{"BEGIN ISOLATION LEVEL READ COMMITTED", "SAVEPOINT batch"}
	// The last pass made a savepoint of its own. It hides the older savepoint of that name, which comes before the function at
	// finalFunctions. So it is released first, and then the transaction is rolled back to the older one.
	case t.savepointPlaced:
		return []string{"ROLLBACK TO SAVEPOINT batch", "RELEASE SAVEPOINT batch", "ROLLBACK TO SAVEPOINT batch"}
	}
	return []string{"ROLLBACK TO SAVEPOINT batch"}
}

// These limits say how often a long batch prefetches. The first prefetches lead most functions to their ends. After that a pass
// advances as many functions as a prefetch, and also checks guesses in the same round trip, so a prefetch saves time only when
// there is nothing to check. Short batches have too little to repeat, and a prefetch locks rows in another order than a pass does.
const (
	unconditionalPrefetches = 3 // made even if some functions do not wait for rows
	maxPrefetches           = 6 // of one batch, so that it takes hardly more round trips than without prefetches
)

// roundTrip is the statements of one round trip. Each is a step of a function, or a statement of the batch itself, whose step is nil.
type roundTrip struct {
	batch pgx.Batch            // the statements
	steps []*recordedStatement // of each statement in batch, in order
}

// queue adds a statement of a step, or of the batch itself: then of is nil.
func (r *roundTrip) queue(of *recordedStatement, text string, args ...any) {
	r.batch.Queue(text, args...)
	r.steps = append(r.steps, of)
}

// send sends the statements of a round trip together, and reads their answers.
func (t *functionBatch) send(ctx context.Context, r *roundTrip) error {
	err := t.readAnswers(t.conn.SendBatch(ctx, &r.batch), r.steps)
	t.begun = t.conn.PgConn().TxStatus() != 'I'
	// When a statement could not be sent, neither its function nor the statements that were run before it are known. So all
	// functions run one by one, from the first on, and only the function of that statement fails.
	if err != nil && !services.IsUnavailable(err) && !t.conn.IsClosed() {
		t.restRunsAlone, t.begun, t.savepointPlaced, t.txHasOnlyLastPass, t.aborted, t.finalFunctions, t.savepointBeforeFunction = true, false, false, false, false, 0, 0
		return t.execText(ctx, "ROLLBACK")
	}
	return err
}

// repeatPrefetch makes prefetches as long as they save time. The first round trip of a batch is a pass: it has nothing to repeat yet,
// and its answers are no guesses.
func (t *functionBatch) repeatPrefetch(ctx context.Context) error {
	if len(t.fns) <= longBatchSize {
		return nil
	}
	for t.begun && !t.aborted && !t.restRunsAlone && (t.prefetches < unconditionalPrefetches || t.prefetches < maxPrefetches && t.allWaitForRows()) {
		if waiting, all := t.countStatements(); waiting == 0 || all <= 2*waiting {
			return nil
		}
		if err := t.prefetch(ctx); err != nil {
			return err
		}
		t.prefetches++
		t.replayFunctions(true)
	}
	return nil
}

// countStatements counts the statements of a prefetch, one for each function that waits for rows, and the statements of a pass.
func (t *functionBatch) countStatements() (waiting, all int) {
	for _, script := range t.runs[t.finalFunctions:] {
		all += len(script.steps)
		if script.waitsForAnswer {
			waiting++
		}
	}
	return waiting, all
}

// allWaitForRows reports whether every function that is not settled waits for rows.
func (t *functionBatch) allWaitForRows() bool {
	return !slices.ContainsFunc(t.runs, func(s functionRun) bool { return !s.settled && !s.waitsForAnswer })
}

// prefetch asks for the rows that functions wait for, as the transaction has them now. Nothing is rolled back or repeated, so it
// costs only these statements. The answers are guesses: the writes of the function itself and of the functions before it may not
// have been sent, or may be the writes of the last pass. The next pass undoes the prefetch and checks the answers.
func (t *functionBatch) prefetch(ctx context.Context) error {
	r := &roundTrip{}
	for _, script := range t.runs[t.finalFunctions:] {
		if script.waitsForAnswer {
			last := &script.steps[len(script.steps)-1]
			r.queue(last, last.text, last.args...)
		}
	}
	err := t.send(ctx, r)
	t.txHasOnlyLastPass = false
	for _, step := range r.steps {
		step.answerFromLastPass = false
	}
	// A failed statement aborts the transaction, so nothing more can be prefetched. It need not be a fault of the function: writes
	// that the statement depends on may not have been sent. The next pass sends all in order and shows whether the function really
	// fails.
	if t.aborted {
		t.prefetches = maxPrefetches
	}
	return err
}

// canContinuePass reports whether it is enough to send the steps that are new since the last pass: the answers of that pass still
// hold, and all new steps come after its steps.
func (t *functionBatch) canContinuePass() bool {
	if !t.txHasOnlyLastPass || t.aborted || t.savepointPlaced {
		return false
	}
	more := false
	for i := t.finalFunctions; i < len(t.runs); i++ {
		script := &t.runs[i]
		fails := script.failed != nil && !script.changedNothing
		// The steps of a function that fails are between a savepoint and its release, so no further step of it can be sent.
		if len(script.steps) < script.sentSteps || more && script.sentSteps > 0 || fails != script.rolledBack || fails && len(script.steps) > script.sentSteps {
			return false
		}
		for _, step := range script.steps[:script.sentSteps] {
			if !step.answerFromLastPass {
				return false
			}
		}
		more = more || len(script.steps) > script.sentSteps
	}
	return more
}

// continuePass sends the steps that the last pass has not sent, and reads their answers.
func (t *functionBatch) continuePass(ctx context.Context) error {
	t.passes-- // this pass repeats nothing, and does not count
	r := &roundTrip{}
	for i := t.finalFunctions; i < len(t.runs); i++ {
		script := &t.runs[i]
		for k := script.sentSteps; k < len(script.steps); k++ {
			r.queue(&script.steps[k], script.steps[k].text, script.steps[k].args...)
		}
		script.sentSteps = len(script.steps)
	}
	return t.send(ctx, r)
}

// sendPass sends the steps of the functions and reads the answers.
func (t *functionBatch) sendPass(ctx context.Context) error {
	if t.canContinuePass() {
		return t.continuePass(ctx)
	}
	r := &roundTrip{}
	if !t.aborted { // nothing can be prepared in an aborted transaction
		for _, text := range t.undoStatements() {
			r.queue(nil, text)
		}
	} else if err := t.execTexts(ctx, t.undoStatements()); err != nil {
		return err
	}
	mark := &recordedStatement{}
	// Final functions are in the transaction already: only the functions from finalFunctions on are sent.
	for i := t.finalFunctions; i < len(t.runs); i++ {
		// All functions before this one were settled. If they still are after this pass, they become final.
		if i == t.savepointBeforeFunction && i > t.finalFunctions {
			r.queue(mark, "SAVEPOINT batch")
		}
		script := &t.runs[i]
		// A function that fails is undone alone, so a savepoint comes before its statements. If it changed no row, it is not undone:
		// that would only release its locks, which may as well be held until the commit.
		script.rolledBack = script.failed != nil && !script.changedNothing
		if script.rolledBack {
			r.queue(nil, savepoint)
		}
		for k := range script.steps {
			step := &script.steps[k]
			step.answerFromLastPass = false
			// A statement whose error is known is not sent: it would abort the transaction again.
			if step.answer == nil || step.answer.err == nil {
				r.queue(step, step.text, step.args...)
			}
		}
		script.sentSteps = len(script.steps)
		if script.rolledBack {
			r.queue(nil, undo)
			r.queue(nil, release)
		}
	}
	err := t.send(ctx, r)
	// The savepoint has an answer only if nothing before it failed.
	t.savepointPlaced, t.txHasOnlyLastPass = mark.answer != nil && !t.restRunsAlone, !t.restRunsAlone
	return err
}

// execTexts runs statements one by one, up to the first error.
func (t *functionBatch) execTexts(ctx context.Context, texts []string) error {
	for _, text := range texts {
		if err := t.execText(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// readAnswers takes the answers of a round trip. The error of a statement ends the round trip: the statements after it were not run.
func (t *functionBatch) readAnswers(results pgx.BatchResults, asked []*recordedStatement) error {
	t.aborted = false
	for _, step := range asked {
		got := readAnswer(results)
		if got.err != nil {
			server, ok := errors.AsType[*pgconn.PgError](got.err)
			_, unsent := errors.AsType[pgx.ErrPreprocessingBatch](got.err)
			// The whole transaction is lost: by the connection, a conflict, a statement of the batch itself, or a statement whose
			// function is not known, because all statements were prepared before the first one was run.
			if !ok || unsent || step == nil || isConflict(got.err) || isUnavailableSQLState(server.Code) {
				_ = results.Close() // the error is known already
				return MapError("run a batch", got.err)
			}
			t.aborted = true
		}
		if step != nil {
			step.answer, step.answerFromLastPass = &got, true
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

// runNextFunctionAlone runs the next function statement by statement, and makes it final. It waits for each answer, so it cannot guess
// wrong.
func (t *functionBatch) runNextFunctionAlone(ctx context.Context) error {
	if err := t.execTexts(ctx, append(t.undoStatements(), savepoint)); err != nil {
		return err
	}
	t.begun, t.aborted, t.savepointPlaced, t.txHasOnlyLastPass = true, false, false, false
	// The functions before this one are final, so the answers to this one are final too: nobody can change the rows that it has
	// locked.
	i := t.finalFunctions
	p := &replayer{askDatabase: func(text string, args []any) statementAnswer {
		batch := &pgx.Batch{}
		batch.Queue(text, args...)
		results := t.conn.SendBatch(ctx, batch)
		got := readAnswer(results)
		if err := results.Close(); got.err == nil {
			got.err = err
		}
		return got
	}}
	t.tx.endHookValues = nil
	if i == len(t.runs)-1 {
		for _, before := range t.runs[:i] {
			t.tx.endHookValues = append(t.tx.endHookValues, before.endHookValues...)
		}
	}
	now := t.replayFunction(i, p)
	if isConflict(now.failed) {
		return now.failed
	}
	// The new savepoint comes after the function, so no later rollback undoes the function.
	end := []string{release, "SAVEPOINT batch"}
	if now.failed != nil {
		end = append([]string{undo}, end...)
	}
	if err := t.execTexts(ctx, end); err != nil {
		return err
	}
	now.settled = true
	t.runs[i] = now
	for k := i + 1; k < len(t.runs); k++ { // the rollback has undone their steps of the last pass
		for n := range t.runs[k].steps {
			t.runs[k].steps[n].answerFromLastPass = false
		}
	}
	t.finalFunctions, t.savepointBeforeFunction, t.passes = i+1, i+1, 0
	if t.functionsRunAlone++; t.functionsRunAlone == maxFunctionsRunAlone {
		t.restRunsAlone = true
	}
	return nil
}
