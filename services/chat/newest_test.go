package chat

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/fanout/fanouttest"
)

// The newest unread message and the newest unread mention may be in two conversations. A muted conversation counts by its mentions
// alone. Conversations without a message since the given moment are left out.
func TestNewestMessagesAndMentions(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w, nil)
		users := n.MakeUsers(2)
		reader, other := users[0], users[1]
		first, second, muted := n.createConversation(Group, users...), n.createConversation(Group, users...), n.createConversation(Group, users...)
		n.mustCommit(n.Mute(reader, muted, true), nil)
		began := n.Clock.Now()
		wants := func(what string, since time.Time, unread, mentions services.ConversationID) {
			t.Helper()
			badges := &services.Badges{}
			count, named := n.countsFromList(reader)
			badges.Conversations.Total, badges.Conversations.Mentions = source.ExactCount(count), source.ExactCount(named)
			found, known, err := n.Source().Newest(t.Context(), source.ExplainRequest{User: reader, Badges: badges, Limit: 1, Since: since})
			if err != nil || !known || len(found) != 2 || found[0].Part != "" || found[1].Part != services.MentionsPart {
				t.Fatalf("%s: %+v, %v, %v", what, found, known, err)
			}
			if found[0].Count != badges.Conversations.Total || found[1].Count != badges.Conversations.Mentions {
				t.Errorf("%s: the counts are %+v and %+v", what, found[0].Count, found[1].Count)
			}
			for i, want := range []services.ConversationID{unread, mentions} {
				switch items := found[i].Items; {
				case want == 0 && len(items) != 0, want != 0 && (len(items) != 1 || items[0].ID != want.GlobalID() || items[0].At.Before(began)):
					t.Errorf("%s: item %d is %+v, want conversation %d", what, i, items, want)
				}
			}
		}
		say := func(in services.ConversationID, mentions ...services.UserID) services.MessageID {
			n.Clock.Advance(time.Second)
			message := n.send(other, in, mentions...)
			n.runJobs()
			return message
		}
		wants("nothing was said", time.Time{}, 0, 0)
		say(first, reader)
		wants("a mention", time.Time{}, first, first)
		later := n.Clock.Now()
		last := say(second)
		wants("a message elsewhere", time.Time{}, second, first)
		wants("a message elsewhere, alone since", later, second, 0)
		say(muted)
		wants("a message in a muted group", time.Time{}, second, first)
		say(muted, reader)
		wants("a mention in a muted group", time.Time{}, muted, muted)
		n.markRead(reader, muted, say(muted))
		n.markRead(reader, second, last)
		n.runJobs()
		wants("both were read", time.Time{}, first, first)
		wants("the rest is old", n.Clock.Now(), 0, 0)
	})
}
