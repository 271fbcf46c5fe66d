package audit

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// lapTime is the time of a lap in these tests.
const lapTime = 10 * time.Minute

// eachEngine runs a test on both SQL engines.
func eachEngine(t *testing.T, test func(b auditDB)) {
	t.Helper()
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) { test(auditDB{b}) })
}

// auditDB is a database with the audit's turns.
type auditDB struct{ *peopletest.TestDB }

// pace is the pace of the tests, with a limit of users in a turn.
func (b auditDB) pace(limit int) auditPace {
	return auditPace{LapTime: lapTime, MaxUsersPerTurn: limit, ActiveSince: b.Clock.Now().Add(-time.Hour), Lease: 30 * time.Second}
}

// addUsers creates users, some of them active, and returns the active ones.
func (b auditDB) addUsers(count int, active func(i int) bool) (seen []services.UserID) {
	b.T.Helper()
	keys := make([]string, count)
	for i := range keys {
		keys[i] = fmt.Sprint("u", i)
	}
	for i, user := range b.MakeUsers(keys...) {
		if active(i) {
			seen = append(seen, user)
		}
	}
	b.MustWrite(func(tx *sql.Tx) error { return people.MarkActive(b.Ctx, tx, seen) })
	return seen
}

// takeAuditTurn takes a turn, or returns the time until the next turn.
func (b auditDB) takeAuditTurn(limit int) (turn auditTurn, wait time.Duration) {
	b.T.Helper()
	turn, taken, next, err := takeTurn(b.Ctx, b.TestDB.DB, b.pace(limit))
	if err != nil {
		b.T.Fatal(err)
	}
	if taken {
		return turn, 0
	}
	return turn, next.Sub(b.Clock.Now())
}

// A lap visits each active user once, evenly over its time, and the next lap begins when that time is over.
func TestAuditLapVisitsEachActiveUserOnce(t *testing.T) {
	eachEngine(t, func(b auditDB) {
		start := b.Clock.Now()
		active := b.addUsers(20, func(i int) bool { return i%4 != 0 })
		for range 3 {
			var visited []services.UserID
			for len(visited) < len(active) {
				turn, wait := b.takeAuditTurn(5)
				if wait > 0 {
					b.Clock.Advance(wait)
					continue
				}
				after := services.UserID(0)
				if len(visited) > 0 {
					after = visited[len(visited)-1]
				}
				visited = append(visited, turn.Users...)
				if due := lapTime * time.Duration(after) / 20; turn.LapAge != due {
					b.T.Errorf("user %d is visited %s after the beginning of a lap, not after %s", turn.Users[0], turn.LapAge, due)
				}
				if err := completeTurn(b.Ctx, b.TestDB.DB, turn); err != nil {
					b.T.Fatal(err)
				}
			}
			sqltest.Equal(b.T, visited, active)
			b.MustWrite(func(tx *sql.Tx) error { return people.MarkActive(b.Ctx, tx, active) })
		}
		if took := b.Clock.Now().Sub(start); took < 2*lapTime || took > 3*lapTime {
			b.T.Errorf("three laps of %s took %s", lapTime, took)
		}
	})
}

// A turn belongs to one node until it is passed on. If the node dies, another node takes the turn when the lease ends.
func TestAuditTurnsBelongToOneNode(t *testing.T) {
	eachEngine(t, func(b auditDB) {
		active := b.addUsers(10, func(int) bool { return true })
		first, _ := b.takeAuditTurn(6)
		sqltest.Equal(b.T, first.Users, active[:6])
		if _, wait := b.takeAuditTurn(6); wait != 30*time.Second {
			b.T.Errorf("a turn that is held is free in %s", wait)
		}
		b.Clock.Advance(30 * time.Second)
		again, _ := b.takeAuditTurn(6)
		sqltest.Equal(b.T, again.Users, active[:6])
		if err := completeTurn(b.Ctx, b.TestDB.DB, first); err != nil { // too late: another node has the turn
			b.T.Fatal(err)
		}
		if _, wait := b.takeAuditTurn(6); wait != 30*time.Second {
			b.T.Errorf("a lease that was lost was given back: free in %s", wait)
		}
		if err := completeTurn(b.Ctx, b.TestDB.DB, again); err != nil {
			b.T.Fatal(err)
		}
		if _, wait := b.takeAuditTurn(6); wait != lapTime*6/10-30*time.Second {
			b.T.Errorf("the rest is due in %s", wait)
		}
	})
}

// After a long pause an audit continues where it stopped, and skips the laps that it missed.
func TestAuditContinuesWhereItStoppedAfterAPause(t *testing.T) {
	eachEngine(t, func(b auditDB) {
		b.addUsers(10, func(int) bool { return true })
		first, _ := b.takeAuditTurn(5)
		if err := completeTurn(b.Ctx, b.TestDB.DB, first); err != nil {
			b.T.Fatal(err)
		}
		b.Clock.Advance(5 * lapTime)
		pace := b.pace(10)
		pace.ActiveSince = time.Time{}
		late, taken, _, err := takeTurn(b.Ctx, b.TestDB.DB, pace)
		if err != nil || !taken || late.LapAge != 5*lapTime || len(late.Users) != 5 {
			b.T.Fatalf("%+v, %v, %v", late, taken, err)
		}
		if err := completeTurn(b.Ctx, b.TestDB.DB, late); err != nil {
			b.T.Fatal(err)
		}
		next, taken, _, err := takeTurn(b.Ctx, b.TestDB.DB, pace)
		if err != nil || !taken || next.LapAge != 0 || len(next.Users) != 10 {
			b.T.Fatalf("the next lap: %+v, %v, %v", next, taken, err)
		}
		if err := completeTurn(b.Ctx, b.TestDB.DB, next); err != nil {
			b.T.Fatal(err)
		}
		if _, wait := b.takeAuditTurn(10); wait != lapTime {
			b.T.Errorf("the lap after it begins in %s", wait)
		}
	})
}

// Nodes that ask for a turn concurrently get different turns, one at a time, and together they visit all users.
func TestConcurrentNodesGetDifferentAuditTurns(t *testing.T) {
	eachEngine(t, func(b auditDB) {
		active := b.addUsers(60, func(int) bool { return true })
		b.takeAuditTurn(1) // the lap begins
		b.Clock.Advance(2 * lapTime)
		var mu sync.Mutex
		var visited []services.UserID
		pace := b.pace(7)
		pace.ActiveSince = time.Time{}
		var nodes sync.WaitGroup
		for range 4 {
			nodes.Go(func() {
				for {
					turn, taken, _, err := takeTurn(b.Ctx, b.TestDB.DB, pace)
					if err != nil {
						b.T.Error(err)
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
					if err := completeTurn(b.Ctx, b.TestDB.DB, turn); err != nil {
						b.T.Error(err)
					}
					if done {
						return
					}
				}
			})
		}
		nodes.Wait()
		slices.Sort(visited)
		sqltest.Equal(b.T, visited, active)
	})
}

func TestAuditWithoutUsersWaitsForTheNextLap(t *testing.T) {
	eachEngine(t, func(b auditDB) {
		turn, wait := b.takeAuditTurn(5)
		if wait != 0 || len(turn.Users) != 0 {
			b.T.Errorf("%+v, %s", turn, wait)
		}
		if err := completeTurn(b.Ctx, b.TestDB.DB, turn); err != nil {
			b.T.Fatal(err)
		}
		if _, wait := b.takeAuditTurn(5); wait != lapTime {
			b.T.Errorf("the next one is due in %s", wait)
		}
	})
}
