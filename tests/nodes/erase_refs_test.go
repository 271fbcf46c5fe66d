package nodes

import (
	"fmt"
	"strings"
	"testing"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// createdConversation is the answer of createConversation: a conversation, and whether the mutation created it or it was there before.
type createdConversation struct {
	Created      bool
	Conversation struct{ ID, Ref string }
}

// createConversation creates a conversation of the user ann with other members and a ref. more are more arguments of the mutation.
func createConversation(n *world.Node, kind, ref, members, more string) createdConversation {
	n.TB.Helper()
	var data struct{ CreateConversation createdConversation }
	n.MustAsk("ann:ingest,viewer", fmt.Sprintf(`mutation{createConversation(input:{kind:%s,memberIds:[%s],ref:%q%s}){created conversation{id ref}}}`,
		kind, members, ref, more), nil, &data)
	return data.CreateConversation
}

// readConversationJSON reads a conversation as the user ann, with its label and its messages. id is its ID or its ID by ref.
func readConversationJSON(n *world.Node, id string) string {
	n.TB.Helper()
	answer := n.Ask("ann", fmt.Sprintf(`{node(id:%q){id ... on Conversation{ref url data messages(first:9){nodes{body author{key}}}}}}`, id), nil)
	if len(answer.Errors) > 0 {
		n.TB.Errorf("%s: %v", id, answer.Errors)
	}
	return string(answer.Data)
}

// After an erasure, the other member of a DIRECT conversation keeps it as it is, except for its ref. Nobody can create that
// conversation again, so the ref becomes free for another conversation. A GROUP keeps its ref, because it still has other
// members.
func TestErasureFreesTheRefOfADirectConversation(t *testing.T) {
	for _, engine := range []struct {
		name string
		url  func(testing.TB) string
	}{{"sqlite", func(tb testing.TB) string { return sqltest.SQLite(tb) }}, {"postgres", func(tb testing.TB) string { return sqltest.Postgres(tb) }}} {
		t.Run(engine.name, func(t *testing.T) {
			n := world.StartNode(t, world.NodeOptions{Database: engine.url(t), Redis: redistest.Redis(t), ManualStepping: true})
			n.CreateUsers("ann", "bob", "cyd", leaverKey)
			const pair, group = `"user:` + leaverKey + `"`, `"user:bob","user:` + leaverKey + `"`
			direct := createConversation(n, "DIRECT", "talk/1", pair, `,url:"https://example.com/1",data:{a:1}`)
			bare := createConversation(n, "DIRECT", "talk/1", pair, "")
			room := createConversation(n, "GROUP", "group/1", group, "")
			if !direct.Created || bare.Created || !room.Created || bare.Conversation.ID != direct.Conversation.ID {
				t.Fatalf("%+v, again %+v, the group %+v", direct, bare, room)
			}
			for _, as := range []string{"ann", leaverKey} {
				n.MustAsk(as, fmt.Sprintf(`mutation{sendMessage(input:{conversationId:%q,body:"by %s"}){message{id}}}`, direct.Conversation.ID, as), nil, nil)
			}
			other := createConversation(n, "DIRECT", "talk/2", `"user:cyd"`, "")
			n.SettleJobsAndCaches()
			if eraseLeaver(n); readConversationJSON(n, direct.Conversation.ID) == "" {
				t.Fatal("nothing is shown")
			}
			n.SettleJobsAndCaches()
			before := readConversationJSON(n, direct.Conversation.ID)
			for _, want := range []string{`"ref":null`, `"url":"https://example.com/1"`, `"data":{"a":1}`, `"body":"by ann"`} {
				if !strings.Contains(before, want) {
					t.Errorf("ann sees %s, want %s", before, want)
				}
			}
			next := createConversation(n, "DIRECT", "talk/1", `"user:bob"`, "")
			if !next.Created || next.Conversation.ID == direct.Conversation.ID || next.Conversation.Ref != "talk/1" {
				t.Errorf("with the ref of the conversation of a user who has left: %+v", next)
			}
			if again := createConversation(n, "DIRECT", "talk/1", `"user:bob"`, ""); again.Created || again.Conversation != next.Conversation {
				t.Errorf("repeated: %+v, want %+v", again, next)
			}
			if found := readConversationJSON(n, "conversation:ref:talk%2F1"); !strings.Contains(found, next.Conversation.ID) {
				t.Errorf("the ref names %s, want %s", found, next.Conversation.ID)
			}
			if after := readConversationJSON(n, direct.Conversation.ID); after != before {
				t.Errorf("ann sees %s, and before %s", after, before)
			}
			for ref, want := range map[string]createdConversation{"group/1": room, "talk/2": other} {
				if found := readConversationJSON(n, "conversation:ref:"+strings.ReplaceAll(ref, "/", "%2F")); !strings.Contains(found, want.Conversation.ID) {
					t.Errorf("%s names %s, want %s", ref, found, want.Conversation.ID)
				}
			}
		})
	}
}

// If an erasure frees the ref of a label that has no address and no data, the row of the label in the table refs is deleted too.
func TestErasureLeavesNoEmptyLabel(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true})
	n.CreateUsers("ann", leaverKey)
	createConversation(n, "DIRECT", "talk/1", `"user:`+leaverKey+`"`, "")
	eraseLeaver(n)
	n.SettleJobsAndCaches()
	if rows, err := sqltest.QueryLines(t.Context(), n.DB, `SELECT * FROM refs`); err != nil || len(rows) > 0 {
		t.Errorf("left are %q, %v", rows, err)
	}
}
