package push

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestHistories: hints are lost, doubled and reordered, Redis is away or flushed, renders are slow or fail, and watchers come and
// go. After the last change and one reconciliation, the last state of every open channel is right, and the versions on each
// channel have risen strictly.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(drawn{t}, limits{faults: true})
		if err := w.history(rapid.IntRange(10, 150).Draw(t, "steps")); err != nil {
			t.Fatal(err)
		}
	})
}

// TestHistoriesWithoutHealing: if no hint is lost and nothing fails, the order of entering, reading and leaving is enough to find
// every change. Reconciliation never gets an answer, and every channel still ends with the right state.
func TestHistoriesWithoutHealing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(drawn{t}, limits{faults: false})
		if err := w.history(rapid.IntRange(10, 150).Draw(t, "steps")); err != nil {
			t.Fatal(err)
		}
	})
}

// TestHistoriesFindBugs: the histories fail for each injected bug, and none fails without one.
func TestHistoriesFindBugs(t *testing.T) {
	for _, test := range []struct {
		limits
		red bool
	}{
		{limits{faults: true, bug: noBug}, false},
		{limits{faults: false, bug: noBug}, false},
		{limits{faults: true, bug: noSweep}, true},
		{limits{faults: false, bug: lateEnter}, true},
		{limits{faults: false, bug: lateLeave}, true},
		{limits{faults: false, bug: deafInRender}, true},
	} {
		name := "no bug"
		if test.bug != noBug {
			name = string(test.bug)
		}
		if test.faults {
			name += ", with faults"
		}
		t.Run(name, func(t *testing.T) {
			const histories = 1000
			var sum Stats
			for seed := range uint64(histories) {
				w := newWorld(seeded{rand.New(rand.NewPCG(seed, 1))}, test.limits)
				err := w.history(80)
				sum.Delivered += w.hub.stats.Delivered
				sum.Conflated += w.hub.stats.Conflated
				sum.Repairs += w.hub.stats.Repairs
				sum.RenderErrors += w.hub.stats.RenderErrors
				if err != nil && !test.red {
					t.Fatalf("history %d: %v", seed, err)
				}
				if err != nil {
					t.Logf("history %d: %v", seed, err)
					return
				}
			}
			if test.red {
				t.Errorf("none of %d histories failed", histories)
			}
			if sum.Delivered < 10*histories || sum.Conflated < histories || test.faults != (sum.Repairs > histories) ||
				test.faults != (sum.RenderErrors > histories) {
				t.Errorf("the histories exercise too little to prove anything: %+v in %d", sum, histories)
			}
			t.Logf("%+v in %d histories", sum, histories)
		})
	}
}
