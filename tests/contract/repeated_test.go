package contract

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/tests/world"
)

// A mutation with an idempotency key has its effect once, even if many requests with the key come at the same moment. A key
// belongs to one user and to one input.
func TestAnIdempotencyKeyHasOneEffect(t *testing.T) {
	c := newSmallNode(t)
	const query = `mutation($b:String!,$k:String){publishPost(input:{body:$b,idempotencyKey:$k}){post{id}}}`
	publish := func(as, body, key string) (string, world.Answer) {
		got := c.Ask(as, query, map[string]any{"b": body, "k": key})
		return string(got.Data), got
	}
	first, _ := publish("alice", "once", "k1")
	var same sync.WaitGroup
	answers := make([]string, 20)
	for i := range answers {
		same.Go(func() {
			if i%2 == 0 {
				answers[i], _ = publish("alice", "at once", "k2")
			} else {
				answers[i], _ = publish("alice", "once", "k1")
			}
		})
	}
	same.Wait()
	second := answers[0]
	for i, got := range answers {
		if want := []string{second, first}[i%2]; got != want || got == "null" {
			t.Errorf("%d: the answer is %s, want %s", i, got, want)
		}
	}
	if first == second {
		t.Errorf("two keys made one post: %s", first)
	}
	c.wantNoEffect(t, func(t *testing.T) {
		_, got := publish("alice", "twice", "k1")
		conflict("idempotencyKey", `"k1"`, "24h").checkAnswer(t, got)
		got = c.Ask("alice", `mutation{markHomeFeedSeen(input:{idempotencyKey:"k1"}){badges{version}}}`, nil)
		conflict("idempotencyKey", `"k1"`).checkAnswer(t, got)
	})
	if other, got := publish("bob", "once", "k1"); len(got.Errors) > 0 || other == first {
		t.Errorf("bob's key: %s %+v", other, got.Errors)
	}
	// A refusal is stored under its key like any answer.
	const follow = `mutation($u:ID!,$k:String!){follow(input:{userId:$u,idempotencyKey:$k}){user{key}}}`
	c.MustAsk("dave", `mutation{block(input:{userId:"user:alice"}){user{key}}}`, nil, nil)
	for range 2 {
		notFound("userId").checkAnswer(t, c.Ask("alice", follow, map[string]any{"u": "user:dave", "k": "k3"}))
	}
	conflict("idempotencyKey", `"k3"`).checkAnswer(t, c.Ask("alice", follow, map[string]any{"u": "user:carol", "k": "k3"}))
	for range 3 {
		c.MustAsk("alice", follow, map[string]any{"u": "user:carol", "k": "k4"}, nil)
	}
	c.SettleJobsAndCaches()
	if got := c.ReadWholeFeed("alice", 10); len(got) != 5 { // two posts of bob, and three of alice
		t.Errorf("alice's feed has %d posts, want 5: %v", len(got), got)
	}
	c.Clock.Advance(25 * time.Hour)
	if again, got := publish("alice", "twice", "k1"); len(got.Errors) > 0 || again == first {
		t.Errorf("after a day: %s %+v", again, got.Errors)
	}
}

// A mutation that was done already is accepted again, and has no further effect.
func TestRepeatedMutationsHaveNoEffect(t *testing.T) {
	c := newSmallNode(t)
	for name, again := range map[string]ask{"delete": {"bob", mutDelete, c.bobsDeletedPost}, "like": {"carol", mutLike, c.bobsPost}} {
		t.Run(name, func(t *testing.T) {
			c.wantNoEffect(t, func(*testing.T) { c.MustAsk(again.as, again.query, vars{"v": again.value}, nil) })
		})
	}
}

// A batch of 500 is applied in order. Repeated under its keys, it has no further effect.
func TestRepeatedBatchHasNoFurtherEffect(t *testing.T) {
	c := newSmallNode(t)
	events := []any{ingestEvent("follow", "as", "user:reader", "userId", "user:writer", "key", "f"), ingestEvent("setProfile", "as", "user:writer", "name", "W", "key", "p")}
	for i := len(events); i < 500; i++ {
		events = append(events, ingestEvent("publishPost", "as", "user:writer", "body", fmt.Sprint(i), "key", fmt.Sprint("k", i)))
	}
	first := c.ingest(t, events...)
	for i, result := range first {
		if result.Error != nil {
			t.Fatalf("event %d: %+v", i, result.Error)
		}
	}
	c.SettleJobsAndCaches()
	c.wantNoEffect(t, func(t *testing.T) {
		if diff := cmp.Diff(first, c.ingest(t, events...)); diff != "" {
			t.Errorf("the second answer differs (-first +second):\n%s", diff)
		}
		c.SettleJobsAndCaches()
	})
	if got := c.Badges("reader").HomeFeed; got.Value != 300 || got.Precision != "AT_LEAST" {
		t.Errorf("498 posts count as %+v, want 300 at least", got)
	}
	feed := c.ReadWholeFeed("reader", 100)
	if len(feed) < 300 || feed[0] != *first[499].ID || feed[299] != *first[200].ID {
		t.Errorf("the feed has %d posts from %s", len(feed), feed[0])
	}
}
