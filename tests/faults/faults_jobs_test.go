package faults

import (
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
	"tidings/tests/world"
)

// Jobs run late, twice, out of order and without a fact that caused them. Posts are marked as seen before they are in the inbox. Redis
// loses single keys. Badges and feeds still equal the reference model.
func TestLateAndRepeatedJobs(t *testing.T) {
	server := redistest.NewServer(t)
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL(), ManualStepping: true})
	n.Badges("somebody")
	if got := server.Do("KEYS", "{u*}:b"); len(got.([]any)) == 0 {
		t.Fatal("documents are not at {u<number>}:b: losing them would prove nothing")
	}
	histories.ReduceRapidChecks(t, 5)
	rapid.Check(t, func(t *rapid.T) {
		w := world.NewReferenceModel(n, nil)
		// Everybody follows the next two people, so that each action has a recipient.
		for i, reader := range w.People {
			for step := 1; step <= 2; step++ {
				author := w.People[(i+step)%len(w.People)]
				n.Follow(reader, author)
				w.PostCountAtFollow[reader][author] = 0
			}
		}
		actions := map[string]func(*rapid.T){
			"again": w.QueueExtraJobs, "again and again": w.QueueExtraJobs, "early": w.MarkSeenBeforeFanout, "early and compare": func(t *rapid.T) {
				w.MarkSeenBeforeFanout(t)
				w.CompareFeedsAndBadges(t)
			},
			"lose":  func(t *rapid.T) { w.LoseRedisData(t, server) },
			"flush": func(*rapid.T) { server.Flush() },
		}
		maps.Copy(actions, map[string]func(*rapid.T){
			"publish": w.Publish, "delete": w.DeletePost, "follow": w.Follow, "unfollow": w.Unfollow, "mark": w.MarkFeedSeen,
			"like": w.Like, "work": w.RunSomeJobs, "look": func(t *rapid.T) { w.ReadBadges(t, w.DrawPerson(t, "person")) },
		})
		t.Repeat(actions)
		w.CompareFeedsAndBadges(t)
	})
}

// Counts of notifications that a job read from SQL long ago and writes to Redis late change nothing, and neither do counts that are
// written twice.
func TestLateNotificationCountsChangeNothing(t *testing.T) {
	world.ForEachStoragePair(t, func(t *testing.T, options world.NodeOptions) {
		options.ManualStepping = true
		n := world.StartNode(t, options)
		author := n.EnsureUserIDs("author")[0]
		n.Badges("author")
		var late [][]services.CategoryCounts
		counts := func() {
			t.Helper()
			documents, err := n.Redis.Documents(t.Context(), []services.UserID{author})
			if err != nil {
				t.Fatal(err)
			}
			late = append(late, documents[0].Notifications)
		}
		for _, liker := range []string{"a", "b", "c"} {
			n.MustAsk(liker, `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": n.Publish("author", liker)}, nil)
			n.SettleJobsAndCaches()
			counts()
		}
		n.MustAsk("author", `mutation{markNotificationsSeen(input:{}){badges{version}}}`, nil, nil)
		counts()
		n.MustAsk("d", `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": n.Publish("author", "d")}, nil)
		n.SettleJobsAndCaches()
		want := n.Badges("author")
		if want.Notifications.Like.Value != 1 {
			t.Fatalf("%+v, want 1 like", want.Notifications.Like)
		}
		for i, old := range late {
			var fields projector.VersionedFieldsByUser
			for _, counts := range old {
				fields.Add(author, rdb.CategoryVersionedFields(counts)...)
			}
			if err := n.Projector.PutVersionedFields(t.Context(), fields.All); err != nil {
				t.Fatal(err)
			}
			if got := n.Badges("author"); got.Notifications.Like != want.Notifications.Like || got.Version != want.Version {
				t.Errorf("after the late counts %d: %+v at %s, want %+v at %s", i, got.Notifications.Like, got.Version, want.Notifications.Like, want.Version)
			}
		}
	})
}

// Data that was read from SQL before an unfollow and is written after it does not restore the author's posts, whether a push or a
// rebuild was in progress.
func TestLateSQLReads(t *testing.T) {
	world.ForEachStoragePair(t, func(t *testing.T, options world.NodeOptions) {
		options.ManualStepping = true
		n := world.StartNode(t, options)
		ctx := t.Context()
		ids := n.EnsureUserIDs("reader", "author")
		reader, author := ids[0], ids[1]
		n.Follow("reader", "author")
		id, err := services.ParsePostGlobalID("post", n.Publish("author", "one"))
		if err != nil {
			t.Fatal(err)
		}
		n.SettleJobsAndCaches()
		if got := n.Badges("reader").HomeFeed.Value; got != 1 {
			t.Fatalf("at first %d count, want 1", got)
		}

		stamp, err := n.Redis.Client.Now(ctx)
		if err != nil {
			t.Fatal(err)
		}
		stamps, err := n.Redis.BeginRebuild(ctx, []services.UserID{reader}, rdb.RebuildMode{IsVisit: true})
		if err != nil {
			t.Fatal(err)
		}
		entry := services.FeedEntry{Post: id, Author: author, CountsAsNew: true}
		n.MustAsk("reader", `mutation{unfollow(input:{userId:"user:author"}){user{id}}}`, nil, nil)

		results, err := n.Redis.AddToInboxes(ctx, stamp, []rdb.InboxPost{{Reader: reader, Entry: entry}})
		if err != nil || results[0].Status != redis.Retry {
			t.Errorf("the late push: %+v, %v, want to be read again", results, err)
		}
		facts := rdb.FeedFacts{Reader: reader, Stamp: stamps[0], IsVisit: true, Entries: []services.FeedEntry{entry}, KeyLifetime: time.Hour}
		result, err := n.Redis.EndRebuild(ctx, facts)
		if err != nil || result.Status != redis.Retry {
			t.Errorf("the late rebuild: %+v, %v, want to be read again", result, err)
		}
		if got := n.Badges("reader").HomeFeed; got.Value != 0 || got.Precision != "EXACT" {
			t.Errorf("after the unfollow %+v, want 0", got)
		}
		if listed := n.ReadWholeFeed("reader", 10); len(listed) > 0 {
			t.Errorf("after the unfollow the feed lists %v", listed)
		}
		n.SettleJobsAndCaches()
		if listed := n.ReadWholeFeed("reader", 10); len(listed) > 0 {
			t.Errorf("after the job the feed lists %v", listed)
		}
	})
}
