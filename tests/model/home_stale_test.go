package model

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// allBadgeFields selects the counts of the badges that the mutations of fillEverySourceForBob change, and their precision.
const allBadgeFields = `total{value precision} homeFeed{value precision} notifications{total{value}} siteMessages{total{value}}
	announcements{value} conversations{total{value} mentions{value}} liveBoard{value} dots{name lit}`

// badgesWithoutPrecision returns badges as JSON without their precisions, and whether the total is exact, which holds only if all counts
// in it are.
func badgesWithoutPrecision(n *world.Node, badges json.RawMessage) (numbers string, exact bool) {
	n.TB.Helper()
	var total struct{ Total world.Count }
	if err := json.Unmarshal(badges, &total); err != nil {
		n.TB.Fatal(err)
	}
	text := strings.NewReplacer(`,"precision":"STALE"`, "", `,"precision":"EXACT"`, "").Replace(string(badges))
	return text, total.Total.Precision == services.Exact.String()
}

// readBadgesWithoutPrecision reads a user's badges. It returns them as JSON without their precisions, and whether the total is exact.
func readBadgesWithoutPrecision(n *world.Node, as string) (numbers string, exact bool) {
	n.TB.Helper()
	var data struct {
		Viewer struct{ Badges json.RawMessage }
	}
	n.MustAsk(as, `{viewer{badges{`+allBadgeFields+`}}}`, nil, &data)
	return badgesWithoutPrecision(n, data.Viewer.Badges)
}

// waitExactBadgesOfBob reads the badges of the user bob until they are exact. Each answer must have the counts in want: on a busy machine
// Redis may miss its deadline, and an answer is right but STALE for a moment.
func waitExactBadgesOfBob(t *testing.T, n *world.Node, when, want string) {
	t.Helper()
	world.Eventually(t, world.RedisLossRecoveryTimeout, when+" the numbers are exact", func() bool {
		got, exact := readBadgesWithoutPrecision(n, "bob")
		if got != want {
			t.Fatalf("%s: %s (exact: %t), want %s", when, got, exact, want)
		}
		return exact
	})
}

// fillEverySourceForBob gives the user bob unread items in each source but views. It returns the mutations by which bob can mark the
// items or change what counts, by name.
func fillEverySourceForBob(t *testing.T, n *world.Node) (marks map[string]string) {
	t.Helper()
	var data struct {
		CreateConversation struct{ Conversation struct{ ID string } }
		ScheduleShow       struct{ Show struct{ ID string } }
	}
	n.Follow("bob", "alice")
	n.SettleJobsAndCaches()
	n.Badges("bob") // bob's positions begin with their first read
	n.MustAsk("alice", `mutation{createConversation(input:{kind:GROUP,memberIds:["user:bob"]}){conversation{id}}}`, nil, &data)
	n.MustAsk("alice", `mutation($at:Time!){scheduleShow(input:{title:"t",plannedAt:$at}){show{id}}}`,
		map[string]any{"at": n.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)}, &data)
	conversation, show := data.CreateConversation.Conversation.ID, data.ScheduleShow.Show.ID
	n.SettleJobsAndCaches()
	n.Publish("alice", "hello @bob")
	n.MustAsk("alice", `mutation($c:ID!){sendMessage(input:{conversationId:$c,body:"b",mentionIds:["user:bob"]}){message{id}}}`, map[string]any{"c": conversation}, nil)
	n.MustAsk("alice", `mutation($s:ID!){startShow(input:{showId:$s}){show{id}}}`, map[string]any{"s": show}, nil)
	n.MustAsk("host:ingest", `mutation{sendSiteMessage(input:{title:"t",to:["user:bob"]}){message{id}}}`, nil, nil)
	n.MustAsk("host:ingest", `mutation{publishAnnouncement(input:{title:"t"}){announcement{id}}}`, nil, nil)
	n.MustAsk("host:ingest", `mutation{raiseDot(input:{name:"news"}){__typename}}`, nil, nil)
	n.SettleJobsAndCaches()
	return map[string]string{
		"home feed":      `markHomeFeedSeen(input:{})`,
		"notifications":  `markNotificationsSeen(input:{})`,
		"site messages":  `markSiteMessagesRead(input:{all:true})`,
		"announcements":  `markAnnouncementsRead(input:{})`,
		"a dot":          `clearDot(input:{name:"news"})`,
		"a conversation": `markConversationRead(input:{conversationId:"` + conversation + `"})`,
		"live board":     `markLiveBoardSeen(input:{})`,
		"display policy": `setDisplayPolicy(input:{sources:[{source:HOME_FEED,inTotal:false}]})`,
		"an unfollow":    `unfollow(input:{userId:"user:alice"})`,
	}
}

// A user marks items as seen or read while Redis answers reads but refuses the write of this change. Every later answer of the node has
// the acknowledged change. The answers come from SQL and are STALE until Redis has the change, and EXACT from then on.
func TestAcknowledgedMarksHoldUntilRedisHasThem(t *testing.T) {
	names := []string{"home feed", "notifications", "site messages", "announcements", "a dot", "a conversation", "live board", "display policy", "an unfollow"}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			server := redistest.NewServer(t)
			n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL(), ManualStepping: true})
			mark := fillEverySourceForBob(t, n)[name]
			before, _ := readBadgesWithoutPrecision(n, "bob")
			waitExactBadgesOfBob(t, n, "before the mark", before)
			server.Do("ACL", "SETUSER", "default", "-eval", "-evalsha")
			var data map[string]struct{ Badges json.RawMessage }
			n.MustAsk("bob", `mutation{`+mark+`{badges{`+allBadgeFields+`}}}`, nil, &data)
			var answered string
			var exact bool
			for _, payload := range data {
				answered, exact = badgesWithoutPrecision(n, payload.Badges)
			}
			if answered == before || exact {
				t.Fatalf("the mark answers %s (exact: %t), before it %s", answered, exact, before)
			}
			for range 3 {
				if got, exact := readBadgesWithoutPrecision(n, "bob"); got != answered || exact {
					t.Errorf("while Redis has not got it: %s (exact: %t), acknowledged was %s", got, exact, answered)
				}
			}
			if name == "an unfollow" {
				if page := n.ReadFeedPage("bob", 10, "", ""); len(page.Edges) > 0 {
					t.Errorf("the feed still has %v", page.Ids())
				}
			}
			server.Do("ACL", "SETUSER", "default", "+eval", "+evalsha")
			for range 2 {
				waitExactBadgesOfBob(t, n, "when Redis takes writes again", answered)
			}
			n.SettleJobsAndCaches()
			waitExactBadgesOfBob(t, n, "after its jobs", answered)
		})
	}
}
