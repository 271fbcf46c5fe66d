package fanout_test

import "testing"

// A worker dies at any moment of any job. When its leases have expired another one finishes the work, and readers are shown
// the facts.
func TestACrashBetweenAnyTwoStepsIsMended(t *testing.T) {
	for _, step := range steps() {
		t.Run(step.Name, func(t *testing.T) { step.Crash(t, served(t, smallChunks)) })
	}
}
