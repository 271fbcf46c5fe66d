package announcements

import (
	"errors"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// testDB is a database with helpers for tests of the facts.
type testDB struct{ *peopletest.TestDB }

// eachTestDB runs a test on both engines, each time on a new database with a stopped clock.
func eachTestDB(t *testing.T, test func(b *testDB)) {
	t.Helper()
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) { test(&testDB{b}) })
}

// write runs one transaction that must succeed.
func (b *testDB) write(fn func(tx *sql.Tx) error) {
	b.T.Helper()
	if err := b.DB.Write(b.Ctx, fn); err != nil {
		b.T.Fatal(err)
	}
}

// newAnnouncement makes an announcement that starts now, and stores nothing.
func (b *testDB) newAnnouncement(id services.AnnouncementID) Announcement {
	now := b.Clock.Now()
	return Announcement{ID: id, Title: "title of " + id.String(), Content: "content", CreatedAt: now, UpdatedAt: now, StartsAt: now}
}

// announce adds an announcement to the list now, and trims the list to three.
func (b *testDB) announce(id services.AnnouncementID, change ...func(*Announcement)) (a Announcement) {
	b.T.Helper()
	a = b.newAnnouncement(id)
	for _, with := range change {
		with(&a)
	}
	b.write(func(tx *sql.Tx) (err error) {
		if a.Position, err = nextStamp(b.Ctx, tx); err != nil {
			return err
		}
		return errors.Join(insert(b.Ctx, tx, a), trimList(b.Ctx, tx, 3))
	})
	return a
}

// sharedFacts reads the facts that all users share.
func (b *testDB) sharedFacts() Facts {
	b.T.Helper()
	return sqltest.Must(readFacts(b.Ctx, b.DB))(b.T)
}

// announcementPositions returns the positions of the listed announcements, in the order of the list.
func (b *testDB) announcementPositions() (list []uint64) {
	b.T.Helper()
	for _, a := range b.sharedFacts().Announcements {
		list = append(list, a.Position)
	}
	return list
}

func TestStampsAlwaysRise(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		next := func() (stamp uint64) {
			b.T.Helper()
			b.write(func(tx *sql.Tx) (err error) { stamp, err = nextStamp(b.Ctx, tx); return err })
			return stamp
		}
		now := uint64(b.Clock.Now().UnixMicro())
		sqltest.Equal(b.T, []uint64{next(), next()}, []uint64{now, now + 2})
		b.Clock.Advance(-time.Hour)
		sqltest.Equal(b.T, next(), now+4)
		b.Clock.Advance(2 * time.Hour)
		sqltest.Equal(b.T, next(), uint64(b.Clock.Now().UnixMicro()))
		sqltest.Equal(b.T, b.sharedFacts(), Facts{ReadAt: b.Clock.Now(), LastChangeStamp: uint64(b.Clock.Now().UnixMicro())})
	})
}

// Stamps are committed in their order: a reader who has read up to a stamp never finds a smaller stamp later.
func TestStampsAreCommittedInTheirOrder(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		const writers, raises = 6, 20
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for range raises {
					err := b.DB.Write(b.Ctx, func(tx *sql.Tx) error {
						stamp, err := nextStamp(b.Ctx, tx)
						return errors.Join(err, raiseDot(b.Ctx, tx, "dot", 0, stamp))
					})
					if err != nil {
						b.T.Error(err)
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
			n := b.sharedFacts()
			if n.LastChangeStamp < last {
				b.T.Fatalf("after the stamp %d comes %d", last, n.LastChangeStamp)
			}
			if last = n.LastChangeStamp; len(n.Dots) > 0 && n.Dots[0].Raises[0].Stamp != n.LastChangeStamp {
				b.T.Fatalf("the stamp %d is not that of the dot beside it: %+v", n.LastChangeStamp, n.Dots)
			}
		}
		sqltest.Equal(b.T, b.sharedFacts().LastChangeStamp, uint64(b.Clock.Now().UnixMicro())+2*(writers*raises-1))
	})
}

func TestAnnouncementsAreListedWithTheirPositions(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		first := b.announce(1)
		second := b.announce(2, func(a *Announcement) {
			a.EndsAt, a.Segments = b.Clock.Now().Add(time.Hour), 1<<63|1
		})
		waiting := b.newAnnouncement(3)
		waiting.StartsAt = b.Clock.Now().Add(time.Minute)
		b.write(func(tx *sql.Tx) error { return insert(b.Ctx, tx, waiting) })
		sqltest.WantCode(b.T, b.DB.Write(b.Ctx, func(tx *sql.Tx) error { return insert(b.Ctx, tx, waiting) }), services.Conflict)

		sqltest.Equal(b.T, sqltest.Must(Read(b.Ctx, b.Runner, []services.AnnouncementID{1, 2, 3, 4}))(b.T),
			map[services.AnnouncementID]Announcement{1: first, 2: second, 3: waiting})
		short := func(a Announcement) Announcement {
			return Announcement{ID: a.ID, Position: a.Position, Segments: a.Segments, EndsAt: a.EndsAt, UpdatedAt: a.UpdatedAt}
		}
		sqltest.Equal(b.T, b.sharedFacts(), Facts{ReadAt: b.Clock.Now(), LastChangeStamp: second.Position, Announcements: []Announcement{short(second), short(first)}})

		b.write(func(tx *sql.Tx) error {
			a, err := lock(b.Ctx, tx, 1)
			sqltest.Equal(b.T, a, first)
			a.Title, a.Content, a.Segments, a.Withdrawn, a.EndsAt = "other", "", 4, true, b.Clock.Now().Add(time.Second)
			a.Position++ // update writes the position too
			first = a
			return errors.Join(err, update(b.Ctx, tx, a))
		})
		sqltest.Equal(b.T, sqltest.Must(Read(b.Ctx, b.Runner, []services.AnnouncementID{1}))(b.T), map[services.AnnouncementID]Announcement{1: first})
		sqltest.Equal(b.T, b.announcementPositions(), []uint64{second.Position})
		err := b.DB.Write(b.Ctx, func(tx *sql.Tx) error { _, err := lock(b.Ctx, tx, 4); return err })
		sqltest.WantCode(b.T, err, services.NotFound)

		b.Clock.Advance(time.Hour - 1000)
		sqltest.Equal(b.T, b.announcementPositions(), []uint64{second.Position})
		b.Clock.Advance(1000)
		sqltest.Equal(b.T, b.sharedFacts(), Facts{ReadAt: b.Clock.Now(), LastChangeStamp: second.Position, EndedCount: 2})
	})
}

// Every announcement that was ever in the list counts as ended when its end has passed. This includes announcements that were
// withdrawn or trimmed: their future ends are listed.
func TestEndsOfAnnouncementsAreCounted(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		ends := func(after time.Duration) func(*Announcement) {
			return func(a *Announcement) { a.EndsAt = b.Clock.Now().Add(after) }
		}
		withdrawn := b.announce(1, ends(time.Hour))
		for id := range services.AnnouncementID(3) {
			b.announce(id+2, ends(time.Minute))
		}
		b.write(func(tx *sql.Tx) error { return trimList(b.Ctx, tx, 2) }) // 1 and 2 leave the list
		withdrawn.Withdrawn = true
		waiting := b.newAnnouncement(9)
		waiting.StartsAt, waiting.EndsAt = b.Clock.Now().Add(time.Second), b.Clock.Now().Add(time.Minute)
		b.write(func(tx *sql.Tx) error {
			_, err := changelog.AppendLog(b.Ctx, tx, ChangelogKind, "withdrawn", nil)
			return errors.Join(err, update(b.Ctx, tx, withdrawn), insert(b.Ctx, tx, waiting))
		})
		hidden := b.sharedFacts()
		sqltest.Equal(b.T, hidden.LogVersion, uint64(1))
		sqltest.Equal(b.T, []int{int(hidden.EndedCount), len(hidden.Announcements), len(hidden.UnlistedEnds)}, []int{0, 2, 2})
		b.Clock.Advance(time.Minute)
		over := b.sharedFacts()
		sqltest.Equal(b.T, []int{int(over.EndedCount), len(over.Announcements), len(over.UnlistedEnds)}, []int{3, 0, 1})
		b.Clock.Advance(time.Hour)
		sqltest.Equal(b.T, []int{int(b.sharedFacts().EndedCount), len(b.sharedFacts().UnlistedEnds)}, []int{4, 0})
	})
}

// The list keeps the newest announcements that are not over. An announcement that has left the list never returns, even when
// newer ones end or are withdrawn.
func TestTheListOfAnnouncementsIsBounded(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		var list []Announcement
		for id := services.AnnouncementID(1); id <= 4; id++ {
			list = append(list, b.announce(id, func(a *Announcement) {
				if id == 2 {
					a.EndsAt = b.Clock.Now().Add(time.Hour)
				}
			}))
		}
		sqltest.Equal(b.T, b.announcementPositions(), []uint64{list[3].Position, list[2].Position, list[1].Position})
		b.Clock.Advance(time.Hour)
		sqltest.Equal(b.T, b.announcementPositions(), []uint64{list[3].Position, list[2].Position})
		fifth := b.announce(5) // the third that is not over, so none has to leave the list
		sqltest.Equal(b.T, b.announcementPositions(), []uint64{fifth.Position, list[3].Position, list[2].Position})
		b.write(func(tx *sql.Tx) error {
			fifth.Withdrawn = true
			return update(b.Ctx, tx, fifth)
		})
		sqltest.Equal(b.T, b.announcementPositions(), []uint64{list[3].Position, list[2].Position})
	})
}
