package store_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/store"
)

func (b *bundle) announcement(id services.PostID) services.Announcement {
	now := b.clock.Now()
	return services.Announcement{ID: id, Title: "title of " + id.String(), Content: "content", CreatedAt: now, UpdatedAt: now, StartsAt: now}
}

// announce adds an announcement to the list now.
func (b *bundle) announce(id services.PostID, change ...func(*services.Announcement)) (a services.Announcement) {
	b.t.Helper()
	a = b.announcement(id)
	for _, with := range change {
		with(&a)
	}
	b.write(func(tx *store.Tx) (err error) {
		if a.Position, err = tx.NextNotice(b.ctx); err != nil {
			return err
		}
		return errors.Join(tx.InsertAnnouncement(b.ctx, a), tx.TrimAnnouncements(b.ctx, 3))
	})
	return a
}

func (b *bundle) notices() store.Notices {
	b.t.Helper()
	return must(b.Notices(b.ctx))(b.t)
}

// positions are those of the list.
func (b *bundle) positions() (list []uint64) {
	b.t.Helper()
	for _, a := range b.notices().Announcements {
		list = append(list, a.Position)
	}
	return list
}

func TestNoticeClockAlwaysRises(t *testing.T) {
	each(t, func(b *bundle) {
		next := func() (stamp uint64) {
			b.t.Helper()
			b.write(func(tx *store.Tx) (err error) { stamp, err = tx.NextNotice(b.ctx); return err })
			return stamp
		}
		now := uint64(b.clock.Now().UnixMicro())
		equal(b.t, []uint64{next(), next()}, []uint64{now, now + 2})
		b.clock.advance(-time.Hour)
		equal(b.t, next(), now+4)
		b.clock.advance(2 * time.Hour)
		equal(b.t, next(), uint64(b.clock.Now().UnixMicro()))
		equal(b.t, b.notices(), store.Notices{At: b.clock.Now(), Stamp: uint64(b.clock.Now().UnixMicro())})
	})
}

// Stamps are committed in their order: a reader who has read up to one never finds a smaller one later.
func TestStampsAppearInTheirOrder(t *testing.T) {
	each(t, func(b *bundle) {
		const writers, raises = 6, 20
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for range raises {
					err := b.Write(b.ctx, func(tx *store.Tx) error {
						stamp, err := tx.NextNotice(b.ctx)
						return errors.Join(err, tx.RaiseDot(b.ctx, "dot", 0, stamp))
					})
					if err != nil {
						b.t.Error(err)
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		last := uint64(0)
		for busy := true; busy; {
			select {
			case <-done:
				busy = false
			default:
			}
			n := b.notices()
			if n.Stamp < last {
				b.t.Fatalf("after the stamp %d comes %d", last, n.Stamp)
			}
			if last = n.Stamp; len(n.Dots) > 0 && n.Dots[0].Raises[0].At != n.Stamp {
				b.t.Fatalf("the stamp %d is not that of the dot beside it: %+v", n.Stamp, n.Dots)
			}
		}
		equal(b.t, b.notices().Stamp, uint64(b.clock.Now().UnixMicro())+2*(writers*raises-1))
	})
}

func TestAnnouncements(t *testing.T) {
	each(t, func(b *bundle) {
		first := b.announce(1)
		second := b.announce(2, func(a *services.Announcement) {
			a.EndsAt, a.Segments = b.clock.Now().Add(time.Hour), 1<<63|1
		})
		waiting := b.announcement(3)
		waiting.StartsAt = b.clock.Now().Add(time.Minute)
		b.write(func(tx *store.Tx) error { return tx.InsertAnnouncement(b.ctx, waiting) })
		coded(b.t, b.Write(b.ctx, func(tx *store.Tx) error { return tx.InsertAnnouncement(b.ctx, waiting) }), services.Conflict)

		equal(b.t, must(b.Announcements(b.ctx, []services.PostID{1, 2, 3, 4}))(b.t),
			map[services.PostID]services.Announcement{1: first, 2: second, 3: waiting})
		short := func(a services.Announcement) services.Announcement {
			return services.Announcement{ID: a.ID, Position: a.Position, Segments: a.Segments, EndsAt: a.EndsAt, UpdatedAt: a.UpdatedAt}
		}
		equal(b.t, b.notices(), store.Notices{At: b.clock.Now(), Stamp: second.Position, Announcements: []services.Announcement{short(second), short(first)}})

		b.write(func(tx *store.Tx) error {
			a, err := tx.AnnouncementForUpdate(b.ctx, 1)
			equal(b.t, a, first)
			a.Title, a.Content, a.Segments, a.Withdrawn, a.EndsAt = "other", "", 4, true, b.clock.Now().Add(time.Second)
			a.Position++ // whatever it is given
			first = a
			return errors.Join(err, tx.UpdateAnnouncement(b.ctx, a))
		})
		equal(b.t, must(b.Announcements(b.ctx, []services.PostID{1}))(b.t), map[services.PostID]services.Announcement{1: first})
		equal(b.t, b.positions(), []uint64{second.Position})
		err := b.Write(b.ctx, func(tx *store.Tx) error { _, err := tx.AnnouncementForUpdate(b.ctx, 4); return err })
		coded(b.t, err, services.NotFound)

		b.clock.advance(time.Hour - 1000)
		equal(b.t, b.positions(), []uint64{second.Position})
		b.clock.advance(1000)
		equal(b.t, b.notices(), store.Notices{At: b.clock.Now(), Stamp: second.Position, Ended: 2})
	})
}

// Every announcement that was ever in the list counts as ended when its end has passed. That includes those that were withdrawn
// or trimmed: their future ends are listed. No change lowers the count by more than one.
func TestEndsOfAnnouncementsAreCounted(t *testing.T) {
	each(t, func(b *bundle) {
		ends := func(after time.Duration) func(*services.Announcement) {
			return func(a *services.Announcement) { a.EndsAt = b.clock.Now().Add(after) }
		}
		withdrawn := b.announce(1, ends(time.Hour))
		for id := range services.PostID(3) {
			b.announce(id+2, ends(time.Minute))
		}
		b.write(func(tx *store.Tx) error { return tx.TrimAnnouncements(b.ctx, 2) }) // 1 and 2 fall out
		withdrawn.Withdrawn = true
		waiting := b.announcement(9)
		waiting.StartsAt, waiting.EndsAt = b.clock.Now().Add(time.Second), b.clock.Now().Add(time.Minute)
		b.write(func(tx *store.Tx) error {
			_, err := changelog.AppendLog(b.ctx, tx.Tx, store.LogNotice, "withdrawn", nil)
			return errors.Join(err, tx.UpdateAnnouncement(b.ctx, withdrawn), tx.InsertAnnouncement(b.ctx, waiting))
		})
		hidden := b.notices()
		equal(b.t, hidden.Version, uint64(1))
		equal(b.t, []int{int(hidden.Ended), len(hidden.Announcements), len(hidden.HiddenEnds)}, []int{0, 2, 2})
		b.clock.advance(time.Minute)
		over := b.notices()
		equal(b.t, []int{int(over.Ended), len(over.Announcements), len(over.HiddenEnds)}, []int{3, 0, 1})
		b.clock.advance(time.Hour)
		equal(b.t, []int{int(b.notices().Ended), len(b.notices().HiddenEnds)}, []int{4, 0})
	})
}

// The list keeps the newest that are not over. What once fell out stays out, also when newer ones end or are withdrawn.
func TestTheListOfAnnouncementsIsBounded(t *testing.T) {
	each(t, func(b *bundle) {
		var list []services.Announcement
		for id := services.PostID(1); id <= 4; id++ {
			list = append(list, b.announce(id, func(a *services.Announcement) {
				if id == 2 {
					a.EndsAt = b.clock.Now().Add(time.Hour)
				}
			}))
		}
		equal(b.t, b.positions(), []uint64{list[3].Position, list[2].Position, list[1].Position})
		b.clock.advance(time.Hour)
		equal(b.t, b.positions(), []uint64{list[3].Position, list[2].Position})
		fifth := b.announce(5) // the third that is not over: nothing falls out for it
		equal(b.t, b.positions(), []uint64{fifth.Position, list[3].Position, list[2].Position})
		b.write(func(tx *store.Tx) error {
			fifth.Withdrawn = true
			return tx.UpdateAnnouncement(b.ctx, fifth)
		})
		equal(b.t, b.positions(), []uint64{list[3].Position, list[2].Position})
	})
}
