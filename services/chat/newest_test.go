package chat

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/fanout/fanouttest"
)

// newest returns the ID of the newest conversation of each count of a user, "" if there is none: unread messages, and mentions. It
// checks that the conversations are listed from the last active on, and add up to the wanted numbers.
func (n node) newest(what string, user services.UserID, wantUnread, wantMentions int) (ids [2]string) {
	n.TB.Helper()
	badges := &services.Badges{}
	badges.Conversations.Total, badges.Conversations.Mentions = source.ExactCount(wantUnread), source.ExactCount(wantMentions)
	found, known, err := n.Source().Newest(n.TB.Context(), source.ExplainRequest{User: user, Badges: badges, Limit: 1})
	if err != nil || !known || len(found) != 2 || found[0].Part != "" || found[1].Part != services.MentionsPart {
		n.TB.Fatalf("%s: %+v, %v, %v", what, found, known, err)
	}
	if found[0].Count != badges.Conversations.Total || found[1].Count != badges.Conversations.Mentions {
		n.TB.Errorf("%s: the counts are %+v and %+v", what, found[0].Count, found[1].Count)
	}
	for i, explanation := range found {
		sum := 0
		for k, item := range explanation.Items {
			sum += item.Count
			if k > 0 && item.At.After(explanation.Items[k-1].At) {
				n.TB.Errorf("%s: the newest is not the first of %+v", what, explanation.Items)
			}
			if k == 0 {
				ids[i] = item.ID
			}
		}
		if want := []int{wantUnread, wantMentions}[i]; sum != want {
			n.TB.Errorf("%s: the items %+v add up to %d, want %d", what, explanation.Items, sum, want)
		}
	}
	return ids
}

// The newest unread message and the newest unread mention may be in two conversations. A muted conversation counts by its mentions
// alone.
func TestNewestMessagesAndMentions(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w, nil)
		users := n.MakeUsers(2)
		reader, other := users[0], users[1]
		first, second, muted := n.createConversation(Group, users...), n.createConversation(Group, users...), n.createConversation(Group, users...)
		n.mustCommit(n.Mute(reader, muted, true), nil)
		wants := func(what string, unread, mentions services.ConversationID) {
			t.Helper()
			count, named := n.countsFromList(reader)
			for i, id := range n.newest(what, reader, count, named) {
				if want := []services.ConversationID{unread, mentions}[i]; want == 0 && id != "" || want != 0 && id != want.GlobalID() {
					t.Errorf("%s: item %d is %q, want conversation %d", what, i, id, want)
				}
			}
		}
		say := func(in services.ConversationID, mentions ...services.UserID) services.MessageID {
			n.Clock.Advance(time.Second)
			message := n.send(other, in, mentions...)
			n.runJobs()
			return message
		}
		wants("nothing was said", 0, 0)
		say(first, reader)
		wants("a mention", first, first)
		last := say(second)
		wants("a message elsewhere", second, first)
		say(muted)
		wants("a message in a muted group", second, first)
		say(muted, reader)
		wants("a mention in a muted group", muted, muted)
		n.markRead(reader, muted, say(muted))
		n.markRead(reader, second, last)
		n.runJobs()
		wants("both were read", first, first)
	})
}

// A message that is in SQL and not in the badges yet, as in a burst, is among the newest: the sum of the items is ahead of the badges. It
// is not once the message is projected.
func TestTheNewestAreAheadOfTheBadgesInABurst(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w, nil)
		users := n.MakeUsers(2)
		reader, other := users[0], users[1]
		for i, kind := range []Kind{Direct, Group, Room} {
			in := n.createConversation(kind, users...)
			n.send(other, in, reader)
			n.runJobs()
			n.wantCounts("the first message", reader, 2*i+1, 2*i+1)
			n.send(other, in, reader)
			if unread, mentions := n.countsFromBadge(reader); unread != 2*i+1 || mentions != 2*i+1 {
				t.Errorf("%s: the badges show %d and %d before the projection", kind, unread, mentions)
			}
			n.newest("a burst", reader, 2*i+2, 2*i+2)
			n.runJobs()
			n.wantCounts("both messages", reader, 2*i+2, 2*i+2)
			n.newest("after the burst", reader, 2*i+2, 2*i+2)
		}
	})
}
