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
	"log/slog"
	"time"

	"tidings/services"
	"tidings/services/changelog"
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
	changelog.Log
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
	*changelog.Follower
	facts  Facts
	copies Copies
	log    *slog.Logger

	posts   *changelog.Cache[services.PostID, services.Post]
	users   *changelog.Cache[services.UserNumber, services.User]
	numbers *changelog.Cache[string, services.UserNumber]
	copy    copying

	announcements *changelog.Cache[services.PostID, services.Announcement]
	notices       noticeMemory

	clock services.Clock
	heads heads

	pulled     pulled
	unfinished unfinished
	activity   activity
	shows      showMemory
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
	follower := changelog.New(changelog.Config{Log: cfg.Facts, Logger: cfg.Log, Clock: cfg.Clock, Poll: cfg.Poll})
	m := &Mirror{
		Follower: follower, clock: follower.Clock(), facts: cfg.Facts, copies: cfg.Copies, log: cfg.Log,
		heads: newHeads(follower), pulled: newPulled(follower), unfinished: unfinished{posts: map[services.PostID]store.UnfinishedFanout{}},
		posts:   changelog.NewCache[services.PostID](orDefault(cfg.Posts, capacity), func(p services.Post) time.Time { return p.UpdatedAt }),
		users:   changelog.NewCache[services.UserNumber](orDefault(cfg.Users, capacity), func(u services.User) time.Time { return u.UpdatedAt }),
		numbers: changelog.NewCache[string](orDefault(cfg.Users, capacity), func(services.UserNumber) time.Time { return time.Time{} }),
		// As many again as run at once: some are read that do not, and it knows of changes of those that nobody read.
		announcements: changelog.NewCache[services.PostID](2*services.MaxAnnouncements, func(a services.Announcement) time.Time { return a.UpdatedAt }),

		copy: newCopying(),
	}
	m.shows.begin(cfg, follower)
	m.register()
	return m
}

// register says which kinds of the log memory follows, and which facts beside it.
func (m *Mirror) register() {
	for _, kind := range []changelog.Kind{
		{Name: LogPost, Load: changelog.Emptied(m.posts.Clear), Apply: changelog.Each(m.applyPost)},
		{Name: LogProfile, Load: changelog.Emptied(m.users.Clear), Apply: changelog.Each(m.applyProfile)},
		{Name: LogNotice, Load: m.loadNotices, Shared: true},
		{Name: LogPull, Load: m.loadPulled, Apply: changelog.Each(m.applyPull)},
		{Name: LogActivity, Load: m.loadActivity},
		{Name: LogFanout, Load: m.loadUnfinished, Apply: changelog.Each(m.applyFanout)},
	} {
		m.Register(kind)
	}
	m.shows.following = m.Register(changelog.Kind{Name: LogShow, Load: m.loadShows, Apply: m.applyShows, Followed: m.showsFollowed})
	// Before the log: a post whose fan-out begins in between is found in one of the two.
	m.RegisterTurn(changelog.Turn{Name: "posts that wait for their fan-out", When: changelog.BeforeLog, Run: m.lookAtWaiting})
	m.RegisterTurn(changelog.Turn{Name: "pulled posts", When: changelog.AfterLook, Run: m.readWanted})
	m.RegisterTurn(changelog.Turn{Name: "heads of conversations", When: changelog.AfterLog, Run: m.lookAtHeads})
	m.RegisterTurn(changelog.Turn{Name: "copies", When: changelog.AfterLog, Run: m.copyAtTurn})
	m.RegisterLoop(m.runCopying)
	m.RegisterStream(changelog.Stream{Learned: m.notices.learned})
	m.RegisterStream(changelog.Stream{Learned: m.heads.learned, Unfollow: m.heads.readers.Unfollow})
	m.RegisterStream(changelog.Stream{Learned: m.pulled.learned, Unfollow: m.pulled.readers.Unfollow})
	m.RegisterStream(changelog.Stream{Learned: m.shows.learned, Unfollow: m.shows.readers.leave})
}

func (m *Mirror) applyPost(entry changelog.Entry) {
	if id, err := services.ParsePostID(entry.Key); err == nil {
		m.posts.Changed(id, entry.At)
	}
}

func (m *Mirror) applyProfile(entry changelog.Entry) {
	if number, err := ParseUserNumber(entry.Key); err == nil {
		m.users.Changed(number, entry.At)
	}
}

// ProfileChanged lets this node see its own change of a profile at once, before the log brings it.
func (m *Mirror) ProfileChanged(user services.UserNumber, at time.Time) { m.users.Changed(user, at) }

// PostChanged lets this node see its own change of a post at once, before the log brings it.
func (m *Mirror) PostChanged(post services.PostID, at time.Time) { m.posts.Changed(post, at) }
