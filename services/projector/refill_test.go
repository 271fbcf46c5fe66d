package projector_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/people"
	"tidings/services/redis"
	"tidings/services/sql"
	"tidings/services/trace"
)

// A refill that has written its inbox, and has not returned yet, is not shared: a removal since then may have made the inbox
// short again.
func TestARefillThatHasWrittenIsNotShared(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"})
	users := w.MakeUsers(3)
	quiet, loud, reader := users[0], users[1], users[2]
	w.InsertPosts(quiet, services.FeedRetention+100)
	w.InsertPosts(loud, services.FeedRetention+100)
	w.Follow(quiet, reader)
	w.Follow(loud, reader)
	w.RunAllJobs(w.Fanout)
	w.Must(w.Redis.Presence.WriteOnlineLeases(t.Context(), []services.UserID{reader}, time.Hour))

	// The hint of the first refill is held up. A hint follows the last write: at that point the refill has written, and has not
	// returned.
	ctx, cancel := context.WithCancel(t.Context())
	var hints atomic.Int64
	ready, written, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan error, 2)
	go func() {
		ended <- w.Redis.Client.RunHints(ctx, redis.HintReceiver{
			DocumentsChanged: func([]redis.Hint, trace.Cause) {
				if hints.Add(1) == 1 {
					close(written)
					<-release
				}
			},
			ChangelogGrown: func() {}, Resync: func() { close(ready) },
		})
	}()
	<-ready
	go func() { ended <- w.Projector.RefillInbox(t.Context(), reader) }()
	<-written

	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		_, err := people.DeleteFollow(ctx, tx, reader, loud)
		return err
	})
	result, err := w.Redis.DropFromInbox(t.Context(), reader, loud)
	if w.Must(err); !result.RefillDue {
		t.Fatal("the inbox is not short")
	}
	bounded, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	if err := w.Projector.RefillInbox(bounded, reader); err != nil {
		t.Errorf("the second refill waits for the first: %v", err)
	}
	w.CheckAgainstFacts(reader)
	if entries := w.Inbox(reader); len(entries) != services.FeedRetention {
		t.Errorf("%d posts are listed, and older ones exist", len(entries))
	}
	close(release)
	w.Must(<-ended)
	cancel()
	w.Must(<-ended)
}
