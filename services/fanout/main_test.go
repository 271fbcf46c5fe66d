package fanout_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/sql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newEmbeddedWorld makes a world on the engines that start fastest.
func newEmbeddedWorld(t *testing.T, settings func(*fanout.Config)) *fanouttest.World {
	t.Helper()
	return fanouttest.New(t, fanouttest.Options{RedisURL: "embedded", Fanout: settings})
}

// redisServerWorld makes a world on a redis-server, which the test may flush and kill.
func redisServerWorld(t *testing.T, settings func(*fanout.Config)) *fanouttest.World {
	t.Helper()
	return fanouttest.New(t, fanouttest.Options{Fanout: settings})
}

// smallChunks is a setting of two followers in a chunk: five followers are three chunks.
func smallChunks(cfg *fanout.Config) { cfg.ChunkSize = 2 }

// enqueue queues jobs in a transaction of their own.
func enqueue(w *fanouttest.World, queued ...jobs.NewJob) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error { return jobs.Enqueue(ctx, tx, queued...) })
}

// claim takes all jobs that are due, as a worker does.
func claim(w *fanouttest.World) []jobs.Job {
	w.TB.Helper()
	queued, err := jobs.Claim(w.TB.Context(), w.DB, w.Fanout.Kinds(), 1000, 30*time.Second, 0)
	w.Must(err)
	return queued
}

// inboxListsPost reports whether a user's inbox lists a post, and whether the post counts.
func inboxListsPost(w *fanouttest.World, user services.UserID, post services.PostID) (listed, counts bool) {
	w.TB.Helper()
	for _, entry := range w.Inbox(user) {
		if entry.Post == post {
			return true, entry.CountsAsNew
		}
	}
	return false, false
}
