package faults

import (
	"fmt"
	"testing"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// One of a user's keys is replaced from outside by a key of another type. This has the same effect as a loss of the key: queries
// return right answers at once, and posts and messages that are sent meanwhile reach the user, and everyone else in the same
// batch.
func TestAKeyOfTheWrongTypeIsRepaired(t *testing.T) {
	server := redistest.NewServer(t)
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL()})
	var conversation struct {
		C struct{ Conversation struct{ ID string } }
	}
	n.CreateUsers("reader", "other")
	n.MustAsk("author", `mutation{c:createConversation(input:{kind:GROUP,memberIds:["user:reader","user:other"]}){conversation{id}}}`, nil, &conversation)
	say := func() {
		n.MustAsk("author", `mutation($c:ID!){s:sendMessage(input:{conversationId:$c,body:"hm"}){message{id}}}`,
			map[string]any{"c": conversation.C.Conversation.ID}, &struct{}{})
	}
	n.Follow("reader", "author")
	n.Follow("other", "author")
	n.Badges("reader")
	n.Badges("other")
	reader, other := world.OpenBadgeSubscription(t, n.URL, "reader"), world.OpenBadgeSubscription(t, n.URL, "other")
	want := 0
	for round := range 2 {
		for _, key := range []string{"b", "i", "c", "on"} {
			n.Publish("author", "before "+key)
			want++
			reader.WaitCounts(t, world.RedisLossRecoveryTimeout, want, 0)
			name := fmt.Sprintf("{u%d}:%s", n.EnsureUserIDs("reader")[0], key)
			server.Do("DEL", name)
			server.Do("SET", name, "junk")
			switch round {
			case 0: // the user reads
				if got := len(n.ReadFeedPage("reader", 100, "", "").Ids()); got != want {
					t.Errorf("%s: a feed of %d, want %d", key, got, want)
				}
				if got := n.Badges("reader"); got.HomeFeed.Value != want || got.Total.Precision != "EXACT" {
					t.Errorf("%s: %+v, want %d", key, got, want)
				}
			case 1: // other users act
				say()
				n.Publish("author", "after "+key)
				want++
			}
			reader.WaitCounts(t, world.RedisLossRecoveryTimeout, want, 0)
			other.WaitCounts(t, world.RedisLossRecoveryTimeout, want, 0)
		}
	}
	world.Eventually(t, world.RedisLossRecoveryTimeout, "the messages are counted", func() bool {
		mine, theirs := n.Badges("reader"), n.Badges("other")
		return mine.Total.Value == want+4 && theirs.Total.Value == want+4
	})
	var queue struct {
		Admin struct{ Jobs struct{ Dead int } }
	}
	n.MustAsk("root:admin", `{admin{jobs{dead}}}`, nil, &queue)
	if queue.Admin.Jobs.Dead != 0 {
		t.Errorf("%d dead jobs", queue.Admin.Jobs.Dead)
	}
}
