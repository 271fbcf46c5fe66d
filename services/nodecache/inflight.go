package nodecache

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/posts"
	"tidings/services/sql"
)

// JobFanOut is the kind of job that fans a new post out to all followers; its key is the post's id.
const JobFanOut = "post.fanout"

// These bounds say when a fan-out that no worker has begun counts as late, and how many late ones are read.
const (
	// normalJobWait is how long a job may normally wait. A job that has not waited longer than that counts as running.
	normalJobWait = 250 * time.Millisecond
	// maxPostsAwaitingFanout bounds the number of waiting posts that are read, those waiting longest first: a page merges them in
	// one by one.
	maxPostsAwaitingFanout = 100
)

// FanoutChangelogKind is the kind of log entry for the beginning and the end of a fan-out in several chunks: see FanoutChange.
const FanoutChangelogKind = "fanout"

// FanoutChange is an entry of the log of fan-outs in several chunks; its key is the post's id.
type FanoutChange struct {
	posts.InFlightFanout
	Ended bool `json:"ended,omitempty"` // the fan-out has ended; false: it has begun
}

// Append writes the change into the log, in the transaction of the fact.
func (c FanoutChange) Append(ctx context.Context, tx *sql.Tx) error {
	_, err := changelog.Append(ctx, tx, FanoutChangelogKind, c.Post.String(), c)
	return err
}

// ParseFanoutChange parses an entry of the kind FanoutChangelogKind.
func ParseFanoutChange(entry changelog.Entry) (FanoutChange, error) {
	return changelog.Parse[FanoutChange](entry)
}

// InFlightFanoutFacts reads fan-outs from SQL.
type InFlightFanoutFacts interface {
	posts.MemoryFacts
	InFlightFanouts(ctx context.Context) ([]posts.InFlightFanout, error)
	WaitingKeys(ctx context.Context, kind string, madeBy time.Time, limit int) ([]string, error)
}

// InFlightFanoutCache is this node's cache of the posts that may not have reached all their readers yet. It is safe for concurrent
// use.
type InFlightFanoutCache struct {
	facts InFlightFanoutFacts
	clock services.Clock
	log   *slog.Logger

	// mu guards both maps. fanningOut follows the changelog; awaitingFanout is replaced at each poll of the changelog.
	mu             sync.RWMutex
	fanningOut     map[services.PostID]posts.InFlightFanout // being fanned out in several chunks
	awaitingFanout map[services.PostID]postAwaitingFanout   // fan-out not begun, because the workers are behind
}

// postAwaitingFanout is a post whose fan-out no worker has begun yet. A post that is not pushed need not be merged into pages, and is
// not in List.
type postAwaitingFanout struct {
	posts.InFlightFanout
	toBePushed bool // false: the post is pulled, deleted or off the feed
}

// newInFlightFanoutCache makes an empty cache that follows the changelog, and reads the waiting jobs at each poll of it.
func newInFlightFanoutCache(log *changelog.Follower, facts InFlightFanoutFacts) *InFlightFanoutCache {
	p := &InFlightFanoutCache{facts: facts, clock: log.Clock(), log: log.Logger(), fanningOut: map[services.PostID]posts.InFlightFanout{}}
	log.Register(changelog.Kind{Name: FanoutChangelogKind, Load: p.load, Apply: changelog.ApplyEach(p.apply)})
	// This task runs before the log is read: a post whose fan-out begins in between is found here or in the log.
	log.RegisterPollTask(changelog.PollTask{Name: "posts that wait for their fan-out", Phase: changelog.BeforeLogRead, Run: p.readAwaitingFanout})
	return p
}

// List lists the posts that may not have reached all their readers yet, the oldest first; it is usually empty.
func (p *InFlightFanoutCache) List() []posts.InFlightFanout {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if len(p.fanningOut)+len(p.awaitingFanout) == 0 {
		return nil
	}
	list := make([]posts.InFlightFanout, 0, len(p.fanningOut)+len(p.awaitingFanout))
	for _, one := range p.fanningOut {
		list = append(list, one)
	}
	for post, one := range p.awaitingFanout {
		// A post whose fan-out has just begun is in both maps until the next poll.
		if _, begun := p.fanningOut[post]; one.toBePushed && !begun {
			list = append(list, one.InFlightFanout)
		}
	}
	slices.SortFunc(list, func(a, b posts.InFlightFanout) int { return cmp.Compare(a.Post, b.Post) })
	return list
}

// load reads the fan-outs in flight from SQL.
func (p *InFlightFanoutCache) load(ctx context.Context) error {
	list, err := p.facts.InFlightFanouts(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fanningOut = make(map[services.PostID]posts.InFlightFanout, len(list))
	for _, one := range list {
		p.fanningOut[one.Post] = one
	}
	return nil
}

// apply applies the beginning or the end of a fan-out.
func (p *InFlightFanoutCache) apply(entry changelog.Entry) {
	change, err := ParseFanoutChange(entry)
	if err != nil {
		p.log.Error("a change of fan-outs cannot be read", "error", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if change.Ended {
		delete(p.fanningOut, change.Post)
	} else {
		p.fanningOut[change.Post] = change.InFlightFanout
	}
}

// readAwaitingFanout reads the posts whose fan-out has not begun. The posts themselves do not change, so each is read once.
func (p *InFlightFanoutCache) readAwaitingFanout(ctx context.Context) error {
	// While the workers keep up, the list is empty and nothing else is read.
	keys, err := p.facts.WaitingKeys(ctx, JobFanOut, p.clock.Now().Add(-normalJobWait), maxPostsAwaitingFanout)
	if err != nil {
		return err
	}
	next := make(map[services.PostID]postAwaitingFanout, len(keys))
	var unknown []services.PostID
	p.mu.RLock()
	for _, key := range keys {
		id, err := services.ParseSortableID(key)
		if err != nil {
			continue // the key is not a post's ID: the worker that claims the job reports it
		}
		post := services.PostID(id)
		one, known := p.awaitingFanout[post]
		if next[post] = one; !known {
			unknown = append(unknown, post)
		}
	}
	p.mu.RUnlock()
	if len(unknown) > 0 {
		read, err := p.facts.Posts(ctx, unknown)
		if err != nil {
			return err
		}
		for id, post := range read {
			next[id] = postAwaitingFanout{posts.InFlightFanout{Post: id, Author: post.Author}, !post.Pulled && !post.Deleted && !post.OffFeed}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.awaitingFanout = next
	return nil
}
