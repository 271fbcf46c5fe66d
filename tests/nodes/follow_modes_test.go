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

// followModeFixture is two nodes with a reader who follows one author. The reader sets the mode of the follow through the first node, and
// has an open subscription on the second.
type followModeFixture struct {
	t                  *testing.T
	nodes              [2]*world.Node
	readerSubscription *world.BadgeSubscription // the reader's subscription to their badges, on the second node
}

// setMode sets the mode of the reader's follow of the author.
func (f *followModeFixture) setMode(mode string) (changed bool) {
	f.t.Helper()
	var data struct{ SetFollowMode struct{ Changed bool } }
	f.nodes[0].MustAsk("reader", `mutation{setFollowMode(input:{userId:"user:author",mode:`+mode+`}){changed}}`, nil, &data)
	return data.SetFollowMode.Changed
}

// waitCounts waits until the reader's badges on both nodes count this many posts and shows, and checks that the explanation of the badges
// and the subscription have the same numbers.
func (f *followModeFixture) waitCounts(what string, posts, shows int) {
	f.t.Helper()
	for i, n := range f.nodes {
		world.Eventually(f.t, 30*time.Second, fmt.Sprintf("%s on node %d", what, i), func() bool {
			got := n.Badges("reader")
			return got.HomeFeed.Value == posts && got.LiveBoard.Value == shows && got.HomeFeed.Precision == "EXACT"
		})
		var data struct {
			Viewer struct {
				BadgeExplained []struct {
					Source string
					Items  []struct{ NodeID string }
				}
			}
		}
		n.MustAsk("reader", `{viewer{badgeExplained{source items{nodeId}}}}`, nil, &data)
		explained := map[string]int{}
		for _, one := range data.Viewer.BadgeExplained {
			explained[one.Source] += len(one.Items)
		}
		if explained["HOME_FEED"] != posts || explained["LIVE_BOARD"] != shows {
			f.t.Errorf("%s, node %d explains %v, want %d posts and %d shows", what, i, explained, posts, shows)
		}
	}
	world.Eventually(f.t, 30*time.Second, what+" on the socket", func() bool {
		last, err := f.readerSubscription.ShownBadges()
		if err != nil {
			f.t.Fatal(err)
		}
		return last.HomeFeed.Value == posts && last.LiveBoard.Value == shows
	})
}

// countListed returns the number of posts in the reader's home feed and of shows on their live board, whether they count or not.
func (f *followModeFixture) countListed() (posts, shows int) {
	f.t.Helper()
	var data struct {
		Viewer struct {
			HomeFeed, LiveBoard struct{ Nodes []struct{ ID string } }
		}
	}
	f.nodes[1].MustAsk("reader", `{viewer{homeFeed(first:50){nodes{id}} liveBoard(first:50){nodes{id}}}}`, nil, &data)
	return len(data.Viewer.HomeFeed.Nodes), len(data.Viewer.LiveBoard.Nodes)
}

// When a reader sets the mode of a follow, the counts change at once on both nodes and in the open subscription; the lists stay. This
// holds for authors whose posts are pushed and for authors whose posts are pulled, and after Redis has lost everything.
func TestFollowModesDecideWhatCounts(t *testing.T) {
	for _, author := range []string{"SMALL", "HUGE"} {
		t.Run(author, func(t *testing.T) {
			server, database := redistest.NewServer(t), sqltest.Postgres(t)
			f := &followModeFixture{t: t}
			for i := range f.nodes {
				f.nodes[i] = world.StartNode(t, world.NodeOptions{Database: database, Redis: server.URL()})
			}
			first := f.nodes[0]
			first.CreateUsers("reader", "author")
			first.MustAsk("boss:admin", `mutation{pinAuthorMode(input:{userId:"user:author",mode:`+author+`}){author{mode}}}`, nil, nil)
			first.MustAsk("reader", `mutation{follow(input:{userId:"user:author"}){changed}}`, nil, nil)
			f.readerSubscription = world.OpenBadgeSubscription(t, f.nodes[1].URL, "reader")
			live := func() {
				var data struct {
					ScheduleShow struct{ Show struct{ ID string } }
				}
				at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
				first.MustAsk("author", fmt.Sprintf(`mutation{scheduleShow(input:{title:"a show",plannedAt:%q}){show{id}}}`, at), nil, &data)
				first.MustAsk("author", fmt.Sprintf(`mutation{startShow(input:{showId:%q}){changed}}`, data.ScheduleShow.Show.ID), nil, nil)
			}
			first.Publish("author", "one")
			live()
			f.waitCounts("at first", 1, 1)
			if !f.setMode("LIVE_ONLY") || f.setMode("LIVE_ONLY") {
				t.Error("the mode changes once")
			}
			f.waitCounts("only shows", 0, 1)
			first.Publish("author", "two")
			live()
			f.waitCounts("a post and a show later", 0, 2)
			f.setMode("NONE")
			f.waitCounts("nothing", 0, 0)
			server.Flush()
			f.waitCounts("nothing after a loss", 0, 0)
			first.Publish("author", "three")
			world.Eventually(t, 30*time.Second, "all is listed", func() bool { posts, shows := f.countListed(); return posts == 3 && shows == 2 })
			f.waitCounts("nothing of a third post", 0, 0)
			f.setMode("ALL")
			f.waitCounts("everything unseen again", 3, 2)
			f.setMode("NONE")
			first.MustAsk("reader", `mutation{unfollow(input:{userId:"user:author"}){changed} follow(input:{userId:"user:author"}){changed user{viewerFollowMode}}}`, nil, nil)
			first.Publish("author", "four")
			f.waitCounts("a new follow, which forgot the mode", 1, 0)
		})
	}
}

// Only a user who follows another can set the mode of the follow. Nobody else sees this mode.
func TestOnlyFollowersSetAndSeeAFollowMode(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
	n.CreateUsers("reader", "author", "stranger")
	for who, code := range map[string]string{"author": "CONFLICT", "nobody": "NOT_FOUND", "reader": "CONFLICT"} {
		if got := n.Ask("reader", fmt.Sprintf(`mutation{setFollowMode(input:{userId:"user:%s",mode:NONE}){changed}}`, who), nil); got.ErrorCode() != code {
			t.Errorf("a mode for %s: code %q, want %q", who, got.ErrorCode(), code)
		}
	}
	n.MustAsk("reader", `mutation{follow(input:{userId:"user:author"}){changed} setFollowMode(input:{userId:"user:author",mode:NONE}){changed}}`, nil, nil)
	const query = `{viewer{preferences{follows{nodes{key}}}} node(id:"user:author"){...on User{viewerFollowMode}}}`
	for who, want := range map[string]string{
		"reader":   `{"viewer":{"preferences":{"follows":{"nodes":[{"key":"author"}]}}},"node":{"viewerFollowMode":"NONE"}}`,
		"stranger": `{"viewer":{"preferences":{"follows":{"nodes":[]}}},"node":{"viewerFollowMode":null}}`,
		"author":   `{"viewer":{"preferences":{"follows":{"nodes":[]}}},"node":{"viewerFollowMode":null}}`,
	} {
		if got := n.Ask(who, query, nil); string(got.Data) != want {
			t.Errorf("%s reads %s, want %s", who, got.Data, want)
		}
	}
	if got := n.Ask("", `mutation{setFollowMode(input:{userId:"user:author",mode:NONE}){changed}}`, nil); got.ErrorCode() != "UNAUTHENTICATED" {
		t.Errorf("without a token: code %q", got.ErrorCode())
	}
}

// setFollowMode answers the same for a user who blocks the viewer as for any user who is not followed. This holds for the mutation, for
// an event of ingest, and for repetitions. The mode that was set before the block is gone.
func TestFollowModesTellNothingOfBlocks(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
	n.CreateUsers("reader", "blocker", "stranger")
	n.MustAsk("reader", `mutation{follow(input:{userId:"user:blocker"}){changed} setFollowMode(input:{userId:"user:blocker",mode:LIVE_ONLY}){changed}}`, nil, nil)
	n.MustAsk("blocker", `mutation{block(input:{userId:"user:reader"}){changed}}`, nil, nil)
	answers := map[string]func(whom, mode string) world.Answer{
		"the mutation": func(whom, mode string) world.Answer {
			return n.Ask("reader", `mutation($u:ID!,$m:FollowMode!){setFollowMode(input:{userId:$u,mode:$m}){changed user{id key viewerFollowMode}
				viewer{id preferences{follows{nodes{key}}}}}}`, map[string]any{"u": "user:" + whom, "m": mode})
		},
		"an event": func(whom, mode string) world.Answer {
			return n.Ask("host:ingest", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{id changed error{code message retryAfterMs}}}}`,
				map[string]any{"e": []any{map[string]any{"as": "user:reader", "do": map[string]any{"setFollowMode": map[string]any{"userId": "user:" + whom, "mode": mode}}}}})
		},
		"their profile": func(whom, _ string) world.Answer {
			return n.Ask("reader", `query($i:ID!){node(id:$i){...on User{viewerFollows viewerFollowMode}} viewer{preferences{follows{nodes{key}}}}}`, map[string]any{"i": "user:" + whom})
		},
	}
	for name, answer := range answers {
		for _, mode := range []string{"LIVE_ONLY", "NONE", "ALL", "NONE"} {
			got, want := answer("blocker", mode), answer("stranger", mode)
			if string(got.Data) != string(want.Data) || !slices.Equal(got.Errors, want.Errors) {
				t.Errorf("%s, mode %s, of who blocks the reader: %s %+v, of a stranger: %s %+v", name, mode, got.Data, got.Errors, want.Data, want.Errors)
			}
			if refused := want.ErrorCode() == "CONFLICT" || strings.Contains(string(want.Data), `"code":"CONFLICT"`); !refused && name != "their profile" {
				t.Errorf("%s of a stranger: %s %+v", name, want.Data, want.Errors)
			}
		}
	}
}
