package changelog

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tidings/services"
)

// constantKey returns the function that Follow takes, for a user who is shown one key.
func constantKey(key string) func(int) string { return func(int) string { return key } }

// A change that comes too soon after a notification waits for a timer: one that is set already, or a new one. The timer notifies the
// change, which does not wait for a further change.
func TestAChangeSoonAfterANotificationIsNotifiedByATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollower(&fakeLog{})
		var mu sync.Mutex
		start, last := time.Now(), time.Duration(-1)
		f.OnReadersNotified(func(users []services.UserID) {
			mu.Lock()
			defer mu.Unlock()
			if slices.Equal(users, []services.UserID{11}) {
				last = time.Since(start)
			}
		})
		readers := NewReaderIndex[string](f)
		readers.Follow(11, 1, constantKey("a"))
		for _, after := range []time.Duration{0, 50, 101, 120} {
			<-time.After(time.Until(start.Add(after * time.Millisecond)))
			readers.RecordChange("a")
			readers.Notify()
		}
		<-time.After(time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if last < 120*time.Millisecond || last > 250*time.Millisecond {
			t.Errorf("the last of four changes was notified after %s", last)
		}
	})
}

// Keys that no watched user sees any more use no memory and notify no one.
func TestReadersWhoLeaveAreForgotten(t *testing.T) {
	f := newFollower(&fakeLog{})
	var notified []services.UserID
	f.OnReadersNotified(func(users []services.UserID) { notified = append(notified, users...) })
	readers := NewReaderIndex[string](f)
	both := []string{"a", "b"}
	readers.Follow(1, 2, func(i int) string { return both[i] })
	readers.Follow(2, 1, constantKey("b"))
	readers.Follow(1, 1, constantKey("a"))
	readers.RecordChange("b")
	readers.Notify()
	if !slices.Equal(notified, []services.UserID{2}) {
		t.Errorf("notified are %v, want the one who is still shown it", notified)
	}
	readers.Unfollow([]services.UserID{1, 99})
	if readers.RecordChange("a"); readers.Has("a") || len(readers.owed) != 0 || !slices.Equal(readers.Keys(), []string{"b"}) {
		t.Errorf("after one left there are %v, owed %v", readers.Keys(), readers.owed)
	}
	readers.Unfollow([]services.UserID{2})
	readers.Notify()
	if len(readers.readers)+len(readers.shown)+len(readers.owed)+len(readers.notified) != 0 {
		t.Errorf("left are %v, %v, %v, %v", readers.readers, readers.shown, readers.owed, readers.notified)
	}
}

// VersionSums adds what each source adds for a user, until the user is no longer watched.
func TestVersionSumsAddAllSources(t *testing.T) {
	f := newFollower(&fakeLog{})
	var left []services.UserID
	f.RegisterVersionPart(VersionPart{AddVersions: func(_ []services.UserID, sums []uint64) {
		for i := range sums {
			sums[i] += 100
		}
	}})
	readers := NewReaderIndex[string](f)
	f.RegisterVersionPart(VersionPart{
		AddVersions: func(users []services.UserID, sums []uint64) {
			readers.Each(users, func(i int, key string) { sums[i] += uint64(len(key)) })
		},
		Unfollow: func(users []services.UserID) { left = users; readers.Unfollow(users) },
	})
	readers.Follow(7, 1, constantKey("four"))
	if got := f.VersionSums([]services.UserID{8, 7}); !slices.Equal(got, []uint64{100, 104}) {
		t.Errorf("the sums are %v", got)
	}
	f.Unfollow([]services.UserID{7})
	if got := f.VersionSums([]services.UserID{7}); !slices.Equal(got, []uint64{100}) || !slices.Equal(left, []services.UserID{7}) {
		t.Errorf("after %v left: %v", left, got)
	}
}
