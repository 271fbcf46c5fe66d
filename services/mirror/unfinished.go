package mirror

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/store"
)

// JobFanOut is the kind of job that carries a new post to all followers; its key is the post's id.
const JobFanOut = "post.fanout"

const (
	// waitsAfter is for how long a job waits as a matter of course: what has waited no longer is as good as on its way.
	waitsAfter = 250 * time.Millisecond
	// mostWaiting bounds how many waiting posts are looked at, the longest waiting first: a page adds them one by one.
	mostWaiting = 100
)

// unfinished are the posts that may not have come to all their readers yet.
type unfinished struct {
	mu      sync.RWMutex
	posts   map[services.PostID]store.UnfinishedFanout // on their way in several chunks
	waiting map[services.PostID]waiting                // not yet on their way, because the workers are behind
}

// waiting is a post whose fan-out nobody has begun yet. Of one that is carried to nobody there is nothing to add.
type waiting struct {
	store.UnfinishedFanout
	carried bool
}

// Unfinished lists the posts that may not have come to all their readers yet, the oldest first; usually none.
func (m *Mirror) Unfinished() []store.UnfinishedFanout {
	m.unfinished.mu.RLock()
	defer m.unfinished.mu.RUnlock()
	if len(m.unfinished.posts)+len(m.unfinished.waiting) == 0 {
		return nil
	}
	list := make([]store.UnfinishedFanout, 0, len(m.unfinished.posts)+len(m.unfinished.waiting))
	for _, one := range m.unfinished.posts {
		list = append(list, one)
	}
	for post, one := range m.unfinished.waiting {
		if _, begun := m.unfinished.posts[post]; one.carried && !begun {
			list = append(list, one.UnfinishedFanout)
		}
	}
	slices.SortFunc(list, func(a, b store.UnfinishedFanout) int { return cmp.Compare(a.Post, b.Post) })
	return list
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

func (m *Mirror) applyFanout(entry changelog.Entry) {
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

// lookAtWaiting reads which posts wait for their fan-out, and whose those are that it has not met yet.
func (m *Mirror) lookAtWaiting(ctx context.Context) error {
	keys, err := m.facts.WaitingKeys(ctx, JobFanOut, m.clock.Now().Add(-waitsAfter), mostWaiting)
	if err != nil {
		return err
	}
	next := make(map[services.PostID]waiting, len(keys))
	var unknown []services.PostID
	m.unfinished.mu.RLock()
	for _, key := range keys {
		post, err := services.ParsePostID(key)
		if err != nil {
			continue // the worker that claims it says so
		}
		one, known := m.unfinished.waiting[post]
		if next[post] = one; !known {
			unknown = append(unknown, post)
		}
	}
	m.unfinished.mu.RUnlock()
	if len(unknown) > 0 {
		read, err := m.facts.Posts(ctx, unknown)
		if err != nil {
			return err
		}
		for id, post := range read {
			next[id] = waiting{store.UnfinishedFanout{Post: id, Author: post.Author}, !post.Pull && !post.Deleted && !post.OffFeed}
		}
	}
	m.unfinished.mu.Lock()
	defer m.unfinished.mu.Unlock()
	m.unfinished.waiting = next
	return nil
}
