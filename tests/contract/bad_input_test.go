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

// smallNode is a node with a few facts: alice follows bob, who has one post that carol likes and one deleted post. No worker runs, so no job
// undoes a wrong write before it is found.
type smallNode struct {
	*world.Node
	post, deletedPost, alicesPost string // two posts of bob and one of alice
	cursor                        string // a cursor of bob's feed
}

var smallNodePeople = []string{"alice", "bob", "carol"} // whose data facts reads

func newSmallNode(t *testing.T, change func(*node.Config)) *smallNode {
	t.Helper()
	c := &smallNode{Node: world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", Manual: true, Change: change})}
	c.Follow("alice", "bob")
	c.post, c.deletedPost, c.alicesPost = c.Publish("bob", "stays"), c.Publish("bob", "goes"), c.Publish("alice", "hers")
	c.Must("bob", `mutation($p:ID!){deletePost(input:{postId:$p}){postId}}`, map[string]any{"p": c.deletedPost}, nil)
	c.Must("carol", `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": c.post}, nil)
	c.Settle()
	c.cursor = c.ReadFeedPage("bob", 1, "", "").Edges[0].Cursor
	return c
}

// facts reads from SQL the number of jobs and the heads of logs, which most changes raise, and the facts of smallNodePeople that most
// requests of these tests could change.
func (c *smallNode) facts() map[string]any {
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
	for _, kind := range []string{nodecache.LogPost, people.LogProfile, live.LogKind} {
		head, _, err := changelog.LogHead(ctx, c.Store, kind)
		put("log "+kind, head, err)
	}
	numbers, err := people.IDs(ctx, c.Store, smallNodePeople)
	put("numbers", numbers, err)
	for key, number := range numbers {
		feed, err := posts.HomeFeed(ctx, c.Store, number, services.MaxPostID, 10)
		put("feed of "+key, feed, err)
		seen, err := positions.Of(ctx, c.Store, number, positions.HomePage, "")
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
	before := c.facts()
	request(t)
	if diff := cmp.Diff(before, c.facts()); diff != "" {
		t.Errorf("it changed the facts (-before +after):\n%s", diff)
	}
}

// refusal is the error that a request must get.
type refusal struct {
	code string
	says []string // parts of the message
}

// check fails the test unless the answer has this one error.
func (r refusal) check(t *testing.T, got world.Answer) {
	t.Helper()
	if len(got.Errors) != 1 || got.ErrorCode() != r.code {
		t.Fatalf("got %+v (data %s), want one error with the code %s", got.Errors, got.Data, r.code)
	}
	for _, part := range r.says {
		if !strings.Contains(got.Errors[0].Message, part) {
			t.Errorf("the message is %q, want %q in it", got.Errors[0].Message, part)
		}
	}
}

const (
	mutFollow            = `mutation($v:ID!){follow(input:{userId:$v}){user{id}}}`
	mutUnfollow          = `mutation($v:ID!){unfollow(input:{userId:$v}){user{id}}}`
	mutPublish           = `mutation($v:String!){publishPost(input:{body:$v}){post{id}}}`
	mutDelete            = `mutation($v:ID!){deletePost(input:{postId:$v}){postId}}`
	mutLike              = `mutation($v:ID!){likePost(input:{postId:$v}){post{id}}}`
	mutUnlike            = `mutation($v:ID!){unlikePost(input:{postId:$v}){post{id}}}`
	mutSeen              = `mutation($v:ID){markHomeFeedSeen(input:{upTo:$v}){badges{version}}}`
	mutNotificationsSeen = `mutation($v:ID){markNotificationsSeen(input:{upTo:$v}){badges{version}}}` // the panel shows the notifications
	mutName              = `mutation($v:String){setProfile(input:{name:$v}){user{id}}}`
	mutAvatar            = `mutation($v:URL){setProfile(input:{avatarUrl:$v}){user{id}}}`
	mutKey               = `mutation($v:String){publishPost(input:{body:"b",idempotencyKey:$v}){post{id}}}`
	queryNode            = `query($v:ID!){node(id:$v){id}}`
	queryNodes           = `query($v:[ID!]!){nodes(ids:$v){id}}`
	queryFirst           = `query($v:Int){viewer{homeFeed(first:$v){lastId}}}`
	queryAfter           = `query($v:String){viewer{homeFeed(after:$v){lastId}}}`
	queryAbove           = `query($v:String){viewer{homeFeed(last:5,before:$v){lastId}}}` // the page above a cursor
	queryLast            = `query($v:Int){viewer{homeFeed(last:$v,before:"x"){lastId}}}`
	queryLastID          = `query($v:ID){viewer{homeFeed(lastId:$v){lastId}}}`
)

// badValue is a request of alice's with an invalid value for its variable v, and the required error.
type badValue struct {
	name, query string
	value       any
	want        refusal
}

func (c *smallNode) badIDs() []badValue {
	unknown, long := "post:0000000000001", strings.Repeat("k", 129)
	return []badValue{
		{"user without a key", mutFollow, "user:", refusal{"INVALID", []string{"userId", "1 to 128", "got 0"}}},
		{"user of 129 letters", mutFollow, "user:" + long, refusal{"INVALID", []string{"userId", "1 to 128", "got 129"}}},
		{"user with a blank", mutFollow, "user:a b", refusal{"INVALID", []string{"userId", `"a b"`, `"a%20b"`}}},
		{"user with an accent", mutUnfollow, "user:zoë", refusal{"INVALID", []string{"userId", `"zo%C3%AB"`}}},
		{"user with a colon", mutFollow, "user:did:plc:a", refusal{"INVALID", []string{"userId", `"did%3Aplc%3Aa"`}}},
		{"user with small digits", mutFollow, "user:auth0%7c123", refusal{"INVALID", []string{"userId", `"auth0%7C123"`}}},
		{"user escaped too much", mutFollow, "user:%62ob", refusal{"INVALID", []string{"userId", `"bob"`}}},
		{"user with half an escape", mutFollow, "user:bob%", refusal{"INVALID", []string{"userId", "hexadecimal"}}},
		{"user with a line break", mutFollow, "user:bob%0A", refusal{"INVALID", []string{"userId", "printable"}}},
		{"user in another normal form", mutFollow, "user:zoe%CC%88", refusal{"INVALID", []string{"userId", "normal form C"}}},
		{"user in broken UTF-8", mutFollow, "user:zo%EB", refusal{"INVALID", []string{"userId", "printable"}}},
		{"key without a type", mutFollow, "bob", refusal{"INVALID", []string{"userId", `"bob"`, "user:KEY"}}},
		{"another type", mutFollow, "foo:bar", refusal{"INVALID", []string{"userId", `"foo:bar"`, "user:KEY"}}},
		{"post for a user", mutFollow, c.post, refusal{"INVALID", []string{"userId", "user:KEY"}}},
		{"number for a user", mutFollow, 5, refusal{"INVALID", []string{"userId", `"5"`, "user:KEY"}}},
		{"truth for a user", mutFollow, true, refusal{"INVALID", []string{"$v", "an ID is a text", "true"}}},
		{"list for a user", mutFollow, []string{"user:bob"}, refusal{"INVALID", []string{"$v"}}},
		{"null for a user", mutFollow, nil, refusal{"INVALID", []string{"$v", "null"}}},
		{"a very long id", mutFollow, "user:" + strings.Repeat("x", 9000), refusal{"INVALID", []string{"userId", "got 9000"}}},
		{"oneself", mutFollow, "user:alice", refusal{"INVALID", []string{"userId", "yourself"}}},

		{"short post", mutDelete, "post:xyz", refusal{"INVALID", []string{"postId", `"post:xyz"`, "13 letters"}}},
		{"post in small letters", mutLike, strings.ToLower("post:0ABCDEFGHJKMN"), refusal{"INVALID", []string{"postId", "13 letters"}}},
		{"post too great", mutLike, "post:8000000000000", refusal{"INVALID", []string{"postId", "13 letters"}}},
		{"user for a post", mutLike, "user:bob", refusal{"INVALID", []string{"postId", `"user:bob"`, "post:"}}},
		{"another type for a post", mutUnlike, "foo:bar", refusal{"INVALID", []string{"postId", "post:"}}},
		{"delete another's post", mutDelete, c.post, refusal{"FORBIDDEN", []string{"postId", c.post, "not your post"}}},
		{"delete another's deleted post", mutDelete, c.deletedPost, refusal{"FORBIDDEN", []string{"postId"}}},
		{"delete no post", mutDelete, unknown, refusal{"NOT_FOUND", []string{"no post", "0000000000001"}}},
		{"like no post", mutLike, unknown, refusal{"NOT_FOUND", []string{"no post", "0000000000001"}}},
		{"like a deleted post", mutLike, c.deletedPost, refusal{"NOT_FOUND", []string{"postId", c.deletedPost, "deleted"}}},
		{"unlike a deleted post", mutUnlike, c.deletedPost, refusal{"NOT_FOUND", []string{"postId", c.deletedPost, "deleted"}}},
	}
}

func (c *smallNode) badTexts() []badValue {
	long := strings.Repeat("k", 65)
	future := services.GlobalID(services.PostType, services.PostIDAt(c.Clock.Now().Add(time.Hour)).String())
	return []badValue{
		{"empty body", mutPublish, "", refusal{"INVALID", []string{"body", "1 to 5000", "got 0"}}},
		{"body of 5,001", mutPublish, strings.Repeat("é", 5001), refusal{"INVALID", []string{"body", "1 to 5000", "got 5001"}}},
		{"body of blanks", mutPublish, " \n\t", refusal{"INVALID", []string{"body", "white space"}}},
		{"NUL in a body", mutPublish, "a\x00b", refusal{"INVALID", []string{"body", "NUL"}}},
		{"object for a body", mutPublish, map[string]any{"text": "b"}, refusal{"INVALID", []string{"$v"}}},
		{"name of 101", mutName, strings.Repeat("n", 101), refusal{"INVALID", []string{"name", "up to 100", "got 101"}}},
		{"NUL in a name", mutName, "\x00", refusal{"INVALID", []string{"name", "NUL"}}},
		{"avatar of a script", mutAvatar, "javascript:alert(1)", refusal{"INVALID", []string{"avatarUrl", "http or https"}}},
		{"avatar of 2,049", mutAvatar, "https://a/" + strings.Repeat("a", 2039), refusal{"INVALID", []string{"avatarUrl", "up to 2048", "got 2049"}}},

		{"mark up to a user", mutSeen, "user:bob", refusal{"INVALID", []string{"upTo", "post:"}}},
		{"mark up to a post that never was", mutSeen, "post:0000000000001", refusal{"NOT_FOUND", []string{"upTo", "post:0000000000001"}}},
		{"mark in the future", mutSeen, future, refusal{"INVALID", []string{"upTo", future, "in the future"}}},
		{"panel up to a post", mutNotificationsSeen, c.post, refusal{"INVALID", []string{"upTo", "of a notification"}}},
		{"panel beyond the newest", mutNotificationsSeen, "notificationUpTo:" + strings.TrimPrefix(future, "post:"), refusal{"INVALID", []string{"upTo", "beyond the newest"}}},

		{"no posts at once", queryFirst, 0, refusal{"INVALID", []string{"first", "1 to 100", "got 0"}}},
		{"101 posts at once", queryFirst, 101, refusal{"INVALID", []string{"first", "1 to 100", "got 101"}}},
		{"-1 posts at once", queryFirst, -1, refusal{"INVALID", []string{"first", "1 to 100", "got -1"}}},
		{"more than a number holds", queryFirst, 1e15, refusal{"INVALID", []string{"$v", "2147483647", "1000000000000000"}}},
		{"text for a number", queryFirst, "five", refusal{"INVALID", []string{"$v"}}},
		{"broken cursor", queryAfter, "?", refusal{"INVALID", []string{"after", `"?"`, "cursor"}}},
		{"cursor cut off", queryAfter, c.cursor[:len(c.cursor)-2], refusal{"INVALID", []string{"after", "cursor"}}},
		{"empty cursor", queryAfter, "", refusal{"INVALID", []string{"after", "cursor"}}},
		{"another's cursor", queryAfter, c.cursor, refusal{"INVALID", []string{"after", "another user"}}},
		{"another's cursor above", queryAbove, c.cursor, refusal{"INVALID", []string{"before", "another user"}}},
		{"broken cursor above", queryAbove, "?", refusal{"INVALID", []string{"before", `"?"`, "cursor"}}},
		{"no place to be above", queryAbove, nil, refusal{"INVALID", []string{"last", "before"}}},
		{"no posts above", queryLast, 0, refusal{"INVALID", []string{"last", "1 to 100", "got 0"}}},
		{"101 posts above", queryLast, 101, refusal{"INVALID", []string{"last", "1 to 100", "got 101"}}},
		{"a place and no number", queryLast, nil, refusal{"INVALID", []string{"before", "last"}}},
		{"lastId of no post", queryLastID, "post:0000000000007", refusal{"NOT_FOUND", []string{"lastId", "post:0000000000007"}}},
		{"the last of all ids as lastId", queryLastID, "post:7ZZZZZZZZZZZZ", refusal{"NOT_FOUND", []string{"lastId", "post:7ZZZZZZZZZZZZ"}}},
		{"lastId of a user", queryLastID, "user:bob", refusal{"INVALID", []string{"lastId", "post:"}}},
		{"node of no type", queryNode, "foo:bar", refusal{"INVALID", []string{`"foo:bar"`, "type of user, post"}}},
		{"node of a short post", queryNode, "post:1", refusal{"INVALID", []string{"id", "13 letters"}}},
		{"no nodes", queryNodes, []string{}, refusal{"INVALID", []string{"ids", "1 to 100", "got 0"}}},
		{"101 nodes", queryNodes, make([]string, 101), refusal{"INVALID", []string{"ids", "1 to 100", "got 101"}}},

		{"empty key", mutKey, "", refusal{"INVALID", []string{"idempotencyKey", "1 to 64", "got 0"}}},
		{"key of 65", mutKey, long, refusal{"INVALID", []string{"idempotencyKey", "1 to 64", "got 65"}}},
		{"NUL in a key", mutKey, "\x00", refusal{"INVALID", []string{"idempotencyKey", "NUL"}}},

		{"field that is none", `query($v:ID){viewer{badges{totall{value}} homeFeed(lastId:$v){lastId}}}`, nil, refusal{"INVALID", []string{"totall"}}},
		{"argument that is none", `query($v:ID){viewer{homeFeed(latest:5,lastId:$v){lastId}}}`, nil, refusal{"INVALID", []string{"latest"}}},
		{"no syntax", `query($v:ID){viewer{`, nil, refusal{"INVALID", nil}},
		{"1,001 tokens", `query($v:ID){viewer{homeFeed(lastId:$v){lastId}` + strings.Repeat(` user{id}`, 300) + `}}`, nil, refusal{"INVALID", []string{"1000"}}},
	}
}

// A bad value of an argument gets its code and a message with the field and the allowed values, and has no effect.
func TestBadValues(t *testing.T) {
	c := newSmallNode(t, nil)
	for _, bad := range slices.Concat(c.badIDs(), c.badTexts()) {
		t.Run(bad.name, func(t *testing.T) {
			c.wantNoEffect(t, func(t *testing.T) {
				bad.want.check(t, c.Ask("alice", bad.query, map[string]any{"v": bad.value}))
			})
		})
	}
	t.Run("after and lastId", func(t *testing.T) {
		query := fmt.Sprintf(`{viewer{homeFeed(after:%q,lastId:%q){lastId}}}`, c.cursor, c.post)
		refusal{"INVALID", []string{"after", "lastId", "only one"}}.check(t, c.Ask("bob", query, nil))
	})
	t.Run("first and last", func(t *testing.T) {
		for _, more := range []string{"", " viewer{homeFeed(first:3){lastId}}"} { // a compiled query and a query that is not compiled
			query := fmt.Sprintf(`{v:viewer{homeFeed(first:3,last:5,before:%q){lastId}}%s}`, c.cursor, more)
			refusal{"INVALID", []string{"last", "cannot be given together with first"}}.check(t, c.Ask("bob", query, nil))
		}
	})
	t.Run("before and after", func(t *testing.T) {
		query := fmt.Sprintf(`{viewer{homeFeed(last:5,before:%[1]q,after:%[1]q){lastId}}}`, c.cursor)
		refusal{"INVALID", []string{"before", "cannot be given together with after"}}.check(t, c.Ask("bob", query, nil))
	})
	t.Run("deleted twice", func(t *testing.T) {
		c.wantNoEffect(t, func(t *testing.T) {
			c.Must("bob", mutDelete, map[string]any{"v": c.deletedPost}, nil)
		})
	})
	t.Run("liked twice", func(t *testing.T) {
		c.wantNoEffect(t, func(t *testing.T) {
			c.Must("carol", mutLike, map[string]any{"v": c.post}, nil)
		})
	})
}

// Values exactly at the limits work, in any alphabet.
func TestValuesAtTheLimits(t *testing.T) {
	c := newSmallNode(t, nil)
	for _, key := range []string{"a", strings.Repeat("k", services.MaxKey), "A.b_c-9"} {
		c.Follow("alice", key)
		for _, body := range []string{"x", "👩‍👩‍👧‍👦 שלום 你好\u202e", strings.Repeat("𝄞", 5000), "line\nline\t\"quoted\" \\ </script>"} {
			id := c.Publish(key, body)
			var data struct {
				Node struct {
					Body   string
					Author struct{ Key string }
				}
			}
			c.Must("alice", `query($v:ID!){node(id:$v){... on Post{body author{key}}}}`, map[string]any{"v": id}, &data)
			if data.Node.Body != body || data.Node.Author.Key != key {
				t.Errorf("%d bytes of %s came back as %d of %s", len(body), key, len(data.Node.Body), data.Node.Author.Key)
			}
		}
	}
	c.Settle()
	for _, first := range []int{1, 100} {
		if got := c.ReadWholeFeed("alice", first); len(got) != 14 {
			t.Errorf("first %d: %d posts, want 14", first, len(got))
		}
	}
	if got := c.Badges("alice").HomeFeed.Value; got != 13 {
		t.Errorf("%d posts count, want 13", got)
	}
	c.Must("alice", mutKey, map[string]any{"v": strings.Repeat("é", 64)}, nil)
	c.Must("alice", mutName, map[string]any{"v": strings.Repeat("名", 100)}, nil)
	c.Must("alice", mutAvatar, map[string]any{"v": "https://a/" + strings.Repeat("a", 2038)}, nil)
	c.Must("alice", queryNodes, map[string]any{"v": append(make([]string, 0, 100), strings.Split(strings.Repeat("user:bob ", 99)+"user:bob", " ")...)}, nil)
	refusal{"INVALID", []string{"ids"}}.check(t, c.Ask("alice", queryNodes, map[string]any{"v": strings.Split(strings.Repeat("user:bob ", 100)+"user:bob", " ")}))
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
	world.Decode(t, text, &got)
	got.Status = response.StatusCode
	return got
}
