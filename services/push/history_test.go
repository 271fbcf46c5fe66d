package push

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// Hints are lost, doubled and reordered, Redis is away or flushed, renders are slow or fail, and watchers come and go. After the last
// change and one reconciliation, the last state of every open channel is right, and the versions on each
// channel have risen strictly.
func TestHubHistoriesEndInTheRightState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newHubWorld(rapidPicker{t}, historyOptions{withFaults: true})
		if err := w.runHistory(rapid.IntRange(10, 150).Draw(t, "steps")); err != nil {
			t.Fatal(err)
		}
	})
}

// If no hint is lost and nothing fails, the order of writing leases, reading and removing leases is
// enough to find every change. Reconciliation never gets an answer, and every channel still ends with the right state.
func TestHistoriesWithoutHealing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newHubWorld(rapidPicker{t}, historyOptions{withFaults: false})
		if err := w.runHistory(rapid.IntRange(10, 150).Draw(t, "steps")); err != nil {
			t.Fatal(err)
		}
	})
}

// The histories fail for each injected bug, and none fails without one.
func TestHubHistoriesFindEveryInjectedBug(t *testing.T) {
	for _, test := range []struct {
		historyOptions
		red bool // some history must fail
	}{
		{historyOptions{withFaults: true, bug: noBug}, false},
		{historyOptions{withFaults: false, bug: noBug}, false},
		{historyOptions{withFaults: true, bug: noReconciliation}, true},
		{historyOptions{withFaults: false, bug: lateLeaseWrite}, true},
		{historyOptions{withFaults: false, bug: lateLeaseRemoval}, true},
		{historyOptions{withFaults: false, bug: hintLostInRender}, true},
	} {
		name := "no bug"
		if test.bug != noBug {
			name = string(test.bug)
		}
		if test.withFaults {
			name += ", with faults"
		}
		t.Run(name, func(t *testing.T) {
			const histories = 1000
			var sum Stats
			for seed := range uint64(histories) {
				w := newHubWorld(randomPicker{rand.New(rand.NewPCG(seed, 1))}, test.historyOptions)
				err := w.runHistory(80)
				sum.StatesDelivered += w.hub.stats.StatesDelivered
				sum.StatesReplaced += w.hub.stats.StatesReplaced
				sum.UsersRepaired += w.hub.stats.UsersRepaired
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
			if sum.StatesDelivered < 10*histories || sum.StatesReplaced < histories || test.withFaults != (sum.UsersRepaired > histories) ||
				test.withFaults != (sum.RenderErrors > histories) {
				t.Errorf("the histories exercise too little to prove anything: %+v in %d", sum, histories)
			}
			t.Logf("%+v in %d histories", sum, histories)
		})
	}
}
