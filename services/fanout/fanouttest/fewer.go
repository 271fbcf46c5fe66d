package fanouttest

import (
	"testing"

	"tidings/tests/histories"
)

// ReduceRapidChecks is histories.ReduceRapidChecks for histories that run on both engine pairs. On the embedded pair, which the race
// detector makes slow, it runs half as many: that pair is tested only for its own statements and scripts, and a few histories are
// enough to run all of these.
func ReduceRapidChecks(t *testing.T, w *World, part int) {
	t.Helper()
	if w.RedisServer == nil {
		part *= 2
	}
	histories.ReduceRapidChecks(t, part)
}
