package store_test

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/store"
)

// A run is taken in turns, one after the other, and continues where the last turn stopped. A turn whose lease was lost changes
// nothing.
func TestTurnsOfTheCleaner(t *testing.T) {
	each(t, func(w *bundle) {
		t := w.t
		const every, lease = 10 * time.Minute, 30 * time.Second
		take := func(want bool, place, freed string) store.CleanerTurn {
			t.Helper()
			turn, taken, err := w.TakeCleanerTurn(t.Context(), every, lease)
			if err != nil || taken != want || taken && (turn.Place != place || turn.Freed != freed) {
				t.Errorf("taken %v, want %v: %+v, %v", taken, want, turn, err)
			}
			return turn
		}
		pass := func(turn store.CleanerTurn, ended, want bool) {
			t.Helper()
			if held, err := w.PassCleanerTurn(t.Context(), turn, ended); err != nil || held != want {
				t.Errorf("held %v, want %v: %v", held, want, err)
			}
		}
		first := take(true, store.CleanerStart, "")
		take(false, "", "")
		first.Place, first.Freed = "half way", "one"
		pass(first, false, true)
		second := take(true, "half way", "one")
		pass(first, true, false)
		w.clock.advance(lease)
		third := take(true, "half way", "one") // the second has died
		pass(second, true, false)
		third.Freed = "two"
		if run, err := w.CleanerRun(t.Context()); err != nil || !run.Running || !run.EndedAt.IsZero() {
			t.Errorf("under way: %+v, %v", run, err)
		}
		if err := w.AskForCleaning(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(third, true, true)
		ended := w.clock.Now()
		if run, err := w.CleanerRun(t.Context()); err != nil || run.Running || !run.EndedAt.Equal(ended) || run.Freed != "two" {
			t.Errorf("after it: %+v, %v", run, err)
		}
		w.clock.advance(every - lease - time.Second)
		take(false, "", "")
		w.clock.advance(time.Second)
		pass(take(true, store.CleanerStart, ""), true, true)
		take(false, "", "")
		if err := w.AskForCleaning(t.Context()); err != nil {
			t.Fatal(err)
		}
		if run, err := w.CleanerRun(t.Context()); err != nil || !run.Running {
			t.Errorf("when it was asked for: %+v, %v", run, err)
		}
		take(true, store.CleanerStart, "")
	})
}

func TestLastVisits(t *testing.T) {
	each(t, func(w *bundle) {
		t := w.t
		numbers := w.users("ann", "bob")
		ann, bob := numbers[0], numbers[1]
		w.write(func(tx *store.Tx) error { return tx.MarkActive(t.Context(), []services.UserID{ann}) })
		visits, err := w.LastVisits(t.Context(), []services.UserID{ann, bob, 99})
		if seen, never := visits[ann], visits[bob]; err != nil || len(visits) != 2 || !seen.Equal(w.clock.Now()) || !never.IsZero() {
			t.Errorf("%v, %v", visits, err)
		}
	})
}
