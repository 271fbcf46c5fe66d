package fanout_test

import "testing"

// A worker may die at any moment of the jobs that factScenarios cause. Once its leases have expired, another worker finishes the
// job, and readers see the facts.
func TestACrashBetweenAnyTwoStepsIsRepaired(t *testing.T) {
	for _, step := range factScenarios() {
		t.Run(step.Name, func(t *testing.T) { step.CheckAfterEachCrash(t, redisServerWorld(t, smallChunks)) })
	}
}
