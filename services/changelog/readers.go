package changelog

import (
	"maps"
	"slices"
	"sync"
	"time"

	"tidings/services"
)

// NotifyGap is the time between two notifications of one thing: that of the first change is at once.
const NotifyGap = 100 * time.Millisecond

// Readers finds the users to notify when something moves that is counted when somebody reads: those who are watched on this
// node and are shown it. It is safe for concurrent use.
type Readers[K comparable] struct {
	clock  services.Clock
	notify func([]services.UserID)

	mu       sync.Mutex
	shown    map[services.UserID][]K            // what each user who is watched is shown
	of       map[K]map[services.UserID]struct{} // the same, the other way round
	owed     map[K]struct{}                     // moved, and its readers do not know yet
	notified map[K]time.Time                    // when its readers were notified last
	waits    bool                               // a timer will notify
}

// NewReaders makes an index without users. Moves are passed to OnMoved.
func NewReaders[K comparable](f *Follower) *Readers[K] {
	return &Readers[K]{
		clock: f.clock, notify: f.NotifyMoved,
		shown: map[services.UserID][]K{}, of: map[K]map[services.UserID]struct{}{},
		owed: map[K]struct{}{}, notified: map[K]time.Time{},
	}
}

// Follow says what a user is shown who is watched: so many things, the i-th named by at(i). It holds until Unfollow, or the next
// Follow. It is called before these are read, so that no move falls between.
func (r *Readers[K]) Follow(user services.UserID, count int, at func(i int) K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	former := r.shown[user]
	same := len(former) == count
	for i := 0; same && i < count; i++ {
		same = former[i] == at(i)
	}
	if same {
		return
	}
	r.leave(user)
	keys := make([]K, count)
	for i := range keys {
		keys[i] = at(i)
		if r.of[keys[i]] == nil {
			r.of[keys[i]] = map[services.UserID]struct{}{}
		}
		r.of[keys[i]][user] = struct{}{}
	}
	if count > 0 {
		r.shown[user] = keys
	}
}

// Unfollow says that users are watched no longer.
func (r *Readers[K]) Unfollow(users []services.UserID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, user := range users {
		r.leave(user)
	}
}

func (r *Readers[K]) leave(user services.UserID) {
	for _, key := range r.shown[user] {
		if delete(r.of[key], user); len(r.of[key]) == 0 {
			delete(r.of, key)
		}
	}
	delete(r.shown, user)
}

// Each calls with everything that users are shown, and with the user's index in the list.
func (r *Readers[K]) Each(users []services.UserID, call func(i int, key K)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, user := range users {
		for _, key := range r.shown[user] {
			call(i, key)
		}
	}
}

// Has says whether a thing is shown to anybody who is watched.
func (r *Readers[K]) Has(key K) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.of[key]) > 0
}

// Keys lists all that is shown to somebody who is watched, in no order.
func (r *Readers[K]) Keys() []K {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.of))
}

// Moved notes that a thing changed: Notify tells its readers when they are due.
func (r *Readers[K]) Moved(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.of[key]) > 0 {
		r.owed[key] = struct{}{}
	}
}

// due lists the readers of what moved and was not notified just now, and forgets the times of what has no readers.
func (r *Readers[K]) due(now time.Time) (users []services.UserID) {
	for key := range r.owed {
		if since := now.Sub(r.notified[key]); since >= 0 && since < NotifyGap {
			continue
		}
		delete(r.owed, key)
		r.notified[key] = now
		users = slices.AppendSeq(users, maps.Keys(r.of[key]))
	}
	maps.DeleteFunc(r.notified, func(key K, _ time.Time) bool { return len(r.of[key]) == 0 })
	return users
}

// Notify notifies the readers of what moved and is due, and leaves a timer for what is not.
func (r *Readers[K]) Notify() {
	r.mu.Lock()
	users := r.due(r.clock.Now())
	if len(r.owed) > 0 && !r.waits {
		r.waits = true
		time.AfterFunc(NotifyGap, func() {
			r.mu.Lock()
			r.waits = false
			r.mu.Unlock()
			r.Notify() // which waits again for what was notified meanwhile
		})
	}
	r.mu.Unlock()
	r.notify(users)
}
