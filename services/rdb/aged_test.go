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

// expiringConversation is one conversation by the facts, with one user's position. Its messages leave the count after a day.
type expiringConversation struct {
	random    *rand.Rand
	sentDays  []int64             // on which each of its messages was sent
	userState services.Membership // the user's state: ReadUpTo and Version
	today     int64               // the present day, since 1970
}

// snapshot returns the user's state as read by a node whose clock may be a day behind.
func (a *expiringConversation) snapshot() services.Membership {
	state := a.userState
	state.NewestMessageNumber, state.ExpiredAsOfDay = int64(len(a.sentDays)), a.today-int64(a.random.IntN(2))
	for state.ReadUpTo < state.NewestMessageNumber && a.sentDays[state.ReadUpTo] < state.ExpiredAsOfDay-1 {
		state.ReadUpTo++
	}
	if state.ReadUpTo < state.NewestMessageNumber {
		state.NextExpiryDay = a.sentDays[state.ReadUpTo] + 2
	}
	return state
}

// runExpiryHistory lets days pass and messages arrive in one conversation. It delivers the user's states to their document late, twice
// and in any order, and compares the count and the next day of expiry with the facts.
func runExpiryHistory(v feedTest, seed uint64) error {
	user := services.UserID(1 + seed)
	stamps, err := v.projections.BeginRebuild(v.Context(), []services.UserID{user}, RebuildMode{IsVisit: true})
	if err != nil {
		return err
	}
	if _, err = v.projections.EndRebuild(v.Context(), FeedFacts{Reader: user, Stamp: stamps[0], IsVisit: true, LastActiveDay: 20_000, KeyLifetime: time.Hour}); err != nil {
		return err
	}
	a := &expiringConversation{random: rand.New(rand.NewPCG(seed, 9)), today: 100, userState: services.Membership{Conversation: 1, User: user}}
	var waiting []services.Membership
	arrive := func() error {
		i := a.random.IntN(len(waiting))
		_, _, err := v.projections.PutMemberships(v.Context(), waiting[i:i+1])
		if a.random.IntN(4) > 0 {
			waiting = append(waiting[:i], waiting[i+1:]...)
		}
		return err
	}
	for range 12 {
		switch a.random.IntN(4) {
		case 0, 1:
			a.sentDays = append(a.sentDays, a.today)
		case 2:
			a.today++
		case 3:
			a.userState.ReadUpTo, a.userState.Version = int64(a.random.IntN(len(a.sentDays)+1)), a.userState.Version+1
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
	snapshots, err := v.projections.ReadUserSnapshots(v.Context(), []services.UserID{user})
	if err != nil {
		return err
	}
	got, sums := snapshots[0].Conversations[1], snapshots[0].Document.Conversations
	want, leaves := 0, int64(0)
	for i, day := range a.sentDays {
		if int64(i) >= a.userState.ReadUpTo && day >= got.ExpiredAsOfDay-1 {
			if want == 0 {
				leaves = day + 2
			}
			want++
		}
	}
	late := leaves > 0 && (sums.NextExpiryDay == 0 || sums.NextExpiryDay > leaves || got.NextExpiryDay == 0 || got.NextExpiryDay > leaves)
	if got.ExpiredAsOfDay < last.ExpiredAsOfDay || sums.Unread != want || late {
		return fmt.Errorf("seed %d: as of day %d (%d is known) %d wait, want %d; the next leaves on %d, in truth on %d", seed, got.ExpiredAsOfDay, last.ExpiredAsOfDay, sums.Unread, want, sums.NextExpiryDay, leaves)
	}
	return nil
}

// States of a conversation that were read on different days may arrive in any order. The count is that of the latest day. The stored day
// on which the next message leaves the count may be too early, and is never too late.
func TestAgedStatesMergeInAnyOrder(t *testing.T) {
	client := openProjections(t, redis.Options{URL: redistest.Redis(t), ReadTimeout: longReadTimeout}, DocumentShape{Expiry: services.SourceExpiry{services.SourceConversations: 1}})
	v := feedTest{T: t, projections: client}
	for seed := range uint64(400) {
		if err := runExpiryHistory(v, seed); err != nil {
			t.Fatal(err)
		}
	}
}

// A document written by a node with other expiry settings counts as missing: its counts have another meaning.
func TestDocumentsOfOtherExpiryAreMissing(t *testing.T) {
	url := redistest.Redis(t)
	with := func(days int) *Projections {
		return openProjections(t, redis.Options{URL: url, ReadTimeout: longReadTimeout}, DocumentShape{Expiry: services.SourceExpiry{services.SourceAnnouncements: days}})
	}
	v := feedTest{t, with(2)}
	v.buildFromFacts(FeedFacts{})
	for _, c := range []struct {
		days  int
		ready bool
	}{{services.NeverExpires, false}, {2, true}, {3, false}} {
		other := with(c.days)
		documents, err := other.Documents(t.Context(), []services.UserID{reader})
		v.must(err)
		if documents[0].Ready != c.ready {
			t.Errorf("with %d days ready is %t", c.days, documents[0].Ready)
		}
	}
}
