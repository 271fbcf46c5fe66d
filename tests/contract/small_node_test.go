package contract

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/export"
	"tidings/services/jobs"
	"tidings/services/live"
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

// comparedPeople are the users whose data readFacts reads. Not all of them are in each world.
var comparedPeople = []string{"alice", "bob", "carol", "erin", "host"}

func newSmallNode(t *testing.T) *smallNode {
	t.Helper()
	c := &smallNode{Node: world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true})}
	c.Follow("alice", "bob")
	c.bobsPost, c.bobsDeletedPost, c.alicesPost = c.Publish("bob", "stays"), c.Publish("bob", "goes"), c.Publish("alice", "own")
	c.MustAsk("bob", mutDelete, map[string]any{"v": c.bobsDeletedPost}, nil)
	c.MustAsk("carol", mutLike, map[string]any{"v": c.bobsPost}, nil)
	c.SettleJobsAndCaches()
	c.feedCursor = c.ReadFeedPage("bob", 1, "", "").Edges[0].Cursor
	return c
}

// readFacts reads from SQL the number of jobs and the newest versions in the changelog, which most changes raise, and the facts of
// comparedPeople that most requests of these tests could change.
func (c *smallNode) readFacts() map[string]any {
	c.TB.Helper()
	ctx, all := c.TB.Context(), map[string]any{}
	put := func(name string, value any, err error) {
		if err != nil {
			c.TB.Fatalf("%s: %v", name, err)
		}
		all[name] = fmt.Sprintf("%+v", value)
	}
	waiting, dead, _, err := jobs.JobCounts(ctx, c.DB)
	put("jobs", []int{waiting, dead}, err)
	for _, kind := range []string{posts.ChangelogKind, people.ProfileChangelogKind, live.ChangelogKind} {
		newest, _, err := changelog.LastSequence(ctx, c.DB, kind)
		put("log "+kind, newest, err)
	}
	ids, err := people.IDs(ctx, c.DB, comparedPeople)
	put("ids", ids, err)
	for key, id := range ids {
		feed, err := posts.HomeFeed(ctx, c.DB, id, services.MaxPostID, 10)
		put("feed of "+key, feed, err)
		seen, err := positions.Of[services.PostID](ctx, c.DB, id, positions.HomeFeedView)
		put("mark of "+key, seen, err)
		users, err := people.ByID(ctx, c.DB, []services.UserID{id})
		put("profile of "+key, users, err)
		var kept []string
		err = export.Write(ctx, c.DB, id, slices.Concat(live.Exports, notifications.Exports), func(line []byte) error {
			for _, kind := range []string{`"show"`, `"reminder"`, `"notification"`, `"notificationMark"`} {
				if strings.HasPrefix(string(line), `{"type":`+kind) {
					kept = append(kept, string(line))
				}
			}
			return nil
		})
		put("shows and notifications of "+key, kept, err)
		for other, followee := range ids {
			edge, follows, err := people.Edge(ctx, c.DB, id, followee)
			put(key+" and "+other, []any{edge, follows}, err)
		}
	}
	return all
}

// wantNoEffect runs a request that must have no effect, and checks that the facts stay as they were.
func (c *smallNode) wantNoEffect(t *testing.T, request func(t *testing.T)) {
	t.Helper()
	before := c.readFacts()
	defer func() { // even if the request fails the test
		if diff := cmp.Diff(before, c.readFacts()); diff != "" {
			t.Errorf("it changed the facts (-before +after):\n%s", diff)
		}
	}()
	request(t)
}

// wantedError is the error that a request must get.
type wantedError struct {
	code         string
	messageParts []string // parts of the message
}

func invalid(messageParts ...string) wantedError   { return wantedError{"INVALID", messageParts} }
func notFound(messageParts ...string) wantedError  { return wantedError{"NOT_FOUND", messageParts} }
func forbidden(messageParts ...string) wantedError { return wantedError{"FORBIDDEN", messageParts} }
func conflict(messageParts ...string) wantedError  { return wantedError{"CONFLICT", messageParts} }
func unauthenticated(messageParts ...string) wantedError {
	return wantedError{"UNAUTHENTICATED", messageParts}
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
