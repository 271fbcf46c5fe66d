package resolvers

import (
	"fmt"
	"strings"
	"testing"

	"tidings/services"
)

// A user can join a ROOM by its ref. To a user who is no member, every other argument answers as if the ROOM did not exist.
func TestARefOfARoomServesOnlyToJoin(t *testing.T) {
	a := newAPI(t)
	made := a.mustAsHost("alice", `mutation { createConversation(input: {kind: ROOM, memberIds: [], ref: "room/1"}) { conversation { id } } }`, nil)
	id, _ := made.valueAt("createConversation", "conversation", "id").(string)
	queries := []string{
		`mutation { sendMessage(input: {conversationId: "%s", body: "hello"}) { created } }`,
		`mutation { enterConversation(input: {conversationId: "%s"}) { until } }`,
		`mutation { leaveConversation(input: {conversationId: "%s"}) { changed } }`,
		`mutation { markConversationRead(input: {conversationId: "%s"}) { changed } }`,
		`mutation { muteConversation(input: {conversationId: "%s"}) { changed } }`,
		`mutation { unmuteConversation(input: {conversationId: "%s"}) { changed } }`,
		`mutation { addMembers(input: {conversationId: "%s", userIds: ["user:bob"]}) { changed } }`,
		`mutation { removeMembers(input: {conversationId: "%s", userIds: ["user:alice"]}) { changed } }`,
		`mutation { quitConversation(input: {conversationId: "%s"}) { changed } }`,
	}
	const ref, absent = "conversation:ref:room%2F1", "conversation:ref:room%2F9"
	for _, query := range queries {
		had, none := a.askAs("carol", fmt.Sprintf(query, ref), nil), a.askAs("carol", fmt.Sprintf(query, absent), nil)
		if had.code() != services.NotFound || none.code() != services.NotFound {
			t.Errorf("%s: %+v and %+v", query, had, none)
			continue
		}
		if says, want := had.Errors[0].Message, strings.ReplaceAll(none.Errors[0].Message, absent, ref); says != want || strings.Contains(says, id) {
			t.Errorf("%s: %q, absent %q", query, says, want)
		}
	}
	if got := a.must("carol", `{ node(id: "`+ref+`") { id } }`, nil); got.valueAt("node") != nil {
		t.Errorf("a stranger reads %v", got.valueAt("node"))
	}
	joined := a.must("carol", `mutation { joinConversation(input: {conversationId: "`+ref+`"}) { changed conversation { id ref } } }`, nil)
	if joined.valueAt("joinConversation", "changed") != true || joined.valueAt("joinConversation", "conversation", "id") != id {
		t.Errorf("joined %+v", joined.Data)
	}
	if got := a.askAs("carol", fmt.Sprintf(queries[0], ref), nil); got.code() != "" {
		t.Errorf("a member: %+v", got.Errors)
	}
}
