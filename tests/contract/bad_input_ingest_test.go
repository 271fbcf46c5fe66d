package contract

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const mutIngest = `mutation($e:[IngestEvent!]!){ingest(events:$e){results{id error{code message}}}}`

// ingestResult is the result of one event.
type ingestResult struct {
	ID    *string // of the object that the event created or named; nil: none
	Error *struct{ Code, Message string }
}

// ingest sends events as the host application, and returns their results in the same order.
func (c *smallNode) ingest(t *testing.T, events ...any) []ingestResult {
	t.Helper()
	var data struct {
		Ingest struct{ Results []ingestResult }
	}
	c.MustAsk("host:ingest", mutIngest, map[string]any{"e": events}, &data)
	if len(data.Ingest.Results) != len(events) {
		t.Fatalf("%d results for %d events", len(data.Ingest.Results), len(events))
	}
	return data.Ingest.Results
}

// ingestEvent makes an event of ingest. The user and the idempotency key are given among the fields of its input.
func ingestEvent(name string, fields ...any) map[string]any {
	input := map[string]any{}
	event := map[string]any{"do": map[string]any{name: input}}
	for i := 0; i < len(fields); i += 2 {
		switch field := fields[i].(string); field {
		case "as", "key":
			event[field] = fields[i+1]
		default:
			input[field] = fields[i+1]
		}
	}
	return event
}

// A request whose list of events is too short or too long, or does not fit the schema, is refused as a whole.
func TestBadIngest(t *testing.T) {
	c := newSmallNode(t, nil)
	good := ingestEvent("publishPost", "as", "user:bob", "body", "b")
	many := make([]any, 501)
	for i := range many {
		many[i] = good
	}
	for _, bad := range []struct {
		name   string
		events any
		says   []string
	}{
		{"no events", []any{}, []string{"events", "1 to 500", "got 0"}},
		{"501 events", many, []string{"events", "1 to 500", "got 501"}},
		{"null in one", []any{good, ingestEvent("publishPost", "as", "user:bob")}, []string{"$e[1]", "body"}},
		{"nothing to do", []any{good, map[string]any{"as": "user:bob"}}, []string{"$e[1]", "do"}},
		{"a thing that is none", []any{ingestEvent("explode", "as", "user:bob")}, []string{"$e[0]", "explode"}},
		{"a field that is none", []any{ingestEvent("publishPost", "as", "user:bob", "body", "b", "extra", 1)}, []string{"$e[0]", "extra"}},
		{"a category that is none", []any{ingestEvent("markNotificationsSeen", "as", "user:bob", "categories", []string{"NOISE"})}, []string{"$e[0]", "categories", "NotificationCategory"}},
		{"null for an event", []any{good, nil}, []string{"$e[1]"}},
	} {
		t.Run(bad.name, func(t *testing.T) {
			c.wantNoEffect(t, func(t *testing.T) {
				wantedError{"INVALID", bad.says}.checkAnswer(t, c.Ask("host:ingest", mutIngest, map[string]any{"e": bad.events}))
			})
		})
	}
}

// badEvent is an event that is invalid by itself.
type badEvent struct {
	event             map[string]any
	code, messagePart string // the required code, and a part of the message
}

// badEvents returns events that the server must refuse, each with the error that it must get.
func (c *smallNode) badEvents() []badEvent {
	long, future := strings.Repeat("k", 65), "post:7ZZZZZZZZZZZZ"
	both := ingestEvent("publishPost", "as", "user:bob", "body", "b")
	both["do"].(map[string]any)["follow"] = map[string]any{"userId": "user:carol"}
	keys := ingestEvent("publishPost", "as", "user:bob", "body", "b", "key", "one", "idempotencyKey", "two")
	return []badEvent{
		{both, "INVALID", "do: an event needs exactly one action, got 2"},
		{map[string]any{"do": map[string]any{}}, "INVALID", "do: an event needs exactly one action, got 0"},
		{map[string]any{"do": map[string]any{"publishPost": nil}}, "INVALID", "do: an event needs exactly one action, got 0"},
		{keys, "INVALID", "key: the event and its publishPost have different idempotency keys"},
		{ingestEvent("publishPost", "body", "b"), "INVALID", "as: publishPost needs the ID of the acting user"},
		{ingestEvent("raiseDot", "as", "user:bob", "name", "n"), "INVALID", "as: raiseDot is an action of the host application itself"},
		{ingestEvent("editAnnouncement", "announcementId", "announcement:0000000000001", "title", nil), "INVALID", "title: it cannot be null; leave it out to keep the present value"},
		{ingestEvent("publishPost", "as", "bob", "body", "b"), "INVALID", `as: "bob" is not the id of a user`},
		{ingestEvent("publishPost", "as", "user:", "body", "b"), "INVALID", "as: a user key has 1 to 128 characters, got 0"},
		{ingestEvent("publishPost", "as", "user:"+long+long, "body", "b"), "INVALID", "as: a user key has 1 to 128 characters, got 130"},
		{ingestEvent("publishPost", "as", c.bobsPost, "body", "b"), "INVALID", "as: "},
		{ingestEvent("publishPost", "as", "user:bob", "body", ""), "INVALID", "body: 1 to 5000 characters are allowed, got 0"},
		{ingestEvent("publishPost", "as", "user:bob", "body", strings.Repeat("x", 5001)), "INVALID", "body: 1 to 5000 characters are allowed, got 5001"},
		{ingestEvent("publishPost", "as", "user:bob", "body", "b", "key", long), "INVALID", "1 to 64 characters are allowed, got 65"},
		{ingestEvent("editPost", "as", "user:alice", "postId", c.bobsPost, "body", "b"), "FORBIDDEN", "postId: " + c.bobsPost + " is not your post"},
		{ingestEvent("editPost", "as", "user:bob", "postId", c.bobsDeletedPost, "body", "b"), "NOT_FOUND", "postId: " + c.bobsDeletedPost + " is deleted"},
		{ingestEvent("editPost", "as", "user:bob", "postId", "post:x", "body", "b"), "INVALID", `postId: "post:x"`},
		{ingestEvent("editPost", "as", "user:bob", "postId", c.bobsPost, "body", ""), "INVALID", "body: 1 to 5000 characters are allowed, got 0"},
		{ingestEvent("deletePost", "as", "user:alice", "postId", c.bobsPost), "FORBIDDEN", "postId: " + c.bobsPost + " is not your post"},
		{ingestEvent("deletePost", "as", "user:bob", "postId", "post:x"), "INVALID", `postId: "post:x"`},
		{ingestEvent("likePost", "as", "user:alice", "postId", c.bobsDeletedPost), "NOT_FOUND", "postId: " + c.bobsDeletedPost + " is deleted"},
		{ingestEvent("likePost", "as", "user:carol", "postId", "post:0000000000001"), "NOT_FOUND", "no post"},
		{ingestEvent("follow", "as", "user:alice", "userId", "user:alice"), "INVALID", "userId: you cannot follow yourself"},
		{ingestEvent("follow", "as", "user:alice", "userId", "bob"), "INVALID", `userId: "bob"`},
		{ingestEvent("setProfile", "as", "user:alice", "name", strings.Repeat("n", 101)), "INVALID", "name: up to 100 characters are allowed, got 101"},
		{ingestEvent("setProfile", "as", "user:alice", "avatarUrl", "ftp://x/y"), "INVALID", "avatarUrl: "},
		{ingestEvent("markHomeFeedSeen", "as", "user:alice", "upTo", future), "INVALID", "upTo: " + future + " is in the future"},
		{ingestEvent("markHomeFeedSeen", "as", "user:alice", "upTo", "post:0000000000001"), "NOT_FOUND", "upTo: there is no post:0000000000001"},
		{ingestEvent("markHomeFeedSeen", "as", "user:alice", "upTo", "post:0000000000000"), "NOT_FOUND", "upTo: there is no post:0000000000000"},
		{ingestEvent("markHomeFeedSeen", "as", "user:alice", "upTo", "user:bob"), "INVALID", `upTo: "user:bob"`},
		{ingestEvent("markLiveBoardSeen", "as", "user:bob", "sessionId", "none"), "INVALID", `sessionId: "none"`},
		{ingestEvent("markNotificationsSeen", "as", "user:bob", "upTo", c.bobsPost), "INVALID", "upTo: "},
		{ingestEvent("markNotificationsSeen", "as", "user:bob", "upTo", "notificationUpTo:7ZZZZZZZZZZZZ"), "INVALID", "upTo: "},
	}
}

// An invalid event fails alone: the events before it and after it are applied.
func TestAnInvalidEventFailsAlone(t *testing.T) {
	c := newSmallNode(t, nil)
	bad := c.badEvents()
	check := func(t *testing.T, i int, got ingestResult) {
		t.Helper()
		if got.Error == nil || got.Error.Code != bad[i].code || !strings.Contains(got.Error.Message, bad[i].messagePart) || got.ID != nil {
			t.Errorf("event %v: id %v, error %+v, want %s %q", bad[i].event, got.ID, got.Error, bad[i].code, bad[i].messagePart)
		}
	}
	t.Run("alone together", func(t *testing.T) {
		c.wantNoEffect(t, func(t *testing.T) {
			events := make([]any, len(bad))
			for i := range bad {
				events[i] = bad[i].event
			}
			for i, got := range c.ingest(t, events...) {
				check(t, i, got)
			}
		})
	})
	t.Run("between good ones", func(t *testing.T) {
		var events []any
		for i := range bad {
			events = append(events, ingestEvent("publishPost", "as", "user:dave", "body", fmt.Sprint(i)), bad[i].event)
		}
		before, published := c.readFacts(), []string{}
		for i, got := range c.ingest(t, events...) {
			if i%2 == 1 {
				check(t, i/2, got)
			} else if got.Error != nil || got.ID == nil {
				t.Errorf("good event %d: %+v", i/2, got.Error)
			} else {
				published = append([]string{*got.ID}, published...)
			}
		}
		c.SettleJobsAndCaches()
		if diff := cmp.Diff(published, c.ReadWholeFeed("dave", 100)); diff != "" {
			t.Errorf("dave's posts (-want +got):\n%s", diff)
		}
		after := c.readFacts()
		if diff := cmp.Diff(before, after); diff != "" { // dave has no followers
			t.Errorf("the bad events changed the facts (-before +after):\n%s", diff)
		}
	})
}

// A batch of 500 is applied in order. Repeated under its keys, it has no further effect.
func TestWholeBatchTwice(t *testing.T) {
	c := newSmallNode(t, nil)
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
	before := c.readFacts()
	if diff := cmp.Diff(first, c.ingest(t, events...)); diff != "" {
		t.Errorf("the second answer differs (-first +second):\n%s", diff)
	}
	c.SettleJobsAndCaches()
	if diff := cmp.Diff(before, c.readFacts()); diff != "" {
		t.Errorf("the second time changed the facts (-before +after):\n%s", diff)
	}
	if got := c.Badges("reader").HomeFeed; got.Value != 300 || got.Precision != "AT_LEAST" {
		t.Errorf("498 posts count as %+v, want 300 at least", got)
	}
	feed := c.ReadWholeFeed("reader", 100)
	if len(feed) < 300 || feed[0] != *first[499].ID || feed[299] != *first[200].ID {
		t.Errorf("the feed has %d posts from %s", len(feed), feed[0])
	}
}
