package nodes

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/chat"
	"tidings/services/node"
	"tidings/services/redis/redistest"
	"tidings/tests/world"
)

// In a room that is counted when read, a message reaches its members' devices on every node, however long the room was quiet,
// and however long ago their badges were read.
func TestMessagesOfAQuietRoomReachEveryNode(t *testing.T) {
	server := redistest.NewServer(t)
	p := world.StartNodePair(t, server.URL(), func(cfg *node.Config) { cfg.Chat.MaxMembersCountedOnWrite = 1 })
	var data struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	p.A.MustAsk("alice", `mutation{createConversation(input:{kind:ROOM,title:"den",memberIds:["user:bob","user:carol"]}){conversation{id}}}`, nil, &data)
	room := data.CreateConversation.Conversation.ID
	say := func(n *world.Node, who string) {
		t.Helper()
		n.MustAsk(who, `mutation($c:ID!){sendMessage(input:{conversationId:$c,body:"hm"}){badges{version}}}`, map[string]any{"c": room}, nil)
	}
	here, there := world.OpenBadgeSubscription(t, p.A.URL, "bob"), world.OpenBadgeSubscription(t, p.B.URL, "carol")
	say(p.A, "alice")
	here.WaitUnreadMessages(t, 1)
	there.WaitUnreadMessages(t, 1)
	world.Eventually(t, world.DeviceUpdateTimeout, "it is counted when somebody reads", func() bool {
		return countingWayOf(t, p.A, room) == chat.OnRead
	})
	say(p.A, "alice")
	here.WaitUnreadMessages(t, 2)
	there.WaitUnreadMessages(t, 2)
	for _, n := range []*world.Node{p.A, p.B} {
		n.Clock.Advance(10 * time.Minute)
		for range 2 { // the first poll drops unused numbers of last messages from the node cache, and the second runs without them
			n.TailChangelog()
		}
	}
	say(p.B, "alice")
	here.WaitUnreadMessages(t, 3)
	there.WaitUnreadMessages(t, 3)
	p.B.MustAsk("carol", `mutation($c:ID!){markConversationRead(input:{conversationId:$c}){badges{version}}}`, map[string]any{"c": room}, nil)
	there.WaitUnreadMessages(t, 0)
	here.WaitUnreadMessages(t, 3)
}

// countingWayOf returns how the unread messages of a conversation are counted now, such as on read.
func countingWayOf(t *testing.T, n *world.Node, room string) chat.CountingWay {
	t.Helper()
	id, err := services.ParseConversationID("room", room)
	if err != nil {
		t.Fatal(err)
	}
	sequences, err := chat.SequencesOf(t.Context(), n.DB, []services.ConversationID{id})
	if err != nil || len(sequences) != 1 {
		t.Fatalf("sequences %v: %v", sequences, err)
	}
	return sequences[0].Way
}
