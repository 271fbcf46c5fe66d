package transport

import "sync"

// workers run the turns of waking subscriptions, a bounded number at a time. A turn delivers one event of one subscription. Ten thousand
// subscriptions that wake together wait in a list and not in ten thousand goroutines. A worker that runs holds a slot, and a new worker
// starts only while fewer than limit slots are held. A worker that is about to wait for a slow client leaves its slot to another worker,
// so that slow clients delay nobody, however many there are. Workers start when there is work and end when there is none. The zero value
// with a limit is ready.
//
// A worker that has written to its client may find its slot taken. It still goes on if fewer than twice the limit run. Most clients
// take a frame at once: if such a worker had to end, each event would cost a new goroutine, whose stack has to grow.
type workers struct {
	limit int // a new worker starts while fewer than this run; one that has written goes on while fewer than twice this run

	mu sync.Mutex // guards the fields below
	// The list runs through the operations themselves, so that queueing allocates nothing. An operation is in the list once at most,
	// which operation.subscriptionState ensures. firstQueued and lastQueued are nil when the list is empty.
	firstQueued *operation // the first operation that waits for a turn; the list is linked through operation.nextQueued
	lastQueued  *operation // the end of the list
	running     int        // workers that hold a slot: not waiting for a client
}

// submit queues an operation's turn. The caller ensures that the operation is not queued twice, by its state. Turns are served in
// the order in which they came.
func (w *workers) submit(one *operation) {
	w.mu.Lock()
	if w.lastQueued == nil {
		w.firstQueued = one
	} else {
		w.lastQueued.nextQueued = one
	}
	w.lastQueued = one
	w.startWorkerIfNeeded()
	w.mu.Unlock()
}

// startWorkerIfNeeded starts a worker if one is wanted. The lock is held. One at a time is enough: each submit and each freeSlot
// asks again.
func (w *workers) startWorkerIfNeeded() {
	if w.firstQueued != nil && w.running < w.limit {
		w.running++
		// The slot is counted before the goroutine runs, so that submits in between start no worker too many.
		go w.work()
	}
}

// work runs turns until none is queued, or until its slot was taken while it waited for a client.
func (w *workers) work() {
	for {
		w.mu.Lock()
		one := w.firstQueued
		if one == nil {
			w.running--
			w.mu.Unlock()
			return
		}
		if w.firstQueued, one.nextQueued = one.nextQueued, nil; w.firstQueued == nil {
			w.lastQueued = nil
		}
		w.mu.Unlock()
		if !one.runTurn() {
			return
		}
	}
}

// freeSlot gives up the slot of the calling worker, which may wait next. The worker's goroutine goes on, beyond the limit.
func (w *workers) freeSlot() {
	w.mu.Lock()
	w.running--
	w.startWorkerIfNeeded()
	w.mu.Unlock()
}

// takeSlot takes the slot back after a wait. It returns false if too many other workers run by now; the worker must then exit.
func (w *workers) takeSlot() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	// The workers that were started in the meantime do the work that is left.
	if w.running >= 2*w.limit {
		return false
	}
	w.running++
	return true
}
