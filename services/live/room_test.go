package live

import (
	"context"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/rdb"
	"tidings/services/redis"
)

// A subscription finds out that another session has taken its slot even if its viewer's badges do not change: at the next
// renewal.
func TestAnOpenBoardDetectsThatItsSlotIsTaken(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{})
	w.Clock.Advance(time.Since(fanouttest.StartTime)) // Redis' clock decides who holds a slot
	redis, err := rdb.Open(t.Context(), redis.Options{URL: w.RedisServer.URL(), NodeID: "clocked", Clock: w.Clock, Log: w.Log, DataDir: t.TempDir()}, rdb.DocumentShape{})
	w.Must(err)
	t.Cleanup(func() { w.Must(redis.Close()) })
	h := newBoardNode(w, func(cfg *Config) { cfg.Redis, cfg.SessionScope = redis, string(perUser) })
	viewer, host := w.MakeUsers(1)[0], w.MakeUsers(1)[0]
	w.Follow(host, viewer)
	planShow(w, host, time.Hour)
	h.advanceAndRefresh()
	first := h.page(viewer, BoardRequest{})
	badges := make(chan *services.Badges, 1)
	ctx, cancel := context.WithCancel(t.Context())
	changes, err := h.boards.Watch(ctx, viewer, sessionArgument(first.Session), "", badges)
	w.Must(err)
	badges <- &services.Badges{}
	if change := <-changes; change.SessionReplaced || change.Session != first.Session {
		t.Errorf("the first event: %+v", change)
	}
	h.Clock.Advance(maxRenewEvery)
	second := h.page(viewer, BoardRequest{})
	planShow(w, host, 2*time.Hour)
	h.advanceAndRefresh()
	if change := <-changes; !change.SessionReplaced || change.Session == first.Session || change.Session == second.Session {
		t.Errorf("after another first page: %+v", change)
	}
	cancel()
	for range changes { // until it is closed
	}
}
