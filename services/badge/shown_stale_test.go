package badge

import (
	"context"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/notifications"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/eventually"
)

// newNodeWithOtherNode returns a node that shares its database with another one, which can die.
func newNodeWithOtherNode(t *testing.T) (n node, other *sql.DB) {
	t.Helper()
	url := sqltest.Postgres(t)
	n = newNode(fanouttest.New(t, fanouttest.Options{SQLURL: url, NodeName: "here"}))
	return n, sqltest.Open(t, sql.Config{URL: url, Node: "gone", Clock: n.Clock, Log: n.Log})
}

// claimJobsOnOtherNode lets the other node claim jobs that count the notifications of some users. A call of dies makes that node
// silent, so that these counts may lack the effect of the jobs; a call of finish finishes the jobs.
func (n node) claimJobsOnOtherNode(other *sql.DB, users ...services.UserID) (dies, finish func()) {
	n.TB.Helper()
	ctx, heart := n.TB.Context(), n.World.Fanout.Heartbeat()
	n.Must(heart.Begin(ctx))
	_, err := jobs.RecordHeartbeat(ctx, other, false)
	n.Must(err)
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		for _, user := range users {
			if err := jobs.Enqueue(ctx, tx, notifications.ProjectCountsJob(user)); err != nil {
				return err
			}
		}
		return nil
	})
	queued, err := jobs.Claim(ctx, other, []string{notifications.ProjectCountsJob(users[0]).Kind}, 10, 30*time.Second, 0)
	n.Must(err)
	if len(queued) != len(users) {
		n.TB.Fatalf("the other node has claimed %v", queued)
	}
	dies = func() {
		n.Clock.Advance(time.Second)
		for tick := time.NewTicker(10 * time.Millisecond); !n.World.Fanout.AnyCountsBehind(); <-tick.C {
			eventually.SucceedsDespiteTimeouts(n.TB, func() error { return heart.RunOnce(ctx) })
		}
	}
	return dies, func() {
		_, err := jobs.FinishIfHeld(ctx, other, queued)
		n.Must(err)
		eventually.SucceedsDespiteTimeouts(n.TB, func() error { return heart.RunOnce(ctx) })
	}
}

// Counts that lack a dead node's unfinished work are STALE, and no others. Once the work is done the badges are exact, and
// newer than the ones shown before even if no count has changed.
func TestCountsThatADeadNodeHadNotProjectedAreStale(t *testing.T) {
	n, other := newNodeWithOtherNode(t)
	_, reader := n.newLikedAuthor(2)
	made := n.Clock.Now()
	dies, finish := n.claimJobsOnOtherNode(other, reader)
	exact := n.read(reader)
	if exact.Total.Precision != services.Exact {
		t.Fatalf("at first %+v", exact.Total)
	}
	dies()
	stale := n.read(reader)
	for name, count := range map[string]services.Count{
		"likes": stale.Notifications.Like, "notifications": stale.Notifications.Total, "total": stale.Total,
	} {
		if count.Precision != services.Stale || !count.AsOf().Equal(made) {
			t.Errorf("while a node is silent: %s %+v, want STALE since %v", name, count, made)
		}
	}
	for name, count := range map[string]services.Count{"feed": stale.HomeFeed, "site messages": stale.SiteMessages.Total, "conversations": stale.Conversations.Total} {
		if count.Precision != services.Exact {
			t.Errorf("while a node is silent: %s %+v, want it to be exact", name, count)
		}
	}
	n.queueStaleDocumentRaises()
	if _, err := n.raiseDocumentsAboveFallbacks(t.Context()); err != nil || n.read(reader).Total.Precision != services.Stale {
		t.Errorf("before the job is done: %+v, %v", n.read(reader).Total, err)
	}
	finish()
	n.queueStaleDocumentRaises()
	if done, err := n.raiseDocumentsAboveFallbacks(t.Context()); done != 1 || err != nil {
		t.Errorf("%d documents were raised, %v; want 1", done, err)
	}
	again := n.read(reader)
	if again.Total.Precision != services.Exact || again.Total.Value != exact.Total.Value {
		t.Errorf("afterwards %+v, want %+v", again.Total, exact.Total)
	}
	if again.Version <= stale.Version {
		t.Errorf("afterwards the version is %s, and that of the STALE badges was %s", again.Version, stale.Version)
	}
}

// While updates are outstanding, the host application reads more users than can be remembered. The users' own reads still have
// room, so that their badges become exact again.
func TestStaleReadsForTheHostLeaveRoomForUsers(t *testing.T) {
	n, other := newNodeWithOtherNode(t)
	_, reader := n.newLikedAuthor(2)
	read := n.MakeUsers(1)
	dies, finish := n.claimJobsOnOtherNode(other, reader, read[0])
	n.read(reader)
	dies()
	for i := range services.UserID(maxFallbackVersions) {
		n.shownStaleVersions.remember(1000+i, staleVersion{documentHalf: 1, shownToHostOnly: true})
	}
	if badges, errs := n.ReadForHost(t.Context(), read); errs[0] != nil || badges[0].Total.Precision != services.Stale {
		t.Fatalf("the host was shown %+v, %v", badges[0].Total, errs[0])
	}
	stale := n.read(reader)
	finish()
	n.queueStaleDocumentRaises()
	if remembered := n.fallbacks.list([]services.UserID{reader, read[0]}); len(remembered) != 1 {
		t.Errorf("remembered, of the user and one that the host read when most of the memory was in use: %v", remembered)
	}
	if exact := n.read(reader); exact.Version <= stale.Version || exact.Total.Precision != services.Exact {
		t.Errorf("after %s comes %s, %s", stale.Version, exact.Version, exact.Total.Precision)
	}
}
