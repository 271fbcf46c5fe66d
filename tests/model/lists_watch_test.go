package model

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/tests/world"
)

// listSubscription is an open subscription to a list of a user, such as notificationsChanged, over a WebSocket.
type listSubscription struct {
	t                *testing.T
	subscriptionName string        // the name of its field in the schema
	nextMessage      func() []byte // waits for the next message of the server
}

// subscribeToList opens the subscription name, with the fields in selected beside the badges. since is the version of the badges that the
// client has; "" for none.
func subscribeToList(t *testing.T, n *world.Node, as, name, since, selected string) listSubscription {
	t.Helper()
	conn := n.Dial(t)
	world.Send(t, conn, `{"type":"connection_init","payload":{"authorization":"dev:`+as+`"}}`)
	arguments := ""
	if since != "" {
		arguments = fmt.Sprintf("(since: %q)", since)
	}
	world.Send(t, conn, `{"id":"1","type":"subscribe","payload":{"query":`+
		world.QuoteJSON("subscription { "+name+arguments+" { badges { version total { value } } viewer { id badges { version } } "+selected+" } }")+`}}`)
	return listSubscription{t, name, func() []byte {
		t.Helper()
		if err := conn.SetReadDeadline(time.Now().Add(world.RedisLossRecoveryTimeout)); err != nil {
			t.Fatal(err)
		}
		_, text, err := conn.ReadMessage()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return text
	}}
}

// waitEventContaining waits for an event whose JSON contains the text want, and returns the JSON.
func (w listSubscription) waitEventContaining(what, want string) string {
	w.t.Helper()
	for {
		text := w.nextMessage()
		var message struct {
			Type    string
			Payload struct {
				Data map[string]struct {
					Badges struct{ Version string }
					Viewer struct{ Badges struct{ Version string } }
				}
			}
		}
		if err := json.Unmarshal(text, &message); err != nil || message.Type == "error" {
			w.t.Fatalf("%s: %s: %v", what, text, err)
		}
		if message.Type != "next" {
			continue
		}
		event := message.Payload.Data[w.subscriptionName]
		if event.Badges.Version == "" || event.Badges.Version != event.Viewer.Badges.Version {
			w.t.Errorf("%s: the viewer has other badges than the event: %s", what, text)
		}
		if strings.Contains(string(text), want) {
			return string(text)
		}
	}
}

// Subscriptions to lists report every change that is made through another node, including changes that no count of the badges shows:
// messages in a muted GROUP or ROOM, and notifications that are marked as read after they were seen.
func TestOpenListsGetEveryChange(t *testing.T) {
	onOneAndTwoNodes(t, func(t *testing.T, here, there *world.Node) {
		here.Follow("bob", "alice")
		post := here.Publish("alice", "hello")
		version := func() string {
			var data struct {
				Viewer struct{ Badges struct{ Version string } }
			}
			there.MustAsk("alice", `{viewer{badges{version}}}`, nil, &data)
			return data.Viewer.Badges.Version
		}
		panel := subscribeToList(t, there, "alice", "notificationsChanged", "", "notifications { edges { node { id category read seen } } }")
		panel.waitEventContaining("the first event", `"edges":[`)
		here.MustAsk("bob", `mutation($p:ID!){likePost(input:{postId:$p}){changed}}`, map[string]any{"p": post}, nil)
		panel.waitEventContaining("a like", `"category":"LIKE","read":false,"seen":false`)
		here.MustAsk("alice", `mutation{markNotificationsSeen(input:{}){badges{version}}}`, nil, nil)
		panel.waitEventContaining("it is seen", `"category":"LIKE","read":false,"seen":true`)
		here.MustAsk("alice", `mutation{markAllRead(input:{}){badges{version}}}`, nil, nil)
		panel.waitEventContaining("it is read, which no number counts", `"category":"LIKE","read":true,"seen":true`)
		held := version()
		again := subscribeToList(t, there, "alice", "notificationsChanged", held, "notifications { edges { node { category } } }")
		here.MustAsk("bob", `mutation($p:ID!){publishPost(input:{parentId:$p,body:"well"}){post{id}}}`, map[string]any{"p": post}, nil)
		if first := again.waitEventContaining("a comment", `"category"`); !strings.Contains(first, "COMMENT") {
			t.Errorf("with the version that the client held the first event is %s", first)
		}
		for _, kind := range []string{"GROUP", "ROOM"} {
			var made struct {
				CreateConversation struct{ Conversation struct{ ID string } }
			}
			here.MustAsk("bob", `mutation($k:ConversationKind!){createConversation(input:{kind:$k,memberIds:["user:alice"]}){conversation{id}}}`, map[string]any{"k": kind}, &made)
			in := map[string]any{"c": made.CreateConversation.Conversation.ID}
			here.MustAsk("alice", `mutation($c:ID!){muteConversation(input:{conversationId:$c}){changed}}`, in, nil)
			talks := subscribeToList(t, there, "alice", "conversationsChanged", "", "conversations { edges { node { kind muted unread { value } lastMessage { body } } } }")
			talks.waitEventContaining(kind, `"muted":true`)
			again := subscribeToList(t, there, "alice", "conversationsChanged", version(), "conversations { edges { node { kind muted } } }")
			again.waitEventContaining("with the version that the client holds", `"kind":"`+kind+`","muted":true`)
			here.MustAsk("bob", `mutation($c:ID!){sendMessage(input:{conversationId:$c,body:"to `+kind+`"}){message{id}}}`, in, nil)
			talks.waitEventContaining("a message to the muted "+kind, `"kind":"`+kind+`","muted":true,"unread":{"value":1},"lastMessage":{"body":"to `+kind+`"}`)
			here.MustAsk("alice", `mutation($c:ID!){markConversationRead(input:{conversationId:$c}){changed}}`, in, nil)
			talks.waitEventContaining("the muted "+kind+" is read", `"kind":"`+kind+`","muted":true,"unread":{"value":0}`)
		}
	})
}

// When a user sets a preference for a category or removes it, their counts change at once in every subscription, on both nodes. The list
// of notifications stays, and nothing changes for other users.
func TestPreferencesReachEveryDevice(t *testing.T) {
	onOneAndTwoNodes(t, func(t *testing.T, here, there *world.Node) {
		for _, author := range []string{"alice", "carol"} {
			here.MustAsk("bob", `mutation($p:ID!){likePost(input:{postId:$p}){changed}}`, map[string]any{"p": here.Publish(author, "hello")}, nil)
		}
		world.Eventually(t, world.RedisLossRecoveryTimeout, "both likes count", func() bool { return there.Badges("alice").Total.Value == 1 && there.Badges("carol").Total.Value == 1 })
		const rows = "notifications { edges { node { category seen } } }"
		devices := []listSubscription{subscribeToList(t, here, "alice", "notificationsChanged", "", rows), subscribeToList(t, there, "alice", "notificationsChanged", "", rows)}
		for _, step := range []struct {
			on      *world.Node
			setting string
			total   int
		}{{nil, "", 1}, {here, "mode:OFF", 0}, {there, "mode:COUNT", 1}, {there, "mode:DOT", 0}, {here, "mode:null", 1}} {
			if step.on != nil {
				step.on.MustAsk("alice", `mutation{setCategoryPreference(input:{category:"LIKE",`+step.setting+`}){changed}}`, nil, nil)
			}
			for _, device := range devices {
				if text := device.waitEventContaining(step.setting, fmt.Sprintf(`"total":{"value":%d}`, step.total)); !strings.Contains(text, `"category":"LIKE","seen":false`) {
					t.Errorf("after %s the list is %s", step.setting, text)
				}
			}
			if got := there.Badges("carol"); got.Total.Value != 1 {
				t.Errorf("after %s of another user: %+v", step.setting, got.Total)
			}
		}
	})
}
