package redis

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tidings/services"
	"tidings/services/redis/redistest"
)

// bulkCalls makes calls of setScript for users whose keys begin with a prefix.
func bulkCalls(prefix string, count int) []ScriptCall {
	calls := make([]ScriptCall, count)
	for i := range calls {
		calls[i] = ScriptCall{Keys: []string{fmt.Sprintf("{%s%d}", prefix, i)}, Args: []any{i}}
	}
	return calls
}

// Only the caller that has the turn sends a round trip of bulk work, and gives the turn back. Smaller ones do not wait for it.
func TestBulkRoundTripsTakeTurns(t *testing.T) {
	server := redistest.NewServer(t)
	c := connect(t, Options{URL: server.URL()})
	c.bulkTurn.maxWait = time.Hour       // a caller that waits for the turn shows that
	done := c.bulkTurn.wait(t.Context()) // as if a bulk round trip were under way
	if _, err := c.Run(t.Context(), setScript, bulkCalls("small", minBulkCalls-1)); err != nil {
		t.Error(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Run(short, setScript, bulkCalls("bulk", minBulkCalls)); !services.IsUnavailable(err) {
		t.Errorf("a bulk round trip did not wait for its turn: %v", err)
	}
	if sent := server.Do("EXISTS", "{bulk0}"); sent != int64(0) {
		t.Error("a bulk round trip was sent before its turn")
	}
	done()
	for range 2 {
		if _, err := c.Run(t.Context(), setScript, bulkCalls("bulk", minBulkCalls)); err != nil || len(c.bulkTurn.taken) != 0 {
			t.Errorf("a bulk round trip on its own: %v, and the turn is given back: %t", err, len(c.bulkTurn.taken) == 0)
		}
	}
	if sent := server.Do("EXISTS", "{bulk0}"); sent != int64(1) {
		t.Error("the bulk round trip was not executed: this test does not see what is sent")
	}
}

// Callers of a Redis that hangs do not queue up for each other: each goes ahead after maxBulkWait at most, and does not take the turn from
// the caller that has it.
func TestTheWaitForABulkTurnIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := newBulkTurn()
		doneFirst := turn.wait(t.Context())
		began := time.Now()
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() { turn.wait(t.Context())() })
		}
		group.Wait()
		if waited := time.Since(began); waited != maxBulkWait {
			t.Errorf("five callers waited %s, want %s each, at the same time", waited, maxBulkWait)
		}
		if len(turn.taken) != 1 {
			t.Error("a caller that gave up waiting gave back the turn of another")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		began = time.Now()
		turn.wait(ctx)()
		if waited := time.Since(began); waited != time.Millisecond || len(turn.taken) != 1 {
			t.Errorf("a caller waited %s beyond the end of its context", waited-time.Millisecond)
		}
		doneFirst()
		began = time.Now()
		turn.wait(t.Context())()
		if waited := time.Since(began); waited != 0 || len(turn.taken) != 0 {
			t.Errorf("a free turn was taken after %s, and %d are taken", waited, len(turn.taken))
		}
	})
}

// The next caller gets the turn at once when it is given back.
func TestABulkTurnPassesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := newBulkTurn()
		running, most := 0, 0
		var mu sync.Mutex
		var group sync.WaitGroup
		began := time.Now()
		for range 8 {
			group.Go(func() {
				defer turn.wait(t.Context())()
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				<-time.After(maxBulkWait / 10) // a round trip, on synctest's clock
				mu.Lock()
				running--
				mu.Unlock()
			})
		}
		group.Wait()
		if took := time.Since(began); most != 1 || took != 8*maxBulkWait/10 {
			t.Errorf("up to %d at a time took %s, want one at a time and no pause between two", most, took)
		}
	})
}
