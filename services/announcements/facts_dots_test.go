package announcements

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// raiseDotNow raises a dot now, and returns the stamp.
func (b *testDB) raiseDotNow(name string, target Segments) (stamp uint64) {
	b.T.Helper()
	b.write(func(tx *sql.Tx) (err error) {
		if stamp, err = nextStamp(b.Ctx, tx); err != nil {
			return err
		}
		return raiseDot(b.Ctx, tx, name, target, stamp)
	})
	return stamp
}

// clearUserDot clears a dot for a user now, and returns the stamp up to which it is cleared.
func (b *testDB) clearUserDot(user services.UserID, name string) (seen uint64) {
	b.T.Helper()
	b.write(func(tx *sql.Tx) (err error) { seen, _, err = clearDot(b.Ctx, tx, user, name); return err })
	return seen
}

// ensureSegmentBits returns the bits of segments; new names get bits.
func (b *testDB) ensureSegmentBits(names ...string) (bits Segments) {
	b.T.Helper()
	b.write(func(tx *sql.Tx) (err error) { bits, err = ensureSegments(b.Ctx, tx, names); return err })
	return bits
}

func TestDotsAreRaisedAndCleared(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.raiseDotNow("shop", 0)
		some := b.raiseDotNow("shop", 1|1<<5|1<<63)
		all := b.raiseDotNow("shop", 0)
		last := b.raiseDotNow("shop", 1<<5)
		other := b.raiseDotNow("a.b-c_1", 0)
		raise := func(target Segments, at uint64) DotRaise {
			return DotRaise{Target: target, Stamp: at}
		}
		dots := b.sharedFacts().Dots
		slices.SortFunc(dots[1].Raises, func(x, y DotRaise) int { return cmp.Compare(x.Target, y.Target) })
		sqltest.Equal(b.T, dots, []Dot{
			{Name: "a.b-c_1", Raises: []DotRaise{raise(0, other)}},
			{Name: "shop", Raises: []DotRaise{raise(0, all), raise(1, some), raise(1<<5, last), raise(1<<63, some)}},
		})
		sqltest.Equal(b.T, b.clearUserDot(7, "shop"), other) // the last stamp of the announcements' clock, even if another dot was raised last
		sqltest.Equal(b.T, b.clearUserDot(7, "shop"), other)
		again := b.raiseDotNow("shop", 1)
		sqltest.Equal(b.T, b.clearUserDot(7, "shop"), again)
		sqltest.Equal(b.T, sqltest.Must(readUser(b.Ctx, b.Runner, 7))(b.T).DismissedUpToByDot, map[string]uint64{"shop": again})
		err := b.DB.Write(b.Ctx, func(tx *sql.Tx) error { _, _, err := clearDot(b.Ctx, tx, 7, "nope"); return err })
		sqltest.WantCode(b.T, err, services.NotFound)
	})
}

// A clear changes something if the dot was raised after the last clear and after the user's first visit.
func TestClearingADotThatIsNotLitChangesNothing(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		cleared := func(user services.UserID) (changed bool) {
			b.write(func(tx *sql.Tx) (err error) { _, changed, err = clearDot(b.Ctx, tx, user, "shop"); return err })
			return changed
		}
		b.raiseDotNow("shop", 0)
		sqltest.Equal(b.T, cleared(7), true)
		sqltest.Equal(b.T, cleared(7), false)
		b.raiseDotNow("other", 0)
		sqltest.Equal(b.T, cleared(7), false)
		b.raiseDotNow("shop", 1<<5) // for a segment that the user may join later
		sqltest.Equal(b.T, cleared(7), true)
		sqltest.Equal(b.T, cleared(7), false)
		b.recordVisit(8)
		sqltest.Equal(b.T, cleared(8), false)
		b.raiseDotNow("shop", 0)
		sqltest.Equal(b.T, cleared(8), true)
	})
}

func TestDotsAreBounded(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		for n := range maxDots {
			b.raiseDotNow(fmt.Sprint("dot", n), 3)
		}
		b.raiseDotNow("dot7", 0) // an existing dot may be raised
		err := b.DB.Write(b.Ctx, func(tx *sql.Tx) error {
			stamp, err := nextStamp(b.Ctx, tx)
			return errors.Join(err, raiseDot(b.Ctx, tx, "another", 0, stamp))
		})
		sqltest.WantCode(b.T, err, services.Conflict)
		sqltest.Equal(b.T, len(b.sharedFacts().Dots), maxDots)
	})
}

func TestEachSegmentGetsItsOwnBit(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		sqltest.Equal(b.T, b.ensureSegmentBits(), Segments(0))
		sqltest.Equal(b.T, b.ensureSegmentBits("beta"), Segments(1))
		sqltest.Equal(b.T, b.ensureSegmentBits("beta", "staff", "beta"), Segments(3))
		for n := 2; n < maxSegments; n++ {
			sqltest.Equal(b.T, b.ensureSegmentBits(fmt.Sprint("s", n)), Segments(1)<<n)
		}
		sqltest.Equal(b.T, b.ensureSegmentBits("beta", "s63"), Segments(1|1<<63))
		err := b.DB.Write(b.Ctx, func(tx *sql.Tx) error { _, err := ensureSegments(b.Ctx, tx, []string{"beta", "one more"}); return err })
		sqltest.WantCode(b.T, err, services.Conflict)
		sqltest.Equal(b.T, err.Error(), `segments: "one more" would be segment 65, up to 64 are allowed`)
	})
}

// Concurrent callers that name new segments give each name one bit, and no bit twice.
func TestSegmentsNamedConcurrentlyGetTheirOwnBits(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		var all sync.WaitGroup
		got := make([]Segments, 8)
		for n := range got {
			all.Go(func() {
				err := b.DB.Write(b.Ctx, func(tx *sql.Tx) (err error) {
					got[n], err = ensureSegments(b.Ctx, tx, []string{"shared", fmt.Sprint("own", n)})
					return err
				})
				if err != nil {
					b.T.Error(err)
				}
			})
		}
		all.Wait()
		shared, sum := b.ensureSegmentBits("shared"), Segments(0)
		for _, bits := range got {
			if bits&shared == 0 || sum&bits&^shared != 0 {
				b.T.Fatalf("the bits are %b", got)
			}
			sum |= bits
		}
		sqltest.Equal(b.T, sum, Segments(1<<9-1))
	})
}

func TestTheVersionOfSegmentsRisesWithTheirChange(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		var changed bool
		set := func(bits Segments) (version uint64) {
			b.write(func(tx *sql.Tx) (err error) { version, changed, err = setSegments(b.Ctx, tx, 7, bits); return err })
			sqltest.Equal(b.T, sqltest.Must(readUser(b.Ctx, b.Runner, 7))(b.T), userState{Segments: services.SegmentState{Version: version, Bits: uint64(bits)}, DismissedUpToByDot: map[string]uint64{}})
			return version
		}
		first := set(1<<63 | 1)
		sqltest.Equal(b.T, changed, true)
		sqltest.Equal(b.T, set(1<<63|1), first)
		sqltest.Equal(b.T, changed, false)
		sqltest.Equal(b.T, set(0), first+1) // the clock is stopped
		sqltest.Equal(b.T, changed, true)
		b.Clock.Advance(-time.Hour)
		sqltest.Equal(b.T, set(2), first+2)
	})
}
