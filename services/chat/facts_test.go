package chat

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// testDB is a SQL database of a test, with helpers that write and read conversations in it.
type testDB struct{ *peopletest.TestDB }

// eachTestDB runs a test on both SQL engines.
func eachTestDB(t *testing.T, test func(b *testDB)) {
	t.Helper()
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) { test(&testDB{b}) })
}

// createGroup creates a group; the first user is its creator.
func (b *testDB) createGroup(users ...services.UserID) (id services.ConversationID) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) (err error) {
		id, _, err = insert(b.Ctx, tx, conversationDraft{Kind: Group, Title: "t", Creator: users[0], Members: users})
		return err
	})
	return id
}

// send adds a message, a millisecond after the last one.
func (b *testDB) send(id services.ConversationID, author services.UserID, mentions ...services.UserID) (message Message) {
	b.T.Helper()
	b.Clock.Advance(time.Millisecond)
	b.MustWrite(func(tx *sql.Tx) (err error) {
		message, _, _, err = insertMessage(b.Ctx, tx, id, author, "hello", mentions)
		return err
	})
	return message
}

// runTx runs one transaction and returns its error.
func (b *testDB) runTx(fn func(tx *sql.Tx) error) error { return b.Write(b.Ctx, fn) }

// markRead marks a conversation read up to a message number, 0 for all, in the generation gen, -1 for the present one: see readUpTo.
func (b *testDB) markRead(id services.ConversationID, user services.UserID, number, gen int64) error {
	return b.runTx(func(tx *sql.Tx) error {
		_, err := readUpTo(b.Ctx, tx, id, user, number, gen)
		return err
	})
}

// membership reads a user's state in a conversation.
func (b *testDB) membership(id services.ConversationID, user services.UserID) services.Membership {
	b.T.Helper()
	list := sqltest.Must(membershipsIn(b.Ctx, b.DB, id, []services.UserID{user}))(b.T)
	if len(list) != 1 {
		b.T.Fatalf("%d states of user %d", len(list), user)
	}
	return list[0]
}

// wantUnreadAndMentions checks the counts of users in a conversation: unread messages, then mentions.
func (b *testDB) wantUnreadAndMentions(id services.ConversationID, want map[services.UserID][2]int64) {
	b.T.Helper()
	got := map[services.UserID][2]int64{}
	for user := range want {
		m := b.membership(id, user)
		got[user] = [2]int64{m.Unread(), m.UnreadMentions()}
	}
	sqltest.Equal(b.T, got, want)
}

func TestConversationsAreCreatedOnce(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		made := b.Clock.Now()
		direct := func(members ...services.UserID) (id services.ConversationID, created bool) {
			b.MustWrite(func(tx *sql.Tx) (err error) {
				id, created, err = insert(b.Ctx, tx, conversationDraft{Kind: Direct, Creator: members[0], Members: members})
				return err
			})
			return id, created
		}
		first, created := direct(5, 3)
		sqltest.Equal(b.T, created, true)
		b.Clock.Advance(time.Minute)
		again, created := direct(3, 5)
		sqltest.Equal(b.T, []any{again, created}, []any{first, false})
		other, created := direct(3, 6)
		sqltest.Equal(b.T, []any{other, created}, []any{first + 1, true})
		group := b.createGroup(3, 5, 3)
		sqltest.Equal(b.T, group, other+1)
		sqltest.Equal(b.T, sqltest.Must(statesByID(b.Ctx, b.DB, 5, []services.ConversationID{first, other, 99}))(b.T), []MemberState{{
			Conversation: Conversation{ID: first, Kind: Direct, Creator: 5, LastActiveAt: made, Members: 2, Revision: 1, Way: OnWrite},
			Membership:   services.Membership{Conversation: first, User: 5, Version: 1},
		}})
		all, one := MembersPage{Conversation: group, Size: 10}, MembersPage{Conversation: group, Size: 1}
		rest, none := MembersPage{Conversation: group, After: 3, Size: 10}, MembersPage{Conversation: group, After: 5, Size: 10}
		sqltest.Equal(b.T, sqltest.Must(readMembers(b.Ctx, b.DB, []MembersPage{rest, all, none, one}))(b.T), map[MembersPage][]services.UserID{
			all: {3, 5}, one: {3}, rest: {5},
		})
	})
}

// Messages are read by ID: neighbours, a gap, duplicates, a number that never was, and another conversation.
func TestMessagesAreReadByTheirIDs(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		id, other := b.createGroup(1, 2), b.createGroup(1, 2)
		first, second, third, elsewhere := b.send(id, 1, 2), b.send(id, 2), b.send(id, 1), b.send(other, 2)
		asked := []services.MessageID{third.ID, elsewhere.ID, first.ID, first.ID, services.NewMessageID(other, 2), services.NewMessageID(id, 7)}
		sqltest.Equal(b.T, sqltest.Must(messagesByID(b.Ctx, b.DB, asked))(b.T), map[services.MessageID]Message{first.ID: first, third.ID: third, elsewhere.ID: elsewhere})
		sqltest.Equal(b.T, sqltest.Must(messagesByID(b.Ctx, b.DB, []services.MessageID{second.ID, first.ID}))(b.T), map[services.MessageID]Message{second.ID: second, first.ID: first})
		sqltest.Equal(b.T, sqltest.Must(mentionedIn(b.Ctx, b.DB, asked))(b.T), map[services.MessageID][]services.UserID{first.ID: {2}})
	})
}

// A message counts as unread for every member except its author.
func TestAMessageIsUnreadForAllMembersButItsAuthor(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		id := b.createGroup(1, 2, 3)
		first := b.send(id, 1, 2, 1, 9)
		second := b.send(id, 2)
		sqltest.Equal(b.T, first.ID.Number(), int64(1))
		sqltest.Equal(b.T, []any{second.ID, second.SentAt}, []any{services.NewMessageID(id, 2), b.Clock.Now()})
		b.wantUnreadAndMentions(id, map[services.UserID][2]int64{1: {1, 0}, 2: {0, 0}, 3: {2, 0}})
		third := b.send(id, 1, 2, 3)
		b.wantUnreadAndMentions(id, map[services.UserID][2]int64{1: {0, 0}, 2: {1, 1}, 3: {3, 1}})
		sqltest.Equal(b.T, sqltest.Must(messagesByID(b.Ctx, b.DB, []services.MessageID{third.ID, services.NewMessageID(id, 4)}))(b.T), map[services.MessageID]Message{third.ID: third})
		sqltest.Equal(b.T, sqltest.Must(mentionedIn(b.Ctx, b.DB, []services.MessageID{first.ID, second.ID, third.ID}))(b.T),
			map[services.MessageID][]services.UserID{first.ID: {2}, third.ID: {2, 3}})
		sqltest.Equal(b.T, sqltest.Must(SequencesOf(b.Ctx, b.DB, []services.ConversationID{id, 99}))(b.T), []LastSequence{{Conversation: id, NewestNumber: 3, SentAt: b.Clock.Now(), Way: OnWrite, Revision: 1}})
		sqltest.WantCode(b.T, b.runTx(func(tx *sql.Tx) error { _, _, _, err := insertMessage(b.Ctx, tx, id, 9, "x", nil); return err }), services.NotFound)
		sqltest.WantCode(b.T, b.runTx(func(tx *sql.Tx) error { _, _, _, err := insertMessage(b.Ctx, tx, 99, 1, "x", nil); return err }), services.NotFound)
		sqltest.Equal(b.T, sqltest.Must(SequencesOf(b.Ctx, b.DB, []services.ConversationID{id}))(b.T)[0].NewestNumber, int64(3)) // a refused message has no number
	})
}

// A read position moves only forward, until a "mark unread" begins a new generation. Marks of the former generation then change nothing.
func TestPositionsGoForwardWithinAGeneration(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		id := b.createGroup(1, 2)
		for range 4 {
			b.send(id, 1, 2)
		}
		own := b.send(id, 2)
		b.send(id, 1)
		sqltest.Must(0, b.markRead(id, 2, 0, -1))(b.T)
		b.wantUnreadAndMentions(id, map[services.UserID][2]int64{2: {0, 0}})
		version := b.membership(id, 2).Version
		for number := range int64(6) { // late marks of another device
			sqltest.Must(0, b.markRead(id, 2, number, 0))(b.T)
		}
		sqltest.Equal(b.T, b.membership(id, 2).Version, version)
		sqltest.Must(0, b.runTx(func(tx *sql.Tx) error { return markUnread(b.Ctx, tx, id, 2, 3) }))(b.T)
		b.wantUnreadAndMentions(id, map[services.UserID][2]int64{2: {3, 2}}) // 3, 4 and 6: 5 is their own
		m := b.membership(id, 2)
		sqltest.Equal(b.T, []int64{m.ReadUpTo, m.UnreadAdjustment, m.MarkUnreadGeneration}, []int64{2, -1, 1})
		sqltest.Must(0, b.markRead(id, 2, 6, 0))(b.T) // of the former generation: ignored
		b.wantUnreadAndMentions(id, map[services.UserID][2]int64{2: {3, 2}})
		sqltest.Must(0, b.markRead(id, 2, 4, 1))(b.T)
		b.wantUnreadAndMentions(id, map[services.UserID][2]int64{2: {1, 0}})
		sqltest.WantCode(b.T, b.markRead(id, 2, 7, 1), services.Invalid)
		sqltest.WantCode(b.T, b.markRead(id, 2, 6, 2), services.Invalid)
		sqltest.WantCode(b.T, b.markRead(id, 3, 6, -1), services.NotFound)
		sqltest.WantCode(b.T, b.runTx(func(tx *sql.Tx) error { return markUnread(b.Ctx, tx, id, 2, 7) }), services.Invalid)
		sqltest.Equal(b.T, own.ID.Number(), int64(5))
	})
}

func TestARecallLowersTheCountOfUnreadMembers(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		id := b.createGroup(1, 2, 3)
		message := b.send(id, 1, 2, 3)
		b.send(id, 1, 2)
		sqltest.Must(0, b.markRead(id, 3, 1, -1))(b.T)
		recall := func(message services.MessageID, by services.UserID) error {
			return b.runTx(func(tx *sql.Tx) error { _, _, err := recall(b.Ctx, tx, message, by); return err })
		}
		sqltest.Must(0, recall(message.ID, 1))(b.T)
		b.wantUnreadAndMentions(id, map[services.UserID][2]int64{1: {0, 0}, 2: {1, 1}, 3: {1, 0}})
		recalled := sqltest.Must(messagesByID(b.Ctx, b.DB, []services.MessageID{message.ID}))(b.T)[message.ID]
		sqltest.Equal(b.T, recalled, Message{ID: message.ID, Author: 1, SentAt: message.SentAt, Recalled: true})
		sqltest.Must(0, recall(message.ID, 1))(b.T) // again changes nothing: see wantUnreadAndMentions below
		sqltest.WantCode(b.T, recall(services.NewMessageID(id, 2), 2), services.Forbidden)
		sqltest.WantCode(b.T, recall(services.NewMessageID(id, 3), 2), services.NotFound)
		sqltest.WantCode(b.T, recall(services.NewMessageID(99, 1), 2), services.NotFound)
		sqltest.WantCode(b.T, recall(message.ID, 4), services.NotFound)
		// After marking everything unread, the recalled message does not count, and neither do the users' own.
		for _, user := range []services.UserID{1, 3} {
			sqltest.Must(0, b.runTx(func(tx *sql.Tx) error { return markUnread(b.Ctx, tx, id, user, 1) }))(b.T)
		}
		b.wantUnreadAndMentions(id, map[services.UserID][2]int64{1: {0, 0}, 3: {1, 0}})
		b.send(id, 3)
		sqltest.Must(0, recall(services.NewMessageID(id, 2), 1))(b.T)
		b.wantUnreadAndMentions(id, map[services.UserID][2]int64{1: {1, 0}, 2: {1, 0}, 3: {0, 0}})
	})
}

func TestMembersAreAddedAndLeave(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		id := b.createGroup(1, 2)
		b.send(id, 1)
		add := func(users ...services.UserID) (added []services.UserID) {
			b.MustWrite(func(tx *sql.Tx) error {
				c, err := lock(b.Ctx, tx, id)
				if err != nil {
					return err
				}
				added, err = insertMembers(b.Ctx, tx, c, users)
				slices.Sort(added)
				return err
			})
			return added
		}
		remove := func(users ...services.UserID) (left []services.UserID) {
			b.MustWrite(func(tx *sql.Tx) (err error) { left, err = removeMembers(b.Ctx, tx, id, users); return err })
			return left
		}
		sqltest.Equal(b.T, add(2, 4, 3), []services.UserID{3, 4})
		b.wantUnreadAndMentions(id, map[services.UserID][2]int64{2: {1, 0}, 3: {0, 0}})
		b.send(id, 1, 3)
		sqltest.Equal(b.T, remove(3, 3, 9), []services.UserID{3})
		gone := b.membership(id, 3)
		sqltest.Equal(b.T, []any{gone.HasLeft, gone.Unread(), gone.UnreadMentions(), gone.Version}, []any{true, int64(0), int64(0), int64(3)})
		sqltest.WantCode(b.T, b.markRead(id, 3, 1, -1), services.Conflict)
		sqltest.Equal(b.T, len(sqltest.Must(statesByID(b.Ctx, b.DB, 3, []services.ConversationID{id}))(b.T)), 0)
		b.send(id, 1, 3)
		sqltest.Equal(b.T, b.membership(id, 3).Version, gone.Version) // a mention of a member who has left changes nothing
		sqltest.Equal(b.T, add(3), []services.UserID{3})
		back := b.membership(id, 3)
		sqltest.Equal(b.T, back, services.Membership{Conversation: id, User: 3, NewestMessageNumber: 3, ReadUpTo: 3, Version: gone.Version + 1, MarkUnreadGeneration: 1})
		c := sqltest.Must(statesByID(b.Ctx, b.DB, 1, []services.ConversationID{id}))(b.T)[0]
		sqltest.Equal(b.T, c.Members, 4)
	})
}

// A rebuild reads the states of one user: current memberships, and those that the user left lately, so that late changes of these are
// recognized as late. A pass over a conversation reads the states of its members who are not dormant, page by page.
func TestMembershipsOfOneUserAndOfTheActive(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeUsers("a", "b", "c")
		first, second := b.createGroup(1, 2), b.createGroup(2, 3)
		b.send(first, 1)
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := removeMembers(b.Ctx, tx, second, []services.UserID{2})
			return err
		})
		list := func(since time.Time, after services.ConversationID) (ids []services.ConversationID) {
			for _, m := range sqltest.Must(MembershipsOf(b.Ctx, b.DB, 2, after, since, 10))(b.T) {
				ids = append(ids, m.Conversation)
			}
			return ids
		}
		sqltest.Equal(b.T, list(b.Clock.Now().Add(-time.Second), 0), []services.ConversationID{first, second})
		sqltest.Equal(b.T, list(b.Clock.Now(), 0), []services.ConversationID{first})
		sqltest.Equal(b.T, list(b.Clock.Now().Add(-time.Second), first), []services.ConversationID{second})
		b.MustWrite(func(tx *sql.Tx) error { return people.MarkActive(b.Ctx, tx, []services.UserID{2}) })
		active := sqltest.Must(activeMembershipsIn(b.Ctx, b.DB, first, 0, b.Clock.Now(), 10))(b.T)
		sqltest.Equal(b.T, active, []services.Membership{{Conversation: first, User: 2, NewestMessageNumber: 1, Version: 1}})
		sqltest.Equal(b.T, len(sqltest.Must(activeMembershipsIn(b.Ctx, b.DB, first, 0, time.Time{}, 1))(b.T)), 1)
		sqltest.Equal(b.T, len(sqltest.Must(activeMembershipsIn(b.Ctx, b.DB, first, 2, time.Time{}, 1))(b.T)), 0)
	})
}

// The states of several users, page by page, are the same as when each user is read alone. One user may be asked for twice.
func TestMembershipsOfManyUsersEqualSingleReads(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeUsers("a", "b", "c", "d")
		for i := range 9 {
			id := b.createGroup(1, 2)
			if i%2 == 0 {
				id = b.createGroup(2, 3)
			}
			b.send(id, 2, 1, 3)
			if i%3 == 0 {
				b.MustWrite(func(tx *sql.Tx) error {
					_, err := setMuted(b.Ctx, tx, id, 2, true)
					return err
				})
			}
			if i == 4 {
				b.MustWrite(func(tx *sql.Tx) error {
					_, err := removeMembers(b.Ctx, tx, id, []services.UserID{3})
					return err
				})
			}
		}
		for _, since := range []time.Time{b.Clock.Now().Add(-time.Hour), b.Clock.Now()} {
			for limit := 1; limit <= 15; limit++ {
				pages := []userMembershipsPageRequest{{1, 0}, {2, 0}, {2, 5}, {4, 0}, {3, 2}, {2, 0}, {9, 0}, {3, 99}}
				found := sqltest.Must(membershipsOfEach(b.Ctx, b.DB, pages, since, limit))(b.T)
				for i, page := range pages {
					sqltest.Equal(b.T, found[i], sqltest.Must(MembershipsOf(b.Ctx, b.DB, page.user, page.after, since, limit))(b.T))
				}
			}
		}
	})
}

func TestConversationsAreListedByTheirLastMessage(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		var ids []services.ConversationID
		for range 4 {
			ids = append(ids, b.createGroup(1, 2))
		}
		b.send(ids[1], 2)
		b.send(ids[0], 2)
		var got []services.ConversationID
		at, id := b.Clock.Now().Add(time.Hour), services.ConversationID(0)
		for {
			page := sqltest.Must(statesOf(b.Ctx, b.DB, 1, at, id, 1))(b.T)
			if len(page) == 0 {
				break
			}
			at, id = page[0].LastActiveAt, page[0].ID
			got = append(got, id)
		}
		sqltest.Equal(b.T, got, []services.ConversationID{ids[0], ids[1], ids[3], ids[2]})
	})
}

// Of two changes of the way of counting that begin from the same state, only the first takes effect. MessagesPerMinute is the greater
// count of this minute and the one before.
func TestOnlyOneOfTwoChangesOfTheCountingWayTakesEffect(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		id := b.createGroup(1, 2)
		state := func() MemberState {
			return sqltest.Must(statesByID(b.Ctx, b.DB, 1, []services.ConversationID{id}))(b.T)[0]
		}
		c := state().Conversation
		set := func(way CountingWay) (changed bool) {
			b.MustWrite(func(tx *sql.Tx) (err error) { changed, err = changeCountingWay(b.Ctx, tx, c, way); return err })
			return changed
		}
		sqltest.Equal(b.T, set(switchingToRead), true)
		sqltest.Equal(b.T, set(OnRead), false) // c is the state from before the first change
		now := state()
		sqltest.Equal(b.T, []any{now.Way, now.WayVersion, now.Membership.CountedOnRead, now.Membership.CountedOnReadVersion, now.Membership.Version},
			[]any{switchingToRead, int64(1), true, int64(1), int64(1)})
		for range 3 {
			b.send(id, 1)
		}
		sqltest.Equal(b.T, state().MessagesPerMinute, 3)
		b.Clock.Advance(time.Minute)
		b.send(id, 1)
		sqltest.Equal(b.T, state().MessagesPerMinute, 3)
		b.Clock.Advance(time.Minute)
		b.send(id, 1)
		sqltest.Equal(b.T, state().MessagesPerMinute, 1)
		b.Clock.Advance(time.Hour)
		b.send(id, 1)
		sqltest.Equal(b.T, state().MessagesPerMinute, 1)
	})
}

func TestLongTextsAreKeptWhole(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		id := b.createGroup(1, 2)
		body := strings.Repeat("🦉", services.MaxBodyCharacters)
		b.MustWrite(func(tx *sql.Tx) error { _, _, _, err := insertMessage(b.Ctx, tx, id, 1, body, nil); return err })
		sqltest.Equal(b.T, sqltest.Must(messagesByID(b.Ctx, b.DB, []services.MessageID{services.NewMessageID(id, 1)}))(b.T)[services.NewMessageID(id, 1)].Body, body)
	})
}
