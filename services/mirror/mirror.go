// Package mirror is this node's cache of small shared data, kept current by the changelog: recently read posts and people,
// pulled posts, fan-outs in flight, the activity thresholds.
//
// Each cache is a type of its own with its own facts, independent of the others. It registers the kinds of log entries that it
// follows with changelog, and its answers are at most as old as this node is behind the log. A copy that was read before a
// change can never replace the newer state.
package mirror

import (
	"log/slog"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/rdb"
)

// keptByDefault is how many posts, and how many people, a node caches.
const keptByDefault = 100_000

// Facts is the union of the caches' facts: SQL.
type Facts interface {
	changelog.Log
	PeopleFacts
	InFlightFacts // which includes the facts of posts
	PulledFacts
	ActivityFacts
}

var _ Copies = (*rdb.Projections)(nil)

// Config configures the caches of a node.
type Config struct {
	Facts Facts
	Redis Copies // what the caches keep in Redis for all nodes
	Log   *slog.Logger
	Clock services.Clock // nil is the machine's clock
	Poll  time.Duration  // the time between two turns of the log; 0 means 500 ms
}

// Memories are the caches of one node. Take only the cache that you use.
type Memories struct {
	Log      *changelog.Follower
	People   *People
	Posts    *Posts
	Reader   *Reader
	Pulled   *Pulled
	InFlight *InFlight
	Activity *Activity
}

// New makes the caches of a node, all empty.
func New(cfg Config) *Memories {
	log := changelog.New(changelog.Config{Log: cfg.Facts, Logger: cfg.Log, Clock: cfg.Clock, Poll: cfg.Poll})
	m := &Memories{
		Log:      log,
		People:   NewPeople(log, cfg.Facts, 0),
		Posts:    NewPosts(log, cfg.Facts, 0),
		Pulled:   NewPulled(log, cfg.Facts),
		InFlight: NewInFlight(log, cfg.Facts),
		Activity: NewActivity(log, cfg.Facts),
	}
	m.Reader = NewReader(log, m.Posts, m.People, cfg.Redis)
	return m
}
