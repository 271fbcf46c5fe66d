// Package mirror is this node's cache of small shared data, kept by the log of changes: posts and people that were read lately,
// announcements and dots, the shows of boards, pulled posts, fan-outs in flight, the last sequences of conversations, the
// activity thresholds.
//
// Each memory is a type of its own, with the facts that it reads; none knows another. It registers with changelog what it
// follows, and what it answers is at most as old as the log is behind. A copy that was read before a change can never push
// out the note of that change.
package mirror

import (
	"log/slog"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/rdb"
)

// keptByDefault is how many posts, and people, a node remembers.
const keptByDefault = 100_000

// Facts is all that the memories read through to: SQL.
type Facts interface {
	changelog.Log
	PeopleFacts
	InFlightFacts // and with it those of posts
	AnnouncementFacts
	PulledFacts
	ShowFacts
	SequenceFacts
	ActivityFacts
}

// Redis is what the memories keep in Redis for all nodes.
type Redis interface {
	Copies
	SetDots(names []string)
}

var _ Redis = (*rdb.Projections)(nil)

// Config is what the memories of a node need.
type Config struct {
	Facts Facts
	Redis Redis
	Log   *slog.Logger
	Clock services.Clock // nil is the machine's
	Poll  time.Duration  // the time between two turns of the log; 0 means 500 ms
	// ShowHistory is how long shows' former places are remembered: longer than any session lasts; 0 means 13 h.
	ShowHistory time.Duration
}

// Memories are those of one node. Whoever uses one takes that one.
type Memories struct {
	Log           *changelog.Follower
	People        *People
	Posts         *Posts
	Reader        *Reader
	Announcements *Announcements
	Pulled        *Pulled
	InFlight      *InFlight
	Conversations *LastSequences
	Activity      *Activity
	Shows         *Shows
}

// New makes the memories of a node, all empty.
func New(cfg Config) *Memories {
	log := changelog.New(changelog.Config{Log: cfg.Facts, Logger: cfg.Log, Clock: cfg.Clock, Poll: cfg.Poll})
	m := &Memories{
		Log:           log,
		People:        NewPeople(log, cfg.Facts, 0),
		Posts:         NewPosts(log, cfg.Facts, 0),
		Announcements: NewAnnouncements(log, cfg.Facts, cfg.Redis.SetDots),
		Pulled:        NewPulled(log, cfg.Facts),
		InFlight:      NewInFlight(log, cfg.Facts),
		Conversations: NewLastSequences(log, cfg.Facts),
		Activity:      NewActivity(log, cfg.Facts),
		Shows:         NewShows(log, cfg.Facts, cfg.ShowHistory),
	}
	m.Reader = NewReader(log, m.Posts, m.People, cfg.Redis)
	return m
}
