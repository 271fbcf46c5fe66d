package fanout_test

import "testing"

// A worker may die at any moment of the jobs that these steps cause. Once its leases have expired, another worker finishes the job, and
// readers see the facts.
func TestACrashBetweenAnyTwoStepsIsRepaired(t *testing.T) {
	for _, step := range steps() {
		t.Run(step.Name, func(t *testing.T) { step.Crash(t, served(t, smallChunks)) })
	}
}
