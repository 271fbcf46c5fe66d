package mirror

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"tidings/services"
	"tidings/services/store"
)

// unfinished are the posts that are on their way to their followers in several chunks.
type unfinished struct {
	mu    sync.RWMutex
	posts map[services.PostID]store.UnfinishedFanout
}

// Unfinished lists the posts that may not have come to all their readers yet, the oldest first; usually none.
func (m *Mirror) Unfinished() []store.UnfinishedFanout {
	m.unfinished.mu.RLock()
	defer m.unfinished.mu.RUnlock()
	if len(m.unfinished.posts) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Values(m.unfinished.posts), func(a, b store.UnfinishedFanout) int { return cmp.Compare(a.Post, b.Post) })
}

func (m *Mirror) loadUnfinished(ctx context.Context) error {
	list, err := m.facts.UnfinishedFanouts(ctx)
	if err != nil {
		return err
	}
	m.unfinished.mu.Lock()
	defer m.unfinished.mu.Unlock()
	m.unfinished.posts = make(map[services.PostID]store.UnfinishedFanout, len(list))
	for _, one := range list {
		m.unfinished.posts[one.Post] = one
	}
	return nil
}

func (m *Mirror) applyFanout(entry store.LogEntry) {
	change, err := ParseFanoutChange(entry)
	if err != nil {
		m.log.Error("a change of fan-outs cannot be read", "error", err)
		return
	}
	m.unfinished.mu.Lock()
	defer m.unfinished.mu.Unlock()
	if change.Ended {
		delete(m.unfinished.posts, change.Post)
	} else {
		m.unfinished.posts[change.Post] = change.UnfinishedFanout
	}
}
