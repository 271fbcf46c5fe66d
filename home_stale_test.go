package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/rdb/rdbtest"
	"tidings/services/store/storetest"
)

// allBadges are the numbers that a mark of any source changes, and how exact they are.
const allBadges = `total{value precision} homeFeed{value precision} notifications{total{value}} siteMessages{total{value}}
	announcements{value} conversations{total{value} mentions{value}} liveBoard{value} dots{name lit}`

// numbers are badges as text, without how exact they are, which stands beside them.
func (n *node) numbers(badges json.RawMessage) (numbers string, exact bool) {
	n.tb.Helper()
	var total struct{ Total count }
	if err := json.Unmarshal(badges, &total); err != nil {
		n.tb.Fatal(err)
	}
	text := strings.NewReplacer(`,"precision":"STALE"`, "", `,"precision":"EXACT"`, "").Replace(string(badges))
	return text, total.Total.Precision == string(services.Exact)
}

func (n *node) allNumbers(as string) (numbers string, exact bool) {
	n.tb.Helper()
	var data struct {
		Viewer struct{ Badges json.RawMessage }
	}
	n.must(as, `{viewer{badges{`+allBadges+`}}}`, nil, &data)
	return n.numbers(data.Viewer.Badges)
}

// everySource is a node where bob has something unread in each source. His marks are as he would send them.
func everySource(t *testing.T, n *node) (marks map[string]string) {
	t.Helper()
	var data struct {
		CreateConversation struct{ Conversation struct{ ID string } }
		ScheduleShow       struct{ Show struct{ ID string } }
	}
	n.follow("bob", "alice")
	n.settle()
	n.badges("bob") // his positions begin here
	n.must("alice", `mutation{createConversation(input:{kind:GROUP,memberIds:["user:bob"]}){conversation{id}}}`, nil, &data)
	n.must("alice", `mutation($at:Time!){scheduleShow(input:{title:"t",plannedAt:$at}){show{id}}}`,
		map[string]any{"at": n.clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)}, &data)
	conversation, show := data.CreateConversation.Conversation.ID, data.ScheduleShow.Show.ID
	n.settle()
	n.publish("alice", "hello @bob")
	n.must("alice", `mutation($c:ID!){sendMessage(input:{conversationId:$c,body:"b",mentionIds:["user:bob"]}){message{id}}}`, map[string]any{"c": conversation}, nil)
	n.must("alice", `mutation($s:ID!){startShow(input:{showId:$s}){show{id}}}`, map[string]any{"s": show}, nil)
	n.must("host:ingest", `mutation{sendSiteMessage(input:{title:"t",to:["user:bob"]}){message{id}}}`, nil, nil)
	n.must("host:ingest", `mutation{publishAnnouncement(input:{title:"t"}){announcement{id}}}`, nil, nil)
	n.must("host:ingest", `mutation{raiseDot(input:{name:"news"}){__typename}}`, nil, nil)
	n.settle()
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

// Redis answers reads and has missed the mark: what was acknowledged holds in every later answer of the node, from SQL and
// STALE until Redis has it, EXACT from then on.
func TestAcknowledgedMarksHoldUntilRedisHasThem(t *testing.T) {
	names := []string{"home feed", "notifications", "site messages", "announcements", "a dot", "a conversation", "live board", "display policy", "an unfollow"}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			server := rdbtest.NewServer(t)
			n := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: server.URL(), manual: true})
			mark := everySource(t, n)[name]
			before, exact := n.allNumbers("bob")
			if !exact {
				t.Fatalf("before: %s", before)
			}
			server.Do("ACL", "SETUSER", "default", "-eval", "-evalsha")
			var data map[string]struct{ Badges json.RawMessage }
			n.must("bob", `mutation{`+mark+`{badges{`+allBadges+`}}}`, nil, &data)
			var told string
			for _, payload := range data {
				told, exact = n.numbers(payload.Badges)
			}
			if told == before || exact {
				t.Fatalf("the mark answers %s (exact: %t), before it %s", told, exact, before)
			}
			for range 3 {
				if got, exact := n.allNumbers("bob"); got != told || exact {
					t.Errorf("while Redis has not got it: %s (exact: %t), acknowledged was %s", got, exact, told)
				}
			}
			if name == "an unfollow" {
				if page := n.page("bob", 10, "", ""); len(page.Edges) > 0 {
					t.Errorf("the feed still has %v", page.ids())
				}
			}
			server.Do("ACL", "SETUSER", "default", "+eval", "+evalsha")
			for range 2 {
				if got, exact := n.allNumbers("bob"); got != told || !exact {
					t.Errorf("when Redis takes writes again: %s (exact: %t), acknowledged was %s", got, exact, told)
				}
			}
			n.settle()
			if got, exact := n.allNumbers("bob"); got != told || !exact {
				t.Errorf("after its jobs: %s (exact: %t), acknowledged was %s", got, exact, told)
			}
		})
	}
}
