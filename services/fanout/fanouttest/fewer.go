package fanouttest

import (
	"testing"

	"tidings/tests/histories"
)

// ReduceRapidChecks makes rapid run only 1/part of its random histories in this test, on the embedded pair of engines half as many. That
// pair is slow under the race detector. It is tested only for its own statements and scripts, and a few histories are enough to run all
// of these. If the full set of tests is selected, all histories run: see histories.ReduceRapidChecks.
func ReduceRapidChecks(t *testing.T, w *World, part int) {
	t.Helper()
	if w.RedisServer == nil {
		part *= 2
	}
	histories.ReduceRapidChecks(t, part)
}
