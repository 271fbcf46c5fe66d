package audit_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidings/services"
	"tidings/services/announcements"
	"tidings/services/audit"
	"tidings/services/chat"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/live/livetest"
	"tidings/services/messages"
	"tidings/services/notifications/notificationstest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/services/views"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is one node with all features that write to users' documents.
type node struct {
	*fanouttest.World
	announcements *announcements.Service
	chat          *chat.Service
	views         *views.Service
}

// newNode adds all features that write to users' documents to the node of a world.
func newNode(w *fanouttest.World) node {
	notificationstest.New(w)
	messages.New(messages.Config{DB: w.DB, Jobs: w.Fanout.Engine, Projector: w.Projector, IDs: w.IDs})
	livetest.New(w, live.ShowLimits{})
	lists := views.New(views.Config{
		DB: w.DB, Redis: w.Redis.Client, Jobs: w.Fanout.Engine, Projector: w.Projector, IDs: w.IDs, Clock: w.Clock, Log: w.Log,
	})
	return node{w, announcements.New(announcements.Config{
		DB: w.DB, Redis: w.Redis, Jobs: w.Fanout.Engine, Changelog: w.Caches.Changelog, Projector: w.Projector, IDs: w.IDs, Clock: w.Clock,
	}), chat.New(chat.Config{
		DB: w.DB, Redis: w.Redis, Changelog: w.Caches.Changelog, Jobs: w.Fanout.Engine, Projector: w.Projector, Clock: w.Clock, Settings: chat.Settings{MaxMembersCountedOnWrite: 2},
	}), lists}
}

// commit commits a command that must succeed, and returns the ids that it made.
func (n node) commit(cmd *jobs.Command, err error) []string {
	n.TB.Helper()
	n.Must(err)
	n.Must(n.Fanout.Commit(n.TB.Context(), cmd)[0])
	return cmd.IDs()
}

// newAudit returns an audit of a node; every is its LapTime.
func newAudit(w node, every time.Duration) *audit.Audit {
	return audit.New(audit.Config{DB: w.DB, Redis: w.Redis, Projector: w.Projector, Clock: w.Clock, Log: w.Log, Settings: audit.Settings{LapTime: every}})
}

// newFastNode returns a node on the engines that start fastest; settings changes the configuration of its fan-out.
func newFastNode(t *testing.T, settings func(*fanout.Config)) node {
	t.Helper()
	return newNode(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded", Fanout: settings}))
}

// redisServerNode returns a node on a redis-server, which the test may flush and kill; settings changes the configuration of its fan-out.
func redisServerNode(t *testing.T, settings func(*fanout.Config)) node {
	t.Helper()
	return newNode(fanouttest.New(t, fanouttest.Options{Fanout: settings}))
}

// newPostgresNode returns a node for hundreds of users: on PostgreSQL, since the race detector makes SQLite slow.
func newPostgresNode(t *testing.T) node {
	t.Helper()
	return newNode(fanouttest.New(t, fanouttest.Options{SQLURL: sqltest.Postgres(t)}))
}

// enqueue queues jobs, and does not run them.
func enqueue(w node, queued ...jobs.NewJob) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error { return jobs.Enqueue(ctx, tx, queued...) })
}

// sendSiteMessage sends users a site message.
func sendSiteMessage(w node, users ...services.UserID) {
	w.TB.Helper()
	id := messages.ID(w.IDs.Next())
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		if err := messages.Insert(ctx, tx, id, messages.Text{Type: services.DefaultMessageType, Title: "t"}); err != nil {
			return err
		}
		queued, err := messages.DeliverJobs(id, users)
		if err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, queued...)
	})
}
