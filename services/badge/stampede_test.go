package badge

import (
	"sync"
	"testing"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/projector"
)

// All users return at once after Redis has lost its data, each on several devices. At most a few documents are rebuilt at a time,
// hardly any is rebuilt twice, and each user sees the right count.
func TestNoStampedeWhenRedisReturns(t *testing.T) {
	const slots, crowd, devices = 4, 200, 3
	n := newNode(fanouttest.New(t, fanouttest.Options{Projector: func(cfg *projector.Config) { cfg.MaxParallelRebuilds = slots }}))
	author := n.MakeUsers(1)[0]
	users := n.MakeUsers(crowd)
	n.Follow(author, users...)
	n.RunAllJobs(n.World.Fanout)
	n.Post(author)
	n.RunAllJobs(n.World.Fanout)
	before := n.World.Projector.RebuildStats()
	n.RedisServer.Flush()
	var together sync.WaitGroup
	start := make(chan struct{})
	for _, user := range users {
		for range devices {
			together.Go(func() {
				<-start
				badges, err := n.Read(t.Context(), user)
				// On a slow machine neither Redis nor SQL has an answer in time. The badges say so, and the device reads again.
				for err == nil && badges.Total.Precision == services.Unknown {
					badges, err = n.Read(t.Context(), user)
				}
				if err != nil || badges.Total.Value != 1 {
					t.Errorf("user %d is shown %+v, %v", user, badges, err)
				}
			})
		}
	}
	close(start)
	together.Wait()
	after := n.World.Projector.RebuildStats()
	// There are fewer rebuilds on a slow machine: a user who waited too long for a turn is counted in SQL and rebuilt at the next
	// read.
	if rebuilt := after.Begun - before.Begun; rebuilt > crowd+crowd/10 || after.MostRunning > slots || after.Running != 0 {
		t.Errorf("%d rebuilds of %d users on %d devices each, %d at once, want %d at most", rebuilt, crowd, devices, after.MostRunning, slots)
	}
	for _, user := range users {
		if got := n.read(user); got.Total.Value != 1 || got.Total.Precision != services.Exact {
			t.Errorf("afterwards user %d is shown %+v", user, got.Total)
		}
	}
}
