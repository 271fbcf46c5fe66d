package jobs

import (
	"sync"
	"time"
)

// Throttle spaces out the passes over one key, such as those that project a conversation's states to all members: the jobs that request
// a pass wait until the next one is due, and merge. It knows only the passes of this process. Its zero value is ready, and it is safe
// for concurrent use.
type Throttle[K comparable] struct {
	mu   sync.Mutex      // guards next
	next map[K]*nextPass // by key; a key without a pass so far is absent
}

// nextPass is when the next pass over a key is due.
type nextPass struct {
	due           time.Time
	wakeScheduled bool // a wake-up of the workers is scheduled for due
}

// BeginPass records that a pass over a key begins now. The next one is due after gap.
func (t *Throttle[K]) BeginPass(key K, now time.Time, gap time.Duration) {
	// The table is not cleaned key by key: it is dropped as a whole when it has grown.
	const many = 10_000
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil || len(t.next) > many { // after this, one pass over each key may begin before its time
		t.next = map[K]*nextPass{}
	}
	t.next[key] = &nextPass{due: now.Add(gap)}
}

// NextPassAt is when the next pass over a key is due, or the zero time if it is due already.
func (t *Throttle[K]) NextPassAt(key K, now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if next, known := t.next[key]; known && next.due.After(now) {
		return next.due
	}
	return time.Time{}
}

// DelayJob makes a job wait until the next pass is due, and schedules a wake-up of the workers. Without the wake-up the last of many
// jobs would wait until the workers next look at the queue.
func (t *Throttle[K]) DelayJob(key K, now time.Time, job NewJob, wake func()) NewJob {
	t.mu.Lock()
	defer t.mu.Unlock()
	next, known := t.next[key]
	if !known || !next.due.After(now) {
		return job
	}
	if !next.wakeScheduled {
		next.wakeScheduled = true
		time.AfterFunc(next.due.Sub(now), wake)
	}
	job.NotBefore = next.due
	return job
}
