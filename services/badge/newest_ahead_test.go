package badge

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/chat"
	"tidings/services/fanout/fanouttest"
	"tidings/services/live/livetest"
)

// peek returns a user's badges without a visit.
func (n node) peek(user services.UserID) *services.Badges {
	n.TB.Helper()
	badges, errs := n.Peek(n.TB.Context(), []services.UserID{user})
	n.Must(errs[0])
	return badges[0]
}

// wantNewest checks that a source's newest items, explained for some badges of a user, are ahead of these badges or are not.
func (n node) wantNewest(what string, user services.UserID, badges *services.Badges, of services.Source, ahead bool) {
	n.TB.Helper()
	found, err := n.ExplainNewest(n.TB.Context(), user, badges, []services.Source{of}, time.Time{})
	n.Must(err)
	if len(found) == 0 {
		n.TB.Errorf("%s: there is no newest item", what)
	}
	for _, explanation := range found {
		if explanation.Ahead != ahead || len(explanation.Items) != 1 {
			n.TB.Errorf("%s: ahead is %v, want %v: %+v", what, explanation.Ahead, ahead, explanation)
		}
	}
}

// newConversation creates a conversation, by its first member.
func (n node) newConversation(kind chat.Kind, members ...services.UserID) services.ConversationID {
	n.TB.Helper()
	id, err := services.ParseConversationID("id", n.commitForIDs(n.chat.Create(members[0], kind, "", members[1:]))[0])
	n.Must(err)
	return id
}

// Badges that were read before an item came are behind the newest items: an alert of the item would have a total without it. Badges
// that count the item are not.
func TestNewestItemsAreAheadOfBadgesWithoutThem(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		reader, _, shows := n.newReaderOfHosts()
		users := n.MakeUsers(2)
		other, third := users[0], users[1]
		n.read(reader)
		direct, group, room := n.newConversation(chat.Direct, other, reader), n.newConversation(chat.Group, other, reader), n.makeRoom(other, reader, third)
		n.mustCommit(n.views.Touch(reader, townView, nil))
		say := func(in services.ConversationID, mentions ...services.UserID) func(int) {
			return func(int) { n.mustCommit(n.chat.Send(other, in, "hello", mentions)) }
		}
		for _, c := range []struct {
			what   string
			source services.Source
			add    func(i int) // adds an item for the reader: the first, and then the second
		}{
			{"a direct conversation", services.SourceConversations, say(direct)},
			{"a room that is counted on read", services.SourceConversations, say(room)},
			{"mentions in a group", services.SourceConversations, say(group, reader)},
			{"site messages", services.SourceSiteMessages, func(int) { n.sendSiteMessage(reader) }},
			{"announcements", services.SourceAnnouncements, func(int) { n.announce(0) }},
			{"the live board", services.SourceLiveBoard, func(i int) { livetest.StartShows(n.World, shows[i]) }},
			{"views", services.SourceViews, func(i int) { n.mustCommit(n.views.Add(townView, []string{"a", "b"}[i], n.Clock.Now())) }},
		} {
			add := func(i int) {
				n.Clock.Advance(time.Second)
				c.add(i)
				n.RunJobsAndReadLog()
			}
			add(0)
			before := n.peek(reader)
			n.wantNewest(c.what+", counted", reader, before, c.source, false)
			add(1)
			n.wantNewest(c.what+", one more", reader, before, c.source, true)
			if c.source == services.SourceLiveBoard {
				bound := *before
				bound.LiveBoard.Precision = services.AtLeast
				n.wantNewest("a lower bound", reader, &bound, c.source, false)
			}
			now := n.peek(reader)
			n.wantNewest(c.what+", both counted", reader, now, c.source, false)
			found, err := n.ExplainNewest(t.Context(), reader, now, []services.Source{c.source}, n.Clock.Now().Add(time.Second))
			if n.Must(err); len(found) > 0 {
				t.Errorf("%s: later than now are %+v", c.what, found)
			}
		}
	})
}
