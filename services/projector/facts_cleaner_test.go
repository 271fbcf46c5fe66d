package projector

import (
	"testing"
	"time"

	"tidings/services/people/peopletest"
)

// A run is taken in turns, one after the other, and continues where the last turn stopped. A turn whose lease was lost changes
// nothing.
func TestTurnsOfTheCleaner(t *testing.T) {
	peopletest.EachTestDB(t, func(w *peopletest.TestDB) {
		t := w.T
		const every, lease = 10 * time.Minute, 30 * time.Second
		take := func(want bool, position, freed string) cleanerTurn {
			t.Helper()
			turn, taken, err := takeCleanerTurn(t.Context(), w.DB, every, lease)
			if err != nil || taken != want || taken && (turn.Position != position || turn.FreedJSON != freed) {
				t.Errorf("taken %v, want %v: %+v, %v", taken, want, turn, err)
			}
			return turn
		}
		pass := func(turn cleanerTurn, ended, want bool) {
			t.Helper()
			if held, err := leaveCleanerTurn(t.Context(), w.DB, turn, ended); err != nil || held != want {
				t.Errorf("held %v, want %v: %v", held, want, err)
			}
		}
		first := take(true, cleanerStartPosition, "")
		take(false, "", "")
		first.Position, first.FreedJSON = "half way", "one"
		pass(first, false, true)
		second := take(true, "half way", "one")
		pass(first, true, false)
		w.Clock.Advance(lease)
		third := take(true, "half way", "one") // the node with the second turn has died
		pass(second, true, false)
		third.FreedJSON = "two"
		if run, err := readCleanerRun(t.Context(), w.DB); err != nil || !run.RunningOrDue || !run.LastEndedAt.IsZero() {
			t.Errorf("under way: %+v, %v", run, err)
		}
		if err := askForCleaning(t.Context(), w.DB); err != nil {
			t.Fatal(err)
		}
		pass(third, true, true)
		ended := w.Clock.Now()
		if run, err := readCleanerRun(t.Context(), w.DB); err != nil || run.RunningOrDue || !run.LastEndedAt.Equal(ended) || run.LastFreedJSON != "two" {
			t.Errorf("after it: %+v, %v", run, err)
		}
		w.Clock.Advance(every - lease - time.Second)
		take(false, "", "")
		w.Clock.Advance(time.Second)
		pass(take(true, cleanerStartPosition, ""), true, true)
		take(false, "", "")
		if err := askForCleaning(t.Context(), w.DB); err != nil {
			t.Fatal(err)
		}
		if run, err := readCleanerRun(t.Context(), w.DB); err != nil || !run.RunningOrDue {
			t.Errorf("when it was asked for: %+v, %v", run, err)
		}
		take(true, cleanerStartPosition, "")
	})
}
