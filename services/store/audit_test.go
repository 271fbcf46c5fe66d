package store_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/store"
)

const lap = 10 * time.Minute

func (b *bundle) throttle(limit int) store.AuditPace {
	return store.AuditPace{Lap: lap, Limit: limit, ActiveSince: b.clock.Now().Add(-time.Hour), Lease: 30 * time.Second}
}

// crowd creates users, some of them active, and returns the active ones.
func (b *bundle) crowd(count int, active func(i int) bool) (seen []services.UserID) {
	b.t.Helper()
	keys := make([]string, count)
	for i := range keys {
		keys[i] = fmt.Sprint("u", i)
	}
	for i, user := range b.users(keys...) {
		if active(i) {
			seen = append(seen, user)
		}
	}
	b.write(func(tx *store.Tx) error { return tx.MarkActive(b.ctx, seen) })
	return seen
}

// turn takes a turn, or returns when to ask again.
func (b *bundle) turn(limit int) (turn store.AuditTurn, wait time.Duration) {
	b.t.Helper()
	turn, taken, next, err := b.TakeAuditTurn(b.ctx, b.throttle(limit))
	if err != nil {
		b.t.Fatal(err)
	}
	if taken {
		return turn, 0
	}
	return turn, next.Sub(b.clock.Now())
}

// A lap visits each active user once, evenly over its time, and the next one begins when it is over.
func TestAuditLaps(t *testing.T) {
	each(t, func(b *bundle) {
		start := b.clock.Now()
		active := b.crowd(20, func(i int) bool { return i%4 != 0 })
		for range 3 {
			var visited []services.UserID
			for len(visited) < len(active) {
				turn, wait := b.turn(5)
				if wait > 0 {
					b.clock.advance(wait)
					continue
				}
				after := services.UserID(0)
				if len(visited) > 0 {
					after = visited[len(visited)-1]
				}
				visited = append(visited, turn.Users...)
				if due := lap * time.Duration(after) / 20; turn.Lap != due {
					b.t.Errorf("user %d is visited %s after the beginning of a lap, not after %s", turn.Users[0], turn.Lap, due)
				}
				if err := b.PassAuditTurn(b.ctx, turn); err != nil {
					b.t.Fatal(err)
				}
			}
			equal(b.t, visited, active)
			b.write(func(tx *store.Tx) error { return tx.MarkActive(b.ctx, active) })
		}
		if took := b.clock.Now().Sub(start); took < 2*lap || took > 3*lap {
			b.t.Errorf("three laps of %s took %s", lap, took)
		}
	})
}

// A turn is one node's until it is passed on; of one that dies somebody else has it when its lease ends.
func TestAuditTurnsAreHeld(t *testing.T) {
	each(t, func(b *bundle) {
		active := b.crowd(10, func(int) bool { return true })
		first, _ := b.turn(6)
		equal(b.t, first.Users, active[:6])
		if _, wait := b.turn(6); wait != 30*time.Second {
			b.t.Errorf("a turn that is held is free in %s", wait)
		}
		b.clock.advance(30 * time.Second)
		again, _ := b.turn(6)
		equal(b.t, again.Users, active[:6])
		if err := b.PassAuditTurn(b.ctx, first); err != nil { // too late: it is another's
			b.t.Fatal(err)
		}
		if _, wait := b.turn(6); wait != 30*time.Second {
			b.t.Errorf("a lease that was lost was given back: free in %s", wait)
		}
		if err := b.PassAuditTurn(b.ctx, again); err != nil {
			b.t.Fatal(err)
		}
		if _, wait := b.turn(6); wait != lap*6/10-30*time.Second {
			b.t.Errorf("the rest is due in %s", wait)
		}
	})
}

// An audit that was away for long goes on where it was, and does not make up for laps that were missed.
func TestAuditCatchesUp(t *testing.T) {
	each(t, func(b *bundle) {
		b.crowd(10, func(int) bool { return true })
		first, _ := b.turn(5)
		if err := b.PassAuditTurn(b.ctx, first); err != nil {
			b.t.Fatal(err)
		}
		b.clock.advance(5 * lap)
		pace := b.throttle(10)
		pace.ActiveSince = time.Time{}
		late, taken, _, err := b.TakeAuditTurn(b.ctx, pace)
		if err != nil || !taken || late.Lap != 5*lap || len(late.Users) != 5 {
			b.t.Fatalf("%+v, %v, %v", late, taken, err)
		}
		if err := b.PassAuditTurn(b.ctx, late); err != nil {
			b.t.Fatal(err)
		}
		next, taken, _, err := b.TakeAuditTurn(b.ctx, pace)
		if err != nil || !taken || next.Lap != 0 || len(next.Users) != 10 {
			b.t.Fatalf("the next lap: %+v, %v, %v", next, taken, err)
		}
		if err := b.PassAuditTurn(b.ctx, next); err != nil {
			b.t.Fatal(err)
		}
		if _, wait := b.turn(10); wait != lap {
			b.t.Errorf("the lap after it begins in %s", wait)
		}
	})
}

// Nodes that ask at once get different turns, one at a time, and together they visit everyone.
func TestAuditTurnsAreShared(t *testing.T) {
	each(t, func(b *bundle) {
		active := b.crowd(60, func(int) bool { return true })
		b.turn(1) // the lap begins
		b.clock.advance(2 * lap)
		var mu sync.Mutex
		var visited []services.UserID
		pace := b.throttle(7)
		pace.ActiveSince = time.Time{}
		var nodes sync.WaitGroup
		for range 4 {
			nodes.Go(func() {
				for {
					turn, taken, _, err := b.TakeAuditTurn(b.ctx, pace)
					if err != nil {
						b.t.Error(err)
						return
					}
					if !taken {
						mu.Lock()
						done := len(visited) >= len(active)
						mu.Unlock()
						if done {
							return
						}
						continue
					}
					mu.Lock()
					if len(visited) < len(active) {
						visited = append(visited, turn.Users...)
					}
					done := len(visited) >= len(active)
					mu.Unlock()
					if err := b.PassAuditTurn(b.ctx, turn); err != nil {
						b.t.Error(err)
					}
					if done {
						return
					}
				}
			})
		}
		nodes.Wait()
		slices.Sort(visited)
		equal(b.t, visited, active)
	})
}

func TestAuditWithoutUsers(t *testing.T) {
	each(t, func(b *bundle) {
		turn, wait := b.turn(5)
		if wait != 0 || len(turn.Users) != 0 {
			b.t.Errorf("%+v, %s", turn, wait)
		}
		if err := b.PassAuditTurn(b.ctx, turn); err != nil {
			b.t.Fatal(err)
		}
		if _, wait := b.turn(5); wait != lap {
			b.t.Errorf("the next one is due in %s", wait)
		}
	})
}

// What was there at a moment is waited for, also while it is leased; what came later or is planned is not.
func TestJobWaitsCountsOnlyEarlierJobs(t *testing.T) {
	each(t, func(b *bundle) {
		waits := func(upTo int64) bool {
			b.t.Helper()
			return must(b.JobWaits(b.ctx, upTo, b.clock.Now().Add(time.Minute)))(b.t)
		}
		last := func() int64 { return must(b.LastJob(b.ctx))(b.t) }
		if waits(last()) {
			b.t.Error("of nothing something waits")
		}
		b.write(func(tx *store.Tx) error { return jobs.Enqueue(b.ctx, tx.Tx, jobs.NewJob{Kind: "k", Key: "1"}) })
		before := last()
		b.write(func(tx *store.Tx) error {
			return jobs.Enqueue(b.ctx, tx.Tx, jobs.NewJob{Kind: "k", Key: "2", NotBefore: b.clock.Now().Add(time.Hour)})
		})
		if !waits(before) || !waits(last()) {
			b.t.Error("a job that is due is not waited for")
		}
		queued := must(jobs.Claim(b.ctx, b.Store.DB, []string{"k"}, 10, 30*time.Second))(b.t)
		if !waits(before) {
			b.t.Error("a job that is leased is not waited for")
		}
		must(jobs.FinishHeld(b.ctx, b.Store.DB, queued))(b.t)
		if waits(before) || waits(last()) {
			b.t.Error("it is done, and the other is for later")
		}
		b.write(func(tx *store.Tx) error { return jobs.Enqueue(b.ctx, tx.Tx, jobs.NewJob{Kind: "k", Key: "3"}) })
		if waits(before) || !waits(last()) {
			b.t.Error("a later job is taken for one of before")
		}
	})
}
