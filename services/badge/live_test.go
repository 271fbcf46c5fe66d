package badge

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/live/livetest"
	"tidings/tests/histories"
)

// wantBoardCount checks the count of a user's live board, and returns the badges.
func (n node) wantBoardCount(user services.UserID, want int) *services.Badges {
	n.TB.Helper()
	badges := n.read(user)
	if badges.LiveBoard.Value != want || badges.LiveBoard.Precision != services.Exact {
		n.TB.Errorf("the live board is %+v, want %d", badges.LiveBoard, want)
	}
	return badges
}

// markBoardSeen marks the board seen as of now.
func (n node) markBoardSeen(user services.UserID) {
	n.TB.Helper()
	n.mustCommit(n.live.MarkSeen(n.TB.Context(), user, nil))
}

// newReaderOfHosts makes a user who follows two hosts, each with an upcoming show.
func (n node) newReaderOfHosts() (reader services.UserID, hosts [2]services.UserID, shows [2]services.ShowID) {
	n.TB.Helper()
	users := n.MakeUsers(3)
	for i := range hosts {
		hosts[i] = users[i+1]
		n.Follow(hosts[i], users[0])
		shows[i] = livetest.ScheduleShow(n.World, hosts[i], time.Hour)
	}
	n.RunJobsAndReadLog()
	return users[0], hosts, shows
}

// The count is the number of running shows that went live after the board was last seen and after their hosts were followed. Each
// change of the count has a newer version, and the facts alone and the explanation agree with it.
func TestTheBoardCountsShowsThatWentLive(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		reader, hosts, shows := n.newReaderOfHosts()
		before := n.wantBoardCount(reader, 0).Version
		newer := func(what string, want int) {
			t.Helper()
			n.RunJobsAndReadLog()
			badges := n.wantBoardCount(reader, want)
			if badges.Version <= before {
				t.Errorf("%s: version %s after %s", what, badges.Version, before)
			}
			before = badges.Version
			facts, err := n.ReadFacts(t.Context(), reader)
			n.Must(err)
			if facts.LiveBoard.Value != want || facts.LiveBoard.Precision != services.Stale {
				t.Errorf("%s: the facts say %+v, want %d", what, facts.LiveBoard, want)
			}
			explained, err := n.Explain(t.Context(), reader)
			n.Must(err)
			items := 0
			for _, one := range explained {
				if one.Source == services.SourceLiveBoard {
					items = len(one.Items)
				}
			}
			if items != want {
				t.Errorf("%s: explained are %+v, want %d", what, explained, want)
			}
		}
		livetest.StartShows(n.World, shows[0])
		newer("a start", 1)
		livetest.StartShows(n.World, shows[1])
		newer("another", 2)
		livetest.EndShows(n.World, n.Clock.Now(), shows[0])
		newer("an end", 1)
		n.markBoardSeen(reader)
		newer("a look", 0)
		third := livetest.ScheduleShow(n.World, hosts[0], time.Hour)
		livetest.StartShows(n.World, third)
		newer("one more", 1)
		n.Unfollow(hosts[0], reader)
		newer("an unfollow", 0)
		n.Follow(hosts[0], reader)
		newer("a follow of who runs already", 0)
		fourth := livetest.ScheduleShow(n.World, hosts[0], time.Hour)
		livetest.StartShows(n.World, fourth)
		newer("one after the follow", 1)
		livetest.EndShows(n.World, n.Clock.Now().Add(time.Second), fourth)
		newer("its end", 0)
		n.wantBoardCount(hosts[0], 0) // a host's own show is not on their own board
		differed, err := n.World.Projector.Recount(t.Context(), reader)
		if err != nil || len(differed) > 0 {
			t.Errorf("the audit finds %v, %v", differed, err)
		}
		digest, err := n.Digest(t.Context(), reader, fanouttest.StartTime.Add(-time.Hour))
		n.Must(err)
		index := slices.IndexFunc(digest.Parts, func(part services.DigestPart) bool { return part.Source == services.SourceLiveBoard })
		if part := digest.Parts[index]; part.Count.Value != 2 || part.Count.Precision != services.Exact {
			t.Errorf("while away came %+v, want the show that runs and the one that ended", part)
		}
	})
}

// The count is the same after a flush of Redis and on another node. While a node's cache of shows is not loaded,
// the count is UNKNOWN, except for a user who follows no host.
func TestTheBoardsCountAfterALoss(t *testing.T) {
	n := redisServerNode(t)
	reader, hosts, shows := n.newReaderOfHosts()
	livetest.StartShows(n.World, shows[:]...)
	n.RunJobsAndReadLog()
	n.markBoardSeen(reader)
	third := livetest.ScheduleShow(n.World, hosts[1], time.Hour)
	livetest.StartShows(n.World, third)
	n.RunJobsAndReadLog()
	n.wantBoardCount(reader, 1)
	n.RedisServer.Do("FLUSHALL")
	n.wantBoardCount(reader, 1)
	other := newNode(n.AnotherNode())
	if badges := other.read(reader); badges.LiveBoard.Precision != services.Unknown || badges.LiveBoard.Value != 0 {
		t.Errorf("a node without memory says %+v", badges.LiveBoard)
	}
	other.wantBoardCount(hosts[0], 0)
	if _, err := other.Caches.Changelog.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.wantBoardCount(reader, 1)
}

// A subscriber is notified when a host that they follow goes live, and for no other host. If SQL does not answer, the count
// that was known last stays.
func TestSubscribersAreNotifiedOfHostsTheyFollow(t *testing.T) {
	n := redisServerNode(t)
	reader, hosts, shows := n.newReaderOfHosts()
	stranger := livetest.ScheduleShow(n.World, reader, time.Hour)
	n.RunJobsAndReadLog()
	notified := map[services.UserID]int{}
	n.Caches.Changelog.OnReadersNotified(func(readers []services.UserID) {
		for _, user := range readers {
			notified[user]++
		}
	})
	watched := func(want int) {
		t.Helper()
		badges, errs := n.ReadAndFollow(t.Context(), []services.UserID{reader, hosts[0]})
		if errs[0] != nil || badges[0].LiveBoard.Value != want {
			t.Fatalf("%+v, %v, want %d", badges[0].LiveBoard, errs[0], want)
		}
	}
	watched(0)
	livetest.StartShows(n.World, stranger)
	n.RunJobsAndReadLog()
	if len(notified) > 0 {
		t.Errorf("notified were %v", notified)
	}
	n.Clock.Advance(time.Second) // at most ten notifications a second
	livetest.StartShows(n.World, shows[0])
	n.RunJobsAndReadLog()
	if notified[reader] != 1 || len(notified) != 1 {
		t.Errorf("notified were %v", notified)
	}
	watched(1)
	n.Must(n.DB.Close())
	watched(1)
}

// A user's policy applies to this source as to every other.
func TestThePolicyAppliesToTheBoardsCount(t *testing.T) {
	n := redisServerNode(t)
	reader, _, shows := n.newReaderOfHosts()
	livetest.StartShows(n.World, shows[:]...)
	n.RunJobsAndReadLog()
	cmd, err := n.SetPolicy(reader, PolicyChange{
		InTotal: map[services.Source]bool{services.SourceLiveBoard: false}, AsDot: map[services.Source]bool{services.SourceLiveBoard: true},
	})
	n.Must(err)
	for _, err := range n.World.Fanout.Commit(t.Context(), cmd) {
		n.Must(err)
	}
	badges, err := n.Read(t.Context(), reader)
	n.Must(err)
	if badges.LiveBoard.Display != services.DisplayDot || badges.LiveBoard.InTotal || badges.Total.Value != 0 || badges.LiveBoard.Value != 2 {
		t.Errorf("shown are %+v of a total of %+v", badges.LiveBoard, badges.Total)
	}
}

// boardModel computes the expected count from the events in their order.
type boardModel struct {
	eventNumber      int                                     // the number of the present event
	openShows        []services.ShowID                       // those that are not over
	host             map[services.ShowID]services.UserID     // the host of each show
	wentLiveAtEvent  map[services.ShowID]int                 // when the show went live; absent if it is not running
	followedAtEvent  map[services.UserID]int                 // when the reader followed the host; absent without a follow
	followMode       map[services.UserID]services.FollowMode // the mode of the follow
	boardSeenAtEvent int                                     // when the reader looked at the board
	lastVersion      string                                  // the version of the badges at the last check
	lastCount        int                                     // the count at the last check
}

// expectedCount is the count that the board should have.
func (m *boardModel) expectedCount() (count int) {
	for show, at := range m.wentLiveAtEvent {
		if since, follows := m.followedAtEvent[m.host[show]]; follows && at > since && at > m.boardSeenAtEvent && m.followMode[m.host[show]] != services.FollowNone {
			count++
		}
	}
	return count
}

// After any events in any order, with losses of Redis in between, and after all jobs, the count is the model's. Each change
// of the count has a greater version.
func TestTheBoardsCountEqualsAModel(t *testing.T) {
	n := redisServerNode(t)
	histories.ReduceRapidChecks(t, 4)
	rapid.Check(t, func(t *rapid.T) {
		users := n.MakeUsers(3)
		reader, hosts := users[0], users[1:]
		m := &boardModel{host: map[services.ShowID]services.UserID{}, wentLiveAtEvent: map[services.ShowID]int{}, followedAtEvent: map[services.UserID]int{}, followMode: map[services.UserID]services.FollowMode{}}
		for range rapid.IntRange(5, 30).Draw(t, "steps") {
			m.eventNumber++
			n.runRandomStep(t, m, reader, rapid.SampledFrom(hosts).Draw(t, "host"))
			n.RunJobsAndReadLog()
			badges := n.read(reader)
			if want := m.expectedCount(); badges.LiveBoard.Value != want || badges.LiveBoard.Precision != services.Exact {
				t.Fatalf("the number is %+v, want %d", badges.LiveBoard, want)
			}
			if badges.Version < m.lastVersion || badges.Version == m.lastVersion && badges.LiveBoard.Value != m.lastCount {
				t.Fatalf("version %s with %d after %s with %d", badges.Version, badges.LiveBoard.Value, m.lastVersion, m.lastCount)
			}
			m.lastVersion, m.lastCount = badges.Version, badges.LiveBoard.Value
		}
	})
}

// runRandomStep makes one random event happen, on the node and in the model.
func (n node) runRandomStep(t *rapid.T, m *boardModel, reader, host services.UserID) {
	switch step := rapid.SampledFrom([]string{"schedule", "start", "start", "start", "end", "follow", "follow", "unfollow", "mode", "mode", "look", "flush", "later"}).Draw(t, "step"); step {
	case "schedule", "start":
		id := livetest.ScheduleShow(n.World, host, time.Hour)
		m.openShows, m.host[id] = append(m.openShows, id), host
		if step == "start" {
			n.RunJobsAndReadLog()
			livetest.StartShows(n.World, id)
			m.wentLiveAtEvent[id] = m.eventNumber
		}
	case "end":
		if len(m.openShows) > 0 {
			i := rapid.IntRange(0, len(m.openShows)-1).Draw(t, "show")
			if _, runs := m.wentLiveAtEvent[m.openShows[i]]; runs {
				livetest.EndShows(n.World, n.Clock.Now(), m.openShows[i])
				delete(m.wentLiveAtEvent, m.openShows[i])
				m.openShows = slices.Delete(m.openShows, i, i+1)
			}
		}
	case "follow":
		if _, follows := m.followedAtEvent[host]; !follows {
			n.Follow(host, reader)
			m.followedAtEvent[host] = m.eventNumber
		}
	case "unfollow":
		n.Unfollow(host, reader)
		delete(m.followedAtEvent, host)
		delete(m.followMode, host)
	case "mode":
		if _, follows := m.followedAtEvent[host]; follows {
			m.followMode[host] = services.FollowMode(rapid.IntRange(0, 2).Draw(t, "mode"))
			n.SetFollowMode(host, reader, m.followMode[host])
		}
	case "look":
		n.markBoardSeen(reader)
		m.boardSeenAtEvent = m.eventNumber
	case "flush":
		n.RedisServer.Do("FLUSHALL")
	case "later":
		n.Clock.Advance(time.Second)
	}
}
