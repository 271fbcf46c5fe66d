package store_test

import (
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/store"
)

// inside is what a test does with leases of user 2.
type inside struct {
	*bundle
	id services.ConversationID
}

func (i inside) enter(device string, lease time.Duration) {
	i.t.Helper()
	i.write(func(tx *store.Tx) error { return tx.Enter(i.ctx, i.id, 2, device, tx.Now.Add(lease)) })
}

func (i inside) leave(device string) {
	i.t.Helper()
	i.write(func(tx *store.Tx) error {
		_, err := tx.Leave(i.ctx, i.id, 2, device)
		return err
	})
}

func (i inside) end() (next time.Time) {
	i.t.Helper()
	i.write(func(tx *store.Tx) (err error) { next, err = tx.EndLeases(i.ctx, i.id, 2); return err })
	return next
}

func TestNothingCountsWhileInside(t *testing.T) {
	each(t, func(b *bundle) {
		i := inside{b, b.group(1, 2)}
		b.send(i.id, 1, 2)
		i.enter("phone", time.Minute)
		b.waits(i.id, map[services.UserID][2]int64{2: {0, 0}})
		b.send(i.id, 1, 2)
		b.waits(i.id, map[services.UserID][2]int64{2: {0, 0}})
		i.enter("laptop", time.Minute)
		i.leave("phone")
		b.send(i.id, 1, 2)
		b.waits(i.id, map[services.UserID][2]int64{2: {0, 0}}) // the laptop is inside
		equal(b.t, must(b.LeasesOf(b.ctx, 2, "laptop"))(b.t), []services.ConversationID{i.id})
		equal(b.t, len(must(b.LeasesOf(b.ctx, 2, "phone"))(b.t)), 0)
		i.leave("laptop")
		b.send(i.id, 1, 2)
		b.waits(i.id, map[services.UserID][2]int64{2: {1, 1}})
		i.leave("tablet") // was never inside: it reads all the same
		b.waits(i.id, map[services.UserID][2]int64{2: {0, 0}})
	})
}

// A lease that is not renewed has read what came before its end, and nothing after it, whenever its end is noticed.
func TestALeaseEndsAtItsTime(t *testing.T) {
	each(t, func(b *bundle) {
		i := inside{b, b.group(1, 2)}
		start := b.clock.Now()
		i.enter("phone", time.Minute)
		i.enter("laptop", 2*time.Minute)
		b.send(i.id, 1)
		equal(b.t, i.end(), start.Add(time.Minute)) // too early
		b.clock.advance(90 * time.Second)
		b.send(i.id, 1)
		equal(b.t, i.end(), start.Add(2*time.Minute))
		b.waits(i.id, map[services.UserID][2]int64{2: {0, 0}})
		b.clock.advance(time.Minute)
		b.send(i.id, 1, 2)
		b.waits(i.id, map[services.UserID][2]int64{2: {0, 0}}) // not noticed yet
		equal(b.t, i.end(), time.Time{})
		b.waits(i.id, map[services.UserID][2]int64{2: {1, 1}})
		version := b.member(i.id, 2).Version
		equal(b.t, i.end(), time.Time{})
		equal(b.t, b.member(i.id, 2).Version, version)
	})
}

func TestRenewingChangesNothingElse(t *testing.T) {
	each(t, func(b *bundle) {
		i := inside{b, b.group(1, 2)}
		i.enter("phone", time.Minute)
		version := b.member(i.id, 2).Version
		b.clock.advance(50 * time.Second)
		i.enter("phone", time.Minute)
		equal(b.t, b.member(i.id, 2).Version, version)
		b.clock.advance(50 * time.Second)
		equal(b.t, i.end().IsZero(), false)
		// A lease that ended unnoticed is no reason to come back behind what was read.
		b.clock.advance(time.Minute)
		b.send(i.id, 1)
		must(0, b.read(i.id, 2, 1, -1))(b.t)
		i.end()
		b.waits(i.id, map[services.UserID][2]int64{2: {0, 0}})
	})
}

// A user marks messages unread after their lease has expired, which nothing has processed yet: the messages stay unread.
func TestAnEndedLeaseDoesNotTakeAMarkBack(t *testing.T) {
	each(t, func(b *bundle) {
		i := inside{b, b.group(1, 2)}
		b.send(i.id, 1)
		i.enter("phone", time.Minute)
		b.send(i.id, 1)
		b.clock.advance(2 * time.Minute)
		b.send(i.id, 1)
		b.write(func(tx *store.Tx) error { return tx.MarkUnread(b.ctx, i.id, 2, 1) })
		i.end()
		b.waits(i.id, map[services.UserID][2]int64{2: {3, 0}})
	})
}

func TestLeavingAConversationEndsItsLeases(t *testing.T) {
	each(t, func(b *bundle) {
		i := inside{b, b.group(1, 2)}
		i.enter("phone", time.Minute)
		b.write(func(tx *store.Tx) error {
			_, err := tx.RemoveMembers(b.ctx, i.id, []services.UserID{2})
			return err
		})
		equal(b.t, len(must(b.LeasesOf(b.ctx, 2, "phone"))(b.t)), 0)
		b.clock.advance(2 * time.Minute)
		equal(b.t, i.end(), time.Time{})
		b.write(func(tx *store.Tx) (err error) { _, err = tx.EndLeases(b.ctx, i.id, 77); return err })
		coded(b.t, b.try(func(tx *store.Tx) error { return tx.Enter(b.ctx, i.id, 2, "phone", b.clock.Now()) }), services.Conflict)
		coded(b.t, b.try(func(tx *store.Tx) error {
			_, err := tx.Leave(b.ctx, i.id, 77, "phone")
			return err
		}), services.NotFound)
	})
}

func TestMute(t *testing.T) {
	each(t, func(b *bundle) {
		id := b.group(1, 2)
		b.send(id, 1, 2)
		mute := func(muted bool) error {
			return b.try(func(tx *store.Tx) error { _, err := tx.Mute(b.ctx, id, 2, muted); return err })
		}
		before := b.member(id, 2)
		must(0, mute(true))(b.t)
		must(0, mute(true))(b.t)
		before.Muted, before.Version = true, before.Version+1
		equal(b.t, b.member(id, 2), before)
		must(0, mute(false))(b.t)
		equal(b.t, b.member(id, 2).Muted, false)
		coded(b.t, b.try(func(tx *store.Tx) error { _, err := tx.Mute(b.ctx, id, 3, true); return err }), services.NotFound)
	})
}

// All operations run concurrently on shared rows: the stored counts equal a recount of the messages.
func TestConcurrentHistoriesKeepTheArithmetic(t *testing.T) {
	each(t, func(b *bundle) {
		users := []services.UserID{1, 2, 3}
		id := b.group(users...)
		var group sync.WaitGroup
		for worker := range 6 {
			user := users[worker%len(users)]
			group.Go(func() {
				for step := range 12 {
					number := int64(step + 1)
					fns := []func(tx *store.Tx) error{
						func(tx *store.Tx) error { _, _, _, err := tx.SendMessage(b.ctx, id, user, "x", users); return err },
						func(tx *store.Tx) error {
							_, err := tx.ReadUpTo(b.ctx, id, user, number, -1)
							return err
						},
						func(tx *store.Tx) error { return tx.MarkUnread(b.ctx, id, user, number) },
						func(tx *store.Tx) error {
							_, _, err := tx.RecallMessage(b.ctx, services.NewMessageID(id, number), user)
							return err
						},
					}
					if err := b.try(fns[(step+worker)%len(fns)]); services.CodeOf(err) == services.Internal || services.IsUnavailable(err) {
						b.t.Errorf("step %d of %d: %v", step, worker, err)
					}
				}
			})
		}
		group.Wait()
		var ids []services.MessageID
		for number := range int64(1000) {
			ids = append(ids, services.NewMessageID(id, number+1))
		}
		messages := must(b.Messages(b.ctx, ids))(b.t)
		mentioned := must(b.Mentioned(b.ctx, ids))(b.t)
		for _, user := range users {
			m := b.member(id, user)
			var want [2]int64
			for _, message := range messages {
				if message.ID.Number() <= m.Base || message.Recalled || message.Author == user {
					continue
				}
				want[0]++
				for _, whom := range mentioned[message.ID] {
					if whom == user {
						want[1]++
					}
				}
			}
			equal(b.t, [2]int64{m.Unread(), m.UnreadMentions()}, want)
		}
	})
}
