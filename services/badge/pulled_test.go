package badge

import (
	"testing"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
)

// wantFeedCount checks the count of a user's home feed, and returns the badges.
func (n node) wantFeedCount(user services.UserID, want int, precision services.Precision) *services.Badges {
	n.TB.Helper()
	badges := n.read(user)
	if badges.HomeFeed.Value != want || badges.HomeFeed.Precision != precision {
		n.TB.Errorf("the home feed is %+v, want %d, %s", badges.HomeFeed, want, precision)
	}
	return badges
}

// The count is the pushed posts and the pulled posts above the seen position. Every change of either has a newer version, and
// the facts alone, without Redis, agree.
func TestTheFeedCountsPushedAndPulledPosts(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		reader, huge, small := n.MakeReader()
		before := n.wantFeedCount(reader, 0, services.Exact).Version
		newer := func(want int) {
			t.Helper()
			n.RunJobsAndReadLog()
			now := n.wantFeedCount(reader, want, services.Exact).Version
			if now <= before {
				t.Errorf("version %s after %s", now, before)
			}
			before = now
			facts, err := n.ReadFacts(t.Context(), reader)
			n.Must(err)
			if facts.HomeFeed.Value != want {
				t.Errorf("the facts say %d, want %d", facts.HomeFeed.Value, want)
			}
			explained, err := n.Explain(t.Context(), reader)
			n.Must(err)
			if want > 0 && len(explained[0].Items) != want {
				t.Errorf("%d are explained, want %d", len(explained[0].Items), want)
			}
		}
		first := n.Post(huge)
		newer(1)
		n.Post(small)
		newer(2)
		second := n.Post(huge)
		newer(3)
		n.World.Delete(second)
		newer(2)
		n.markFeedSeen(reader, first)
		newer(1)
		n.Post(huge)
		newer(2)
		n.Unfollow(huge, reader)
		newer(1)
		n.Follow(huge, reader)
		n.RunJobsAndReadLog()
		n.wantFeedCount(reader, 1, services.Exact) // posts from before the follow are listed and do not count
		before = n.read(reader).Version
		n.Post(huge)
		newer(2)
		n.SetMode(huge, services.AuthorSmall)
		n.Post(huge)
		newer(3)
		n.wantFeedCount(huge, 0, services.Exact) // a user's own posts do not count
	})
}

// Above 300 the count says that there may be more, whether the posts were pushed or pulled.
func TestTheFeedsCountEndsAt300(t *testing.T) {
	n := redisServerNode(t)
	reader, huge, small := n.MakeReader()
	n.InsertPosts(huge, 200)
	n.InsertPosts(small, 100)
	n.Must(n.World.Projector.RefillInbox(t.Context(), reader))
	n.RunJobsAndReadLog()
	n.wantFeedCount(reader, 300, services.Exact)
	n.Post(huge)
	n.RunJobsAndReadLog()
	n.wantFeedCount(reader, 300, services.AtLeast)
	n.InsertPosts(huge, 500)
	n.RunJobsAndReadLog()
	n.wantFeedCount(reader, 300, services.AtLeast)
}

// The count is the same after a flush of Redis and on a node that has just started.
func TestTheFeedsCountAfterALoss(t *testing.T) {
	n := redisServerNode(t)
	reader, huge, small := n.MakeReader()
	n.Post(huge)
	n.Post(small)
	n.RunJobsAndReadLog()
	n.wantFeedCount(reader, 2, services.Exact)
	n.RedisServer.Do("FLUSHALL")
	n.wantFeedCount(reader, 2, services.Exact)
	other := newNode(n.AnotherNode())
	other.wantFeedCount(reader, 2, services.Exact)
	if _, err := other.Caches.Changelog.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.wantFeedCount(reader, 2, services.Exact)
}

// A subscriber is notified of a pulled post that another node has published, through the changelog alone; without SQL the
// count that was known last stays, and an unknown count is not marked as exact.
func TestSubscribersAreNotifiedOfPulledPosts(t *testing.T) {
	n := redisServerNode(t)
	reader, huge, _ := n.MakeReader()
	notified := map[services.UserID]int{}
	n.Caches.Changelog.OnReadersNotified(func(readers []services.UserID) {
		for _, user := range readers {
			notified[user]++
		}
	})
	watched := func(want int) {
		t.Helper()
		badges, errs := n.ReadAndFollow(t.Context(), []services.UserID{reader})
		if errs[0] != nil || badges[0].HomeFeed.Value != want {
			t.Fatalf("%+v, %v, want %d", badges[0].HomeFeed, errs[0], want)
		}
	}
	watched(0)
	n.Post(huge)
	n.RunJobsAndReadLog()
	if notified[reader] != 1 || len(notified) != 1 {
		t.Errorf("notified were %v", notified)
	}
	watched(1)
	stranger := n.AnotherNode()
	n.Must(n.DB.Close())
	n.wantFeedCount(reader, 1, services.Exact)
	newNode(stranger).wantFeedCount(reader, 0, services.AtLeast)
}

// The audit finds no error in the counts of pushed and pulled posts.
func TestTheAuditAgreesOnPulledAuthors(t *testing.T) {
	n := redisServerNode(t)
	reader, huge, small := n.MakeReader()
	n.Post(huge)
	n.Post(small)
	n.RunJobsAndReadLog()
	differed, err := n.World.Projector.Recount(t.Context(), reader)
	if err != nil || len(differed) > 0 {
		t.Errorf("differed: %v, %v", differed, err)
	}
	n.wantFeedCount(reader, 2, services.Exact)
	n.Must(n.World.Fanout.ReconcileFollow(t.Context(), reader, huge))
	n.wantFeedCount(reader, 2, services.Exact)
}
