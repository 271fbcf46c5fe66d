package histories

import (
	"testing"

	"pgregory.net/rapid"
)

// countHistories returns the number of histories that rapid runs in a test that calls ReduceRapidChecks with part.
func countHistories(t *testing.T, part int) (count int) {
	t.Run("rapid", func(t *testing.T) {
		ReduceRapidChecks(t, part)
		rapid.Check(t, func(*rapid.T) { count++ })
	})
	return count
}

// The environment variable selects the full set of histories. Without it, tests run the shorter set.
func TestTheVariableSelectsTheFullSetOfHistories(t *testing.T) {
	t.Setenv(fullSetVariable, "")
	all := countHistories(t, 1)
	for setting, want := range map[string]struct{ rapid, number int }{
		"":     {all / 5, 7},
		"full": {all, 70},
	} {
		t.Setenv(fullSetVariable, setting)
		if got := countHistories(t, 5); got != want.rapid {
			t.Errorf("%s=%s: rapid tries %d of %d histories, want %d", fullSetVariable, setting, got, all, want.rapid)
		}
		if got := ShortOrFull(t, 7, 70); got != want.number {
			t.Errorf("%s=%s: Number(7, 70) is %d, want %d", fullSetVariable, setting, got, want.number)
		}
	}
	if again := countHistories(t, 1); again != all {
		t.Errorf("afterwards rapid tries %d histories, %d before", again, all)
	}
}
