package store_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/store"
)

func (b *bundle) raise(name string, target services.SegmentBits) (stamp uint64) {
	b.t.Helper()
	b.write(func(tx *store.Tx) (err error) {
		if stamp, err = tx.NextNotice(b.ctx); err != nil {
			return err
		}
		return tx.RaiseDot(b.ctx, name, target, stamp)
	})
	return stamp
}

func (b *bundle) clear(user services.UserID, name string) (seen uint64) {
	b.t.Helper()
	b.write(func(tx *store.Tx) (err error) { seen, err = tx.ClearDot(b.ctx, user, name); return err })
	return seen
}

func (b *bundle) segments(names ...string) (bits services.SegmentBits) {
	b.t.Helper()
	b.write(func(tx *store.Tx) (err error) { bits, err = tx.SegmentBits(b.ctx, names); return err })
	return bits
}

func TestDots(t *testing.T) {
	each(t, func(b *bundle) {
		b.raise("shop", 0)
		some := b.raise("shop", 1|1<<5|1<<63)
		all := b.raise("shop", 0)
		last := b.raise("shop", 1<<5)
		other := b.raise("a.b-c_1", 0)
		raise := func(target services.SegmentBits, at uint64) services.DotRaise {
			return services.DotRaise{Target: target, At: at}
		}
		dots := b.notices().Dots
		slices.SortFunc(dots[1].Raises, func(x, y services.DotRaise) int { return cmp.Compare(x.Target, y.Target) })
		equal(b.t, dots, []services.RaisedDot{
			{Name: "a.b-c_1", Raises: []services.DotRaise{raise(0, other)}},
			{Name: "shop", Raises: []services.DotRaise{raise(0, all), raise(1, some), raise(1<<5, last), raise(1<<63, some)}},
		})
		equal(b.t, b.clear(7, "shop"), other) // the end of the notice clock, also where another dot was last
		equal(b.t, b.clear(7, "shop"), other)
		again := b.raise("shop", 1)
		equal(b.t, b.clear(7, "shop"), again)
		equal(b.t, must(b.UserNotices(b.ctx, 7))(b.t).Dots, map[string]uint64{"shop": again})
		err := b.Write(b.ctx, func(tx *store.Tx) error { _, err := tx.ClearDot(b.ctx, 7, "nope"); return err })
		coded(b.t, err, services.NotFound)
	})
}

func TestAHundredDots(t *testing.T) {
	each(t, func(b *bundle) {
		for n := range services.MaxDots {
			b.raise(fmt.Sprint("dot", n), 3)
		}
		b.raise("dot7", 0) // one that is there may be raised
		err := b.Write(b.ctx, func(tx *store.Tx) error {
			stamp, err := tx.NextNotice(b.ctx)
			return errors.Join(err, tx.RaiseDot(b.ctx, "another", 0, stamp))
		})
		coded(b.t, err, services.Conflict)
		equal(b.t, len(b.notices().Dots), services.MaxDots)
	})
}

func TestSegments(t *testing.T) {
	each(t, func(b *bundle) {
		equal(b.t, b.segments(), services.SegmentBits(0))
		equal(b.t, b.segments("beta"), services.SegmentBits(1))
		equal(b.t, b.segments("beta", "staff", "beta"), services.SegmentBits(3))
		for n := 2; n < services.MaxSegments; n++ {
			equal(b.t, b.segments(fmt.Sprint("s", n)), services.SegmentBits(1)<<n)
		}
		equal(b.t, b.segments("beta", "s63"), services.SegmentBits(1|1<<63))
		err := b.Write(b.ctx, func(tx *store.Tx) error { _, err := tx.SegmentBits(b.ctx, []string{"beta", "one more"}); return err })
		coded(b.t, err, services.Conflict)
		equal(b.t, err.Error(), `segments: "one more" would be segment 65, up to 64 are allowed`)
	})
}

// Several that name new segments at once give each name one bit, and no bit twice.
func TestSegmentsAtOnce(t *testing.T) {
	each(t, func(b *bundle) {
		var all sync.WaitGroup
		got := make([]services.SegmentBits, 8)
		for n := range got {
			all.Go(func() {
				err := b.Write(b.ctx, func(tx *store.Tx) (err error) {
					got[n], err = tx.SegmentBits(b.ctx, []string{"shared", fmt.Sprint("own", n)})
					return err
				})
				if err != nil {
					b.t.Error(err)
				}
			})
		}
		all.Wait()
		shared, sum := b.segments("shared"), services.SegmentBits(0)
		for _, bits := range got {
			if bits&shared == 0 || sum&bits&^shared != 0 {
				b.t.Fatalf("the bits are %b", got)
			}
			sum |= bits
		}
		equal(b.t, sum, services.SegmentBits(1<<9-1))
	})
}

func TestSetSegments(t *testing.T) {
	each(t, func(b *bundle) {
		set := func(bits services.SegmentBits) (version uint64) {
			b.write(func(tx *store.Tx) (err error) { version, err = tx.SetSegments(b.ctx, 7, bits); return err })
			equal(b.t, must(b.UserNotices(b.ctx, 7))(b.t), store.UserNotices{Segments: services.SegmentState{Version: version, Bits: uint64(bits)}, Dots: map[string]uint64{}})
			return version
		}
		first := set(1<<63 | 1)
		equal(b.t, set(1<<63|1), first)
		equal(b.t, set(0), first+1) // the clock stands
		b.clock.advance(-time.Hour)
		equal(b.t, set(2), first+2)
	})
}
