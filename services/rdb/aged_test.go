package rdb

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
)

// aging is one conversation by the facts, with one user's position. Its messages leave the count after a day.
type aging struct {
	random *rand.Rand
	days   []int64             // on which each of its messages was sent
	own    services.Membership // the user's state: Base and Version
	today  int64
}

// snapshot returns the user's state as read by a node whose clock may be a day behind.
func (a *aging) snapshot() services.Membership {
	state := a.own
	state.Head, state.AgedOn = int64(len(a.days)), a.today-int64(a.random.IntN(2))
	for state.Base < state.Head && a.days[state.Base] < state.AgedOn-1 {
		state.Base++
	}
	if state.Base < state.Head {
		state.LeavesOn = a.days[state.Base] + 2
	}
	return state
}

// agedHistory delivers states late, twice and in any order, and compares the result with the facts.
func agedHistory(v view, seed uint64) error {
	user := services.UserID(1 + seed)
	stamps, err := v.c.BeginRebuild(v.Context(), []services.UserID{user}, RebuildMode{Visit: true})
	if err != nil {
		return err
	}
	if _, err = v.c.EndRebuild(v.Context(), FeedFacts{Reader: user, Stamp: stamps[0], Visit: true, Day: 20_000, Lifetime: time.Hour}); err != nil {
		return err
	}
	a := &aging{random: rand.New(rand.NewPCG(seed, 9)), today: 100, own: services.Membership{Conversation: 1, User: user}}
	var waiting []services.Membership
	arrive := func() error {
		i := a.random.IntN(len(waiting))
		_, _, err := v.c.PutMemberships(v.Context(), waiting[i:i+1])
		if a.random.IntN(4) > 0 {
			waiting = append(waiting[:i], waiting[i+1:]...)
		}
		return err
	}
	for range 12 {
		switch a.random.IntN(4) {
		case 0, 1:
			a.days = append(a.days, a.today)
		case 2:
			a.today++
		case 3:
			a.own.Base, a.own.Version = int64(a.random.IntN(len(a.days)+1)), a.own.Version+1
		}
		waiting = append(waiting, a.snapshot())
		if a.random.IntN(2) == 0 {
			if err := arrive(); err != nil {
				return err
			}
		}
	}
	last := a.snapshot()
	for waiting = append(waiting, last); len(waiting) > 0; {
		if err := arrive(); err != nil {
			return err
		}
	}
	snapshots, err := v.c.ReadUserSnapshots(v.Context(), []services.UserID{user})
	if err != nil {
		return err
	}
	got, sums := snapshots[0].Conversations[1], snapshots[0].Document.Conversations
	want, leaves := 0, int64(0)
	for i, day := range a.days {
		if int64(i) >= a.own.Base && day >= got.AgedOn-1 {
			if want == 0 {
				leaves = day + 2
			}
			want++
		}
	}
	late := leaves > 0 && (sums.LeavesOn == 0 || sums.LeavesOn > leaves || got.LeavesOn == 0 || got.LeavesOn > leaves)
	if got.AgedOn < last.AgedOn || sums.Unread != want || late {
		return fmt.Errorf("seed %d: as of day %d (%d is known) %d wait, want %d; the next leaves on %d, in truth on %d", seed, got.AgedOn, last.AgedOn, sums.Unread, want, sums.LeavesOn, leaves)
	}
	return nil
}

// States of several days may arrive in any order: the result is the count of the latest day, and the day on which the next
// message leaves the count is never too late.
func TestAgedStatesMergeInAnyOrder(t *testing.T) {
	client := connect(t, redis.Options{URL: redistest.Redis(t), ReadTimeout: patience}, Shape{Expiry: services.SourceExpiry{services.SourceConversations: 1}})
	v := view{T: t, c: client}
	for seed := range uint64(400) {
		if err := agedHistory(v, seed); err != nil {
			t.Fatal(err)
		}
	}
}

// A document written by a node with other expiry settings counts as missing: its counts have another meaning.
func TestDocumentsOfOtherExpiryAreMissing(t *testing.T) {
	url := redistest.Redis(t)
	with := func(days int) *Projections {
		return connect(t, redis.Options{URL: url, ReadTimeout: patience}, Shape{Expiry: services.SourceExpiry{services.SourceAnnouncements: days}})
	}
	v := view{t, with(2)}
	v.build(FeedFacts{})
	for _, c := range []struct {
		days  int
		ready bool
	}{{services.Never, false}, {2, true}, {3, false}} {
		other := with(c.days)
		documents, err := other.Documents(t.Context(), []services.UserID{reader})
		v.must(err)
		if documents[0].Ready != c.ready {
			t.Errorf("with %d days ready is %t", c.days, documents[0].Ready)
		}
	}
}
