package live

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidings/services"
)

// Whole shows come from the cache, then from recently read ones, then from SQL. A show on no board is read from SQL each time, because
// the changelog does not have its changes.
func TestShowsAreReadFromTheCacheFirst(t *testing.T) {
	s := newFakeShowSQL()
	m := s.newCache()
	s.schedule(1, 7, 5)
	s.schedule(2, 7, 1)
	s.start(2, 1)
	s.end(2, 2)
	s.shows[3] = Show{ID: 3, Host: 8, Title: "of a host who is new", PlannedAt: noon, UpdatedAt: noon, Status: ShowUpcoming}
	s.now = noon.Add(3 * time.Hour) // the second show was over so long ago that the cache leaves it out
	readLog(t, m)
	read := func(wantSQL int, ids ...services.ShowID) map[services.ShowID]Show {
		t.Helper()
		before := s.showsReadByID
		found, err := m.Shows.Shows(t.Context(), ids)
		if err != nil || s.showsReadByID-before != wantSQL {
			t.Fatalf("%v: %v, SQL was asked for %d shows, want %d", ids, err, s.showsReadByID-before, wantSQL)
		}
		return found
	}
	if got := read(3, 1, 2, 3, 4, 2); len(got) != 3 || got[1] != s.shows[1] || got[2] != s.shows[2] || got[3] != s.shows[3] {
		t.Errorf("read %v", got)
	}
	read(0, 1, 2)
	read(1, 3)
	over := s.shows[2]
	over.ReplayURL = "https://example.org/replay"
	s.commitTexts(over)
	planned := s.shows[1]
	planned.Title, planned.CoverURL, planned.EndedAt = "ночь", "https://example.org/cover", noon // an end before its start
	s.commitTexts(planned)
	readLog(t, m)
	if got := read(0, 1, 2); got[2].ReplayURL != over.ReplayURL || got[1] != s.shows[1] {
		t.Errorf("after a change of texts: %+v", got)
	}
	board, _ := m.Shows.activeAt(followedAuthors(7), m.Shows.Version(), ShowPosition{}, 5)
	if board[0].Title != "ночь" || !board[0].EndedAt.IsZero() || board[0].Version != 1 {
		t.Errorf("the board has %+v: its texts are the present ones, and it did not move", board[0])
	}
	s.readError = errors.New("away")
	if _, err := m.Shows.Shows(t.Context(), []services.ShowID{9}); err == nil {
		t.Error("SQL is away, and nobody says so")
	}
	read(0, 1, 2)
}

// An older copy of a show, which SQL returned while the log brought a newer one, is not kept.
func TestAnOldCopyOfAShowIsNotKept(t *testing.T) {
	s := newFakeShowSQL()
	m := s.newCache()
	s.schedule(1, 7, 5)
	s.start(1, 5)
	s.end(1, 6)
	s.now = s.now.Add(3 * time.Hour)
	readLog(t, m)
	old := s.shows[1]
	next := old
	next.Title = "newer"
	s.commitTexts(next)
	readLog(t, m)
	m.Shows.recentShows.Keep(1, old)
	if got, err := m.Shows.Shows(t.Context(), []services.ShowID{1}); err != nil || got[1].Title != "newer" {
		t.Errorf("read %+v, %v", got[1], err)
	}
}

// Users whose badges include a host are notified when a show of that host starts or stops being live, and not of other changes.
func TestReadersOfLiveShowsAreNotified(t *testing.T) {
	s := newFakeShowSQL()
	m := s.newCache()
	var notified atomic.Int64
	m.Log.OnReadersNotified(func(readers []services.UserID) { notified.Add(int64(len(readers))) })
	readLog(t, m)
	m.Shows.setReaderHosts(watchedUser, followedAuthors(7, 8))
	step := func(want int64, what string) {
		t.Helper()
		s.now = s.now.Add(time.Second)
		if readLog(t, m); notified.Load() != want {
			t.Errorf("after %s the reader was notified %d times, want %d", what, notified.Load(), want)
		}
	}
	step(0, "nothing")
	s.schedule(1, 7, 5)
	s.schedule(2, 9, 5)
	step(0, "a plan")
	live := s.start(1, 5)
	step(1, "a start")
	if got := m.Shows.CountLive(followedAuthors(7, 8), 0); got.NewShows != 1 || got.VersionSum != s.liveVersions[7] {
		t.Errorf("counted %+v", got)
	}
	if got := m.Shows.CountLive(followedAuthors(7, 8), live.Version); got.NewShows != 0 {
		t.Errorf("after looking, the reader counts %+v", got)
	}
	s.commitTexts(s.shows[1])
	s.start(2, 5) // of a host that the reader does not follow
	step(1, "other changes")
	s.end(1, 6)
	step(2, "an end")
	s.newestVersion++ // its entry was trimmed, and everything is loaded: it is unknown which shows changed
	s.schedule(3, 7, 9)
	step(3, "a load")
	m.Log.Unfollow([]services.UserID{watchedUser})
	s.start(3, 9)
	step(3, "leaving")
	sequence := m.Shows.CountLive(followedAuthors(7), 0).VersionSum
	s.newestVersion, s.liveVersions = s.newestVersion+1, map[services.UserID]uint64{} // SQL has lost the hosts' versions, as after a restore
	s.schedule(4, 7, 9)
	readLog(t, m)
	if got := m.Shows.CountLive(followedAuthors(7), 0).VersionSum; got != sequence {
		t.Errorf("the sequence went from %d to %d", sequence, got)
	}
}

// An open board is notified of every change of its hosts' shows.
func TestOpenBoardsAreNotified(t *testing.T) {
	s := newFakeShowSQL()
	m := s.newCache()
	readLog(t, m)
	one, other := m.Shows.watchHosts(), m.Shows.watchHosts()
	one.setHosts(followedAuthors(7, 8))
	other.setHosts(followedAuthors(7))
	other.setHosts(followedAuthors(9))
	other.setHosts(followedAuthors(9))
	step := func(wantOne, wantOther bool, what string) {
		t.Helper()
		s.now = s.now.Add(time.Second)
		readLog(t, m)
		for i, want := range []bool{wantOne, wantOther} {
			got := false
			select {
			case <-[]*boardHostsWatch{one, other}[i].changed:
				got = true
			default:
			}
			if got != want {
				t.Errorf("after %s board %d was notified: %t", what, i+1, got)
			}
		}
	}
	step(false, false, "nothing")
	s.schedule(1, 7, 5)
	s.schedule(2, 8, 5)
	step(true, false, "two plans")
	text := s.shows[1]
	text.Title = "new"
	s.commitTexts(text)
	step(true, false, "a new title")
	s.commitTexts(text)
	step(false, false, "nothing new")
	s.schedule(3, 9, 5)
	step(false, true, "a plan of another host")
	s.newestVersion++ // its entry is trimmed
	s.schedule(4, 6, 5)
	step(true, true, "a load")
	one.close()
	other.close()
	s.schedule(5, 7, 5)
	step(false, false, "closing")
	if left := m.Shows.boards; len(left.hosts)+len(left.pending) != 0 || left.allChanged {
		t.Errorf("closed boards left: %v, %v, %t", left.hosts, left.pending, left.allChanged)
	}
}

// A timer that fires while the log is read does not report a change whose version the cache does not have yet:
// otherwise the board would read the former version, and would not be notified again.
func TestNoNotificationPrecedesItsVersion(t *testing.T) {
	s := newFakeShowSQL()
	m := s.newCache()
	readLog(t, m)
	board := m.Shows.watchHosts()
	board.setHosts(followedAuthors(7))
	s.schedule(1, 7, 5)
	m.Shows.apply(s.log)
	m.Shows.boards.notifyPending() // as a timer does
	select {
	case <-board.changed:
		t.Errorf("the board was notified at version %d", m.Shows.Version())
	default:
	}
	readLog(t, m)
	select {
	case <-board.changed:
	default:
		t.Error("the board was not notified")
	}
}

// A timer reports changes that come right after a notification, once for all of them. None is left out.
func TestConsecutiveChangesAreNotifiedTogether(t *testing.T) {
	notified := make(chan []string, 10)
	a := newReceivers(services.SystemClock{}, func(list []string) {
		if len(list) > 0 {
			slices.Sort(list)
			notified <- list
		}
	})
	next := func() []string {
		t.Helper()
		select {
		case list := <-notified:
			return list
		case <-time.After(30 * time.Second):
			t.Fatal("nobody was notified")
			return nil
		}
	}
	a.setHosts("one", followedAuthors(7, 8, 9))
	a.setHosts("two", followedAuthors(9, 7+1<<12)) // the last host has the same index as host 7 in the array of hostChangeReceivers.due
	a.recordChange(7)
	a.notifyPending()
	if first := next(); !slices.Equal(first, []string{"one"}) {
		t.Errorf("notified first were %v", first)
	}
	a.recordChange(8)
	a.notifyPending()
	a.recordChange(7 + 1<<12)
	a.notifyPending()
	for heard := []string(nil); !slices.Equal(heard, []string{"one", "two"}); {
		heard = slices.Compact(slices.Sorted(slices.Values(append(heard, next()...)))) // a slow machine reports each one separately
	}
	a.setHosts("one", followedAuthors(8))
	a.setHosts("two", nil)
	if len(a.hosts) != 1 || len(a.pending) != 0 {
		t.Errorf("shown are %v, pending %v", a.hosts, a.pending)
	}
}

// The cache keeps the newest replays of hosts whose replays are in no list, and all other replays that a running session may have
// to show or omit.
func TestPulledReplaysAreBounded(t *testing.T) {
	s := newFakeShowSQL()
	m := s.newCache()
	readLog(t, m)
	const many = services.FeedRetention + 50
	for i := range many {
		id := services.ShowID(i + 1)
		s.schedule(id, 7, i)
		s.start(id, i)
		one := s.shows[id]
		one.Pull = true
		s.shows[id] = one
		s.end(id, i+1)
		s.now = s.now.Add(time.Second)
	}
	version := s.newestVersion
	kept := func(m *showCache, want int) {
		t.Helper()
		readLog(t, m)
		replays, more := m.Shows.replaysAt(followedAuthors(7), s.newestVersion, ShowPosition{}, many+1)
		if len(replays) != want || more || len(m.Shows.state.byID) != want {
			t.Errorf("%d replays and %d shows are kept, want %d", len(replays), len(m.Shows.state.byID), want)
		}
		if newest := showIDs(replays)[:services.FeedRetention]; newest[0] != many || !slices.IsSortedFunc(newest, func(a, b services.ShowID) int { return int(b) - int(a) }) {
			t.Errorf("the newest are %v", newest)
		}
	}
	kept(m, many)
	kept(s.newCache(), many)
	s.now = s.now.Add(2 * time.Hour)
	kept(m, services.FeedRetention)
	kept(s.newCache(), services.FeedRetention)
	if m.Shows.Version() != version {
		t.Errorf("at %d, want %d", m.Shows.Version(), version)
	}
}

// An entry that cannot be parsed causes a load, which contains its change.
func TestAnUnreadableLogEntryReloadsAllShows(t *testing.T) {
	s := newFakeShowSQL()
	m := s.newCache()
	readLog(t, m)
	s.schedule(1, 7, 5)
	s.log[0].Payload = []byte("{")
	loads := s.loadCount
	readLog(t, m)
	if got := activeShowIDs(m, 1, 7); !slices.Equal(got, []services.ShowID{1}) || s.loadCount != loads+1 {
		t.Errorf("the board has %v after %d loads", got, s.loadCount-loads)
	}
	s.readError = errors.New("away")
	if _, err := m.Log.RunOnce(t.Context()); err == nil {
		t.Error("SQL is away, and nobody says so")
	}
	if got := activeShowIDs(m, 1, 7); len(got) != 1 {
		t.Error("memory was lost with SQL")
	}
}

// Requests that need a version, the loop that reads the log, and readers run concurrently.
func TestBoardsAreReadWhileTheLogIsApplied(t *testing.T) {
	s := newFakeShowSQL()
	for i := range services.ShowID(200) {
		s.schedule(i+1, services.UserID(i%5+1), int(i))
	}
	for i := range services.ShowID(100) {
		s.start(i+1, int(i))
	}
	m := s.newCache()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for version := uint64(1); version <= s.newestVersion; version += 7 {
				if err := m.Shows.catchUp(t.Context(), version); err != nil {
					t.Error(err)
				}
				m.Shows.CountLive(followedAuthors(1, 2, 3), version)
				if shows, _ := m.Shows.activeAt(followedAuthors(1, 2, 3, 4, 5), version, ShowPosition{}, 300); len(shows) != int(min(version, 200)) {
					t.Errorf("at %d there are %d shows", version, len(shows))
				}
				if found, err := m.Shows.Shows(t.Context(), []services.ShowID{1, 150}); len(found) != 2 || err != nil {
					t.Errorf("%d shows, %v", len(found), err)
				}
				watch := m.Shows.watchHosts()
				watch.setHosts(followedAuthors(1, 2))
				m.Shows.setReaderHosts(watchedUser, followedAuthors(1, 2))
				watch.close()
			}
		})
		group.Go(func() {
			for range 20 {
				if err := m.Shows.Refresh(t.Context()); err != nil {
					t.Error(err)
				}
				s.nextEntryUnparsable.Store(true) // the next entry causes a load
			}
		})
	}
	group.Wait()
}
