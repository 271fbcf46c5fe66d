package contract

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/node"
	"tidings/services/redis/redistest"
	"tidings/tests/world"
)

// mutWholeHomeFeedSeen marks the whole home feed as seen. Any user can send it again and again, and it counts against the limit WRITES.
const mutWholeHomeFeedSeen = `mutation{markHomeFeedSeen(input:{}){badges{version}}}`

// A viewer beyond a rate limit gets an error with the time to wait. Other viewers are not affected.
func TestOverspendingIsRateLimited(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Redis: "embedded", ChangeConfig: func(cfg *node.Config) { cfg.RateLimit.Budgets = []string{"WRITES=3", "READS=0"} }})
	for range 3 {
		n.MustAsk("alice", mutWholeHomeFeedSeen, nil, nil)
	}
	got := n.Ask("alice", mutWholeHomeFeedSeen, nil)
	if got.ErrorCode() != "RATE_LIMITED" || got.Status != http.StatusTooManyRequests {
		t.Fatalf("the fourth: %d %s: want 429 and RATE_LIMITED", got.Status, got.ErrorCode())
	}
	n.MustAsk("bob", mutWholeHomeFeedSeen, nil, nil)
	n.Badges("alice") // reads are not writes
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, n.URL+"/graphql", strings.NewReader(`{"query":"`+mutWholeHomeFeedSeen+`"}`))
	request.Header.Set("Authorization", "Bearer dev:alice")
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	var shown struct {
		Errors []struct {
			Message    string
			Extensions struct {
				Code         string
				RetryAfterMs int
			}
		}
	}
	if err := json.Unmarshal(text, &shown); err != nil || len(shown.Errors) != 1 {
		t.Fatalf("%s: %v", text, err)
	}
	wait := shown.Errors[0].Extensions.RetryAfterMs
	if wait <= 0 || wait > 20_000 || response.Header.Get("Retry-After") == "" {
		t.Errorf("%s, Retry-After %q: want up to 20 s in both", text, response.Header.Get("Retry-After"))
	}
	n.Clock.Advance(time.Duration(wait) * time.Millisecond)
	n.MustAsk("alice", mutWholeHomeFeedSeen, nil, nil)
}

// Two nodes share one allowance for a viewer: once one node has granted all of it, the other refuses.
func TestNodesShareRateLimits(t *testing.T) {
	p := world.StartNodePair(t, redistest.Redis(t), func(cfg *node.Config) { cfg.RateLimit.Budgets = []string{"WRITES=60"} })
	granted := func(n *world.Node, atMost int) int {
		for count := range atMost {
			if got := n.Ask("mallory", mutWholeHomeFeedSeen, nil); got.ErrorCode() == "RATE_LIMITED" {
				return count
			}
		}
		return atMost
	}
	if got := granted(p.A, 61); got < 60 {
		t.Fatalf("the first node granted %d: want 60", got)
	}
	p.A.Limiter.RunOnce(t.Context())
	asks := 0
	world.Eventually(t, world.RedisLossRecoveryTimeout, "the second node knows what the first granted", func() bool {
		if asks++; asks > 30 {
			t.Fatalf("the second node granted %d: it does not know what the first granted", asks-1)
		}
		p.B.Limiter.RunOnce(t.Context())
		return p.B.Ask("mallory", mutWholeHomeFeedSeen, nil).ErrorCode() == "RATE_LIMITED"
	})
	p.B.MustAsk("alice", mutWholeHomeFeedSeen, nil, nil)
}

// An operation that would cost too much is refused before execution, with its cost and the limit.
func TestExpensiveQueriesAreRefused(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Redis: "embedded"})
	aliased := func(times int, field string) string {
		var query strings.Builder
		query.WriteString("{viewer{")
		for i := range times {
			fmt.Fprintf(&query, "a%d:%s ", i, field)
		}
		return query.String() + "}}"
	}
	const message = `messages(first:100){edges{node{body author{key name avatarUrl}}}}`
	for name, query := range map[string]string{
		"a page in a page":        `{viewer{conversations(first:100){edges{node{` + message + `}}}}}`,
		"pages of last messages":  aliased(30, `conversations(first:100){edges{node{lastMessage{body author{key}}}}}`),
		"many explanations":       aliased(30, `badgeExplained{part items{nodeId at count clearedBy}}`),
		"many pages of feeds":     aliased(30, `homeFeed(first:100){edges{node{id body author{id key name}}}}`),
		"a page in each of nodes": `query($i:[ID!]!){nodes(ids:$i){... on Conversation{` + message + `}}}`,
	} {
		ids := make([]string, 100)
		for i := range ids {
			ids[i] = "conversation:0000001"
		}
		got := n.Ask("alice", query, map[string]any{"i": ids})
		if got.ErrorCode() != "INVALID" || len(got.Errors) != 1 || !strings.HasPrefix(got.Errors[0].Message, "query: costs ") ||
			!strings.Contains(got.Errors[0].Message, "up to 30000 are allowed") {
			t.Errorf("%s: %s %v: want INVALID with cost and limit", name, got.ErrorCode(), got.Errors)
		}
	}
	for name, query := range map[string]string{
		"a whole screen": `{viewer{badges{version total{display}} homeFeed(first:50){edges{node{id body author{key name avatarUrl}}}}
			liveBoard(first:50){edges{node{id title}}} notifications(first:50){edges{node{id actors{key}}}}
			conversations(first:50){edges{node{id lastMessage{body author{key}}}}}}}`,
		"conversations with messages": `{viewer{conversations(first:20){edges{node{` + strings.Replace(message, "100", "20", 1) + `}}}}}`,
		"an explanation":              `{viewer{badgeExplained{part items{nodeId at count clearedBy}}}}`,
	} {
		if got := n.Ask("alice", query, nil); len(got.Errors) > 0 {
			t.Errorf("%s: %v", name, got.Errors)
		}
	}
}

// Keys and bodies exactly at the limits work, in any alphabet, and so do pages.
func TestKeysAndBodiesAtTheLimits(t *testing.T) {
	c := newSmallNode(t)
	for _, key := range []string{"a", strings.Repeat("k", services.MaxKeyCharacters), "A.b_c-9"} {
		c.Follow("alice", key)
		for _, body := range []string{"x", "👩‍👩‍👧‍👦 שלום 你好\u202e", strings.Repeat("𝄞", 5000), "line\nline\t\"quoted\" \\ </script>"} {
			id := c.Publish(key, body)
			var data struct {
				Node struct {
					Body   string
					Author struct{ Key string }
				}
			}
			c.MustAsk("alice", `query($v:ID!){node(id:$v){... on Post{body author{key}}}}`, map[string]any{"v": id}, &data)
			if data.Node.Body != body || data.Node.Author.Key != key {
				t.Errorf("%d bytes of %s came back as %d of %s", len(body), key, len(data.Node.Body), data.Node.Author.Key)
			}
		}
	}
	c.SettleJobsAndCaches()
	for _, first := range []int{1, 100} {
		if got := c.ReadWholeFeed("alice", first); len(got) != 14 {
			t.Errorf("first %d: %d posts, want 14", first, len(got))
		}
	}
	if got := c.Badges("alice").HomeFeed.Value; got != 13 {
		t.Errorf("%d posts count, want 13", got)
	}
}
