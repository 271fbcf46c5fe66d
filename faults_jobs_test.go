package main

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/rdb"
	"tidings/services/rdb/rdbtest"
	"tidings/services/store"
	"tidings/services/store/storetest"
)

// number gives the number of a person who was mentioned.
func (w *world) number(person string) services.UserNumber {
	numbers, err := w.n.store.UserNumbers(w.n.tb.Context(), []string{person})
	if err != nil || numbers[person] == 0 {
		w.n.tb.Fatalf("the number of %s: %v, %v", person, numbers, err)
	}
	return numbers[person]
}

// again puts jobs into the queue that have been there before, or that nothing asked for.
func (w *world) again(t *rapid.T) {
	var jobs []store.NewJob
	if post := w.somePost(t); post != nil {
		id, err := services.ParsePostGlobalID("post", post.id)
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, fanout.FanOutJob(id))
		if post.deleted {
			jobs = append(jobs, fanout.RemoveJob(id))
		}
		for liker := range w.liked[post.id] {
			cause := store.Cause{Recipient: w.number(post.author), Category: services.CategoryLike, Subject: id, Actor: w.number(liker)}
			job, err := fanout.NotifyJob(cause)
			if err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, job, job)
		}
	}
	reader, author := w.number(w.person(t, "reader")), w.number(w.person(t, "author"))
	if reader != author { // nobody follows himself
		jobs = append(jobs, fanout.FollowJob(reader, author))
	}
	jobs = append(jobs, fanout.SeenJob(reader), fanout.CountsJob(author))
	jobs = rapid.Permutation(jobs).Draw(t, "order")
	err := w.n.store.Write(w.n.tb.Context(), func(tx *store.Tx) error { return tx.Enqueue(w.n.tb.Context(), jobs...) })
	if err != nil {
		t.Fatal(err)
	}
}

// early marks a post as seen that is still on its way to the reader, as another device may have shown it, and reports
// an older one after it.
func (w *world) early(t *rapid.T) {
	w.publish(t)
	newest := w.posts[len(w.posts)-1]
	for _, reader := range w.people {
		if _, follows := w.follows[reader][newest.author]; !follows || !rapid.Bool().Draw(t, "marks") {
			continue
		}
		w.look(t, reader) // he is here, and has a document
		w.n.markFeedSeen(reader, newest.id)
		w.n.markFeedSeen(reader, w.posts[rapid.IntRange(0, len(w.posts)-1).Draw(t, "late")].id)
		w.seen[reader] = len(w.posts)
	}
}

// lose makes Redis lose one person's document, or inbox, or both.
func (w *world) lose(t *rapid.T, server *rdbtest.Server) {
	number := w.number(w.person(t, "person"))
	for _, key := range rapid.SampledFrom([][]string{{"b"}, {"i"}, {"b", "i"}}).Draw(t, "keys") {
		server.Do("DEL", fmt.Sprintf("{u%d}:%s", number, key))
	}
}

// Jobs come late, twice, in another order and unasked for; marks come before what they mark; single keys are lost. The
// badges and feeds equal the model all the same.
func TestLateAndRepeatedJobs(t *testing.T) {
	server := rdbtest.NewServer(t)
	n := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: server.URL(), manual: true})
	n.badges("somebody")
	if got := server.Do("KEYS", "{u*}:b"); len(got.([]any)) == 0 {
		t.Fatal("documents are not at {u<number>}:b: losing them would prove nothing")
	}
	fanouttest.Fewer(t, 5)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(n, nil)
		// Everybody follows the next two, so that what is done reaches somebody.
		for i, reader := range w.people {
			for step := 1; step <= 2; step++ {
				author := w.people[(i+step)%len(w.people)]
				n.follow(reader, author)
				w.follows[reader][author] = 0
			}
		}
		actions := map[string]func(*rapid.T){
			"again": w.again, "again and again": w.again, "early": w.early, "early and compare": func(t *rapid.T) {
				w.early(t)
				w.compare(t)
			},
			"lose":  func(t *rapid.T) { w.lose(t, server) },
			"flush": func(*rapid.T) { server.Flush() },
		}
		maps.Copy(actions, map[string]func(*rapid.T){
			"publish": w.publish, "delete": w.delete, "follow": w.follow, "unfollow": w.unfollow, "mark": w.markSeen,
			"like": w.like, "work": w.work, "look": func(t *rapid.T) { w.look(t, w.person(t, "person")) },
		})
		t.Repeat(actions)
		w.compare(t)
	})
}

// Counts of notifications that were read long ago and arrive late change nothing, and those that arrive twice neither.
func TestLateCounts(t *testing.T) {
	eachPair(t, func(t *testing.T, options nodeOptions) {
		options.manual = true
		n := startNode(t, options)
		author := n.numbersOf("author")[0]
		n.badges("author")
		var late [][]store.NotificationState
		states := func() {
			t.Helper()
			now, err := n.store.NotificationStates(t.Context(), author)
			if err != nil {
				t.Fatal(err)
			}
			late = append(late, now)
		}
		for _, liker := range []string{"a", "b", "c"} {
			n.must(liker, `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": n.publish("author", liker)}, nil)
			n.settle()
			states()
		}
		n.must("author", `mutation{markNotificationsSeen(input:{}){badges{version}}}`, nil, nil)
		states()
		n.must("d", `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": n.publish("author", "d")}, nil)
		n.settle()
		want := n.badges("author")
		if want.Notifications.Like.Value != 1 {
			t.Fatalf("%+v, want 1 like", want.Notifications.Like)
		}
		for i, old := range late {
			if err := n.fanout.CarryStates(t.Context(), old); err != nil {
				t.Fatal(err)
			}
			if got := n.badges("author"); got.Notifications.Like != want.Notifications.Like || got.Version != want.Version {
				t.Errorf("after the late counts %d: %+v at %s, want %+v at %s", i, got.Notifications.Like, got.Version, want.Notifications.Like, want.Version)
			}
		}
	})
}

// What was read from SQL before an unfollow and arrives after it does not bring the author back: neither a post that was
// pushed meanwhile, nor a rebuild that had begun.
func TestLateReadings(t *testing.T) {
	eachPair(t, func(t *testing.T, options nodeOptions) {
		options.manual = true
		n := startNode(t, options)
		ctx := t.Context()
		numbers := n.numbersOf("reader", "author")
		reader, author := numbers[0], numbers[1]
		n.follow("reader", "author")
		id, err := services.ParsePostGlobalID("post", n.publish("author", "one"))
		if err != nil {
			t.Fatal(err)
		}
		n.settle()
		if got := n.badges("reader").HomeFeed.Value; got != 1 {
			t.Fatalf("at first %d count, want 1", got)
		}

		stamp, err := n.redis.Now(ctx)
		if err != nil {
			t.Fatal(err)
		}
		stamps, err := n.redis.BeginRebuild(ctx, []services.UserNumber{reader}, false)
		if err != nil {
			t.Fatal(err)
		}
		entry := services.FeedEntry{Post: id, Author: author, Counts: true}
		n.must("reader", `mutation{unfollow(input:{userId:"user:author"}){user{id}}}`, nil, nil)

		results, err := n.redis.AddToInboxes(ctx, stamp, []rdb.Add{{Reader: reader, Entry: entry}})
		if err != nil || results[0].Status != rdb.Retry {
			t.Errorf("the late push: %+v, %v, want to be read again", results, err)
		}
		facts := rdb.FeedFacts{Reader: reader, Stamp: stamps[0], Entries: []services.FeedEntry{entry}, Lifetime: time.Hour}
		result, err := n.redis.EndRebuild(ctx, facts)
		if err != nil || result.Status != rdb.Retry {
			t.Errorf("the late rebuild: %+v, %v, want to be read again", result, err)
		}
		if got := n.badges("reader").HomeFeed; got.Value != 0 || got.Precision != "EXACT" {
			t.Errorf("after the unfollow %+v, want 0", got)
		}
		if listed := n.walk("reader", 10); len(listed) > 0 {
			t.Errorf("after the unfollow the feed lists %v", listed)
		}
		n.settle()
		if listed := n.walk("reader", 10); len(listed) > 0 {
			t.Errorf("after the job the feed lists %v", listed)
		}
	})
}
