// Package mirror is this node's memory of small shared data, kept by the log: posts and people that were read lately,
// announcements and dots, the shows of boards.
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
	"sync"
	"time"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/store"
)

// The kinds of the log that the mirror follows.
const (
	LogPost    = "post"    // a post was edited or deleted; the key is its id
	LogProfile = "profile" // a profile was set; the key is the user's number
	LogPull    = "pull"    // a pulled post was published or deleted, or an author became one; see PullChange
	LogFanout  = "fanout"  // a post is on its way to its followers in several chunks, or has come; see FanoutChange
)

// Facts is what the mirror reads through to: SQL.
type Facts interface {
	Posts(ctx context.Context, ids []services.PostID) (map[services.PostID]services.Post, error)
	Users(ctx context.Context, numbers []services.UserNumber) (map[services.UserNumber]services.User, error)
	UserNumbers(ctx context.Context, keys []string) (map[string]services.UserNumber, error)
	LogAfter(ctx context.Context, kind string, version uint64, limit int) ([]store.LogEntry, error)
	LogHead(ctx context.Context, kind string) (head, oldest uint64, err error)
	LogHeads(ctx context.Context) (map[string]uint64, error)
	Heads(ctx context.Context, ids []services.ConversationID) ([]store.Head, error)
	Notices(ctx context.Context) (store.Notices, error)
	Announcements(ctx context.Context, ids []services.PostID) (map[services.PostID]services.Announcement, error)
	PullAuthors(ctx context.Context, after services.UserNumber, limit int) ([]services.UserNumber, error)
	PulledPosts(ctx context.Context, authors []services.UserNumber, limit int) (map[services.UserNumber]store.PulledPosts, error)
	UnfinishedFanouts(ctx context.Context) ([]store.UnfinishedFanout, error)
	ActivityThresholds(ctx context.Context) (thresholds services.ActivityThresholds, set bool, err error)
	ShowFacts
	WaitingKeys(ctx context.Context, kind string, madeBy time.Time, limit int) ([]string, error)
}

// Copies is where copies of facts are kept for all nodes: Redis.
type Copies interface {
	Copies(ctx context.Context, posts []services.PostID, users []services.UserNumber) (map[services.PostID]services.Post, map[services.UserNumber]services.User, error)
	PutCopies(ctx context.Context, posts []services.Post, users []services.User) error
	SetDots(names []string)
}

var _ Copies = (*rdb.Client)(nil)
var _ Facts = (*store.Store)(nil)

// Config is what a mirror needs.
type Config struct {
	Facts  Facts
	Copies Copies
	Log    *slog.Logger
	Clock  services.Clock // nil is the machine's
	Posts  int            // how many posts it remembers; 0 means 100,000
	Users  int            // how many people; 0 means 100,000
	Poll   time.Duration  // how often it tails without a hint; 0 means 500 ms
	// ShowHistory is how long it remembers where shows stood before: longer than any session lasts; 0 means 13 h.
	ShowHistory time.Duration
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
	copy    copying

	announcements *memory[services.PostID, services.Announcement]
	notices       noticeMemory

	clock services.Clock
	heads heads

	pulled     pulled
	unfinished unfinished
	activity   activity
	shows      showMemory

	kinds   []logKind
	seen    map[string]uint64             // kind -> version of the log that memory is at; owned by RunOnce
	shared  []func()                      // told of changes of what badges share; not changed once Run runs
	onMoved []func([]services.UserNumber) // told of the readers of what moved; the same
	wakeUp  chan struct{}
}

// logKind is what the mirror does with one kind of the log.
type logKind struct {
	name string
	// load brings memory to the state of SQL, or empties it. The log's version is read before it: what is applied
	// afterwards may be in it already.
	load func(ctx context.Context) error
	// apply changes memory as an entry says; nil: whatever changes, all is loaded anew.
	apply func(entry store.LogEntry)
	// shared says that badges show it: those who watch theirs are to be told.
	shared bool
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
	if cfg.Clock == nil {
		cfg.Clock = services.SystemClock{}
	}
	m := &Mirror{
		clock: cfg.Clock, heads: newHeads(), pulled: newPulled(), unfinished: unfinished{posts: map[services.PostID]store.UnfinishedFanout{}},
		facts: cfg.Facts, copies: cfg.Copies, log: cfg.Log, poll: cfg.Poll,
		posts:   newMemory[services.PostID](orDefault(cfg.Posts, capacity), func(p services.Post) time.Time { return p.UpdatedAt }),
		users:   newMemory[services.UserNumber](orDefault(cfg.Users, capacity), func(u services.User) time.Time { return u.UpdatedAt }),
		numbers: newMemory[string](orDefault(cfg.Users, capacity), func(services.UserNumber) time.Time { return time.Time{} }),
		// As many again as run at once: some are read that do not, and it knows of changes of those that nobody read.
		announcements: newMemory[services.PostID](2*services.MaxAnnouncements, func(a services.Announcement) time.Time { return a.UpdatedAt }),

		copy:   newCopying(),
		seen:   map[string]uint64{},
		wakeUp: make(chan struct{}, 1),
	}
	m.shows.begin(cfg)
	m.kinds = []logKind{
		{name: LogPost, load: emptied(m.posts.clear), apply: m.applyPost},
		{name: LogProfile, load: emptied(m.users.clear), apply: m.applyProfile},
		{name: LogNotice, load: m.loadNotices, shared: true},
		{name: LogPull, load: m.loadPulled, apply: m.applyPull},
		{name: LogActivity, load: m.loadActivity},
		{name: LogFanout, load: m.loadUnfinished, apply: m.applyFanout},
	}
	return m
}

func emptied(clear func()) func(context.Context) error {
	return func(context.Context) error {
		clear()
		return nil
	}
}

// OnShared registers what is called after something changed that many users' badges show. It is for the time before Run,
// and what it calls must not block.
func (m *Mirror) OnShared(call func()) { m.shared = append(m.shared, call) }

// Wake makes the mirror tail the log now rather than at its next turn: the log has grown.
func (m *Mirror) Wake() {
	select {
	case m.wakeUp <- struct{}{}:
	default:
	}
}

// hintGap is the time between two looks at the log that hints ask for: the first at once.
const hintGap = 10 * time.Millisecond

// Run tails the log until ctx ends: whenever it is woken, and at its turns, when it looks at all else that memory has too.
// Beside it copies of what was read from SQL are put into Redis.
func (m *Mirror) Run(ctx context.Context) error {
	var copier sync.WaitGroup
	defer copier.Wait()
	copier.Go(func() { m.runCopying(ctx) })
	ticker := time.NewTicker(m.poll)
	defer ticker.Stop()
	m.step(ctx, m.RunOnce)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			m.step(ctx, m.RunOnce)
		case <-m.wakeUp:
			m.step(ctx, m.Tail)
			select {
			case <-ctx.Done():
			case <-time.After(hintGap):
			}
		}
	}
}

func (m *Mirror) step(ctx context.Context, catchUp func(context.Context) (int, error)) {
	if _, err := catchUp(ctx); err != nil && ctx.Err() == nil {
		m.log.Warn("the log could not be read; memory may be behind", "error", err)
	}
}

// RunOnce catches up with the log and with what is read beside it, and answers how many changes the log had. A kind that is met
// for the first time, or of which a part was cut off meanwhile, is loaded anew.
func (m *Mirror) RunOnce(ctx context.Context) (changes int, err error) {
	var failures []error
	// Before the log: whose fan-out begins in between is found in one of the two.
	if err := m.lookAtWaiting(ctx); err != nil {
		failures = append(failures, fmt.Errorf("posts that wait for their fan-out: %w", err))
	}
	changes, err = m.followLog(ctx, func(string, uint64) bool { return true })
	failures = append(failures, err)
	if err := m.lookAtHeads(ctx); err != nil {
		failures = append(failures, fmt.Errorf("heads of conversations: %w", err))
	}
	m.copyOnce(ctx)
	return changes, errors.Join(failures...)
}

// Tail catches up with the log alone, and answers how many changes it found. Where nothing has changed it is one SELECT.
func (m *Mirror) Tail(ctx context.Context) (changes int, err error) {
	heads, err := m.facts.LogHeads(ctx)
	if err != nil {
		return 0, err
	}
	return m.followLog(ctx, func(kind string, at uint64) bool { return heads[kind] > at })
}

// followLog applies the changes of those kinds that are not known yet, or have grown beyond the version that memory is at.
func (m *Mirror) followLog(ctx context.Context, grown func(kind string, at uint64) bool) (changes int, err error) {
	var failures []error
	tell := false
	for _, kind := range m.kinds {
		if at, known := m.seen[kind.name]; known && !grown(kind.name, at) {
			continue
		}
		n, loaded, err := m.follow(ctx, kind)
		if err != nil {
			failures = append(failures, fmt.Errorf("log %s: %w", kind.name, err))
		}
		changes += n
		tell = tell || kind.shared && (n > 0 || loaded)
	}
	if err := m.readWanted(ctx); err != nil {
		failures = append(failures, fmt.Errorf("pulled posts: %w", err))
	}
	if !m.ShowsReady() || grown(LogShow, m.ShowsVersion()) {
		n, err := m.followShows(ctx)
		if err != nil {
			failures = append(failures, fmt.Errorf("log %s: %w", LogShow, err))
		}
		changes += n
	}
	if tell {
		m.tellShared()
	}
	return changes, errors.Join(failures...)
}

func (m *Mirror) tellShared() {
	for _, call := range m.shared {
		call()
	}
}

// follow applies what the log of one kind has after the version that memory is at.
func (m *Mirror) follow(ctx context.Context, kind logKind) (changes int, loaded bool, err error) {
	const batch = 1000
	for {
		at, known := m.seen[kind.name]
		if !known {
			if err := m.load(ctx, kind); err != nil {
				return changes, loaded, err
			}
			loaded, at = true, m.seen[kind.name]
		}
		entries, err := m.facts.LogAfter(ctx, kind.name, at, batch)
		if err != nil {
			return changes, loaded, err
		}
		if len(entries) > 0 && (entries[0].Version != at+1 || kind.apply == nil) {
			delete(m.seen, kind.name)
			continue
		}
		for _, entry := range entries {
			kind.apply(entry)
			m.seen[kind.name] = entry.Version
		}
		changes += len(entries)
		if len(entries) < batch {
			return changes, loaded, nil
		}
	}
}

func (m *Mirror) load(ctx context.Context, kind logKind) error {
	head, _, err := m.facts.LogHead(ctx, kind.name)
	if err != nil {
		return err
	}
	if err := kind.load(ctx); err != nil {
		return err
	}
	m.seen[kind.name] = head
	return nil
}

func (m *Mirror) applyPost(entry store.LogEntry) {
	if id, err := services.ParsePostID(entry.Key); err == nil {
		m.posts.changed(id, entry.At)
	}
}

func (m *Mirror) applyProfile(entry store.LogEntry) {
	if number, err := ParseUserNumber(entry.Key); err == nil {
		m.users.changed(number, entry.At)
	}
}

// ProfileChanged lets this node see its own change of a profile at once, before the log brings it.
func (m *Mirror) ProfileChanged(user services.UserNumber, at time.Time) { m.users.changed(user, at) }

// PostChanged lets this node see its own change of a post at once, before the log brings it.
func (m *Mirror) PostChanged(post services.PostID, at time.Time) { m.posts.changed(post, at) }
