package changelog

import (
	"maps"
	"slices"
	"sync"
	"time"

	"tidings/services"
)

// MinNotifyInterval is the least time between two notifications of one key. The first change is notified at once.
const MinNotifyInterval = 100 * time.Millisecond

// ReaderIndex finds the users to notify when a key changes. A key names something whose items are counted when badges are read,
// such as a conversation or an author of pulled posts. Its readers are the users who are watched on this node and whose badges
// count it: who are shown the key. A ReaderIndex is safe for concurrent use.
type ReaderIndex[K comparable] struct {
	clock  services.Clock
	notify func([]services.UserID) // notifies users, by the functions of OnReadersNotified

	mu       sync.Mutex                         // guards the fields below
	shown    map[services.UserID][]K            // the keys that each watched user is shown
	readers  map[K]map[services.UserID]struct{} // the inverse of shown
	owed     map[K]struct{}                     // changed keys whose readers are not notified yet
	notified map[K]time.Time                    // when the readers of a key were last notified
	waits    bool                               // a timer is set for the next notification
}

// NewReaderIndex makes an index without users. Its notifications go to OnReadersNotified.
func NewReaderIndex[K comparable](f *Follower) *ReaderIndex[K] {
	return &ReaderIndex[K]{
		clock: f.clock, notify: f.NotifyReaders,
		shown: map[services.UserID][]K{}, readers: map[K]map[services.UserID]struct{}{},
		owed: map[K]struct{}{}, notified: map[K]time.Time{},
	}
}

// Follow records the keys that a watched user is shown: count keys, the i-th of which is at(i). The record holds until Unfollow
// or the next Follow. Call it before you read the keys' values, so that no change in between is missed.
func (r *ReaderIndex[K]) Follow(user services.UserID, count int, at func(i int) K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Most renderings find the same keys as before: then nothing is allocated.
	former := r.shown[user]
	same := len(former) == count
	for i := 0; same && i < count; i++ {
		same = former[i] == at(i)
	}
	if same {
		return
	}
	r.removeUser(user)
	keys := make([]K, count)
	for i := range keys {
		keys[i] = at(i)
		if r.readers[keys[i]] == nil {
			r.readers[keys[i]] = map[services.UserID]struct{}{}
		}
		r.readers[keys[i]][user] = struct{}{}
	}
	if count > 0 {
		r.shown[user] = keys
	}
}

// Unfollow says that users are no longer watched.
func (r *ReaderIndex[K]) Unfollow(users []services.UserID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, user := range users {
		r.removeUser(user)
	}
}

// removeUser forgets a user. The lock is held.
func (r *ReaderIndex[K]) removeUser(user services.UserID) {
	for _, key := range r.shown[user] {
		if delete(r.readers[key], user); len(r.readers[key]) == 0 {
			delete(r.readers, key)
		}
	}
	delete(r.shown, user)
}

// Each calls the function for every key that users are shown, with the user's index in the list.
func (r *ReaderIndex[K]) Each(users []services.UserID, call func(i int, key K)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, user := range users {
		for _, key := range r.shown[user] {
			call(i, key)
		}
	}
}

// Has reports whether a key is shown to any watched user.
func (r *ReaderIndex[K]) Has(key K) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.readers[key]) > 0
}

// Keys lists all keys that are shown to watched users, in no order.
func (r *ReaderIndex[K]) Keys() []K {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.readers))
}

// RecordChange records that a key changed: Notify notifies its readers when they are due.
func (r *ReaderIndex[K]) RecordChange(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.readers[key]) > 0 {
		r.owed[key] = struct{}{}
	}
}

// takeDueReaders lists the readers of changed keys whose last notification is long enough ago, and forgets the times of keys
// without readers. next is the time until the first of the other keys is due. The lock is held.
func (r *ReaderIndex[K]) takeDueReaders(now time.Time) (users []services.UserID, next time.Duration) {
	next = MinNotifyInterval
	for key := range r.owed {
		// A clock that was set back must not silence a key.
		if since := now.Sub(r.notified[key]); since >= 0 && since < MinNotifyInterval {
			next = min(next, MinNotifyInterval-since)
			continue
		}
		delete(r.owed, key)
		r.notified[key] = now
		users = slices.AppendSeq(users, maps.Keys(r.readers[key]))
	}
	maps.DeleteFunc(r.notified, func(key K, _ time.Time) bool { return len(r.readers[key]) == 0 })
	return users, next
}

// Notify notifies the readers of changed keys that are due, and sets a timer for the others.
func (r *ReaderIndex[K]) Notify() {
	r.mu.Lock()
	users, next := r.takeDueReaders(r.clock.Now())
	if len(r.owed) > 0 && !r.waits {
		r.waits = true
		time.AfterFunc(next, func() {
			r.mu.Lock()
			r.waits = false
			r.mu.Unlock()
			r.Notify() // which sets a timer again for keys that were notified meanwhile
		})
	}
	r.mu.Unlock()
	// The lock is released first, because a notified function may call Follow.
	r.notify(users)
}
