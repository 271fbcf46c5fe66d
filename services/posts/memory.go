package posts

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/changelog"
)

// ChangelogKind is the kind of log entry for an edited or deleted post; the key is its id.
const ChangelogKind = "post"

// defaultMemoryCapacity is how many posts a node caches: with bodies of a few hundred bytes they take some tens of MB.
const defaultMemoryCapacity = 100_000

// MemoryFacts reads posts from SQL.
type MemoryFacts interface {
	Posts(ctx context.Context, ids []services.PostID) (map[services.PostID]services.Post, error)
}

// Memory is this node's cache of recently read posts. It is safe for concurrent use. A post's UpdatedAt is its version: an entry of
// the log carries the same time.
type Memory struct {
	*changelog.Cache[services.PostID, services.Post]
	facts MemoryFacts
}

// NewMemory makes an empty cache that follows the log. capacity is the number of posts; 0 means 100,000. If a part of the log was
// missed the cache is emptied, because it is not known which of its posts have changed.
func NewMemory(log *changelog.Follower, facts MemoryFacts, capacity int) *Memory {
	if capacity == 0 {
		capacity = defaultMemoryCapacity
	}
	m := &Memory{
		Cache: changelog.NewCache[services.PostID](capacity, func(p services.Post) time.Time { return p.UpdatedAt }),
		facts: facts,
	}
	log.Register(changelog.Kind{Name: ChangelogKind, Load: changelog.LoadByClearing(m.Clear), Apply: changelog.ApplyEach(m.apply)})
	return m
}

// apply notes that a post has changed. The body is not in the log: the next reader gets it from Redis or SQL.
func (m *Memory) apply(entry changelog.Entry) {
	if id, err := services.ParseSortableID(entry.Key); err == nil {
		m.RecordChange(services.PostID(id), entry.ChangedAt())
	}
}

// ReadFacts reads posts from SQL into found and into the cache.
func (m *Memory) ReadFacts(ctx context.Context, ids []services.PostID, found map[services.PostID]services.Post) error {
	read, err := m.facts.Posts(ctx, ids)
	if err == nil {
		m.AddReadValues(found, read, nil)
	}
	return err
}
