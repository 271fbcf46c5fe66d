package mirror

import (
	"maps"
	"slices"
	"sync"
	"time"

	"tidings/services"
)

// tellGap is the time between two times that readers are told of one thing: the first change at once.
const tellGap = 100 * time.Millisecond

// readers is who is told when something moves that is counted when somebody reads: those who are watched on this node and
// whose badges show it.
type readers[K comparable] struct {
	mu       sync.Mutex
	followed map[services.UserNumber][]K            // what the badges of those who are watched show
	of       map[K]map[services.UserNumber]struct{} // the same, the other way round
	owed     map[K]struct{}                         // moved, and the readers do not know yet
	told     map[K]time.Time                        // when they were told last
	waits    bool                                   // a timer will tell them
}

func newReaders[K comparable]() *readers[K] {
	return &readers[K]{
		followed: map[services.UserNumber][]K{}, of: map[K]map[services.UserNumber]struct{}{},
		owed: map[K]struct{}{}, told: map[K]time.Time{},
	}
}

// follow says what the badges of a user show who is watched: so many things, each named by its place.
func (r *readers[K]) follow(user services.UserNumber, count int, at func(i int) K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	former := r.followed[user]
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
			r.of[keys[i]] = map[services.UserNumber]struct{}{}
		}
		r.of[keys[i]][user] = struct{}{}
	}
	if count > 0 {
		r.followed[user] = keys
	}
}

func (r *readers[K]) unfollow(users []services.UserNumber) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, user := range users {
		r.leave(user)
	}
}

func (r *readers[K]) leave(user services.UserNumber) {
	for _, key := range r.followed[user] {
		if delete(r.of[key], user); len(r.of[key]) == 0 {
			delete(r.of, key)
		}
	}
	delete(r.followed, user)
}

// each calls with what the badges of users show, and with the place of each user in the list.
func (r *readers[K]) each(users []services.UserNumber, call func(i int, key K)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, user := range users {
		for _, key := range r.followed[user] {
			call(i, key)
		}
	}
}

// has says whether anybody who is watched is shown a thing.
func (r *readers[K]) has(key K) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.of[key]) > 0
}

// keys are the things that somebody who is watched is shown.
func (r *readers[K]) keys() []K {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.of))
}

// moved says that a thing changed: its readers are told when they are due.
func (r *readers[K]) moved(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.of[key]) > 0 {
		r.owed[key] = struct{}{}
	}
}

// due lists the readers of what moved and was not told just now, and forgets when what has no readers was told.
func (r *readers[K]) due(now time.Time) (users []services.UserNumber) {
	for key := range r.owed {
		if since := now.Sub(r.told[key]); since >= 0 && since < tellGap {
			continue
		}
		delete(r.owed, key)
		r.told[key] = now
		users = slices.AppendSeq(users, maps.Keys(r.of[key]))
	}
	maps.DeleteFunc(r.told, func(key K, _ time.Time) bool { return len(r.of[key]) == 0 })
	return users
}

// tellReaders tells of what moved and is due, and leaves a timer for what is not.
func tellReaders[K comparable](m *Mirror, r *readers[K]) {
	r.mu.Lock()
	users := r.due(m.clock.Now())
	if len(r.owed) > 0 && !r.waits {
		r.waits = true
		time.AfterFunc(tellGap, func() {
			r.mu.Lock()
			r.waits = false
			r.mu.Unlock()
			tellReaders(m, r) // which waits again for what was told of meanwhile
		})
	}
	r.mu.Unlock()
	m.tell(users)
}

func (m *Mirror) tell(users []services.UserNumber) {
	if len(users) == 0 {
		return
	}
	for _, call := range m.onMoved {
		call(users)
	}
}

// OnMoved registers what is called with those who are watched and whose badges show something that moved: at once, then at
// most ten times a second for each thing, and the last move is never left out. It is for the time before Run, and what it
// calls must not block.
func (m *Mirror) OnMoved(call func(readers []services.UserNumber)) {
	m.onMoved = append(m.onMoved, call)
}

// Follow says which conversations, which authors and which hosts the badges of a user show who is watched here: until
// Unfollow, or the next Follow, he is among those whom OnMoved is told of. It is called before these are read, so that no
// move falls between.
func (m *Mirror) Follow(user services.UserNumber, places []services.ReadSidePlace, authors, hosts []services.FollowedAuthor) {
	m.heads.readers.follow(user, len(places), func(i int) services.ConversationID { return places[i].Conversation })
	m.pulled.readers.follow(user, len(authors), func(i int) services.UserNumber { return authors[i].Author })
	m.shows.readers.show(user, hosts)
}

// Unfollow says that users are watched here no longer.
func (m *Mirror) Unfollow(users []services.UserNumber) {
	m.heads.readers.unfollow(users)
	m.pulled.readers.unfollow(users)
	m.shows.readers.leave(users...)
}
