package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/store"
)

// group creates a group; the first user is its creator.
func (b *bundle) group(users ...services.UserID) (id services.ConversationID) {
	b.t.Helper()
	b.write(func(tx *store.Tx) (err error) {
		id, _, err = tx.CreateConversation(b.ctx, store.NewConversation{Kind: services.GroupConversation, Title: "t", Creator: users[0], Members: users})
		return err
	})
	return id
}

func (b *bundle) send(id services.ConversationID, author services.UserID, mentions ...services.UserID) (message services.Message) {
	b.t.Helper()
	b.clock.advance(time.Millisecond)
	b.write(func(tx *store.Tx) (err error) {
		message, _, _, err = tx.SendMessage(b.ctx, id, author, "hello", mentions)
		return err
	})
	return message
}

// try runs one transaction and returns its error.
func (b *bundle) try(fn func(tx *store.Tx) error) error { return b.Write(b.ctx, fn) }

func (b *bundle) read(id services.ConversationID, user services.UserID, number, gen int64) error {
	return b.try(func(tx *store.Tx) error {
		_, err := tx.ReadUpTo(b.ctx, id, user, number, gen)
		return err
	})
}

func (b *bundle) member(id services.ConversationID, user services.UserID) services.Membership {
	b.t.Helper()
	list := must(b.Memberships(b.ctx, id, []services.UserID{user}))(b.t)
	if len(list) != 1 {
		b.t.Fatalf("%d states of user %d", len(list), user)
	}
	return list[0]
}

// waits compares what waits for users of a conversation, unread and mentions one after the other.
func (b *bundle) waits(id services.ConversationID, want map[services.UserID][2]int64) {
	b.t.Helper()
	got := map[services.UserID][2]int64{}
	for user := range want {
		m := b.member(id, user)
		got[user] = [2]int64{m.Unread(), m.UnreadMentions()}
	}
	equal(b.t, got, want)
}

func TestConversationsAreMadeOnce(t *testing.T) {
	each(t, func(b *bundle) {
		made := b.clock.Now()
		direct := func(members ...services.UserID) (id services.ConversationID, created bool) {
			b.write(func(tx *store.Tx) (err error) {
				id, created, err = tx.CreateConversation(b.ctx, store.NewConversation{Kind: services.DirectConversation, Creator: members[0], Members: members})
				return err
			})
			return id, created
		}
		first, created := direct(5, 3)
		equal(b.t, created, true)
		b.clock.advance(time.Minute)
		again, created := direct(3, 5)
		equal(b.t, []any{again, created}, []any{first, false})
		other, created := direct(3, 6)
		equal(b.t, []any{other, created}, []any{first + 1, true})
		group := b.group(3, 5, 3)
		equal(b.t, group, other+1)
		equal(b.t, must(b.Conversations(b.ctx, 5, []services.ConversationID{first, other, 99}))(b.t), []services.ConversationState{{
			Conversation: services.Conversation{ID: first, Kind: services.DirectConversation, Creator: 5, LastAt: made, Members: 2, Revision: 1, Way: services.WriteSide},
			Own:          services.Membership{Conversation: first, User: 5, Version: 1},
		}})
		all, one := services.MembersPage{Conversation: group, Size: 10}, services.MembersPage{Conversation: group, Size: 1}
		rest, none := services.MembersPage{Conversation: group, After: 3, Size: 10}, services.MembersPage{Conversation: group, After: 5, Size: 10}
		equal(b.t, must(b.MembersOf(b.ctx, []services.MembersPage{rest, all, none, one}))(b.t), map[services.MembersPage][]services.UserID{
			all: {3, 5}, one: {3}, rest: {5},
		})
	})
}

// Neighbours, a gap, duplicates, a number that never was, and another conversation.
func TestMessagesAreReadByTheirIDs(t *testing.T) {
	each(t, func(b *bundle) {
		id, other := b.group(1, 2), b.group(1, 2)
		first, second, third, elsewhere := b.send(id, 1, 2), b.send(id, 2), b.send(id, 1), b.send(other, 2)
		asked := []services.MessageID{third.ID, elsewhere.ID, first.ID, first.ID, services.NewMessageID(other, 2), services.NewMessageID(id, 7)}
		equal(b.t, must(b.Messages(b.ctx, asked))(b.t), map[services.MessageID]services.Message{first.ID: first, third.ID: third, elsewhere.ID: elsewhere})
		equal(b.t, must(b.Messages(b.ctx, []services.MessageID{second.ID, first.ID}))(b.t), map[services.MessageID]services.Message{second.ID: second, first.ID: first})
		equal(b.t, must(b.Mentioned(b.ctx, asked))(b.t), map[services.MessageID][]services.UserID{first.ID: {2}})
	})
}

func TestMessagesWaitForTheOthers(t *testing.T) {
	each(t, func(b *bundle) {
		id := b.group(1, 2, 3)
		first := b.send(id, 1, 2, 1, 9)
		second := b.send(id, 2)
		equal(b.t, first.ID.Number(), int64(1))
		equal(b.t, []any{second.ID, second.SentAt}, []any{services.NewMessageID(id, 2), b.clock.Now()})
		b.waits(id, map[services.UserID][2]int64{1: {1, 0}, 2: {0, 0}, 3: {2, 0}})
		third := b.send(id, 1, 2, 3)
		b.waits(id, map[services.UserID][2]int64{1: {0, 0}, 2: {1, 1}, 3: {3, 1}})
		equal(b.t, must(b.Messages(b.ctx, []services.MessageID{third.ID, services.NewMessageID(id, 4)}))(b.t), map[services.MessageID]services.Message{third.ID: third})
		equal(b.t, must(b.Mentioned(b.ctx, []services.MessageID{first.ID, second.ID, third.ID}))(b.t),
			map[services.MessageID][]services.UserID{first.ID: {2}, third.ID: {2, 3}})
		equal(b.t, must(b.Heads(b.ctx, []services.ConversationID{id, 99}))(b.t), []store.Head{{Conversation: id, Number: 3, At: b.clock.Now(), Way: services.WriteSide, Revision: 1}})
		coded(b.t, b.try(func(tx *store.Tx) error { _, _, _, err := tx.SendMessage(b.ctx, id, 9, "x", nil); return err }), services.NotFound)
		coded(b.t, b.try(func(tx *store.Tx) error { _, _, _, err := tx.SendMessage(b.ctx, 99, 1, "x", nil); return err }), services.NotFound)
		equal(b.t, must(b.Heads(b.ctx, []services.ConversationID{id}))(b.t)[0].Number, int64(3)) // what was refused has no number
	})
}

func TestPositionsGoForwardWithinAGeneration(t *testing.T) {
	each(t, func(b *bundle) {
		id := b.group(1, 2)
		for range 4 {
			b.send(id, 1, 2)
		}
		own := b.send(id, 2)
		b.send(id, 1)
		must(0, b.read(id, 2, 0, -1))(b.t)
		b.waits(id, map[services.UserID][2]int64{2: {0, 0}})
		version := b.member(id, 2).Version
		for number := range int64(6) { // late marks of another device
			must(0, b.read(id, 2, number, 0))(b.t)
		}
		equal(b.t, b.member(id, 2).Version, version)
		must(0, b.try(func(tx *store.Tx) error { return tx.MarkUnread(b.ctx, id, 2, 3) }))(b.t)
		b.waits(id, map[services.UserID][2]int64{2: {3, 2}}) // 3, 4 and 6: 5 is their own
		m := b.member(id, 2)
		equal(b.t, []int64{m.Base, m.K, m.Gen}, []int64{2, -1, 1})
		must(0, b.read(id, 2, 6, 0))(b.t) // of the former generation: ignored
		b.waits(id, map[services.UserID][2]int64{2: {3, 2}})
		must(0, b.read(id, 2, 4, 1))(b.t)
		b.waits(id, map[services.UserID][2]int64{2: {1, 0}})
		coded(b.t, b.read(id, 2, 7, 1), services.Invalid)
		coded(b.t, b.read(id, 2, 6, 2), services.Invalid)
		coded(b.t, b.read(id, 3, 6, -1), services.NotFound)
		coded(b.t, b.try(func(tx *store.Tx) error { return tx.MarkUnread(b.ctx, id, 2, 7) }), services.Invalid)
		equal(b.t, own.ID.Number(), int64(5))
	})
}

func TestRecallLowersUnreadOfThoseWhoHadNotReadIt(t *testing.T) {
	each(t, func(b *bundle) {
		id := b.group(1, 2, 3)
		message := b.send(id, 1, 2, 3)
		b.send(id, 1, 2)
		must(0, b.read(id, 3, 1, -1))(b.t)
		recall := func(message services.MessageID, by services.UserID) error {
			return b.try(func(tx *store.Tx) error { _, _, err := tx.RecallMessage(b.ctx, message, by); return err })
		}
		must(0, recall(message.ID, 1))(b.t)
		b.waits(id, map[services.UserID][2]int64{1: {0, 0}, 2: {1, 1}, 3: {1, 0}})
		recalled := must(b.Messages(b.ctx, []services.MessageID{message.ID}))(b.t)[message.ID]
		equal(b.t, recalled, services.Message{ID: message.ID, Author: 1, SentAt: message.SentAt, Recalled: true})
		must(0, recall(message.ID, 1))(b.t) // again changes nothing: see waits below
		coded(b.t, recall(services.NewMessageID(id, 2), 2), services.Forbidden)
		coded(b.t, recall(services.NewMessageID(id, 3), 2), services.NotFound)
		coded(b.t, recall(services.NewMessageID(99, 1), 2), services.NotFound)
		coded(b.t, recall(message.ID, 4), services.NotFound)
		// After marking everything unread, the recalled message does not count, and neither do the users' own.
		for _, user := range []services.UserID{1, 3} {
			must(0, b.try(func(tx *store.Tx) error { return tx.MarkUnread(b.ctx, id, user, 1) }))(b.t)
		}
		b.waits(id, map[services.UserID][2]int64{1: {0, 0}, 3: {1, 0}})
		b.send(id, 3)
		must(0, recall(services.NewMessageID(id, 2), 1))(b.t)
		b.waits(id, map[services.UserID][2]int64{1: {1, 0}, 2: {1, 0}, 3: {0, 0}})
	})
}

func TestMembersComeAndGo(t *testing.T) {
	each(t, func(b *bundle) {
		id := b.group(1, 2)
		b.send(id, 1)
		add := func(users ...services.UserID) (added []services.UserID) {
			b.write(func(tx *store.Tx) error {
				c, err := tx.LockConversation(b.ctx, id)
				if err != nil {
					return err
				}
				added, err = tx.AddMembers(b.ctx, c, users)
				slices.Sort(added)
				return err
			})
			return added
		}
		remove := func(users ...services.UserID) (left []services.UserID) {
			b.write(func(tx *store.Tx) (err error) { left, err = tx.RemoveMembers(b.ctx, id, users); return err })
			return left
		}
		equal(b.t, add(2, 4, 3), []services.UserID{3, 4})
		b.waits(id, map[services.UserID][2]int64{2: {1, 0}, 3: {0, 0}})
		b.send(id, 1, 3)
		equal(b.t, remove(3, 3, 9), []services.UserID{3})
		gone := b.member(id, 3)
		equal(b.t, []any{gone.Left, gone.Unread(), gone.UnreadMentions(), gone.Version}, []any{true, int64(0), int64(0), int64(3)})
		coded(b.t, b.read(id, 3, 1, -1), services.Conflict)
		equal(b.t, len(must(b.Conversations(b.ctx, 3, []services.ConversationID{id}))(b.t)), 0)
		b.send(id, 1, 3)
		equal(b.t, b.member(id, 3).Version, gone.Version) // a mention of a member who has left changes nothing
		equal(b.t, add(3), []services.UserID{3})
		back := b.member(id, 3)
		equal(b.t, back, services.Membership{Conversation: id, User: 3, Head: 3, Base: 3, Version: gone.Version + 1, Gen: 1})
		c := must(b.Conversations(b.ctx, 1, []services.ConversationID{id}))(b.t)[0]
		equal(b.t, c.Members, 4)
	})
}

// The states of one reader are what a rebuild reads: current memberships, and those that the reader left lately, so that late
// changes of these are recognized as late.
func TestMembershipsOfOneUserAndOfTheActive(t *testing.T) {
	each(t, func(b *bundle) {
		b.users("a", "b", "c")
		first, second := b.group(1, 2), b.group(2, 3)
		b.send(first, 1)
		b.write(func(tx *store.Tx) error {
			_, err := tx.RemoveMembers(b.ctx, second, []services.UserID{2})
			return err
		})
		list := func(since time.Time, after services.ConversationID) (ids []services.ConversationID) {
			for _, m := range must(b.MembershipsOf(b.ctx, 2, after, since, 10))(b.t) {
				ids = append(ids, m.Conversation)
			}
			return ids
		}
		equal(b.t, list(b.clock.Now().Add(-time.Second), 0), []services.ConversationID{first, second})
		equal(b.t, list(b.clock.Now(), 0), []services.ConversationID{first})
		equal(b.t, list(b.clock.Now().Add(-time.Second), first), []services.ConversationID{second})
		b.write(func(tx *store.Tx) error { return tx.MarkActive(b.ctx, []services.UserID{2}) })
		active := must(b.ActiveMemberships(b.ctx, first, 0, b.clock.Now(), 10))(b.t)
		equal(b.t, active, []services.Membership{{Conversation: first, User: 2, Head: 1, Version: 1}})
		equal(b.t, len(must(b.ActiveMemberships(b.ctx, first, 0, time.Time{}, 1))(b.t)), 1)
		equal(b.t, len(must(b.ActiveMemberships(b.ctx, first, 2, time.Time{}, 1))(b.t)), 0)
	})
}

func TestConversationsAreListedByTheirLastMessage(t *testing.T) {
	each(t, func(b *bundle) {
		var ids []services.ConversationID
		for range 4 {
			ids = append(ids, b.group(1, 2))
		}
		b.send(ids[1], 2)
		b.send(ids[0], 2)
		var got []services.ConversationID
		at, id := b.clock.Now().Add(time.Hour), services.ConversationID(0)
		for {
			page := must(b.ConversationsOf(b.ctx, 1, at, id, 1))(b.t)
			if len(page) == 0 {
				break
			}
			at, id = page[0].LastAt, page[0].ID
			got = append(got, id)
		}
		equal(b.t, got, []services.ConversationID{ids[0], ids[1], ids[3], ids[2]})
	})
}

func TestCountingWayChangesOnce(t *testing.T) {
	each(t, func(b *bundle) {
		id := b.group(1, 2)
		state := func() services.ConversationState {
			return must(b.Conversations(b.ctx, 1, []services.ConversationID{id}))(b.t)[0]
		}
		c := state().Conversation
		set := func(way services.CountingWay) (changed bool) {
			b.write(func(tx *store.Tx) (err error) { changed, err = tx.SetWay(b.ctx, c, way); return err })
			return changed
		}
		equal(b.t, set(services.ToReadSide), true)
		equal(b.t, set(services.ReadSide), false) // it was read before
		now := state()
		equal(b.t, []any{now.Way, now.WayVersion, now.Own.ReadSide, now.Own.WayVersion, now.Own.Version},
			[]any{services.ToReadSide, int64(1), true, int64(1), int64(1)})
		for range 3 {
			b.send(id, 1)
		}
		equal(b.t, state().PerMinute, 3)
		b.clock.advance(time.Minute)
		b.send(id, 1)
		equal(b.t, state().PerMinute, 3)
		b.clock.advance(time.Minute)
		b.send(id, 1)
		equal(b.t, state().PerMinute, 1)
		b.clock.advance(time.Hour)
		b.send(id, 1)
		equal(b.t, state().PerMinute, 1)
	})
}

func TestLongTextsAreKeptWhole(t *testing.T) {
	each(t, func(b *bundle) {
		id := b.group(1, 2)
		body := strings.Repeat("🦉", services.MaxBodyCharacters)
		b.write(func(tx *store.Tx) error { _, _, _, err := tx.SendMessage(b.ctx, id, 1, body, nil); return err })
		equal(b.t, must(b.Messages(b.ctx, []services.MessageID{services.NewMessageID(id, 1)}))(b.t)[services.NewMessageID(id, 1)].Body, body)
	})
}
