package nodes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/node"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
	"tidings/tests/world"
)

// multiNodeActors is a group of people who act at random through some nodes.
type multiNodeActors struct {
	t              *testing.T
	nodes          []*world.Node
	userKeys       []string
	random         *rand.Rand
	postIDs        []string // of the posts so far
	conversationID string   // the ID of a conversation of all
}

// newMultiNodeActors makes five people with a conversation of them all. seed determines their acts, and nodes are those they act through.
func newMultiNodeActors(t *testing.T, seed uint64, nodes ...*world.Node) *multiNodeActors {
	c := &multiNodeActors{t: t, nodes: nodes, userKeys: []string{"ann", "bob", "cat", "dan", "eve"}, random: rand.New(rand.NewPCG(seed, 7))}
	for _, key := range c.userKeys {
		c.randomNode().Badges(key)
	}
	var data struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	members := []string{}
	for _, key := range c.userKeys[1:] {
		members = append(members, "user:"+key)
	}
	c.randomNode().MustAsk(c.userKeys[0], `mutation($m:[ID!]!){createConversation(input:{kind:GROUP,memberIds:$m}){conversation{id}}}`, map[string]any{"m": members}, &data)
	c.conversationID = data.CreateConversation.Conversation.ID
	return c
}

// randomNode draws a node.
func (c *multiNodeActors) randomNode() *world.Node { return c.nodes[c.random.IntN(len(c.nodes))] }

// runRandomMutation sends at most one random mutation through a random node. The mutations change badges of single users, unlike an
// announcement.
func (c *multiNodeActors) runRandomMutation() {
	me, other, n := c.userKeys[c.random.IntN(len(c.userKeys))], c.userKeys[c.random.IntN(len(c.userKeys))], c.randomNode()
	switch what := c.random.IntN(10); {
	case what == 0 && me != other:
		n.Follow(me, other)
	case what == 1 && me != other:
		n.MustAsk(me, `mutation($u:ID!){unfollow(input:{userId:$u}){user{id}}}`, map[string]any{"u": "user:" + other}, nil)
	case what == 2:
		c.postIDs = append(c.postIDs, n.Publish(me, "a post"))
	case what == 3 && len(c.postIDs) > 0:
		n.MustAsk(me, `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": c.postIDs[c.random.IntN(len(c.postIDs))]}, nil)
	case what == 4 && len(c.postIDs) > 0:
		n.MustAsk(me, `mutation($p:ID!){unlikePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": c.postIDs[c.random.IntN(len(c.postIDs))]}, nil)
	case what == 5:
		n.MarkFeedSeen(me, "")
	case what == 6:
		n.MustAsk(me, `mutation{markNotificationsSeen(input:{}){badges{total{value}}}}`, nil, nil)
	case what == 7:
		n.MustAsk(me, `mutation($c:ID!){sendMessage(input:{conversationId:$c,body:"hello"}){message{id}}}`, map[string]any{"c": c.conversationID}, nil)
	case what == 8:
		n.MustAsk("host:ingest", `mutation($u:ID!){sendSiteMessage(input:{to:[$u],title:"hello"}){message{id}}}`, map[string]any{"u": "user:" + me}, nil)
	case what == 9:
		n.MustAsk(me, `mutation($m:CategoryMode,$p:Boolean){setCategoryPreference(input:{category:"LIKE",mode:$m,push:$p}){changed}}`,
			map[string]any{"m": []any{"COUNT", "DOT", "OFF", nil}[c.random.IntN(4)], "p": c.random.IntN(2) == 0}, nil)
	}
}

// waitChangesEqualBadges waits until, for everybody, the reader's last change equals the badges. Users whose badges are empty may
// have no change.
func (c *multiNodeActors) waitChangesEqualBadges(r *world.ChangesReader) {
	c.t.Helper()
	world.EventuallySucceeds(c.t, 30*time.Second, func() error {
		if err := r.ReadToEnd(c.randomNode().URL); err != nil {
			c.t.Fatal(err)
		}
		for _, key := range c.userKeys {
			if err := r.LastByKey[key].CheckAgainst(c.randomNode().Badges(key)); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
		return nil
	})
}

// withChangeStream returns a function that switches the change stream on in a node's settings. lap is the time from one lap to the
// next. If it is a day, no lap comes during a test: marks alone must find every change of single users.
func withChangeStream(lap time.Duration) func(cfg *node.Config) {
	return func(cfg *node.Config) {
		cfg.Stream.AlwaysOn, cfg.Stream.ChangeInterval, cfg.Stream.LapInterval = true, 10*time.Millisecond, lap
	}
}

// waitChangeStreamBegun waits until the change stream was written for the first time. Items from before that moment never alert.
func waitChangeStreamBegun(n *world.Node) {
	n.TB.Helper()
	world.Eventually(n.TB, 30*time.Second, "the change stream has begun", func() bool {
		begun, err := sqltest.QueryLines(n.TB.Context(), n.DB, `SELECT 1 FROM stream_head WHERE began_at > 0`)
		if err != nil {
			n.TB.Fatal(err)
		}
		return len(begun) > 0
	})
}

// After random acts, once all jobs are done, everybody's last change equals their badges, by marks alone: on one node, and on two
// nodes that share the jobs. At least one change is not silent.
func TestChangesFollowBadges(t *testing.T) {
	run := func(t *testing.T, nodes ...*world.Node) {
		reader := &world.ChangesReader{}
		world.Eventually(t, 30*time.Second, "the first laps are over", func() bool {
			laps := uint64(0)
			for _, n := range nodes {
				laps += uint64(n.Metric("tidings_changes_laps_total"))
			}
			return laps > 0
		})
		c := newMultiNodeActors(t, 1, nodes...)
		for round := range histories.ShortOrFull(t, 4, 20) {
			for range 60 {
				c.runRandomMutation()
				if c.random.IntN(10) == 0 {
					if err := reader.ReadToEnd(c.randomNode().URL); err != nil {
						t.Fatal(err)
					}
				}
			}
			c.waitChangesEqualBadges(reader)
			if t.Failed() {
				t.Fatalf("in round %d", round)
			}
		}
		if len(reader.LastAlertingByKey) == 0 {
			t.Error("no change was one to alert of")
		}
		fresh := &world.ChangesReader{}
		c.waitChangesEqualBadges(fresh) // a reader from the start of the stream
	}
	t.Run("one node", func(t *testing.T) {
		options := world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ChangeConfig: withChangeStream(24 * time.Hour)}
		run(t, world.StartNode(t, options))
	})
	t.Run("two nodes", func(t *testing.T) {
		p := world.StartNodePair(t, redistest.Redis(t), withChangeStream(24*time.Hour))
		run(t, p.A, p.B)
	})
}

// readChangesPage reads a page of the stream.
func readChangesPage(n *world.Node, first int, after string) (list []world.Change, cursor string, more bool) {
	var data struct {
		Admin struct {
			Changes struct {
				List    []world.Change
				Cursor  string
				HasMore bool
			}
		}
	}
	var from any
	if after != "" {
		from = after
	}
	n.MustAsk("boss:admin", `query($n:Int!,$a:String){admin{changes(first:$n,after:$a){list{key version total silent cause{source part itemId}} cursor hasMore}}}`,
		map[string]any{"n": first, "a": from}, &data)
	page := data.Admin.Changes
	return page.List, page.Cursor, page.HasMore
}

// An alert moves behind other users' changes if its user has a silent change later. A reader who is in the middle of a backlog
// still gets the alert. Cursors with one position, such as the cursors of a reader without a backlog, continue to work.
func TestAChangeThatMovedWithinAPageAlerts(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ChangeConfig: withChangeStream(24 * time.Hour)})
	world.Eventually(t, 30*time.Second, "the first lap is over", func() bool { return n.Metric("tidings_changes_laps_total") > 0 })
	first, second, bobs := n.Publish("ann", "a post"), n.Publish("ann", "a second"), n.Publish("bob", "a post")
	watch := &world.ChangesReader{}
	like := func(post string, liked bool, key string, total int) {
		t.Helper()
		verb := `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`
		if !liked {
			verb = `mutation($p:ID!){unlikePost(input:{postId:$p}){post{id}}}`
		}
		n.MustAsk("cat", verb, map[string]any{"p": post}, nil)
		world.Eventually(t, 20*time.Second, fmt.Sprintf("the total of %s is %d", key, total), func() bool {
			if err := watch.ReadToEnd(n.URL); err != nil {
				t.Fatal(err)
			}
			return watch.LastByKey[key].Total == total
		})
	}
	_, start, _ := readChangesPage(n, 100, "")
	like(first, true, "ann", 1)
	like(second, true, "ann", 2)
	like(bobs, true, "bob", 1)
	like(second, false, "ann", 1)
	list, middle, more := readChangesPage(n, 1, start)
	if len(list) != 1 || list[0].Key != "bob" || list[0].Silent || !more {
		t.Fatalf("%+v, more %v", list, more)
	}
	list, end, more := readChangesPage(n, 1, middle)
	if len(list) != 1 || list[0].Key != "ann" || list[0].Silent || list[0].Cause == nil || more {
		t.Errorf("the alert was lost: %+v, more %v", list, more)
	}
	if len(end) != len(start) || len(middle) != 2*len(start) {
		t.Errorf("cursors %q, %q, %q", start, middle, end)
	}
	if list, last, more := readChangesPage(n, 1, end); len(list) != 0 || last != end || more {
		t.Errorf("at the end: %+v, %q", list, last)
	}
	if list, _, _ := readChangesPage(n, 1, middle[:len(start)]); len(list) != 1 || !list[0].Silent {
		t.Errorf("a cursor of a reader who had everything: %+v", list)
	}
}

// Changes that are not written for each user arrive by laps: an announcement, a dot, a post of a huge author.
func TestChangesOfEverybody(t *testing.T) {
	p := world.StartNodePair(t, redistest.Redis(t), withChangeStream(time.Second))
	c := newMultiNodeActors(t, 2, p.A, p.B)
	reader := &world.ChangesReader{}
	p.A.MakeAuthorsHuge("star")
	p.A.Follow("ann", "star")
	p.A.Announce(map[string]any{"title": "news", "content": "for all"})
	p.B.RaiseDot(map[string]any{"name": "shop"})
	p.B.Publish("star", "hello")
	// Each node learns of each act in its own time. What a node once shows stays.
	for _, n := range []*world.Node{p.A, p.B} {
		world.Eventually(t, 20*time.Second, "the node shows the announcement, the dot and the post", func() bool {
			got := n.Badges("ann")
			return got.Announcements.Value == 1 && isDotLit(got, "shop") && got.HomeFeed.Value == 1
		})
	}
	c.waitChangesEqualBadges(reader)
	if got := reader.LastByKey["ann"]; got.Total == 0 || len(got.Dots) != 1 {
		t.Errorf("the last change: %+v", got)
	}
	// A later lap may find the dot. That change is silent and has no cause, so the last change that was not silent is checked.
	if got := reader.LastAlertingByKey["ann"]; got.Cause == nil {
		t.Errorf("the last change that sounded: %+v", got)
	}
}

// A job is done only after its users are marked. If the process dies between the change in Redis and the mark, the repeated job
// finds nothing to change, but still marks the users.
func TestAJobRecordsItsUsersBeforeItIsDone(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true})
	marked, fails := map[services.UserID]int{}, 3
	n.Projector.OnMark(func(_ context.Context, users []services.UserID) error {
		if fails--; fails >= 0 {
			return services.Wrapf(services.Unavailable, errors.New("killed"), "the mark")
		}
		for _, user := range users {
			marked[user]++
		}
		return nil
	}, func() bool { return true })
	n.CreateUsers("ann", "bob")
	n.Badges("ann")
	n.Badges("bob")
	post := n.Publish("ann", "a post")
	n.SettleJobsAndCaches()
	clear(marked)
	fails = 3
	n.MustAsk("bob", `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": post}, nil)
	for range 20 {
		for _, worker := range n.Workers {
			_, _ = worker.RunOnce(t.Context())
		}
		n.Clock.Advance(5 * time.Second)
	}
	ann := n.EnsureUserIDs("ann")[0]
	if marked[ann] == 0 || n.Badges("ann").Notifications.Like.Value != 1 {
		t.Errorf("marked %v, badges %+v", marked, n.Badges("ann").Notifications)
	}
}

// Only operators can read the stream: other callers are refused. If the stream is off, the error is CONFLICT, but INVALID for a bad
// argument.
func TestReadersOfChangesAreRefused(t *testing.T) {
	off := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
	for _, c := range []struct{ as, query, code string }{
		{"boss:admin", `{admin{changes{list{key}}}}`, "CONFLICT"},
		{"boss:admin", `{admin{changes(after:"x"){list{key}}}}`, "INVALID"},
		{"boss:admin", `{admin{changes(first:101){list{key}}}}`, "INVALID"},
		{"ann", `{admin{changes{list{key}}}}`, "FORBIDDEN"},
		{"host:ingest", `{admin{changes{list{key}}}}`, "FORBIDDEN"},
		{"", `{admin{changes{list{key}}}}`, "UNAUTHENTICATED"},
	} {
		if got := off.Ask(c.as, c.query, nil); got.ErrorCode() != c.code {
			t.Errorf("%s as %q: %s, want %s", c.query, c.as, got.ErrorCode(), c.code)
		}
	}
}
