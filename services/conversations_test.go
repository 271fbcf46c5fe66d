package services

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// IDs of conversations and messages can be parsed from their texts. Those of messages sort like the numbers.
func TestConversationsAndMessagesAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		conversation := ConversationID(rapid.Uint32Min(1).Draw(t, "conversation"))
		number := rapid.Int64Range(1, MaxMessageNumber).Draw(t, "number")
		if got, err := ParseConversationID("conversationId", conversation.GlobalID()); got != conversation || err != nil {
			t.Fatalf("%s became %d, %v", conversation.GlobalID(), got, err)
		}
		id := NewMessageID(conversation, number)
		if id.Conversation() != conversation || id.Number() != number {
			t.Fatalf("%d of %d became %d of %d", number, conversation, id.Number(), id.Conversation())
		}
		if got, err := ParseMessageID("upTo", id.GlobalID()); got != id || err != nil {
			t.Fatalf("%s became %d, %v", id.GlobalID(), got, err)
		}
		if next := NewMessageID(conversation, min(number+1, MaxMessageNumber)); next.String() < id.String() {
			t.Fatalf("%s sorts after %s", id, next)
		}
	})
}

func TestOtherIDsAreNoConversations(t *testing.T) {
	for _, id := range []string{"", "conversation:", "conversation:0000000", "conversation:4000000", "conversation:000001", "conversation:00000001",
		"conversation:000000U", "message:0000001", "post:0000000000001", "conversation:0000000000001"} {
		_, err := ParseConversationID("conversationId", id)
		if CodeOf(err) != Invalid || !strings.HasPrefix(err.Error(), "conversationId: ") {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", "message:0000000000001", "message:0000002000000", "message:8000000000000", "post:0000002000001"} {
		_, err := ParseMessageID("upTo", id)
		if CodeOf(err) != Invalid || !strings.HasPrefix(err.Error(), "upTo: ") {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestUnreadOfAMembership(t *testing.T) {
	m := Membership{NewestMessageNumber: 9, ReadUpTo: 4, UnreadAdjustment: -2, Mentions: 1}
	if m.Unread() != 3 || m.UnreadMentions() != 1 {
		t.Errorf("%d unread, %d mentions", m.Unread(), m.UnreadMentions())
	}
	for _, change := range []func(*Membership){func(m *Membership) { m.HasLeft = true }, func(m *Membership) { m.IsOpen = true }} {
		away := m
		if change(&away); away.Unread() != 0 || away.UnreadMentions() != 0 {
			t.Errorf("%+v: %d unread, %d mentions", away, away.Unread(), away.UnreadMentions())
		}
	}
}
