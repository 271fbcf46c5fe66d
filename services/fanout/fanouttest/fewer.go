package fanouttest

import (
	"testing"

	"tidings/tests/histories"
)

// FewerOn is histories.Fewer for histories that run on both engine pairs. On the embedded one, which the race detector makes
// slow, it is half of them: what it does otherwise than production is statements and scripts, of which few histories meet all.
func FewerOn(t *testing.T, w *World, part int) {
	t.Helper()
	if w.Server == nil {
		part *= 2
	}
	histories.Fewer(t, part)
}
