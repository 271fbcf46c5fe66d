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
	// normalWait is how long a job may normally wait. A job that has not waited longer than that counts as running.
	normalWait = 250 * time.Millisecond
	// maxWaitingPosts bounds the number of waiting posts that are read, those waiting longest first: a page merges them in one by
	// one.
	maxWaitingPosts = 100
)

// LogFanout is the kind of log entry for the beginning and the end of a fan-out in several chunks: see FanoutChange.
const LogFanout = "fanout"

// FanoutChange is an entry of the log of fan-outs in several chunks; its key is the post's id.
type FanoutChange struct {
	posts.InFlightFanout
	Ended bool `json:"ended,omitempty"` // the fan-out has ended; false: it has begun
}

// Append writes the change into the log, in the transaction of the fact.
func (c FanoutChange) Append(ctx context.Context, tx *sql.Tx) error {
	_, err := changelog.Append(ctx, tx, LogFanout, c.Post.String(), c)
	return err
}

// ParseFanoutChange parses an entry of the kind LogFanout.
func ParseFanoutChange(entry changelog.Entry) (FanoutChange, error) {
	return changelog.Parse[FanoutChange](entry)
}

// InFlightFacts reads fan-outs from SQL.
type InFlightFacts interface {
	PostFacts
	InFlightFanouts(ctx context.Context) ([]posts.InFlightFanout, error)
	WaitingKeys(ctx context.Context, kind string, madeBy time.Time, limit int) ([]string, error)
}

// InFlight is this node's cache of the posts that may not have reached all their readers yet. It is safe for concurrent use.
type InFlight struct {
	facts InFlightFacts
	clock services.Clock
	log   *slog.Logger

	// mu guards both maps. posts follows the log; waiting is replaced at each turn.
	mu      sync.RWMutex
	posts   map[services.PostID]posts.InFlightFanout // being fanned out in several chunks
	waiting map[services.PostID]waitingPost          // fan-out not begun, because the workers are behind
}

// waitingPost is a post whose fan-out no worker has begun yet. A post that is not pushed need not be merged into pages, and is
// not in List.
type waitingPost struct {
	posts.InFlightFanout
	pushed bool // false: the post is pulled, deleted or off the feed
}

// newInFlight makes an empty cache that follows the log, and reads the waiting jobs at each turn.
func newInFlight(log *changelog.Follower, facts InFlightFacts) *InFlight {
	p := &InFlight{facts: facts, clock: log.Clock(), log: log.Logger(), posts: map[services.PostID]posts.InFlightFanout{}}
	log.Register(changelog.Kind{Name: LogFanout, Load: p.load, Apply: changelog.ApplyEach(p.apply)})
	// This turn runs before the log is read: a post whose fan-out begins in between is found here or in the log.
	log.RegisterTurn(changelog.Turn{Name: "posts that wait for their fan-out", When: changelog.BeforeLog, Run: p.readWaiting})
	return p
}

// List lists the posts that may not have reached all their readers yet, the oldest first; it is usually empty.
func (p *InFlight) List() []posts.InFlightFanout {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if len(p.posts)+len(p.waiting) == 0 {
		return nil
	}
	list := make([]posts.InFlightFanout, 0, len(p.posts)+len(p.waiting))
	for _, one := range p.posts {
		list = append(list, one)
	}
	for post, one := range p.waiting {
		// Between two turns a post may be in both maps.
		if _, begun := p.posts[post]; one.pushed && !begun {
			list = append(list, one.InFlightFanout)
		}
	}
	slices.SortFunc(list, func(a, b posts.InFlightFanout) int { return cmp.Compare(a.Post, b.Post) })
	return list
}

// load reads the fan-outs in flight from SQL.
func (p *InFlight) load(ctx context.Context) error {
	list, err := p.facts.InFlightFanouts(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posts = make(map[services.PostID]posts.InFlightFanout, len(list))
	for _, one := range list {
		p.posts[one.Post] = one
	}
	return nil
}

// apply applies the beginning or the end of a fan-out.
func (p *InFlight) apply(entry changelog.Entry) {
	change, err := ParseFanoutChange(entry)
	if err != nil {
		p.log.Error("a change of fan-outs cannot be read", "error", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if change.Ended {
		delete(p.posts, change.Post)
	} else {
		p.posts[change.Post] = change.InFlightFanout
	}
}

// readWaiting reads the posts whose fan-out has not begun. The posts themselves do not change, so each is read once.
func (p *InFlight) readWaiting(ctx context.Context) error {
	// While the workers keep up, the list is empty and nothing else is read.
	keys, err := p.facts.WaitingKeys(ctx, JobFanOut, p.clock.Now().Add(-normalWait), maxWaitingPosts)
	if err != nil {
		return err
	}
	next := make(map[services.PostID]waitingPost, len(keys))
	var unknown []services.PostID
	p.mu.RLock()
	for _, key := range keys {
		post, err := services.ParsePostID(key)
		if err != nil {
			continue // the worker that claims it reports the unknown id
		}
		one, known := p.waiting[post]
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
			next[id] = waitingPost{posts.InFlightFanout{Post: id, Author: post.Author}, !post.Pull && !post.Deleted && !post.OffFeed}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = next
	return nil
}
