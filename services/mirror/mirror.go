// Package mirror is this node's memory of small shared data, kept by the log: posts and people that were read lately.
//
// What it answers is at most as old as the log is behind: it tails the log on a hint and every 500 ms, also without
// Redis, and drops what changed. A copy that was read before a change can never push out the note of that change.
// When SQL does not answer, what is in memory stays and is served; when the log was cut while this node was away, the
// memory is emptied.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/store"
)

// The kinds of the log that the mirror follows.
const (
	LogPost    = "post"    // a post was edited or deleted; the key is its id
	LogProfile = "profile" // a profile was set; the key is the user's number
)

// Facts is what the mirror reads through to: SQL.
type Facts interface {
	Posts(ctx context.Context, ids []services.PostID) (map[services.PostID]services.Post, error)
	Users(ctx context.Context, numbers []services.UserNumber) (map[services.UserNumber]services.User, error)
	UserNumbers(ctx context.Context, keys []string) (map[string]services.UserNumber, error)
	LogAfter(ctx context.Context, kind string, version uint64, limit int) ([]store.LogEntry, error)
	LogHead(ctx context.Context, kind string) (head, oldest uint64, err error)
}

// Copies is where copies of facts are kept for all nodes: Redis.
type Copies interface {
	Copies(ctx context.Context, posts []services.PostID, users []services.UserNumber) (map[services.PostID]services.Post, map[services.UserNumber]services.User, error)
	PutCopies(ctx context.Context, posts []services.Post, users []services.User) error
}

var _ Copies = (*rdb.Client)(nil)
var _ Facts = (*store.Store)(nil)

// Config is what a mirror needs.
type Config struct {
	Facts  Facts
	Copies Copies
	Log    *slog.Logger
	Posts  int           // how many posts it remembers; 0 means 100,000
	Users  int           // how many people; 0 means 100,000
	Poll   time.Duration // how often it tails without a hint; 0 means 500 ms
}

// Mirror is the memory of one node. It is safe for concurrent use.
type Mirror struct {
	facts  Facts
	copies Copies
	log    *slog.Logger
	poll   time.Duration

	posts   *memory[services.PostID, services.Post]
	users   *memory[services.UserNumber, services.User]
	numbers *memory[string, services.UserNumber]

	seen   map[string]uint64 // kind -> version of the log that memory is at; owned by RunOnce
	wakeUp chan struct{}
}

// New makes an empty mirror.
func New(cfg Config) *Mirror {
	orDefault := func(n, standard int) int {
		if n == 0 {
			return standard
		}
		return n
	}
	const capacity = 100_000
	if cfg.Poll == 0 {
		cfg.Poll = 500 * time.Millisecond
	}
	return &Mirror{
		facts: cfg.Facts, copies: cfg.Copies, log: cfg.Log, poll: cfg.Poll,
		posts:   newMemory[services.PostID](orDefault(cfg.Posts, capacity), func(p services.Post) time.Time { return p.UpdatedAt }),
		users:   newMemory[services.UserNumber](orDefault(cfg.Users, capacity), func(u services.User) time.Time { return u.UpdatedAt }),
		numbers: newMemory[string](orDefault(cfg.Users, capacity), func(services.UserNumber) time.Time { return time.Time{} }),
		wakeUp:  make(chan struct{}, 1),
	}
}

// Wake makes the mirror tail the log now rather than at its next turn.
func (m *Mirror) Wake() {
	select {
	case m.wakeUp <- struct{}{}:
	default:
	}
}

// Run tails the log until ctx ends.
func (m *Mirror) Run(ctx context.Context) error {
	ticker := time.NewTicker(m.poll)
	defer ticker.Stop()
	for {
		if _, err := m.RunOnce(ctx); err != nil && ctx.Err() == nil {
			m.log.Warn("the log could not be read; memory may be behind", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		case <-m.wakeUp:
		}
	}
}

// RunOnce catches up with the log and answers how many changes it found. The first call only finds the log's end:
// memory is empty then.
func (m *Mirror) RunOnce(ctx context.Context) (changes int, err error) {
	if m.seen == nil {
		seen := map[string]uint64{}
		for _, kind := range []string{LogPost, LogProfile} {
			if seen[kind], _, err = m.facts.LogHead(ctx, kind); err != nil {
				return 0, fmt.Errorf("log %s: %w", kind, err)
			}
		}
		m.forget()
		m.seen = seen
	}
	var failures []error
	for _, kind := range []string{LogPost, LogProfile} {
		n, err := m.follow(ctx, kind)
		changes += n
		failures = append(failures, err)
	}
	return changes, errors.Join(failures...)
}

// follow applies what the log of one kind has after the version that memory is at.
func (m *Mirror) follow(ctx context.Context, kind string) (changes int, err error) {
	const batch = 1000
	for {
		entries, err := m.facts.LogAfter(ctx, kind, m.seen[kind], batch)
		if err != nil {
			return changes, fmt.Errorf("log %s: %w", kind, err)
		}
		if len(entries) > 0 && entries[0].Version != m.seen[kind]+1 {
			m.forget()
		}
		for _, entry := range entries {
			m.apply(entry)
			m.seen[kind] = entry.Version
		}
		changes += len(entries)
		if len(entries) < batch {
			return changes, nil
		}
	}
}

func (m *Mirror) apply(entry store.LogEntry) {
	switch entry.Kind {
	case LogPost:
		if id, err := services.ParsePostID(entry.Key); err == nil {
			m.posts.changed(id, entry.At)
		}
	case LogProfile:
		if number, err := ParseUserNumber(entry.Key); err == nil {
			m.users.changed(number, entry.At)
		}
	}
}

func (m *Mirror) forget() {
	m.posts.clear()
	m.users.clear()
}

// ProfileChanged lets this node see its own change of a profile at once, before the log brings it.
func (m *Mirror) ProfileChanged(user services.UserNumber, at time.Time) { m.users.changed(user, at) }

// PostChanged lets this node see its own change of a post at once, before the log brings it.
func (m *Mirror) PostChanged(post services.PostID, at time.Time) { m.posts.changed(post, at) }
