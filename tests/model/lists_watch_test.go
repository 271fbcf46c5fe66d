package model

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/tests/world"
)

// listWatch is an open subscription to a user's list.
type listWatch struct {
	t    *testing.T
	name string        // of the subscription
	next func() []byte // waits for the next message of the server
}

// watchList subscribes to name, with the fields in selected beside the badges. since is the version that the client has; "" for none.
func watchList(t *testing.T, n *world.Node, as, name, since, selected string) listWatch {
	t.Helper()
	conn := n.Dial(t)
	world.Send(t, conn, `{"type":"connection_init","payload":{"authorization":"dev:`+as+`"}}`)
	arguments := ""
	if since != "" {
		arguments = fmt.Sprintf("(since: %q)", since)
	}
	world.Send(t, conn, `{"id":"1","type":"subscribe","payload":{"query":`+
		world.Quoted("subscription { "+name+arguments+" { badges { version total { value } } viewer { id badges { version } } "+selected+" } }")+`}}`)
	return listWatch{t, name, func() []byte {
		t.Helper()
		if err := conn.SetReadDeadline(time.Now().Add(world.ConvergenceTimeout)); err != nil {
			t.Fatal(err)
		}
		_, text, err := conn.ReadMessage()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return text
	}}
}

// waitText waits for an event with a text in it.
func (w listWatch) waitText(what, want string) string {
	w.t.Helper()
	for {
		text := w.next()
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
		event := message.Payload.Data[w.name]
		if event.Badges.Version == "" || event.Badges.Version != event.Viewer.Badges.Version {
			w.t.Errorf("%s: the viewer has other badges than the event: %s", what, text)
		}
		if strings.Contains(string(text), want) {
			return string(text)
		}
	}
}

// Open lists get every change that another node commits, including changes that no count of the badges shows: messages in a muted GROUP
// or ROOM, and a mark as read of notifications that were seen already.
func TestOpenListsGetEveryChange(t *testing.T) {
	onNodes(t, func(t *testing.T, here, there *world.Node) {
		here.Follow("bob", "alice")
		post := here.Publish("alice", "hello")
		version := func() string {
			var data struct {
				Viewer struct{ Badges struct{ Version string } }
			}
			there.Must("alice", `{viewer{badges{version}}}`, nil, &data)
			return data.Viewer.Badges.Version
		}
		panel := watchList(t, there, "alice", "notificationsChanged", "", "notifications { edges { node { id category read seen } } }")
		panel.waitText("the first event", `"edges":[`)
		here.Must("bob", `mutation($p:ID!){likePost(input:{postId:$p}){changed}}`, map[string]any{"p": post}, nil)
		panel.waitText("a like", `"category":"LIKE","read":false,"seen":false`)
		here.Must("alice", `mutation{markNotificationsSeen(input:{}){badges{version}}}`, nil, nil)
		panel.waitText("it is seen", `"category":"LIKE","read":false,"seen":true`)
		here.Must("alice", `mutation{markAllRead(input:{}){badges{version}}}`, nil, nil)
		panel.waitText("it is read, which no number counts", `"category":"LIKE","read":true,"seen":true`)
		held := version()
		again := watchList(t, there, "alice", "notificationsChanged", held, "notifications { edges { node { category } } }")
		here.Must("bob", `mutation($p:ID!){publishPost(input:{parentId:$p,body:"well"}){post{id}}}`, map[string]any{"p": post}, nil)
		if first := again.waitText("a comment", `"category"`); !strings.Contains(first, "COMMENT") {
			t.Errorf("with the version that the client held the first event is %s", first)
		}
		for _, kind := range []string{"GROUP", "ROOM"} {
			var made struct {
				CreateConversation struct{ Conversation struct{ ID string } }
			}
			here.Must("bob", `mutation($k:ConversationKind!){createConversation(input:{kind:$k,memberIds:["user:alice"]}){conversation{id}}}`, map[string]any{"k": kind}, &made)
			in := map[string]any{"c": made.CreateConversation.Conversation.ID}
			here.Must("alice", `mutation($c:ID!){muteConversation(input:{conversationId:$c}){changed}}`, in, nil)
			talks := watchList(t, there, "alice", "conversationsChanged", "", "conversations { edges { node { kind muted unread { value } lastMessage { body } } } }")
			talks.waitText(kind, `"muted":true`)
			again := watchList(t, there, "alice", "conversationsChanged", version(), "conversations { edges { node { kind muted } } }")
			again.waitText("with the version that the client holds", `"kind":"`+kind+`","muted":true`)
			here.Must("bob", `mutation($c:ID!){sendMessage(input:{conversationId:$c,body:"to `+kind+`"}){message{id}}}`, in, nil)
			talks.waitText("a message to the muted "+kind, `"kind":"`+kind+`","muted":true,"unread":{"value":1},"lastMessage":{"body":"to `+kind+`"}`)
			here.Must("alice", `mutation($c:ID!){markConversationRead(input:{conversationId:$c}){changed}}`, in, nil)
			talks.waitText("the muted "+kind+" is read", `"kind":"`+kind+`","muted":true,"unread":{"value":0}`)
		}
	})
}

// A preference and its removal change the numbers at once on every device, on both nodes. The list stays, and nothing changes for
// other users.
func TestPreferencesReachEveryDevice(t *testing.T) {
	onNodes(t, func(t *testing.T, here, there *world.Node) {
		for _, author := range []string{"alice", "carol"} {
			here.Must("bob", `mutation($p:ID!){likePost(input:{postId:$p}){changed}}`, map[string]any{"p": here.Publish(author, "hello")}, nil)
		}
		world.Eventually(t, world.ConvergenceTimeout, "both likes count", func() bool { return there.Badges("alice").Total.Value == 1 && there.Badges("carol").Total.Value == 1 })
		const rows = "notifications { edges { node { category seen } } }"
		devices := []listWatch{watchList(t, here, "alice", "notificationsChanged", "", rows), watchList(t, there, "alice", "notificationsChanged", "", rows)}
		for _, step := range []struct {
			on      *world.Node
			setting string
			total   int
		}{{nil, "", 1}, {here, "mode:OFF", 0}, {there, "mode:COUNT", 1}, {there, "mode:DOT", 0}, {here, "mode:null", 1}} {
			if step.on != nil {
				step.on.Must("alice", `mutation{setCategoryPreference(input:{category:"LIKE",`+step.setting+`}){changed}}`, nil, nil)
			}
			for _, device := range devices {
				if text := device.waitText(step.setting, fmt.Sprintf(`"total":{"value":%d}`, step.total)); !strings.Contains(text, `"category":"LIKE","seen":false`) {
					t.Errorf("after %s the list is %s", step.setting, text)
				}
			}
			if got := there.Badges("carol"); got.Total.Value != 1 {
				t.Errorf("after %s of another user: %+v", step.setting, got.Total)
			}
		}
	})
}
