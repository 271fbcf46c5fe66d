package main

import (
	"fmt"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/rdb/rdbtest"
)

// hears waits until the device shows a number of unread messages.
func (w *watch) hears(tb testing.TB, unread int) {
	tb.Helper()
	converge(tb, soon, func() error {
		got, err := w.shown()
		if err != nil {
			tb.Fatal(err)
		}
		if got.Version == "" || got.Conversations.Total.Value != unread {
			return fmt.Errorf("the device of %s shows %+v at %q, want %d", w.person, got.Conversations.Total, got.Version, unread)
		}
		return nil
	})
}

// In a room that is counted when somebody reads, a message reaches the devices of its members on every node, however
// long it was quiet there, and however long ago their badges were read.
func TestAQuietRoomIsHeardOnEveryNode(t *testing.T) {
	server := rdbtest.NewServer(t)
	p := startPair(t, server.URL(), func(cfg *Config) { cfg.MaxWriteMembers = 1 })
	var data struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	p.a.must("alice", `mutation{createConversation(input:{kind:ROOM,title:"den",memberIds:["user:bob","user:carol"]}){conversation{id}}}`, nil, &data)
	room := data.CreateConversation.Conversation.ID
	say := func(n *node, who string) {
		t.Helper()
		n.must(who, `mutation($c:ID!){sendMessage(input:{conversationId:$c,body:"hm"}){badges{version}}}`, map[string]any{"c": room}, nil)
	}
	here, there := openWatch(t, p.a.url, "bob"), openWatch(t, p.b.url, "carol")
	say(p.a, "alice")
	here.hears(t, 1)
	there.hears(t, 1)
	eventually(t, soon, "it is counted when somebody reads", func() bool {
		return wayOf(t, p.a, room) == services.ReadSide
	})
	say(p.a, "alice")
	here.hears(t, 2)
	there.hears(t, 2)
	for _, n := range []*node{p.a, p.b} {
		n.clock.advance(10 * time.Minute)
		for range 2 { // heads that nobody needs are forgotten in one turn, and missed in the next
			n.tail()
		}
	}
	say(p.b, "alice")
	here.hears(t, 3)
	there.hears(t, 3)
	p.b.must("carol", `mutation($c:ID!){markConversationRead(input:{conversationId:$c}){badges{version}}}`, map[string]any{"c": room}, nil)
	there.hears(t, 0)
	here.hears(t, 3)
}

// wayOf is how the unread of a conversation are counted now.
func wayOf(t *testing.T, n *node, room string) services.CountingWay {
	t.Helper()
	id, err := services.ParseConversationID("room", room)
	if err != nil {
		t.Fatal(err)
	}
	heads, err := n.store.Heads(t.Context(), []services.ConversationID{id})
	if err != nil || len(heads) != 1 {
		t.Fatalf("heads %v: %v", heads, err)
	}
	return heads[0].Way
}

// tail catches the memory up with the log.
func (n *node) tail() {
	n.tb.Helper()
	if _, err := n.memory.Log.RunOnce(n.tb.Context()); err != nil {
		n.tb.Fatalf("the log: %v", err)
	}
}
