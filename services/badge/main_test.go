package badge

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"tidings/services"
	"tidings/services/announcements"
	"tidings/services/badge/source"
	"tidings/services/badge/source/sourcetest"
	"tidings/services/chat"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/live/livetest"
	"tidings/services/messages"
	"tidings/services/notifications"
	"tidings/services/notifications/notificationstest"
	"tidings/services/people"
	"tidings/services/positions"
	"tidings/services/rdb"
	"tidings/services/sql"
	"tidings/services/views"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// activeFor is the time for which a user counts as active in these tests.
const activeFor = 30 * day

// node is the badges of one node on real engines.
type node struct {
	*fanouttest.World
	*Service
	messages      *messages.Service // site messages
	announcements *announcements.Service
	chat          *chat.Service
	live          *live.Service
	notifications *notifications.Service
	views         *views.Service
}

// newNode makes the badges of a world's node, with the facts in SQL and the standard limits of shows.
func newNode(w *fanouttest.World) node { return newNodeWith(w, nil, live.ShowLimits{}) }

// newNodeWith makes the badges of a world's node. facts, unless it is nil, replaces the reader of conversations' last sequences; limits
// are those of shows.
func newNodeWith(w *fanouttest.World, facts chat.SequenceFacts, limits live.ShowLimits) node {
	n := node{
		World:         w,
		notifications: notificationstest.New(w),
		messages:      messages.New(messages.Config{DB: w.DB, Jobs: w.Fanout.Engine, Projector: w.Projector, IDs: w.IDs}),
		announcements: announcements.New(announcements.Config{
			DB: w.DB, Redis: w.Redis, Jobs: w.Fanout.Engine, Changelog: w.Caches.Changelog, Projector: w.Projector, IDs: w.IDs, Clock: w.Clock,
		}),
		chat: chat.New(chat.Config{
			DB: w.DB, Redis: w.Redis, Changelog: w.Caches.Changelog, Jobs: w.Fanout.Engine, Projector: w.Projector, Clock: w.Clock, Facts: facts, Settings: chat.Settings{MaxMembersCountedOnWrite: 2},
		}),
		live: livetest.New(w, limits),
		views: views.New(views.Config{
			DB: w.DB, Redis: w.Redis.Client, Jobs: w.Fanout.Engine, Projector: w.Projector, IDs: w.IDs, Clock: w.Clock, Log: w.Log,
		}),
	}
	n.Service = New(n.config())
	return n
}

// config is the configuration of the node's badges. Counting may take longer than in production: a busy machine must not turn
// a count from SQL into an old one. A test of the time limit sets its own.
func (n node) config() Config {
	return Config{
		DB: n.DB, Redis: n.Redis, Jobs: n.World.Fanout.Engine, Projector: n.World.Projector, Pulled: n.Caches.Pulled,
		Clock: n.Clock, Log: n.Log, SQLTimeout: time.Minute,
		Sources: sourcetest.Complete[Source](n.messages.Source(), n.announcements.Source(), n.chat.Source(), n.live.Source(), n.notifications.Source(), n.views.Source()),
	}
}

// newServiceWith makes the service of badges of the same node with other settings.
func (n node) newServiceWith(change func(*Config)) *Service {
	cfg := n.config()
	change(&cfg)
	return New(cfg)
}

// sendSiteMessage sends a site message to a user, and does not run its job.
func (n node) sendSiteMessage(user services.UserID) messages.ID {
	n.TB.Helper()
	id := messages.ID(n.IDs.Next())
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		queued, err := messages.DeliverJobs(id, []services.UserID{user})
		text := messages.Text{Type: services.DefaultMessageType, Title: "hello"}
		return errors.Join(err, messages.Insert(ctx, tx, id, text), jobs.Enqueue(ctx, tx, queued...))
	})
	return id
}

// mustCommit runs a command that must succeed.
func (n node) mustCommit(command *jobs.Command, err error) {
	n.TB.Helper()
	n.Must(err)
	n.Must(n.World.Fanout.Commit(n.TB.Context(), command)[0])
}

// redisServerNode returns a node on a redis-server, which the test may flush and kill.
func redisServerNode(t *testing.T) node {
	t.Helper()
	return newNode(fanouttest.New(t, fanouttest.Options{}))
}

// commitForIDs commits a command, and returns the IDs that it made.
func (n node) commitForIDs(cmd *jobs.Command, err error) []string {
	n.TB.Helper()
	n.Must(err)
	n.Must(n.World.Fanout.Commit(n.TB.Context(), cmd)[0])
	return cmd.IDs()
}

// makeRoom makes a room, whose first member creates it; with more than two members it is counted on read.
func (n node) makeRoom(members ...services.UserID) services.ConversationID {
	n.TB.Helper()
	id, err := services.ParseConversationID("id", n.commitForIDs(n.chat.Create(members[0], chat.Room, "den", members[1:]))[0])
	n.Must(err)
	return id
}

// readWithoutSQL returns a user's badges if ReadWithoutSQL has them, or nil.
func (n node) readWithoutSQL(user services.UserID) *services.Badges {
	badges, err := n.ReadWithoutSQL(n.TB.Context(), []services.UserID{user})
	if err != nil {
		return nil
	}
	return badges[0]
}

// read reads a user's badges. If they were ready before, ReadWithoutSQL must have returned the same.
func (n node) read(user services.UserID) *services.Badges {
	n.TB.Helper()
	ready := n.readWithoutSQL(user)
	badges, err := n.Read(n.TB.Context(), user)
	n.Must(err)
	n.checkInvariants(badges)
	if ready != nil {
		if diff := cmp.Diff(badges, ready); diff != "" {
			n.TB.Errorf("what was ready is not what is read (-read +ready):\n%s", diff)
		}
	}
	return badges
}

// checkInvariants checks what is true of any badges: a valid version, a total that is the sum of its parts, no negative count.
func (n node) checkInvariants(badges *services.Badges) {
	n.TB.Helper()
	if err := services.CheckVersion("version", badges.Version); err != nil {
		n.TB.Error(err)
	}
	parts := []services.Count{badges.Notifications.Total, badges.SiteMessages.Total, badges.Conversations.Total}
	for _, field := range services.CountFields {
		parts = append(parts, *field.CountIn(badges))
	}
	sum := services.Sum(parts...)
	if sum != badges.Total {
		n.TB.Errorf("the total is %+v, its parts make %+v", badges.Total, sum)
	}
	for count := range n.sources.counts(badges) {
		if count.Value < 0 {
			n.TB.Errorf("a negative count: %+v", badges)
		}
	}
}

// newLikedAuthor makes an author with posts and with likes on them, and a follower of the author; both have no unread items.
func (n node) newLikedAuthor(posts int) (author, reader services.UserID) {
	n.TB.Helper()
	users := n.MakeUsers(2)
	n.Follow(users[0], users[1])
	n.RunAllJobs(n.World.Fanout)
	for range posts {
		notificationstest.Like(n.World, n.Post(users[0]), users[0], users[1])
	}
	n.RunAllJobs(n.World.Fanout)
	return users[0], users[1]
}

// isActiveFollower reports whether fan-out treats a follower as active, if visits since the given moment count.
func (n node) isActiveFollower(author, follower services.UserID, since time.Time) bool {
	n.TB.Helper()
	edges, err := people.Followers(n.TB.Context(), n.DB, author, 0, 100, since)
	n.Must(err)
	for _, edge := range edges {
		if edge.Follower == follower {
			return true
		}
	}
	return false
}

// markFeedSeen marks the home feed of a user seen up to a post.
func (n node) markFeedSeen(user services.UserID, upTo services.PostID) {
	n.TB.Helper()
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		_, err := positions.Advance(ctx, tx, user, positions.HomeFeedView, upTo)
		return err
	})
	n.Must(n.World.Fanout.ProjectSeen(n.TB.Context(), user))
}

// momentOf returns a moment without announcements and dots.
func momentOf(now time.Time) source.Moment {
	return source.Moment{Now: now, MonotonicNow: now, SharedState: &announcements.SharedState{}}
}

// newTestRendering makes a rendering of a document, which renders badges without engines.
func newTestRendering(settings source.Settings, document rdb.Document, at source.Moment) *rendering {
	return &rendering{sources: testSources, Rendering: source.Rendering{Settings: &settings, Document: document, Moment: at}}
}

// testSources are the sources of a service without engines: rendering needs none.
var testSources = (&Service{}).newSources(sourcesOfFeatures()...)

// sourcesOfFeatures are the sources that have a package of their own.
func sourcesOfFeatures() []Source {
	return sourcetest.Complete[Source](messages.NewSource(nil, []string{services.DefaultMessageType}, nil), (&announcements.Service{}).Source(), chat.Source{}, live.Source{}, notifications.Source{}, views.Source{})
}
