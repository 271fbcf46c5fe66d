package nodecache

import (
	"context"
	"maps"
	"slices"
	"sync"

	"tidings/services"
)

// maxQueuedRedisCopies bounds the posts and users that wait to be copied to Redis. When the queue is full, a value is not copied; the
// next reader who misses it in Redis queues it again.
const maxQueuedRedisCopies = 10_000

// redisCopyQueue has the posts and users that this node has read from SQL because Redis had no copy. A loop puts copies into
// Redis for other nodes; no answer waits for it.
type redisCopyQueue struct {
	mu     sync.Mutex // guards posts and users
	posts  map[services.PostID]struct{}
	users  map[services.UserID]struct{}
	wakeUp chan struct{} // a token means that the queue is not empty
}

// newRedisCopyQueue makes an empty queue. One token of wakeUp stands for any number of adds.
func newRedisCopyQueue() redisCopyQueue {
	return redisCopyQueue{
		posts: map[services.PostID]struct{}{}, users: map[services.UserID]struct{}{}, wakeUp: make(chan struct{}, 1),
	}
}

// add queues posts and users that SQL has returned, and wakes the loop. Only IDs are queued: the loop takes the values from
// the cache, which may be newer by then.
func (c *redisCopyQueue) add(posts []services.PostID, users []services.UserID) {
	if len(posts)+len(users) == 0 {
		return
	}
	c.mu.Lock()
	if len(c.posts)+len(c.users) < maxQueuedRedisCopies {
		for _, post := range posts {
			c.posts[post] = struct{}{}
		}
		for _, user := range users {
			c.users[user] = struct{}{}
		}
	}
	c.mu.Unlock()
	select {
	case c.wakeUp <- struct{}{}:
	default: // the loop has been woken already
	}
}

// takeAll empties the queue and returns what was in it.
func (c *redisCopyQueue) takeAll() (posts []services.PostID, users []services.UserID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	posts, users = slices.Collect(maps.Keys(c.posts)), slices.Collect(maps.Keys(c.users))
	clear(c.posts)
	clear(c.users)
	return posts, users
}

// copyToRedisAtPoll copies the queued values to Redis at each poll of the changelog, also before runCopyingToRedis has begun.
func (r *PostAndUserReader) copyToRedisAtPoll(ctx context.Context) error {
	r.copyQueuedToRedis(ctx)
	return nil
}

// runCopyingToRedis is the loop that copies queued values to Redis until ctx ends.
func (r *PostAndUserReader) runCopyingToRedis(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.copyQueue.wakeUp:
			r.copyQueuedToRedis(ctx)
		}
	}
}

// copyQueuedToRedis puts the queued copies into Redis as the cache has them now. Entries that have changed since they were read
// are skipped. An error needs no retry: the next reader who misses a copy queues it again.
func (r *PostAndUserReader) copyQueuedToRedis(ctx context.Context) {
	ids, userIDs := r.copyQueue.takeAll()
	if len(ids)+len(userIDs) == 0 {
		return
	}
	posts, _ := r.posts.GetAll(ids)
	users, _ := r.people.GetAll(userIDs)
	if err := r.copies.PutCopies(ctx, slices.Collect(maps.Values(posts)), slices.Collect(maps.Values(users))); err != nil {
		r.log.Debug("copies were not written to Redis", "error", err)
	}
}
