package transport

import "sync"

// workers run what can be done at once, a bounded number at a time: ten thousand subscriptions that wake
// together wait in a list, and not in ten thousand goroutines. A worker that is about to wait for a slow
// client says so and another takes its place; so slow clients hold up nobody, however many there are. Workers
// are started when there is work and end when there is none.
type workers struct {
	limit int

	mu      sync.Mutex
	first   *operation // waiting, linked through operation.following
	last    *operation
	running int // workers that are neither waiting for a client nor gone
}

// submit has an operation's turn run soon. The caller sees to it that it does not wait twice.
func (w *workers) submit(one *operation) {
	w.mu.Lock()
	if w.last == nil {
		w.first = one
	} else {
		w.last.following = one
	}
	w.last = one
	w.spawn()
	w.mu.Unlock()
}

// spawn starts a worker if one is wanted. The lock is held.
func (w *workers) spawn() {
	if w.first != nil && w.running < w.limit {
		w.running++
		go w.work()
	}
}

// work runs turns until nobody waits, or until its place was taken while it waited for a client.
func (w *workers) work() {
	for {
		w.mu.Lock()
		one := w.first
		if one == nil {
			w.running--
			w.mu.Unlock()
			return
		}
		if w.first, one.following = one.following, nil; w.first == nil {
			w.last = nil
		}
		w.mu.Unlock()
		if !one.turn() {
			return
		}
	}
}

// leave says that the caller, a worker, may wait now.
func (w *workers) leave() {
	w.mu.Lock()
	w.running--
	w.spawn()
	w.mu.Unlock()
}

// enter says that the caller waits no longer. When it is false its place was taken: it has to end.
func (w *workers) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running >= w.limit {
		return false
	}
	w.running++
	return true
}
