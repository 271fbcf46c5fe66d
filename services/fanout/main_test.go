package fanout_test

import (
	"context"
	"testing"

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
