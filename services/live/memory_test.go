package live

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/changelog"
)

// fakeShowSQL stands in for SQL: shows, their history, hosts and the log. A write is a transaction. It implements memoryFacts,
// changelog.Log and services.Clock.
type fakeShowSQL struct {
	log                 []changelog.Entry
	readError           error // what reads return while SQL does not answer; nil: it answers
	shows               map[services.ShowID]Show
	formerPositions     []formerPosition
	liveVersions        map[services.UserID]uint64 // by host: the version at which the set of their live shows last changed
	newestVersion       uint64                     // the newest version of the log
	now                 time.Time                  // the time of the node and of SQL
	beforeRead          func(what string)          // runs before the reads of a load and of the log; a test writes in it, as other nodes do
	nextEntryUnparsable atomic.Bool                // the next read of the log returns an entry that cannot be parsed

	showsReadByID, loadCount int // how many shows were read by ID, and how often a load began
}

func newFakeShowSQL() *fakeShowSQL {
	return &fakeShowSQL{
		shows: map[services.ShowID]Show{}, liveVersions: map[services.UserID]uint64{},
		now: noon, beforeRead: func(string) {},
	}
}

func (s *fakeShowSQL) Now() time.Time { return s.now }

// showCache is a node's cache of shows, with the log that it follows.
type showCache struct {
	Log   *changelog.Follower
	Shows *Memory
}

// newCache makes the cache of a node.
func (s *fakeShowSQL) newCache() *showCache {
	log := changelog.New(changelog.Config{Log: s, Logger: slog.New(slog.DiscardHandler), Clock: s, Settings: changelog.Settings{PollInterval: time.Hour}})
	return &showCache{log, newMemory(log, s, time.Hour)}
}

// commitMove commits a show with another status or position, and returns it with its version.
func (s *fakeShowSQL) commitMove(next Show) Show {
	former, known := s.shows[next.ID]
	next.Version, next.UpdatedAt = s.newestVersion+1, s.now
	entry := logEntry{loggedChange: loggedChange{Show: next}, Moved: true}
	entry.Show.Version = former.Version
	if next.Status == ShowLive && next.LiveVersion == 0 {
		next.LiveVersion, next.LiveStamp, entry.WentLive = next.Version, services.SortableIDAt(s.now), true
		entry.Show.LiveStamp = next.LiveStamp
	}
	if next.Status == ShowLive || former.Status == ShowLive {
		s.liveVersions[next.Host], entry.Live = next.Version, true
	}
	s.appendEntry(next.ID.String(), entry)
	if known || next.Status == ShowReplay {
		s.formerPositions = append(s.formerPositions, formerPosition{
			Show: next.ID, Host: next.Host, FromVersion: former.Version, UntilVersion: next.Version, UntilAt: s.now, Status: former.Status, Score: former.Position().Score,
		})
	}
	s.shows[next.ID] = next
	return next
}

// commitTexts commits a show of which only the texts have changed.
func (s *fakeShowSQL) commitTexts(next Show) Show {
	s.now = s.now.Add(time.Microsecond)
	next.UpdatedAt = s.now
	s.appendEntry(next.ID.String(), logEntry{loggedChange: loggedChange{Show: next}})
	s.shows[next.ID] = next
	return next
}

// appendEntry adds an entry to the log, under the next version.
func (s *fakeShowSQL) appendEntry(key string, entry any) {
	payload, err := json.Marshal(entry)
	if err != nil {
		panic(err)
	}
	s.newestVersion++
	s.log = append(s.log, changelog.Entry{Kind: ChangelogKind, Version: s.newestVersion, At: s.now, Key: key, Payload: payload})
}

// LastSequence returns the newest version of the log. A load of the cache begins with this call.
func (s *fakeShowSQL) LastSequence(context.Context, string) (last, oldest uint64, err error) {
	s.loadCount++
	s.beforeRead("last sequence")
	return s.newestVersion, 0, s.readError
}

func (s *fakeShowSQL) LastSequences(context.Context) (map[string]uint64, error) {
	return map[string]uint64{ChangelogKind: s.newestVersion}, s.readError
}

func (s *fakeShowSQL) LogAfter(_ context.Context, kind string, version uint64, limit int) (after []changelog.Entry, err error) {
	s.beforeRead("log")
	if s.nextEntryUnparsable.CompareAndSwap(true, false) {
		return []changelog.Entry{{Kind: kind, Version: version + 1}}, nil
	}
	for _, entry := range s.log {
		if entry.Version > version && len(after) < limit {
			after = append(after, entry)
		}
	}
	return after, s.readError
}

func (s *fakeShowSQL) showsByID(_ context.Context, ids []services.ShowID) (map[services.ShowID]Show, error) {
	s.showsReadByID += len(ids)
	found := map[services.ShowID]Show{}
	for _, id := range ids {
		if show, known := s.shows[id]; known {
			found[id] = show
		}
	}
	return found, s.readError
}

// showsWhere lists the shows that a condition accepts, by host, the newest end first.
func (s *fakeShowSQL) showsWhere(of func(Show) bool) (list []Show) {
	for _, one := range s.shows {
		if of(one) {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b Show) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(b.EndedAt.UnixMilli(), a.EndedAt.UnixMilli()))
	})
	return list
}

// activeShows returns at most two hosts' shows, so that a load needs several calls.
func (s *fakeShowSQL) activeShows(_ context.Context, after services.UserID, limit int) ([]Show, error) {
	s.beforeRead("active")
	hosts := map[services.UserID]bool{}
	var list []Show
	for _, one := range s.showsWhere(func(one Show) bool {
		return one.Version > 0 && one.Host > after && (one.Status == ShowUpcoming || one.Status == ShowLive)
	}) {
		if hosts[one.Host] = true; len(hosts) > min(limit, 2) {
			break
		}
		list = append(list, one)
	}
	return list, s.readError
}

// endedShows lists the shows that are over or cancelled and have moved since a time.
func (s *fakeShowSQL) endedShows(_ context.Context, since time.Time) ([]Show, error) {
	s.beforeRead("ended")
	return s.showsWhere(func(one Show) bool {
		return (one.Status == ShowReplay || one.Status == ShowCancelled) &&
			slices.ContainsFunc(s.formerPositions, func(f formerPosition) bool { return f.Show == one.ID && !f.UntilAt.Before(since) })
	}), s.readError
}

// showHistory lists the former positions that shows have left since a time.
func (s *fakeShowSQL) showHistory(_ context.Context, since time.Time) (list []formerPosition, err error) {
	s.beforeRead("history")
	for _, former := range s.formerPositions {
		if !former.UntilAt.Before(since) {
			list = append(list, former)
		}
	}
	return list, s.readError
}

func (s *fakeShowSQL) pulledReplays(_ context.Context, hosts []services.UserID, limit int) (list []Show, err error) {
	s.beforeRead("pulled")
	for _, host := range hosts {
		of := s.showsWhere(func(one Show) bool { return one.Host == host && one.Pull && one.Status == ShowReplay })
		list = append(list, of[:min(limit, len(of))]...)
	}
	return list, s.readError
}

// hostVersions returns the live versions of at most two hosts, so that a load needs several calls.
func (s *fakeShowSQL) hostVersions(_ context.Context, after services.UserID, limit int) (list []hostLiveVersion, err error) {
	s.beforeRead("versions")
	hosts := map[services.UserID]bool{} // whether the host pulls
	for _, one := range s.shows {
		hosts[one.Host] = hosts[one.Host] || one.Pull
	}
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		if host > after && len(list) < min(limit, 2) {
			list = append(list, hostLiveVersion{Host: host, LiveVersion: s.liveVersions[host], HasPulledReplays: hosts[host]})
		}
	}
	return list, s.readError
}

// schedule commits an upcoming show of a host, planned a number of minutes after noon, and returns it.
func (s *fakeShowSQL) schedule(id services.ShowID, host services.UserID, minutes int) Show {
	return s.commitMove(Show{ID: id, Host: host, Title: "title", Status: ShowUpcoming, PlannedAt: minutesAfterNoon(minutes)})
}

// start commits the start of a show, a number of minutes after noon.
func (s *fakeShowSQL) start(id services.ShowID, minutes int) Show {
	one := s.shows[id]
	one.Status, one.StartedAt = ShowLive, minutesAfterNoon(minutes)
	return s.commitMove(one)
}

// end commits the end of a show, a number of minutes after noon.
func (s *fakeShowSQL) end(id services.ShowID, minutes int) Show {
	one := s.shows[id]
	one.Status, one.EndedAt = ShowReplay, minutesAfterNoon(minutes)
	return s.commitMove(one)
}

// noon is the time at which these tests begin.
var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func minutesAfterNoon(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }

// boardEntry is the part of a show that boards show.
type boardEntry struct {
	id       services.ShowID
	status   ShowStatus
	position ShowPosition
}

func boardEntries(shows []Show) (list []boardEntry) {
	for _, one := range shows {
		list = append(list, boardEntry{one.ID, one.Status, one.Position()})
	}
	return list
}

func showIDs(shows []Show) (list []services.ShowID) {
	for _, one := range shows {
		list = append(list, one.ID)
	}
	return list
}

// watchedUser is a watched user.
const watchedUser = services.UserID(7)

// followedAuthors returns follows of authors, all from the first moment on.
func followedAuthors(authors ...services.UserID) (list []services.FollowedAuthor) {
	for _, author := range authors {
		list = append(list, services.FollowedAuthor{Author: author})
	}
	return list
}

// readLog lets a node read the log once.
func readLog(t testing.TB, m *showCache) {
	t.Helper()
	if _, err := m.Log.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// activeShowIDs returns the live and upcoming shows of hosts at a version, in the order of boards.
func activeShowIDs(m *showCache, version uint64, hosts ...services.UserID) []services.ShowID {
	shows, _ := m.Shows.activeAt(followedAuthors(hosts...), version, ShowPosition{}, 100)
	return showIDs(shows)
}

// A board at a version stays as it was, whatever happens afterwards.
func TestABoardIsReadAsItStoodAtAVersion(t *testing.T) {
	s := newFakeShowSQL()
	m := s.newCache()
	if m.Shows.Loaded() || !m.Shows.CountLive(followedAuthors(1), 0).CacheNotLoaded {
		t.Error("a node that has read nothing is ready")
	}
	readLog(t, m)
	for i, host := range []services.UserID{1, 2, 1, 3, 4} {
		s.schedule(services.ShowID(i+1), host, 10*(i+1))
	}
	first := s.start(3, 5).Version
	readLog(t, m)
	if got := activeShowIDs(m, first, 1, 2, 3, 4); !slices.Equal(got, []services.ShowID{3, 1, 2, 4, 5}) || m.Shows.Version() != first {
		t.Fatalf("at %d there are %v", m.Shows.Version(), got)
	}
	s.end(3, 50)
	second := s.start(5, 55).Version
	for range 2 { // on a node that follows the log, and on one that starts now
		readLog(t, m)
		if got := activeShowIDs(m, first, 1, 2, 3, 4); !slices.Equal(got, []services.ShowID{3, 1, 2, 4, 5}) {
			t.Errorf("the first board is now %v", got)
		}
		if got := activeShowIDs(m, second, 1, 2, 3, 4); !slices.Equal(got, []services.ShowID{5, 1, 2, 4}) {
			t.Errorf("the second board is %v", got)
		}
		if replays, more := m.Shows.replaysAt(followedAuthors(1, 4), second, ShowPosition{}, 10); more || !slices.Equal(showIDs(replays), []services.ShowID{3}) {
			t.Errorf("replays are %v, %t", replays, more)
		}
		if replays, _ := m.Shows.replaysAt(followedAuthors(1, 4), first, ShowPosition{}, 10); len(replays) > 0 {
			t.Errorf("replays were %v", replays)
		}
		frozen, known, there := m.Shows.ShowAt(3, first)
		if !known || !there || frozen.Status != ShowLive || frozen.StartedAt != minutesAfterNoon(5) || !frozen.EndedAt.IsZero() || frozen.Version != first {
			t.Errorf("the show stood at %+v", frozen)
		}
		if _, known, there := m.Shows.ShowAt(3, 0); !known || there {
			t.Error("it was there before it was planned")
		}
		if _, known, _ := m.Shows.ShowAt(99, first); known {
			t.Error("a show is known that never was")
		}
		m = s.newCache()
	}
}

// A page continues after a position, and reports whether more follows.
func TestPagesOfABoard(t *testing.T) {
	s := newFakeShowSQL()
	m := s.newCache()
	const many, of40 = 120, 40
	var hosts []services.UserID
	for i := range services.ShowID(many) {
		hosts = append(hosts, services.UserID(i%of40+1))
		if s.schedule(i+1, services.UserID(i%of40+1), int(i*7%40)+1); i%4 == 0 {
			s.start(i+1, int(i/8))
		}
	}
	readLog(t, m)
	hosts = slices.Compact(slices.Sorted(slices.Values(hosts)))
	whole, more := m.Shows.activeAt(followedAuthors(hosts...), s.newestVersion, ShowPosition{}, many)
	if len(whole) != many || more {
		t.Fatalf("%d shows, more %t", len(whole), more)
	}
	for first := range many {
		for _, limit := range []int{1, 3, many} {
			after := whole[first].Position()
			page, more := m.Shows.activeAt(followedAuthors(hosts...), s.newestVersion, after, limit)
			want := whole[first+1 : min(first+1+limit, many)]
			if !slices.Equal(boardEntries(page), boardEntries(want)) || more != (first+1+limit < many) {
				t.Fatalf("%d after the %dth: %v, %t; want %v", limit, first, boardEntries(page), more, boardEntries(want))
			}
		}
	}
	if page, more := m.Shows.activeAt(followedAuthors(hosts...), s.newestVersion, ShowPosition{Replay: true, Score: 1}, 10); len(page) > 0 || more {
		t.Error("among the replays there are active shows")
	}
}

// A request that needs a later version makes the cache read the log. A version that the log does not have is refused.
func TestShowsCatchUpToARequestedVersion(t *testing.T) {
	s := newFakeShowSQL()
	m := s.newCache()
	version := s.schedule(1, 7, 5).Version
	if err := m.Shows.catchUp(t.Context(), version); err != nil || m.Shows.Version() != version || !m.Shows.Loaded() {
		t.Fatalf("at %d: %v", m.Shows.Version(), err)
	}
	version = s.start(1, 3).Version
	if err := m.Shows.catchUp(t.Context(), version+1); services.CodeOf(err) != services.Invalid || m.Shows.Version() != version {
		t.Errorf("at %d, and beyond the last sequence: %v", m.Shows.Version(), err)
	}
	s.readError = errors.New("away")
	if err := m.Shows.catchUp(t.Context(), version); err != nil {
		t.Errorf("what is there needs no SQL: %v", err)
	}
	if err := m.Shows.catchUp(t.Context(), version+1); err == nil || services.CodeOf(err) == services.Invalid {
		t.Errorf("SQL is away, and the version is said to be wrong: %v", err)
	}
}
