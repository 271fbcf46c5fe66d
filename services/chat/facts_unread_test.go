package chat

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// markUnread marks the messages from a number on as unread for user 2.
func (i conversationLeaseFixture) markUnread(from int64) {
	i.T.Helper()
	i.MustWrite(func(tx *sql.Tx) error { return markUnread(i.Ctx, tx, i.id, 2, from) })
}

// wantUnread checks the number of user 2's unread messages, of which none is a mention.
func (i conversationLeaseFixture) wantUnread(want int64) {
	i.T.Helper()
	i.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {want, 0}})
}

// Leases that run when a user marks messages unread mark nothing read from then on: neither when they are renewed or end, nor when
// the device leaves, even late.
func TestALeaseDoesNotUndoAMarkAsUnread(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		i := conversationLeaseFixture{b, b.createGroup(1, 2)}
		i.enter("laptop", time.Minute)
		for range 5 {
			b.send(i.id, 1)
		}
		i.enter("tablet", time.Minute)
		b.send(i.id, 1)
		i.markUnread(6) // all were seen, also the one since the last entry
		i.wantUnread(1)
		i.markUnread(5)
		i.wantUnread(2)
		b.Clock.Advance(40 * time.Second)
		i.enter("laptop", time.Minute)
		i.wantUnread(2)
		b.send(i.id, 1)
		i.wantUnread(3) // the mark also covers messages that arrive later
		i.leave("tablet")
		i.wantUnread(3)
		b.Clock.Advance(time.Minute)
		sqltest.Equal(b.T, i.endExpiredLeases(), time.Time{})
		i.wantUnread(3)
		i.leave("laptop") // after its lease has ended
		i.wantUnread(3)
		i.enter("laptop", time.Minute)
		i.wantUnread(0)
		b.send(i.id, 1)
		i.leave("laptop")
		i.wantUnread(0)
	})
}

// After a mark as unread, the devices that have the conversation open are inside again when the user enters with another device, writes,
// or reads all messages; if the user reads some, the others stay unread.
func TestAMarkAsUnreadEndsWhenAllIsRead(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		i := conversationLeaseFixture{b, b.createGroup(1, 2)}
		for range 5 {
			b.send(i.id, 1)
		}
		for _, read := range []func(){
			func() { i.enter("phone", time.Second); i.leave("phone") },
			func() { b.send(i.id, 2) },
			func() { sqltest.Must(0, b.markRead(i.id, 2, 0, -1))(b.T) },
			func() {
				sqltest.Must(0, b.markRead(i.id, 2, b.membership(i.id, 2).NewestMessageNumber, b.membership(i.id, 2).MarkUnreadGeneration))(b.T)
			},
		} {
			i.enter("laptop", time.Minute)
			i.markUnread(3)
			sqltest.Must(0, b.markRead(i.id, 2, 3, -1))(b.T)
			i.enter("laptop", time.Minute)
			sqltest.Equal(b.T, b.membership(i.id, 2).Unread() > 0, true)
			read()
			i.wantUnread(0)
			b.send(i.id, 1)
			i.wantUnread(0)
			i.leave("laptop")
			i.wantUnread(0)
			b.send(i.id, 1)
			i.wantUnread(1)
		}
		i.markUnread(1)
		b.MustWrite(func(tx *sql.Tx) error {
			if _, err := removeMembers(b.Ctx, tx, i.id, []services.UserID{2}); err != nil {
				return err
			}
			_, err := insertMembers(b.Ctx, tx, Conversation{ID: i.id, NewestNumber: b.membership(i.id, 1).NewestMessageNumber}, []services.UserID{2})
			return err
		})
		b.send(i.id, 1)
		i.wantUnread(1)
		i.leave("laptop")
		i.wantUnread(0)
	})
}

// A renewal and the end of a past visit are reported only after the user has marked messages unread: they mark nothing read. A past
// visit of another device marks the messages read that were sent until its end.
func TestPastVisitsDoNotUndoALaterMarkAsUnread(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		i := conversationLeaseFixture{b, b.createGroup(1, 2)}
		start := b.Clock.Now().Add(time.Second).Truncate(time.Millisecond)
		for range 4 { // at 30 s, 60 s and so on
			b.Clock.Advance(30 * time.Second)
			b.send(i.id, 1)
		}
		b.Clock.Advance(time.Hour)
		i.enterAt(start.Add(40*time.Second), "phone")
		i.markUnread(2)
		i.wantUnread(3)
		i.enterAt(start.Add(80*time.Second), "phone")
		i.wantUnread(3)
		i.leaveAt(start.Add(100*time.Second), "phone")
		i.wantUnread(3)
		i.endExpiredLeases()
		i.enterAt(start.Add(95*time.Second), "laptop")
		i.wantUnread(1)
		i.leaveAt(start.Add(125*time.Second), "laptop")
		i.wantUnread(0)
	})
}
