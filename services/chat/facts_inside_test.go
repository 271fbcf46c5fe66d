package chat

import (
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// conversationLeaseFixture has helpers for leases of user 2 in one conversation.
type conversationLeaseFixture struct {
	*testDB
	id services.ConversationID
}

// enter gives a device a lease from now on.
func (i conversationLeaseFixture) enter(device string, lease time.Duration) {
	i.T.Helper()
	i.MustWrite(func(tx *sql.Tx) error { return enterOnDevice(i.Ctx, tx, i.id, 2, device, tx.Now.Add(lease)) })
}

// leave ends the lease of a device now.
func (i conversationLeaseFixture) leave(device string) {
	i.T.Helper()
	i.MustWrite(func(tx *sql.Tx) error {
		_, err := leaveOnDevice(i.Ctx, tx, i.id, 2, device, time.Time{})
		return err
	})
}

// endExpiredLeases ends the expired leases, and returns when the next one expires.
func (i conversationLeaseFixture) endExpiredLeases() (next time.Time) {
	i.T.Helper()
	i.MustWrite(func(tx *sql.Tx) (err error) { next, err = endLeases(i.Ctx, tx, i.id, 2); return err })
	return next
}

// enterAt reports that a device entered at a past time, and took a lease of a minute then.
func (i conversationLeaseFixture) enterAt(at time.Time, device string) {
	i.T.Helper()
	i.MustWrite(func(tx *sql.Tx) error {
		tx.SetEventMoment(services.SortableIDAt(at))
		defer tx.SetEventMoment(0)
		return enterOnDevice(i.Ctx, tx, i.id, 2, device, tx.EventTime().Add(time.Minute))
	})
}

// leaveAt reports that a device left at a past time.
func (i conversationLeaseFixture) leaveAt(at time.Time, device string) {
	i.T.Helper()
	i.MustWrite(func(tx *sql.Tx) error {
		tx.SetEventMoment(services.SortableIDAt(at))
		defer tx.SetEventMoment(0)
		_, err := leaveOnDevice(i.Ctx, tx, i.id, 2, device, tx.EventTime().Add(time.Minute))
		return err
	})
}

// If a visit is reported after it has ended, the messages that were sent until its end are read, and no later ones. Messages that
// come now count as unread.
func TestAPastVisitReadsMessagesUntilItsEnd(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		i := conversationLeaseFixture{b, b.createGroup(1, 2)}
		start := b.Clock.Now().Add(time.Second).Truncate(time.Millisecond)
		for range 4 { // at 30 s, 60 s and so on
			b.Clock.Advance(30 * time.Second)
			b.send(i.id, 1, 2)
		}
		b.Clock.Advance(time.Hour)
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {4, 4}})
		i.enterAt(start.Add(40*time.Second), "phone")
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {3, 3}})
		b.send(i.id, 1)
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {4, 3}}) // nobody is inside
		sqltest.Equal(b.T, i.endExpiredLeases(), time.Time{})
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {2, 1}}) // the lease ended at 100 s
		i.enterAt(start, "phone")
		i.leaveAt(start.Add(35*time.Second), "phone")
		i.endExpiredLeases()
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {2, 1}}) // a position does not move back
		i.enterAt(start.Add(20*time.Second), "phone")
		i.leaveAt(start.Add(125*time.Second), "phone")
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {1, 0}})
		sqltest.Equal(b.T, len(sqltest.Must(readLeases(b.Ctx, b.DB, 2, "phone"))(b.T)), 0)
	})
}

// An event of the past neither shortens nor ends a lease that was taken later. While the lease of such an event lasts, new messages
// are read at once.
func TestAPastLeaseDoesNotShortenALaterOne(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		i := conversationLeaseFixture{b, b.createGroup(1, 2)}
		b.Clock.Advance(time.Hour)
		start := b.Clock.Now().Truncate(time.Millisecond)
		i.enterAt(start.Add(-40*time.Second), "phone")
		b.send(i.id, 1)
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {0, 0}})
		sqltest.Equal(b.T, i.endExpiredLeases(), start.Add(20*time.Second))
		i.enter("phone", time.Minute)
		now := b.Clock.Now()
		i.enterAt(start.Add(-20*time.Second), "phone")
		i.leaveAt(start.Add(-10*time.Second), "phone")
		sqltest.Equal(b.T, i.endExpiredLeases(), now.Add(time.Minute))
		b.Clock.Advance(2 * time.Second)
		i.leaveAt(b.Clock.Now(), "phone")
		sqltest.Equal(b.T, len(sqltest.Must(readLeases(b.Ctx, b.DB, 2, "phone"))(b.T)), 0)
		b.send(i.id, 1)
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {1, 0}})
	})
}

// While a device is inside a conversation, its messages do not count as unread for the user.
func TestNothingCountsWhileInside(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		i := conversationLeaseFixture{b, b.createGroup(1, 2)}
		b.send(i.id, 1, 2)
		i.enter("phone", time.Minute)
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {0, 0}})
		b.send(i.id, 1, 2)
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {0, 0}})
		i.enter("laptop", time.Minute)
		i.leave("phone")
		b.send(i.id, 1, 2)
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {0, 0}}) // the laptop is inside
		sqltest.Equal(b.T, sqltest.Must(readLeases(b.Ctx, b.DB, 2, "laptop"))(b.T), []services.ConversationID{i.id})
		sqltest.Equal(b.T, len(sqltest.Must(readLeases(b.Ctx, b.DB, 2, "phone"))(b.T)), 0)
		i.leave("laptop")
		b.send(i.id, 1, 2)
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {1, 1}})
		i.leave("tablet") // was never inside: leaving still marks the messages read
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {0, 0}})
	})
}

// A lease that is not renewed ends at its time, even if that is noticed late. Messages sent before the end are read, later ones count.
func TestALeaseEndsAtItsTime(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		i := conversationLeaseFixture{b, b.createGroup(1, 2)}
		start := b.Clock.Now()
		i.enter("phone", time.Minute)
		i.enter("laptop", 2*time.Minute)
		b.send(i.id, 1)
		sqltest.Equal(b.T, i.endExpiredLeases(), start.Add(time.Minute)) // too early
		b.Clock.Advance(90 * time.Second)
		b.send(i.id, 1)
		sqltest.Equal(b.T, i.endExpiredLeases(), start.Add(2*time.Minute))
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {0, 0}})
		b.Clock.Advance(time.Minute)
		b.send(i.id, 1, 2)
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {0, 0}}) // not noticed yet
		sqltest.Equal(b.T, i.endExpiredLeases(), time.Time{})
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {1, 1}})
		version := b.membership(i.id, 2).Version
		sqltest.Equal(b.T, i.endExpiredLeases(), time.Time{})
		sqltest.Equal(b.T, b.membership(i.id, 2).Version, version)
	})
}

// The renewal of a lease does not change the member's row.
func TestRenewingALeaseKeepsTheMembersVersion(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		i := conversationLeaseFixture{b, b.createGroup(1, 2)}
		i.enter("phone", time.Minute)
		version := b.membership(i.id, 2).Version
		b.Clock.Advance(50 * time.Second)
		i.enter("phone", time.Minute)
		sqltest.Equal(b.T, b.membership(i.id, 2).Version, version)
		b.Clock.Advance(50 * time.Second)
		sqltest.Equal(b.T, i.endExpiredLeases().IsZero(), false)
		// A lease that ended unnoticed must not move the position back.
		b.Clock.Advance(time.Minute)
		b.send(i.id, 1)
		sqltest.Must(0, b.markRead(i.id, 2, 1, -1))(b.T)
		i.endExpiredLeases()
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {0, 0}})
	})
}

// A user marks messages unread after their lease has expired and before the expiry is processed: the messages stay unread.
func TestAnEndedLeaseDoesNotUndoAMarkAsUnread(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		i := conversationLeaseFixture{b, b.createGroup(1, 2)}
		b.send(i.id, 1)
		i.enter("phone", time.Minute)
		b.send(i.id, 1)
		b.Clock.Advance(2 * time.Minute)
		b.send(i.id, 1)
		b.MustWrite(func(tx *sql.Tx) error { return markUnread(b.Ctx, tx, i.id, 2, 1) })
		i.endExpiredLeases()
		b.wantUnreadAndMentions(i.id, map[services.UserID][2]int64{2: {3, 0}})
	})
}

func TestLeavingAConversationEndsItsLeases(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		i := conversationLeaseFixture{b, b.createGroup(1, 2)}
		i.enter("phone", time.Minute)
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := removeMembers(b.Ctx, tx, i.id, []services.UserID{2})
			return err
		})
		sqltest.Equal(b.T, len(sqltest.Must(readLeases(b.Ctx, b.DB, 2, "phone"))(b.T)), 0)
		b.Clock.Advance(2 * time.Minute)
		sqltest.Equal(b.T, i.endExpiredLeases(), time.Time{})
		b.MustWrite(func(tx *sql.Tx) (err error) { _, err = endLeases(b.Ctx, tx, i.id, 77); return err })
		sqltest.WantCode(b.T, b.runTx(func(tx *sql.Tx) error { return enterOnDevice(b.Ctx, tx, i.id, 2, "phone", b.Clock.Now()) }), services.Conflict)
		sqltest.WantCode(b.T, b.runTx(func(tx *sql.Tx) error {
			_, err := leaveOnDevice(b.Ctx, tx, i.id, 77, "phone", time.Time{})
			return err
		}), services.NotFound)
	})
}

func TestMutingChangesTheStateOnce(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		id := b.createGroup(1, 2)
		b.send(id, 1, 2)
		mute := func(muted bool) error {
			return b.runTx(func(tx *sql.Tx) error { _, err := setMuted(b.Ctx, tx, id, 2, muted); return err })
		}
		before := b.membership(id, 2)
		sqltest.Must(0, mute(true))(b.T)
		sqltest.Must(0, mute(true))(b.T)
		before.Muted, before.Version = true, before.Version+1
		sqltest.Equal(b.T, b.membership(id, 2), before)
		sqltest.Must(0, mute(false))(b.T)
		sqltest.Equal(b.T, b.membership(id, 2).Muted, false)
		sqltest.WantCode(b.T, b.runTx(func(tx *sql.Tx) error { _, err := setMuted(b.Ctx, tx, id, 3, true); return err }), services.NotFound)
	})
}

// Messages, marks and recalls come concurrently on shared rows: the stored counts equal a recount of the messages.
func TestStoredCountsEqualARecountAfterConcurrentHistories(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		users := []services.UserID{1, 2, 3}
		id := b.createGroup(users...)
		var group sync.WaitGroup
		for worker := range 6 {
			user := users[worker%len(users)]
			group.Go(func() {
				for step := range 12 {
					number := int64(step + 1)
					fns := []func(tx *sql.Tx) error{
						func(tx *sql.Tx) error {
							_, _, _, err := insertMessage(b.Ctx, tx, id, user, "x", users)
							return err
						},
						func(tx *sql.Tx) error {
							_, err := readUpTo(b.Ctx, tx, id, user, number, -1)
							return err
						},
						func(tx *sql.Tx) error { return markUnread(b.Ctx, tx, id, user, number) },
						func(tx *sql.Tx) error {
							_, _, err := recall(b.Ctx, tx, services.NewMessageID(id, number), user)
							return err
						},
					}
					if err := b.runTx(fns[(step+worker)%len(fns)]); services.CodeOf(err) == services.Internal || services.IsUnavailable(err) {
						b.T.Errorf("step %d of %d: %v", step, worker, err)
					}
				}
			})
		}
		group.Wait()
		var ids []services.MessageID
		for number := range int64(1000) {
			ids = append(ids, services.NewMessageID(id, number+1))
		}
		messages := sqltest.Must(messagesByID(b.Ctx, b.DB, ids))(b.T)
		mentioned := sqltest.Must(mentionedIn(b.Ctx, b.DB, ids))(b.T)
		for _, user := range users {
			m := b.membership(id, user)
			var want [2]int64
			for _, message := range messages {
				if message.ID.Number() <= m.ReadUpTo || message.Recalled || message.Author == user {
					continue
				}
				want[0]++
				for _, whom := range mentioned[message.ID] {
					if whom == user {
						want[1]++
					}
				}
			}
			sqltest.Equal(b.T, [2]int64{m.Unread(), m.UnreadMentions()}, want)
		}
	})
}
