package mirror

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/store"
)

const (
	headsBatch   = 1000            // in one SELECT
	headsKeptFor = 2 * time.Minute // without anybody asking or watching
)

// heads are how far conversations have come that are counted when somebody reads: those that somebody here watches, or
// lately asked for. Numbers only grow.
type heads struct {
	mu    sync.RWMutex
	known map[services.ConversationID]*head

	readers  *changelog.Readers[services.ConversationID] // who are watched and shown them
	watchers map[services.ConversationID][]chan struct{}
}

type head struct {
	number   int64
	revision int64 // of what its messages and members show: only who watches it is told
	asked    time.Time
}

func newHeads(f *changelog.Follower) heads {
	return heads{
		known:    map[services.ConversationID]*head{},
		readers:  changelog.NewReaders[services.ConversationID](f),
		watchers: map[services.ConversationID][]chan struct{}{},
	}
}

// ReadSide is what waits in conversations that are counted when somebody reads.
type ReadSide struct {
	Unread   int
	Sequence uint64 // the sum of their heads: it rises with each message
	Known    bool   // false: of some nothing is known, and the number may be greater
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
		counted.Sequence += uint64(head.number)
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

// HeadMoved lets this node see its own message at once, before the next look at SQL.
func (m *Mirror) HeadMoved(moved store.Head) {
	m.heads.mu.Lock()
	if m.heads.known[moved.Conversation] != nil {
		m.heads.raise(moved)
	}
	m.heads.mu.Unlock()
	m.heads.readers.Notify()
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
	if moved.Number > known.number || moved.Revision > known.revision {
		defer h.wake(moved.Conversation)
	}
	known.revision = max(known.revision, moved.Revision)
	if known.number >= moved.Number {
		return
	}
	known.number = moved.Number
	h.readers.Moved(moved.Conversation)
}

func (h *heads) wake(id services.ConversationID) {
	for _, watcher := range h.watchers[id] {
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
		return now.Sub(head.asked) > headsKeptFor && len(m.heads.watchers[id]) == 0 && !m.heads.readers.Has(id)
	})
	ids := slices.Collect(maps.Keys(m.heads.known))
	var unknown []services.ConversationID // SQL did not answer when somebody wanted to know
	for _, id := range m.heads.readers.Keys() {
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
			m.heads.readers.Moved(id)
		}
	}
	m.heads.mu.Unlock()
	m.heads.readers.Notify()
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
				m.heads.known[one.Conversation] = &head{number: one.Number, revision: one.Revision, asked: now}
				continue
			}
			m.heads.raise(one)
		}
		m.heads.mu.Unlock()
	}
	return nil
}
