package notifications

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/posts"
	"tidings/services/sql"
)

const (
	likedPostCount    = 100 // the number of the author's posts
	commandsPerCommit = 500 // the number of commands that ingest commits at once
)

// likeCommands are commands that like one user's posts, each by a user who has not liked the post before. first is the number of the
// commands that were made earlier.
func likeCommands(author services.UserID, liked []services.PostID, first, count int) []*jobs.Command {
	cmds := make([]*jobs.Command, count)
	for i := range cmds {
		n := first + i
		post, liker := liked[n%len(liked)], services.UserID(1_000_000+n/len(liked))
		cmds[i] = &jobs.Command{Name: "likePost", Actor: liker, Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			if _, err := posts.InsertLike(ctx, tx, post, liker, tx.Now); err != nil {
				return nil, err
			}
			job, err := NotifyJob(Cause{Recipient: author, Category: services.CategoryLike, Subject: services.SortableID(post), Actor: liker})
			if err != nil {
				return nil, err
			}
			return nil, jobs.Enqueue(ctx, tx, job)
		}}
	}
	return cmds
}

// BenchmarkHotRecipient measures likes of one user by everybody, in batches as ingest commits them, while a worker projects them:
// the number of likes that are accepted and projected in a second, and the time of a badge query of another user before and
// meanwhile.
func BenchmarkHotRecipient(b *testing.B) {
	w := newNode(fanouttest.New(b, fanouttest.Options{}))
	users := w.MakeUsers(2)
	author, other := users[0], users[1]
	posts := w.InsertPosts(author, likedPostCount)
	w.Must(w.Projector.RefillInbox(b.Context(), author))
	read := func() time.Duration {
		started := time.Now()
		w.Document(other) // the read of a badge query
		return time.Since(started)
	}
	var before, during []time.Duration
	for range 2000 {
		before = append(before, read())
	}
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	for _, worker := range w.Fanout.Workers(1) {
		running.Go(func() { _ = worker.Run(ctx) }) // stop ends it
	}
	var reading atomic.Bool
	reading.Store(true)
	var readers sync.WaitGroup
	readers.Go(func() {
		pause := time.NewTicker(time.Millisecond)
		defer pause.Stop()
		for reading.Load() {
			during = append(during, read())
			<-pause.C
		}
	})
	b.ResetTimer()
	started := time.Now()
	for n := 0; n < b.N; n += commandsPerCommit {
		for _, err := range w.Fanout.Commit(b.Context(), likeCommands(author, posts, n, min(commandsPerCommit, b.N-n))...) {
			w.Must(err)
		}
	}
	taken := time.Since(started)
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for waiting := 1; waiting > 0; waiting, _ = w.CountJobs() {
		<-look.C
		w.Clock.Advance(50 * time.Millisecond) // the jobs that repeat the immediate projection become due
	}
	projected := time.Since(started)
	b.StopTimer()
	reading.Store(false)
	readers.Wait()
	stop()
	running.Wait()
	w.CheckAgainstFacts(author)
	b.ReportMetric(float64(b.N)/taken.Seconds(), "taken/s")
	b.ReportMetric(float64(b.N)/projected.Seconds(), "projected/s")
	for name, times := range map[string][]time.Duration{"before": before, "during": during} {
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds()), "µs/badges-"+name+"-p50")
		b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "µs/badges-"+name+"-p99")
	}
}
