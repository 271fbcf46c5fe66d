package live

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tidings/services"
)

// A change that arrives while a timer waits is reported by that timer or the next one, without a further event. Notifications are 100 ms
// apart, and no change waits longer than that.
func TestAChangeDuringAPauseIsNotifiedByATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		notified := map[services.UserID]time.Duration{}
		start := time.Now()
		note := func(users []services.UserID) {
			mu.Lock()
			defer mu.Unlock()
			for _, one := range users {
				notified[one] = time.Since(start)
			}
		}
		receivers := newReceivers(services.SystemClock{}, note)
		for host := services.UserID(1); host <= 4; host++ {
			receivers.setHosts(host, []services.FollowedAuthor{{Author: host}})
		}
		for host, after := range []time.Duration{0, 50, 101, 120} {
			<-time.After(time.Until(start.Add(after * time.Millisecond)))
			receivers.recordChange(services.UserID(host + 1))
			receivers.notifyPending()
		}
		<-time.After(time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for who, by := range map[services.UserID]time.Duration{1: 0, 2: 100, 3: 200, 4: 200} {
			if at, ok := notified[who]; !ok || at > by*time.Millisecond {
				t.Errorf("user %d was notified (%t) after %s, want %d ms at most", who, ok, at, by)
			}
		}
	})
}

// The sum of versions that Follower.VersionSums returns for a watched user rises when a show of a followed host goes live. Otherwise a
// change whose notification was lost would never be pushed.
func TestTheVersionSumRisesWhenAShowGoesLive(t *testing.T) {
	s := newFakeShowSQL()
	m := s.newCache()
	readLog(t, m)
	m.Shows.setReaderHosts(watchedUser, followedAuthors(8))
	both := []services.UserID{watchedUser, watchedUser + 1}
	before := m.Log.VersionSums(both)
	s.schedule(1, 8, 5)
	s.start(1, 5)
	if err := m.Shows.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := m.Log.VersionSums(both)
	if after[0] <= before[0] || after[1] != before[1] {
		t.Errorf("the sums went from %v to %v", before, after)
	}
	m.Log.Unfollow([]services.UserID{watchedUser})
	if gone := m.Log.VersionSums(both); gone[0] != after[1] {
		t.Errorf("a user who left has the sum %v, want %d", gone, after[1])
	}
}
