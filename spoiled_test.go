package main

import (
	"fmt"
	"testing"

	"tidings/services/rdb/rdbtest"
	"tidings/services/store/storetest"
)

// Other hands make one of a user's keys one of another type: it is lost data, and nobody sees more of it than of a loss.
// Queries answer the truth at once, and what is published and said meanwhile reaches him and everybody in the same batch.
func TestAKeyOfAnotherTypeIsSeenByNobody(t *testing.T) {
	server := rdbtest.NewServer(t)
	n := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: server.URL()})
	var conversation struct {
		C struct{ Conversation struct{ ID string } }
	}
	n.people("reader", "other")
	n.must("author", `mutation{c:createConversation(input:{kind:GROUP,memberIds:["user:reader","user:other"]}){conversation{id}}}`, nil, &conversation)
	say := func() {
		n.must("author", `mutation($c:ID!){s:sendMessage(input:{conversationId:$c,body:"hm"}){message{id}}}`,
			map[string]any{"c": conversation.C.Conversation.ID}, &struct{}{})
	}
	n.follow("reader", "author")
	n.follow("other", "author")
	n.badges("reader")
	n.badges("other")
	reader, other := openWatch(t, n.url, "reader"), openWatch(t, n.url, "other")
	want := 0
	for round := range 2 {
		for _, key := range []string{"b", "i", "c", "on"} {
			n.publish("author", "before "+key)
			want++
			reader.shows(t, convergence, want, 0)
			name := fmt.Sprintf("{u%d}:%s", n.numbersOf("reader")[0], key)
			server.Do("DEL", name)
			server.Do("SET", name, "junk")
			switch round {
			case 0: // he asks himself
				if got := len(n.page("reader", 100, "", "").ids()); got != want {
					t.Errorf("%s: a feed of %d, want %d", key, got, want)
				}
				if got := n.badges("reader"); got.HomeFeed.Value != want || got.Total.Precision != "EXACT" {
					t.Errorf("%s: %+v, want %d", key, got, want)
				}
			case 1: // others act
				say()
				n.publish("author", "after "+key)
				want++
			}
			reader.shows(t, convergence, want, 0)
			other.shows(t, convergence, want, 0)
		}
	}
	eventually(t, convergence, "the messages are counted", func() bool {
		mine, his := n.badges("reader"), n.badges("other")
		return mine.Total.Value == want+4 && his.Total.Value == want+4
	})
	var queue struct {
		Admin struct{ Jobs struct{ Dead int } }
	}
	n.must("root:admin", `{admin{jobs{dead}}}`, nil, &queue)
	if queue.Admin.Jobs.Dead != 0 {
		t.Errorf("%d dead jobs", queue.Admin.Jobs.Dead)
	}
}
