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

// wantBoard checks the count of a user's live board, and returns the badges.
func (n node) wantBoard(user services.UserID, want int) *services.Badges {
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
	n.must(n.live.MarkSeen(n.TB.Context(), user, nil))
}

// newReaderOfHosts makes a user who follows two hosts, each with an upcoming show.
func (n node) newReaderOfHosts() (reader services.UserID, hosts [2]services.UserID, shows [2]services.PostID) {
	n.TB.Helper()
	users := n.MakeUsers(3)
	for i := range hosts {
		hosts[i] = users[i+1]
		n.Follow(hosts[i], users[0])
		shows[i] = livetest.Schedule(n.World, hosts[i], time.Hour)
	}
	n.settle()
	return users[0], hosts, shows
}

// The count is the number of running shows that went live after the board was last seen and after their hosts were followed. Each
// change of the count has a newer version, and the facts alone and the explanation agree with it.
func TestTheBoardCountsShowsThatWentLive(t *testing.T) {
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		reader, hosts, shows := n.newReaderOfHosts()
		before := n.wantBoard(reader, 0).Version
		newer := func(what string, want int) {
			t.Helper()
			n.settle()
			badges := n.wantBoard(reader, want)
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
		livetest.Start(n.World, shows[0])
		newer("a start", 1)
		livetest.Start(n.World, shows[1])
		newer("another", 2)
		livetest.End(n.World, n.Clock.Now(), shows[0])
		newer("an end", 1)
		n.markBoardSeen(reader)
		newer("a look", 0)
		third := livetest.Schedule(n.World, hosts[0], time.Hour)
		livetest.Start(n.World, third)
		newer("one more", 1)
		n.Unfollow(hosts[0], reader)
		newer("an unfollow", 0)
		n.Follow(hosts[0], reader)
		newer("a follow of who runs already", 0)
		fourth := livetest.Schedule(n.World, hosts[0], time.Hour)
		livetest.Start(n.World, fourth)
		newer("one after the follow", 1)
		livetest.End(n.World, n.Clock.Now().Add(time.Second), fourth)
		newer("its end", 0)
		n.wantBoard(hosts[0], 0) // a host's own show is not on their own board
		differed, err := n.World.Projector.Recount(t.Context(), reader)
		if err != nil || len(differed) > 0 {
			t.Errorf("the audit finds %v, %v", differed, err)
		}
		digest, err := n.Digest(t.Context(), reader, fanouttest.Start.Add(-time.Hour))
		n.Must(err)
		place := slices.IndexFunc(digest.Parts, func(part services.DigestPart) bool { return part.Source == services.SourceLiveBoard })
		if part := digest.Parts[place]; part.Count.Value != 2 || part.Count.Precision != services.Exact {
			t.Errorf("while away came %+v, want the show that runs and the one that ended", part)
		}
	})
}

// The count is the same after a flush of Redis and on another node. While a node's cache of shows is not loaded,
// the count is UNKNOWN, except for a user who follows no host.
func TestTheBoardsCountAfterALoss(t *testing.T) {
	n := served(t)
	reader, hosts, shows := n.newReaderOfHosts()
	livetest.Start(n.World, shows[:]...)
	n.settle()
	n.markBoardSeen(reader)
	third := livetest.Schedule(n.World, hosts[1], time.Hour)
	livetest.Start(n.World, third)
	n.settle()
	n.wantBoard(reader, 1)
	n.Server.Do("FLUSHALL")
	n.wantBoard(reader, 1)
	other := newNode(n.AnotherNode())
	if badges := other.read(reader); badges.LiveBoard.Precision != services.Unknown || badges.LiveBoard.Value != 0 {
		t.Errorf("a node without memory says %+v", badges.LiveBoard)
	}
	other.wantBoard(hosts[0], 0)
	if _, err := other.Caches.Changelog.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.wantBoard(reader, 1)
}

// A subscriber is notified when a host that they follow goes live, and for no other host. If SQL does not answer, the count
// that was known last stays.
func TestSubscribersAreNotifiedOfHostsTheyFollow(t *testing.T) {
	n := served(t)
	reader, hosts, shows := n.newReaderOfHosts()
	stranger := livetest.Schedule(n.World, reader, time.Hour)
	n.settle()
	told := map[services.UserID]int{}
	n.Caches.Changelog.OnReadersNotified(func(readers []services.UserID) {
		for _, user := range readers {
			told[user]++
		}
	})
	watched := func(want int) {
		t.Helper()
		badges, errs := n.ReadWatched(t.Context(), []services.UserID{reader, hosts[0]})
		if errs[0] != nil || badges[0].LiveBoard.Value != want {
			t.Fatalf("%+v, %v, want %d", badges[0].LiveBoard, errs[0], want)
		}
	}
	watched(0)
	livetest.Start(n.World, stranger)
	n.settle()
	if len(told) > 0 {
		t.Errorf("notified were %v", told)
	}
	n.Clock.Advance(time.Second) // at most ten notifications a second
	livetest.Start(n.World, shows[0])
	n.settle()
	if told[reader] != 1 || len(told) != 1 {
		t.Errorf("notified were %v", told)
	}
	watched(1)
	n.Must(n.Store.Close())
	watched(1)
}

// A user's policy applies to this source as to every other.
func TestThePolicyAppliesToTheBoardsCount(t *testing.T) {
	n := served(t)
	reader, _, shows := n.newReaderOfHosts()
	livetest.Start(n.World, shows[:]...)
	n.settle()
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
	now        int                                     // the number of the present event
	shows      []services.PostID                       // those that are not over
	host       map[services.PostID]services.UserID     // the host of each show
	live       map[services.PostID]int                 // when the show went live; absent if it is not running
	followedAt map[services.UserID]int                 // when the reader followed the host; absent without a follow
	mode       map[services.UserID]services.FollowMode // the mode of the follow
	seen       int                                     // when the reader looked at the board
	version    string                                  // the version of the badges at the last check
	shown      int                                     // the count at the last check
}

// count is the expected count.
func (m *boardModel) count() (count int) {
	for show, at := range m.live {
		if since, follows := m.followedAt[m.host[show]]; follows && at > since && at > m.seen && m.mode[m.host[show]] != services.FollowNone {
			count++
		}
	}
	return count
}

// After any events in any order, with losses of Redis in between, and after all jobs, the count is the model's. Each change
// of the count has a greater version.
func TestTheBoardsCountEqualsAModel(t *testing.T) {
	n := served(t)
	histories.Reduce(t, 4)
	rapid.Check(t, func(t *rapid.T) {
		users := n.MakeUsers(3)
		reader, hosts := users[0], users[1:]
		m := &boardModel{host: map[services.PostID]services.UserID{}, live: map[services.PostID]int{}, followedAt: map[services.UserID]int{}, mode: map[services.UserID]services.FollowMode{}}
		for range rapid.IntRange(5, 30).Draw(t, "steps") {
			m.now++
			n.step(t, m, reader, rapid.SampledFrom(hosts).Draw(t, "host"))
			n.settle()
			badges := n.read(reader)
			if want := m.count(); badges.LiveBoard.Value != want || badges.LiveBoard.Precision != services.Exact {
				t.Fatalf("the number is %+v, want %d", badges.LiveBoard, want)
			}
			if badges.Version < m.version || badges.Version == m.version && badges.LiveBoard.Value != m.shown {
				t.Fatalf("version %s with %d after %s with %d", badges.Version, badges.LiveBoard.Value, m.version, m.shown)
			}
			m.version, m.shown = badges.Version, badges.LiveBoard.Value
		}
	})
}

// step makes one random event happen, on the node and in the model.
func (n node) step(t *rapid.T, m *boardModel, reader, host services.UserID) {
	switch step := rapid.SampledFrom([]string{"schedule", "start", "start", "start", "end", "follow", "follow", "unfollow", "mode", "mode", "look", "flush", "later"}).Draw(t, "step"); step {
	case "schedule", "start":
		id := livetest.Schedule(n.World, host, time.Hour)
		m.shows, m.host[id] = append(m.shows, id), host
		if step == "start" {
			n.settle()
			livetest.Start(n.World, id)
			m.live[id] = m.now
		}
	case "end":
		if len(m.shows) > 0 {
			i := rapid.IntRange(0, len(m.shows)-1).Draw(t, "show")
			if _, runs := m.live[m.shows[i]]; runs {
				livetest.End(n.World, n.Clock.Now(), m.shows[i])
				delete(m.live, m.shows[i])
				m.shows = slices.Delete(m.shows, i, i+1)
			}
		}
	case "follow":
		if _, follows := m.followedAt[host]; !follows {
			n.Follow(host, reader)
			m.followedAt[host] = m.now
		}
	case "unfollow":
		n.Unfollow(host, reader)
		delete(m.followedAt, host)
		delete(m.mode, host)
	case "mode":
		if _, follows := m.followedAt[host]; follows {
			m.mode[host] = services.FollowMode(rapid.IntRange(0, 2).Draw(t, "mode"))
			n.SetFollowMode(host, reader, m.mode[host])
		}
	case "look":
		n.markBoardSeen(reader)
		m.seen = m.now
	case "flush":
		n.Server.Do("FLUSHALL")
	case "later":
		n.Clock.Advance(time.Second)
	}
}
