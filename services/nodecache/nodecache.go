// Package nodecache is this node's cache of small shared data, kept current by the changelog: pulled posts, fan-outs in flight, and
// the reader that reads posts and people together. The caches of posts and of people are in services/posts and services/people.
//
// Each cache is a type of its own with its own facts, independent of the others. It registers the kinds of log entries
// that it follows with changelog, and its answers are at most as old as this node is behind the log. A copy that was
// read before a change can never replace the newer state.
//
// A pulled post comes to its readers in these steps. Its transaction appends a PullChange to the log. The node that published
// applies the entry at once (PulledCache.ApplyOwnChange), and every other node when it reads the log, within half a second. The
// index of readers then names the watched users who follow the author, and the hub renders their badges with PulledCache.Count. A
// page of a feed merges the posts of PulledCache.PostsOf.
package nodecache

import (
	"log/slog"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/rdb"
)

// Facts is the union of the facts that the caches read. SQL implements it.
type Facts interface {
	changelog.Log
	people.UserFacts
	InFlightFanoutFacts // which includes the facts of posts
	PulledFacts
	people.ActivityFacts
}

var _ CopyStore = (*rdb.Projections)(nil)

// Config configures the caches of a node.
type Config struct {
	Facts     Facts
	Redis     CopyStore // the copies that the caches keep in Redis for all nodes
	Log       *slog.Logger
	Clock     services.Clock // nil is the machine's clock
	Changelog changelog.Settings
}

// Caches are the caches of one node. Take only the cache that you use.
type Caches struct {
	Changelog *changelog.Follower            // keeps all caches up to date
	People    *people.Memory                 // profiles and user IDs
	Posts     *posts.Memory                  // recently read posts
	Reader    *PostAndUserReader             // reads posts and users together, by Posts and People
	Pulled    *PulledCache                   // the newest posts of authors whose posts are pulled
	InFlight  *InFlightFanoutCache           // the posts in flight
	Activity  *people.ActivityThresholdCache // from when on users are idle and dormant
}

// New makes the caches of a node, all empty.
func New(cfg Config) *Caches {
	// The caches are made in the order in which their kinds of log entries and their poll tasks run: see changelog.Follower.
	log := changelog.New(changelog.Config{Log: cfg.Facts, Logger: cfg.Log, Clock: cfg.Clock, Settings: cfg.Changelog})
	m := &Caches{
		Changelog: log,
		People:    people.NewMemory(log, cfg.Facts, 0),
		Posts:     posts.NewMemory(log, cfg.Facts, 0),
		Pulled:    newPulledCache(log, cfg.Facts),
		InFlight:  newInFlightFanoutCache(log, cfg.Facts),
		Activity:  people.NewActivityThresholdCache(log, cfg.Facts),
	}
	m.Reader = newPostAndUserReader(log, m.Posts, m.People, cfg.Redis)
	return m
}
