package nodecache

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/changelog"
)

// PostChangelogKind is the kind of log entry for an edited or deleted post; the key is its id.
const PostChangelogKind = "post"

// PostFacts reads posts from SQL.
type PostFacts interface {
	Posts(ctx context.Context, ids []services.PostID) (map[services.PostID]services.Post, error)
}

// PostCache is this node's cache of recently read posts. It is safe for concurrent use. A post's UpdatedAt is its version:
// an entry of the log carries the same time.
type PostCache struct {
	*changelog.Cache[services.PostID, services.Post]
	facts PostFacts
}

// newPostCache makes an empty cache that follows the log. capacity is the number of posts; 0 means 100,000. If a part of the log
// was missed the cache is emptied, because it is not known which of its posts have changed.
func newPostCache(log *changelog.Follower, facts PostFacts, capacity int) *PostCache {
	if capacity == 0 {
		capacity = defaultCapacity
	}
	p := &PostCache{
		Cache: changelog.NewCache[services.PostID](capacity, func(p services.Post) time.Time { return p.UpdatedAt }),
		facts: facts,
	}
	log.Register(changelog.Kind{Name: PostChangelogKind, Load: changelog.LoadByClearing(p.Clear), Apply: changelog.ApplyEach(p.apply)})
	return p
}

// apply notes that a post has changed. The body is not in the log: the next reader gets it from Redis or SQL.
func (p *PostCache) apply(entry changelog.Entry) {
	if id, err := services.ParseSortableID(entry.Key); err == nil {
		p.RecordChange(services.PostID(id), entry.ChangedAt())
	}
}

// readFacts reads posts from SQL into found and into the cache.
func (p *PostCache) readFacts(ctx context.Context, ids []services.PostID, found map[services.PostID]services.Post) error {
	read, err := p.facts.Posts(ctx, ids)
	if err == nil {
		p.AddReadValues(found, read, nil)
	}
	return err
}
