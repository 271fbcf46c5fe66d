package feedhistory

import (
	"errors"
	"iter"
)

// A worker runs a job from one pause to the next. Its first step starts it. It is a coroutine and not a goroutine: one step runs at a
// time, and the seed decides which, so that a failure can be repeated.
type worker struct {
	name    string                   // of the job, for the trace
	job     func(pause func()) error // may run again from its beginning
	resume  func() (error, bool)     // runs the job to its next pause; nil until it starts, and after it died
	stop    func()                   // ends the job at its pause; nil if resume is nil
	stalled bool                     // it continues only now and then, see World.continueOneWorker
}

// errWorkerDied unwinds the job of a worker that dies.
var errWorkerDied = errors.New("the worker died")

// start makes the job a coroutine: resume runs it to its next pause, and stop unwinds it at the pause where it waits.
func (w *worker) start() {
	w.resume, w.stop = iter.Pull(func(yield func(error) bool) {
		defer func() {
			if reason := recover(); reason != nil && reason != errWorkerDied {
				panic(reason)
			}
		}()
		err := w.job(func() {
			if !yield(nil) {
				// The pause does not return: the job ends in the middle. Its deferred calls run, which they would not do in a real
				// crash.
				panic(errWorkerDied)
			}
		})
		// The error is the last value, so that the caller of resume sees it before the end.
		if err != nil {
			yield(err)
		}
	})
}

// kill lets the worker die. The job starts over when it is taken again.
func (w *worker) kill() {
	if w.stop != nil {
		w.stop()
		w.resume, w.stop = nil, nil
	}
}

// Enqueue queues a job under a name for the trace.
func (w *World) Enqueue(name string, do func(pause func()) error) {
	w.queue = append(w.queue, &worker{name: name, job: do, stalled: w.Random.IntN(w.stepsPerStall) == 0})
}
