package mirror

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/store"
)

const (
	headsBatch   = 1000            // in one SELECT
	headsKeptFor = 2 * time.Minute // without anybody asking or watching
	headsTellGap = 100 * time.Millisecond
)

// heads are how far conversations have come that are counted when somebody reads: those that somebody here watches, or
// lately asked for. Numbers only grow.
type heads struct {
	mu    sync.RWMutex
	known map[services.ConversationID]*head
	stamp uint64 // the newest that was given: what is learnt later has a greater one

	followed map[services.UserNumber][]services.ConversationID            // what the badges of those who are watched show
	readers  map[services.ConversationID]map[services.UserNumber]struct{} // the same, the other way round
	owed     map[services.ConversationID]struct{}                         // moved, and the readers do not know yet
	told     map[services.ConversationID]time.Time                        // when they were told last
	waits    bool                                                         // a timer will tell them

	watchers map[services.ConversationID][]chan struct{}
}

type head struct {
	number int64
	stamp  uint64 // when it moved (us)
	asked  time.Time
}

func newHeads() heads {
	return heads{
		known:    map[services.ConversationID]*head{},
		followed: map[services.UserNumber][]services.ConversationID{},
		readers:  map[services.ConversationID]map[services.UserNumber]struct{}{},
		owed:     map[services.ConversationID]struct{}{},
		told:     map[services.ConversationID]time.Time{},
		watchers: map[services.ConversationID][]chan struct{}{},
	}
}

// ReadSide is what waits in conversations that are counted when somebody reads.
type ReadSide struct {
	Unread int
	Stamp  uint64 // the newest of their changes (us)
	Known  bool   // false: of some nothing is known, and the number may be greater
}

// LearnHeads reads what is not known yet of conversations' heads, one SELECT for each 1,000, and keeps them current from
// now on. When SQL does not answer, ReadSide says so.
func (m *Mirror) LearnHeads(ctx context.Context, lists ...[]services.ReadSidePlace) {
	missing := map[services.ConversationID]struct{}{}
	m.heads.mu.RLock()
	for _, list := range lists {
		for _, place := range list {
			if m.heads.known[place.Conversation] == nil {
				missing[place.Conversation] = struct{}{}
			}
		}
	}
	m.heads.mu.RUnlock()
	if len(missing) == 0 {
		return
	}
	if err := m.readHeads(ctx, slices.Sorted(maps.Keys(missing))); err != nil && ctx.Err() == nil {
		m.log.Warn("the heads of conversations could not be read", "error", err)
	}
}

// ReadSide counts what lies above a user's places. A head that is behind him counts nothing: he has seen more of it than
// this node.
func (m *Mirror) ReadSide(places []services.ReadSidePlace, now time.Time) ReadSide {
	counted := ReadSide{Known: true}
	stale := false
	m.heads.mu.RLock()
	for _, place := range places {
		head := m.heads.known[place.Conversation]
		if head == nil {
			counted.Known = false
			continue
		}
		counted.Unread += int(max(0, head.number-place.Base))
		counted.Stamp = max(counted.Stamp, head.stamp)
		stale = stale || now.Sub(head.asked) > headsKeptFor/4
	}
	m.heads.mu.RUnlock()
	if stale {
		m.heads.mu.Lock()
		defer m.heads.mu.Unlock()
		for _, place := range places {
			if head := m.heads.known[place.Conversation]; head != nil {
				head.asked = now
			}
		}
	}
	return counted
}

// Follow says which conversations the badges of a user show who is watched here: until Unfollow, or the next Follow, he is
// among those whom OnHeads is told of when one of them moves. It is called before their heads are read, so that no move
// falls between.
func (m *Mirror) Follow(user services.UserNumber, places []services.ReadSidePlace) {
	h := &m.heads
	h.mu.RLock()
	same := slices.EqualFunc(h.followed[user], places, func(id services.ConversationID, place services.ReadSidePlace) bool { return id == place.Conversation })
	h.mu.RUnlock()
	if same {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unfollow(user)
	ids := make([]services.ConversationID, len(places))
	for i, place := range places {
		ids[i] = place.Conversation
		if h.readers[ids[i]] == nil {
			h.readers[ids[i]] = map[services.UserNumber]struct{}{}
		}
		h.readers[ids[i]][user] = struct{}{}
	}
	if len(ids) > 0 {
		h.followed[user] = ids
	}
}

// Unfollow says that users are watched here no longer.
func (m *Mirror) Unfollow(users []services.UserNumber) {
	m.heads.mu.Lock()
	defer m.heads.mu.Unlock()
	for _, user := range users {
		m.heads.unfollow(user)
	}
}

func (h *heads) unfollow(user services.UserNumber) {
	for _, id := range h.followed[user] {
		if delete(h.readers[id], user); len(h.readers[id]) == 0 {
			delete(h.readers, id)
		}
	}
	delete(h.followed, user)
}

// OnHeads registers what is called with those who follow a conversation after it moved: at once, then at most ten times a
// second, and the last move is never left out. It is for the time before Run, and what it calls must not block.
func (m *Mirror) OnHeads(call func(readers []services.UserNumber)) {
	m.onHeads = append(m.onHeads, call)
}

// HeadMoved lets this node see its own message at once, before the next look at SQL.
func (m *Mirror) HeadMoved(moved store.Head) {
	m.heads.mu.Lock()
	if m.heads.known[moved.Conversation] != nil {
		m.heads.raise(moved)
	}
	m.heads.mu.Unlock()
	m.tellReaders()
}

// tellReaders tells of the moves that are due, and leaves a timer for those that are not.
func (m *Mirror) tellReaders() {
	m.heads.mu.Lock()
	readers := m.heads.due(m.clock.Now())
	if len(m.heads.owed) > 0 && !m.heads.waits {
		m.heads.waits = true
		time.AfterFunc(headsTellGap, func() {
			m.heads.mu.Lock()
			m.heads.waits = false
			readers := m.heads.due(m.clock.Now())
			m.heads.mu.Unlock()
			m.tell(readers)
		})
	}
	m.heads.mu.Unlock()
	m.tell(readers)
}

func (m *Mirror) tell(readers []services.UserNumber) {
	if len(readers) == 0 {
		return
	}
	for _, call := range m.onHeads {
		call(readers)
	}
}

// due lists the readers of what moved and was not told just now.
func (h *heads) due(now time.Time) (readers []services.UserNumber) {
	for id := range h.owed {
		if since := now.Sub(h.told[id]); since >= 0 && since < headsTellGap {
			continue
		}
		delete(h.owed, id)
		h.told[id] = now
		readers = slices.AppendSeq(readers, maps.Keys(h.readers[id]))
	}
	return readers
}

// WatchHead answers a channel that has a token when the head of a conversation has moved since the last one was taken,
// and what ends that.
func (m *Mirror) WatchHead(id services.ConversationID) (moved <-chan struct{}, forget func()) {
	watcher := make(chan struct{}, 1)
	m.heads.mu.Lock()
	defer m.heads.mu.Unlock()
	m.heads.watchers[id] = append(m.heads.watchers[id], watcher)
	return watcher, func() {
		m.heads.mu.Lock()
		defer m.heads.mu.Unlock()
		rest := slices.DeleteFunc(m.heads.watchers[id], func(other chan struct{}) bool { return other == watcher })
		if m.heads.watchers[id] = rest; len(rest) == 0 {
			delete(m.heads.watchers, id)
		}
	}
}

// raise moves a head forward; one that is not ahead changes nothing.
func (h *heads) raise(moved store.Head) {
	known := h.known[moved.Conversation]
	if known.number >= moved.Number {
		return
	}
	// Two changes of one moment are two versions of every badge that shows them.
	h.stamp = max(h.stamp+1, uint64(moved.At.UnixMicro()))
	known.number, known.stamp = moved.Number, h.stamp
	h.owed[moved.Conversation] = struct{}{}
	for _, watcher := range h.watchers[moved.Conversation] {
		select {
		case watcher <- struct{}{}:
		default: // it has a token already
		}
	}
}

// lookAtHeads reads all heads that are watched or were asked for lately, forgets the others, and tells of what moved.
func (m *Mirror) lookAtHeads(ctx context.Context) error {
	now := m.clock.Now()
	m.heads.mu.Lock()
	maps.DeleteFunc(m.heads.known, func(id services.ConversationID, head *head) bool {
		return now.Sub(head.asked) > headsKeptFor && len(m.heads.watchers[id]) == 0 && len(m.heads.readers[id]) == 0
	})
	maps.DeleteFunc(m.heads.told, func(id services.ConversationID, _ time.Time) bool { return m.heads.known[id] == nil })
	ids := slices.Collect(maps.Keys(m.heads.known))
	var unknown []services.ConversationID // SQL did not answer when somebody wanted to know
	for id := range m.heads.readers {
		if m.heads.known[id] == nil {
			unknown = append(unknown, id)
		}
	}
	m.heads.mu.Unlock()
	ids = append(ids, unknown...)
	slices.Sort(ids)
	err := m.readHeads(ctx, ids)
	m.heads.mu.Lock()
	for _, id := range unknown {
		if m.heads.known[id] != nil {
			m.heads.owed[id] = struct{}{}
		}
	}
	m.heads.mu.Unlock()
	m.tellReaders()
	return err
}

func (m *Mirror) readHeads(ctx context.Context, ids []services.ConversationID) error {
	now := m.clock.Now()
	for part := range slices.Chunk(ids, headsBatch) {
		read, err := m.facts.Heads(ctx, part)
		if err != nil {
			return err
		}
		m.heads.mu.Lock()
		for _, one := range read {
			if m.heads.known[one.Conversation] == nil {
				stamp := uint64(one.At.UnixMicro())
				m.heads.known[one.Conversation] = &head{number: one.Number, stamp: stamp, asked: now}
				m.heads.stamp = max(m.heads.stamp, stamp)
				continue
			}
			m.heads.raise(one)
		}
		m.heads.mu.Unlock()
	}
	return nil
}
