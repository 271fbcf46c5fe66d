package contract

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/export"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/node"
	"tidings/services/nodecache"
	"tidings/services/notifications"
	"tidings/services/people"
	"tidings/services/positions"
	"tidings/services/posts"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// smallNode is a node with a few facts: alice follows bob, who has one post that carol likes and one deleted post. No worker runs,
// so no job undoes a wrong write before it is found.
type smallNode struct {
	*world.Node
	bobsPost, bobsDeletedPost, alicesPost string // two posts of bob and one of alice
	feedCursor                            string // a cursor of bob's feed
}

var smallNodePeople = []string{"alice", "bob", "carol"} // whose data readFacts reads

// newSmallNode starts the node; change, if it is not nil, changes its configuration.
func newSmallNode(t *testing.T, change func(*node.Config)) *smallNode {
	t.Helper()
	c := &smallNode{Node: world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true, ChangeConfig: change})}
	c.Follow("alice", "bob")
	c.bobsPost, c.bobsDeletedPost, c.alicesPost = c.Publish("bob", "stays"), c.Publish("bob", "goes"), c.Publish("alice", "own")
	c.MustAsk("bob", `mutation($p:ID!){deletePost(input:{postId:$p}){postId}}`, map[string]any{"p": c.bobsDeletedPost}, nil)
	c.MustAsk("carol", `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": c.bobsPost}, nil)
	c.SettleJobsAndCaches()
	c.feedCursor = c.ReadFeedPage("bob", 1, "", "").Edges[0].Cursor
	return c
}

// readFacts reads from SQL the number of jobs and the newest versions in the changelog, which most changes raise, and the facts of
// smallNodePeople that most requests of these tests could change.
func (c *smallNode) readFacts() map[string]any {
	c.TB.Helper()
	ctx, all := c.TB.Context(), map[string]any{}
	put := func(name string, value any, err error) {
		if err != nil {
			c.TB.Fatalf("%s: %v", name, err)
		}
		all[name] = fmt.Sprintf("%+v", value)
	}
	waiting, dead, _, err := jobs.JobCounts(ctx, c.Store)
	put("jobs", []int{waiting, dead}, err)
	for _, kind := range []string{nodecache.PostChangelogKind, people.ProfileChangelogKind, live.ChangelogKind} {
		newest, _, err := changelog.LastSequence(ctx, c.Store, kind)
		put("log "+kind, newest, err)
	}
	numbers, err := people.IDs(ctx, c.Store, smallNodePeople)
	put("numbers", numbers, err)
	for key, number := range numbers {
		feed, err := posts.HomeFeed(ctx, c.Store, number, services.MaxPostID, 10)
		put("feed of "+key, feed, err)
		seen, err := positions.Of(ctx, c.Store, number, positions.HomeFeedView, "")
		put("mark of "+key, seen, err)
		users, err := people.ByID(ctx, c.Store, []services.UserID{number})
		put("profile of "+key, users, err)
		var kept []string
		err = export.Write(ctx, c.Store, number, slices.Concat(live.Exports, notifications.Exports), func(line []byte) error {
			for _, kind := range []string{`"show"`, `"reminder"`, `"notification"`, `"notificationMark"`} {
				if strings.HasPrefix(string(line), `{"type":`+kind) {
					kept = append(kept, string(line))
				}
			}
			return nil
		})
		put("shows and notifications of "+key, kept, err)
		for other, followee := range numbers {
			edge, follows, err := people.Edge(ctx, c.Store, number, followee)
			put(key+" and "+other, []any{edge, follows}, err)
		}
	}
	return all
}

// wantNoEffect runs a request that must have no effect, and checks that the facts stay as they were.
func (c *smallNode) wantNoEffect(t *testing.T, request func(t *testing.T)) {
	t.Helper()
	before := c.readFacts()
	request(t)
	if diff := cmp.Diff(before, c.readFacts()); diff != "" {
		t.Errorf("it changed the facts (-before +after):\n%s", diff)
	}
}

// wantedError is the error that a request must get.
type wantedError struct {
	code         string
	messageParts []string // parts of the message
}

// checkAnswer fails the test unless the answer has this one error.
func (r wantedError) checkAnswer(t *testing.T, got world.Answer) {
	t.Helper()
	if len(got.Errors) != 1 || got.ErrorCode() != r.code {
		t.Fatalf("got %+v (data %s), want one error with the code %s", got.Errors, got.Data, r.code)
	}
	for _, part := range r.messageParts {
		if !strings.Contains(got.Errors[0].Message, part) {
			t.Errorf("the message is %q, want %q in it", got.Errors[0].Message, part)
		}
	}
}

// These operations take the value under test as v.
const (
	mutFollow            = `mutation($v:ID!){follow(input:{userId:$v}){user{id}}}`
	mutUnfollow          = `mutation($v:ID!){unfollow(input:{userId:$v}){user{id}}}`
	mutPublish           = `mutation($v:String!){publishPost(input:{body:$v}){post{id}}}`
	mutDelete            = `mutation($v:ID!){deletePost(input:{postId:$v}){postId}}`
	mutLike              = `mutation($v:ID!){likePost(input:{postId:$v}){post{id}}}`
	mutUnlike            = `mutation($v:ID!){unlikePost(input:{postId:$v}){post{id}}}`
	mutHomeFeedSeen      = `mutation($v:ID){markHomeFeedSeen(input:{upTo:$v}){badges{version}}}`
	mutNotificationsSeen = `mutation($v:ID){markNotificationsSeen(input:{upTo:$v}){badges{version}}}` // the panel: the list of notifications
	mutProfileName       = `mutation($v:String){setProfile(input:{name:$v}){user{id}}}`
	mutProfileAvatar     = `mutation($v:URL){setProfile(input:{avatarUrl:$v}){user{id}}}`
	mutPublishWithKey    = `mutation($v:String){publishPost(input:{body:"b",idempotencyKey:$v}){post{id}}}`
	queryNode            = `query($v:ID!){node(id:$v){id}}`
	queryNodes           = `query($v:[ID!]!){nodes(ids:$v){id}}`
	queryFirst           = `query($v:Int){viewer{homeFeed(first:$v){lastId}}}`
	queryAfter           = `query($v:String){viewer{homeFeed(after:$v){lastId}}}`
	queryBefore          = `query($v:String){viewer{homeFeed(last:5,before:$v){lastId}}}` // the page above a cursor
	queryLast            = `query($v:Int){viewer{homeFeed(last:$v,before:"x"){lastId}}}`
	queryLastID          = `query($v:ID){viewer{homeFeed(lastId:$v){lastId}}}`
)

// badValue is a request of alice's with an invalid value for its variable v, and the required error.
type badValue struct {
	name, query string
	value       any
	want        wantedError
}

// badIDRequests returns requests with an ID of a user or a post that is malformed or of another type, or that alice cannot use in this
// way.
func (c *smallNode) badIDRequests() []badValue {
	unknown, long := "post:0000000000001", strings.Repeat("k", 129)
	return []badValue{
		{"user without a key", mutFollow, "user:", wantedError{"INVALID", []string{"userId", "1 to 128", "got 0"}}},
		{"user of 129 letters", mutFollow, "user:" + long, wantedError{"INVALID", []string{"userId", "1 to 128", "got 129"}}},
		{"user with a blank", mutFollow, "user:a b", wantedError{"INVALID", []string{"userId", `"a b"`, `"a%20b"`}}},
		{"user with an accent", mutUnfollow, "user:zoë", wantedError{"INVALID", []string{"userId", `"zo%C3%AB"`}}},
		{"user with a colon", mutFollow, "user:did:plc:a", wantedError{"INVALID", []string{"userId", `"did%3Aplc%3Aa"`}}},
		{"user with small digits", mutFollow, "user:auth0%7c123", wantedError{"INVALID", []string{"userId", `"auth0%7C123"`}}},
		{"user escaped too much", mutFollow, "user:%62ob", wantedError{"INVALID", []string{"userId", `"bob"`}}},
		{"user with half an escape", mutFollow, "user:bob%", wantedError{"INVALID", []string{"userId", "hexadecimal"}}},
		{"user with a line break", mutFollow, "user:bob%0A", wantedError{"INVALID", []string{"userId", "printable"}}},
		{"user in another normal form", mutFollow, "user:zoe%CC%88", wantedError{"INVALID", []string{"userId", "normal form C"}}},
		{"user in broken UTF-8", mutFollow, "user:zo%EB", wantedError{"INVALID", []string{"userId", "printable"}}},
		{"key without a type", mutFollow, "bob", wantedError{"INVALID", []string{"userId", `"bob"`, "user:KEY"}}},
		{"another type", mutFollow, "foo:bar", wantedError{"INVALID", []string{"userId", `"foo:bar"`, "user:KEY"}}},
		{"post for a user", mutFollow, c.bobsPost, wantedError{"INVALID", []string{"userId", "user:KEY"}}},
		{"number for a user", mutFollow, 5, wantedError{"INVALID", []string{"userId", `"5"`, "user:KEY"}}},
		{"truth for a user", mutFollow, true, wantedError{"INVALID", []string{"$v", "an ID is a text", "true"}}},
		{"list for a user", mutFollow, []string{"user:bob"}, wantedError{"INVALID", []string{"$v"}}},
		{"null for a user", mutFollow, nil, wantedError{"INVALID", []string{"$v", "null"}}},
		{"a very long id", mutFollow, "user:" + strings.Repeat("x", 9000), wantedError{"INVALID", []string{"userId", "got 9000"}}},
		{"oneself", mutFollow, "user:alice", wantedError{"INVALID", []string{"userId", "yourself"}}},

		{"short post", mutDelete, "post:xyz", wantedError{"INVALID", []string{"postId", `"post:xyz"`, "13 letters"}}},
		{"post in small letters", mutLike, strings.ToLower("post:0ABCDEFGHJKMN"), wantedError{"INVALID", []string{"postId", "13 letters"}}},
		{"post too great", mutLike, "post:8000000000000", wantedError{"INVALID", []string{"postId", "13 letters"}}},
		{"user for a post", mutLike, "user:bob", wantedError{"INVALID", []string{"postId", `"user:bob"`, "post:"}}},
		{"another type for a post", mutUnlike, "foo:bar", wantedError{"INVALID", []string{"postId", "post:"}}},
		{"delete another's post", mutDelete, c.bobsPost, wantedError{"FORBIDDEN", []string{"postId", c.bobsPost, "not your post"}}},
		{"delete another's deleted post", mutDelete, c.bobsDeletedPost, wantedError{"FORBIDDEN", []string{"postId"}}},
		{"delete no post", mutDelete, unknown, wantedError{"NOT_FOUND", []string{"no post", "0000000000001"}}},
		{"like no post", mutLike, unknown, wantedError{"NOT_FOUND", []string{"no post", "0000000000001"}}},
		{"like a deleted post", mutLike, c.bobsDeletedPost, wantedError{"NOT_FOUND", []string{"postId", c.bobsDeletedPost, "deleted"}}},
		{"unlike a deleted post", mutUnlike, c.bobsDeletedPost, wantedError{"NOT_FOUND", []string{"postId", c.bobsDeletedPost, "deleted"}}},
	}
}

// badTextRequests returns requests with bad texts, positions, numbers, cursors and idempotency keys, and documents that are invalid.
func (c *smallNode) badTextRequests() []badValue {
	long := strings.Repeat("k", 65)
	future := services.GlobalID(services.PostType, services.SortableIDAt(c.Clock.Now().Add(time.Hour)).String())
	return []badValue{
		{"empty body", mutPublish, "", wantedError{"INVALID", []string{"body", "1 to 5000", "got 0"}}},
		{"body of 5,001", mutPublish, strings.Repeat("é", 5001), wantedError{"INVALID", []string{"body", "1 to 5000", "got 5001"}}},
		{"body of blanks", mutPublish, " \n\t", wantedError{"INVALID", []string{"body", "white space"}}},
		{"NUL in a body", mutPublish, "a\x00b", wantedError{"INVALID", []string{"body", "NUL"}}},
		{"object for a body", mutPublish, map[string]any{"text": "b"}, wantedError{"INVALID", []string{"$v"}}},
		{"name of 101", mutProfileName, strings.Repeat("n", 101), wantedError{"INVALID", []string{"name", "up to 100", "got 101"}}},
		{"NUL in a name", mutProfileName, "\x00", wantedError{"INVALID", []string{"name", "NUL"}}},
		{"avatar of a script", mutProfileAvatar, "javascript:alert(1)", wantedError{"INVALID", []string{"avatarUrl", "http or https"}}},
		{"avatar of 2,049", mutProfileAvatar, "https://a/" + strings.Repeat("a", 2039), wantedError{"INVALID", []string{"avatarUrl", "up to 2048", "got 2049"}}},

		{"mark up to a user", mutHomeFeedSeen, "user:bob", wantedError{"INVALID", []string{"upTo", "post:"}}},
		{"mark up to a post that never was", mutHomeFeedSeen, "post:0000000000001", wantedError{"NOT_FOUND", []string{"upTo", "post:0000000000001"}}},
		{"mark in the future", mutHomeFeedSeen, future, wantedError{"INVALID", []string{"upTo", future, "in the future"}}},
		{"panel up to a post", mutNotificationsSeen, c.bobsPost, wantedError{"INVALID", []string{"upTo", "of a notification"}}},
		{"panel beyond the newest", mutNotificationsSeen, "notificationUpTo:" + strings.TrimPrefix(future, "post:"), wantedError{"INVALID", []string{"upTo", "beyond the newest"}}},

		{"no posts at once", queryFirst, 0, wantedError{"INVALID", []string{"first", "1 to 100", "got 0"}}},
		{"101 posts at once", queryFirst, 101, wantedError{"INVALID", []string{"first", "1 to 100", "got 101"}}},
		{"-1 posts at once", queryFirst, -1, wantedError{"INVALID", []string{"first", "1 to 100", "got -1"}}},
		{"more than a number holds", queryFirst, 1e15, wantedError{"INVALID", []string{"$v", "2147483647", "1000000000000000"}}},
		{"text for a number", queryFirst, "five", wantedError{"INVALID", []string{"$v"}}},
		{"broken cursor", queryAfter, "?", wantedError{"INVALID", []string{"after", `"?"`, "cursor"}}},
		{"cursor cut off", queryAfter, c.feedCursor[:len(c.feedCursor)-2], wantedError{"INVALID", []string{"after", "cursor"}}},
		{"empty cursor", queryAfter, "", wantedError{"INVALID", []string{"after", "cursor"}}},
		{"another's cursor", queryAfter, c.feedCursor, wantedError{"INVALID", []string{"after", "another user"}}},
		{"another's cursor above", queryBefore, c.feedCursor, wantedError{"INVALID", []string{"before", "another user"}}},
		{"broken cursor above", queryBefore, "?", wantedError{"INVALID", []string{"before", `"?"`, "cursor"}}},
		{"no place to be above", queryBefore, nil, wantedError{"INVALID", []string{"last", "before"}}},
		{"no posts above", queryLast, 0, wantedError{"INVALID", []string{"last", "1 to 100", "got 0"}}},
		{"101 posts above", queryLast, 101, wantedError{"INVALID", []string{"last", "1 to 100", "got 101"}}},
		{"a place and no number", queryLast, nil, wantedError{"INVALID", []string{"before", "last"}}},
		{"lastId of no post", queryLastID, "post:0000000000007", wantedError{"NOT_FOUND", []string{"lastId", "post:0000000000007"}}},
		{"the last of all ids as lastId", queryLastID, "post:7ZZZZZZZZZZZZ", wantedError{"NOT_FOUND", []string{"lastId", "post:7ZZZZZZZZZZZZ"}}},
		{"lastId of a user", queryLastID, "user:bob", wantedError{"INVALID", []string{"lastId", "post:"}}},
		{"node of no type", queryNode, "foo:bar", wantedError{"INVALID", []string{`"foo:bar"`, "type of user, post"}}},
		{"node of a short post", queryNode, "post:1", wantedError{"INVALID", []string{"id", "13 letters"}}},
		{"no nodes", queryNodes, []string{}, wantedError{"INVALID", []string{"ids", "1 to 100", "got 0"}}},
		{"101 nodes", queryNodes, make([]string, 101), wantedError{"INVALID", []string{"ids", "1 to 100", "got 101"}}},

		{"empty key", mutPublishWithKey, "", wantedError{"INVALID", []string{"idempotencyKey", "1 to 64", "got 0"}}},
		{"key of 65", mutPublishWithKey, long, wantedError{"INVALID", []string{"idempotencyKey", "1 to 64", "got 65"}}},
		{"NUL in a key", mutPublishWithKey, "\x00", wantedError{"INVALID", []string{"idempotencyKey", "NUL"}}},

		{"field that is none", `query($v:ID){viewer{badges{totall{value}} homeFeed(lastId:$v){lastId}}}`, nil, wantedError{"INVALID", []string{"totall"}}},
		{"argument that is none", `query($v:ID){viewer{homeFeed(latest:5,lastId:$v){lastId}}}`, nil, wantedError{"INVALID", []string{"latest"}}},
		{"no syntax", `query($v:ID){viewer{`, nil, wantedError{"INVALID", nil}},
		{"1,001 tokens", `query($v:ID){viewer{homeFeed(lastId:$v){lastId}` + strings.Repeat(` user{id}`, 300) + `}}`, nil, wantedError{"INVALID", []string{"1000"}}},
	}
}

// A bad value of an argument gets its code and a message with the field and the allowed values, and has no effect.
func TestBadValues(t *testing.T) {
	c := newSmallNode(t, nil)
	for _, bad := range slices.Concat(c.badIDRequests(), c.badTextRequests()) {
		t.Run(bad.name, func(t *testing.T) {
			c.wantNoEffect(t, func(t *testing.T) {
				bad.want.checkAnswer(t, c.Ask("alice", bad.query, map[string]any{"v": bad.value}))
			})
		})
	}
	t.Run("after and lastId", func(t *testing.T) {
		query := fmt.Sprintf(`{viewer{homeFeed(after:%q,lastId:%q){lastId}}}`, c.feedCursor, c.bobsPost)
		wantedError{"INVALID", []string{"after", "lastId", "only one"}}.checkAnswer(t, c.Ask("bob", query, nil))
	})
	t.Run("first and last", func(t *testing.T) {
		for _, more := range []string{"", " viewer{homeFeed(first:3){lastId}}"} { // a compiled query and a query that is not compiled
			query := fmt.Sprintf(`{v:viewer{homeFeed(first:3,last:5,before:%q){lastId}}%s}`, c.feedCursor, more)
			wantedError{"INVALID", []string{"last", "cannot be given together with first"}}.checkAnswer(t, c.Ask("bob", query, nil))
		}
	})
	t.Run("before and after", func(t *testing.T) {
		query := fmt.Sprintf(`{viewer{homeFeed(last:5,before:%[1]q,after:%[1]q){lastId}}}`, c.feedCursor)
		wantedError{"INVALID", []string{"before", "cannot be given together with after"}}.checkAnswer(t, c.Ask("bob", query, nil))
	})
	t.Run("deleted twice", func(t *testing.T) {
		c.wantNoEffect(t, func(t *testing.T) {
			c.MustAsk("bob", mutDelete, map[string]any{"v": c.bobsDeletedPost}, nil)
		})
	})
	t.Run("liked twice", func(t *testing.T) {
		c.wantNoEffect(t, func(t *testing.T) {
			c.MustAsk("carol", mutLike, map[string]any{"v": c.bobsPost}, nil)
		})
	})
}

// Values exactly at the limits work, in any alphabet.
func TestValuesAtTheLimits(t *testing.T) {
	c := newSmallNode(t, nil)
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
	c.MustAsk("alice", mutPublishWithKey, map[string]any{"v": strings.Repeat("é", 64)}, nil)
	c.MustAsk("alice", mutProfileName, map[string]any{"v": strings.Repeat("名", 100)}, nil)
	c.MustAsk("alice", mutProfileAvatar, map[string]any{"v": "https://a/" + strings.Repeat("a", 2038)}, nil)
	c.MustAsk("alice", queryNodes, map[string]any{"v": append(make([]string, 0, 100), strings.Split(strings.Repeat("user:bob ", 99)+"user:bob", " ")...)}, nil)
	wantedError{"INVALID", []string{"ids"}}.checkAnswer(t, c.Ask("alice", queryNodes, map[string]any{"v": strings.Split(strings.Repeat("user:bob ", 100)+"user:bob", " ")}))
}

// sendRaw sends this body and header unchanged, and returns the HTTP status with the GraphQL answer.
func (c *smallNode) sendRaw(t *testing.T, header http.Header, body string) world.Answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.URL+"/graphql", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var got world.Answer
	world.DecodeJSON(t, text, &got)
	got.Status = response.StatusCode
	return got
}
