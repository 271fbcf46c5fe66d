package nodes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// A pulled post is on every node: in open subscriptions, in the badges and on the page, even after Redis has lost everything.
func TestAPulledPostIsOnEveryNode(t *testing.T) {
	server := redistest.NewServer(t)
	p := world.StartNodePair(t, server.URL(), nil)
	p.A.MakeAuthorsHuge("star")
	p.A.Follow("reader", "star")
	p.B.Follow("reader", "friend")
	feed, badges := p.B.SubscribeToFeed(t, "reader"), world.OpenBadgeSubscription(t, p.B.URL, "reader")
	feed.WaitNewPostsEvent(0, "")
	first := p.A.Publish("star", "one")
	feed.WaitNewPostsEvent(1, first, "star")
	badges.WaitCounts(t, world.DeviceUpdateTimeout, 1, 0)
	if got := p.B.ReadFeedPage("reader", 10, "", "").Ids(); !slices.Equal(got, []string{first}) {
		t.Errorf("the page on the other node has %v", got)
	}
	second := p.A.Publish("friend", "two")
	feed.WaitNewPostsEvent(2, second, "friend", "star")
	server.Do("FLUSHALL")
	third := p.B.Publish("star", "three")
	feed.WaitNewPostsEvent(3, third, "star", "friend")
	world.Eventually(t, 30*time.Second, "both nodes show the feed", func() bool {
		for _, n := range []*world.Node{p.A, p.B} {
			if !slices.Equal(n.ReadFeedPage("reader", 10, "", "").Ids(), []string{third, second, first}) || n.Badges("reader").HomeFeed.Value != 3 {
				return false
			}
		}
		return true
	})
	p.A.MustAsk("star", `mutation($p:ID!){deletePost(input:{postId:$p}){postId}}`, map[string]any{"p": third}, nil)
	feed.WaitNewPostsEvent(2, second, "friend", "star")
	p.B.MarkFeedSeen("reader", "")
	feed.WaitNewPostsEvent(0, "")
}

// The argument newerThan of homeFeed reads pages upwards: from a post to newer ones. Invalid arguments are refused.
func TestNewerThanThroughTheAPI(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true})
	n.Follow("reader", "author")
	n.SettleJobsAndCaches()
	var ids []string
	for i := range 5 {
		n.Clock.Advance(time.Minute)
		ids = append(ids, n.Publish("author", fmt.Sprint(i)))
	}
	n.SettleJobsAndCaches()
	query := `query($n:ID,$f:Int,$l:ID,$a:String){viewer{homeFeed(newerThan:$n,first:$f,lastId:$l,after:$a){
		edges{cursor node{id}} pageInfo{hasNextPage endCursor} lastId end building}}}`
	var got []string
	for than := ids[0]; ; {
		var data struct {
			Viewer struct {
				HomeFeed struct {
					world.FeedPage
					Building bool
				}
			}
		}
		n.MustAsk("reader", query, map[string]any{"n": than, "f": 3}, &data)
		page := data.Viewer.HomeFeed
		got = append(got, page.Ids()...)
		if page.End != nil || page.Building || page.LastID == nil {
			t.Fatalf("%+v", page)
		}
		if than = *page.LastID; !page.PageInfo.HasNextPage {
			break
		}
	}
	if !slices.Equal(got, ids[1:]) {
		t.Errorf("walked %v, want %v", got, ids[1:])
	}
	for what, variables := range map[string]map[string]any{
		"with lastId": {"n": ids[0], "l": ids[1]}, "with after": {"n": ids[0], "a": "x"}, "a user": {"n": "user:author"}, "no id": {"n": "x"},
		"no page": {"n": ids[0], "f": 0},
	} {
		got := n.Ask("reader", query, variables)
		if got.ErrorCode() != "INVALID" || what != "no page" && !strings.Contains(got.Errors[0].Message, "newerThan") {
			t.Errorf("%s: %+v", what, got.Errors)
		}
	}
}
