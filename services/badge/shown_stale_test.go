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
)

// Counts that lack a dead node's unfinished work are STALE, and no others. Once the work is done the badges are exact, and
// newer than the ones shown before even if no count has changed.
func TestCountsThatADeadNodeHadNotProjectedAreStale(t *testing.T) {
	url := sqltest.Postgres(t)
	n := newNode(fanouttest.New(t, fanouttest.Options{SQL: url, Node: "here"}))
	gone := sqltest.Open(t, sql.Config{URL: url, Node: "gone", Clock: n.Clock, Log: n.Log})
	_, reader := n.likedAuthor(2)
	heart := n.World.Fanout.Heartbeat()
	n.Must(heart.Begin(t.Context()))
	_, err := jobs.Beat(t.Context(), gone, false)
	n.Must(err)
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		return jobs.Enqueue(ctx, tx, notifications.CountsJob(reader))
	})
	made := n.Clock.Now()
	queued, err := jobs.Claim(t.Context(), gone, []string{notifications.CountsJob(reader).Kind}, 10, 30*time.Second)
	n.Must(err)
	if len(queued) != 1 {
		t.Fatalf("the other node has claimed %v", queued)
	}
	exact := n.read(reader)
	if exact.Total.Precision != services.Exact {
		t.Fatalf("at first %+v", exact.Total)
	}
	n.Clock.Advance(time.Second)
	for tick := time.NewTicker(10 * time.Millisecond); !n.World.Fanout.SomeBehind(); <-tick.C {
		n.Must(heart.RunOnce(t.Context()))
	}
	stale := n.read(reader)
	for name, count := range map[string]services.Count{
		"likes": stale.Notifications.Like, "notifications": stale.Notifications.Total, "total": stale.Total,
	} {
		if count.Precision != services.Stale || !count.AsOf.Equal(made) {
			t.Errorf("while a node is silent: %s %+v, want STALE since %v", name, count, made)
		}
	}
	for name, count := range map[string]services.Count{"feed": stale.HomeFeed, "site messages": stale.SiteMessages.Total, "conversations": stale.Conversations.Total} {
		if count.Precision != services.Exact {
			t.Errorf("while a node is silent: %s %+v, want it to be exact", name, count)
		}
	}
	n.queueShownStale()
	if _, err := n.raiseFallbacks(t.Context()); err != nil || n.read(reader).Total.Precision != services.Stale {
		t.Errorf("before the job is done: %+v, %v", n.read(reader).Total, err)
	}
	_, err = jobs.FinishHeld(t.Context(), gone, queued)
	n.Must(err)
	n.Must(heart.RunOnce(t.Context()))
	n.queueShownStale()
	if done, err := n.raiseFallbacks(t.Context()); done != 1 || err != nil {
		t.Errorf("%d documents were made news again, %v", done, err)
	}
	again := n.read(reader)
	if again.Total.Precision != services.Exact || again.Total.Value != exact.Total.Value {
		t.Errorf("afterwards %+v, want %+v", again.Total, exact.Total)
	}
	if again.Version <= stale.Version {
		t.Errorf("afterwards the version is %s, and that of the STALE badges was %s", again.Version, stale.Version)
	}
}
