package badge

import (
	"context"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/live/livetest"
	"tidings/services/push"
)

// A show starts while Redis does not answer and all slots for SQL are taken: the push renders the earlier state, as
// STALE. Once Redis answers again the start is pushed, although nothing in the document has changed.
func TestAShowThatStartsWhileNothingAnswersIsPushed(t *testing.T) {
	n := redisServerNode(t)
	n.sqlTimeout = 500 * time.Millisecond // the time for which the hub waits for a slot in vain
	reader, _, shows := n.newReaderOfHosts()
	stale := make(chan struct{}, 1)
	hub := push.New(push.Config{
		DocumentVersions: n.Redis.DocumentVersions, WriteLeases: n.Redis.Presence.WriteOnlineLeases, RemoveLeases: n.Redis.Presence.RemoveOnlineLeases, Settings: push.Settings{ReconcileInterval: 50 * time.Millisecond},
		Render: func(ctx context.Context, users []services.UserID) ([]*services.Badges, []error) {
			badges, errs := n.ReadAndFollow(ctx, users)
			for _, one := range badges {
				if one != nil && one.Total.Precision == services.Stale {
					select {
					case stale <- struct{}{}:
					default:
					}
				}
			}
			return badges, errs
		},
	})
	n.Caches.Changelog.OnReadersNotified(hub.HintSharedContentOf)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- hub.Run(ctx) }()
	defer func() {
		cancel()
		n.Must(<-ended)
	}()
	states, err := hub.Watch(ctx, reader, "")
	n.Must(err)
	next := func(what string, want int) {
		t.Helper()
		for late := time.After(20 * time.Second); ; {
			select {
			case badges := <-states:
				if badges.Total.Precision == services.Stale {
					continue // the badges shown last are pushed again while nothing answers
				}
				if badges.LiveBoard.Value != want || badges.LiveBoard.Precision != services.Exact {
					t.Fatalf("%s: %+v", what, badges.LiveBoard)
				}
				return
			case <-late:
				t.Fatalf("%s: nothing is pushed", what)
			}
		}
	}
	next("at first", 0)
	n.RedisServer.Do("ACL", "SETUSER", "default", "-hgetall", "-hget")
	for range cap(n.sqlCountSlots) {
		n.sqlCountSlots <- struct{}{}
	}
	livetest.StartShows(n.World, shows[0])
	n.Must(n.live.Memory.Refresh(t.Context()))
	<-stale
	n.RedisServer.Do("ACL", "SETUSER", "default", "+hgetall", "+hget")
	for range cap(n.sqlCountSlots) {
		<-n.sqlCountSlots
	}
	next("when Redis answers again", 1)
}
