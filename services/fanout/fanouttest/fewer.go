package fanouttest

import (
	"testing"

	"tidings/services/store/storetest"
)

// Fewer lets rapid try one part of the histories that it would; see storetest.
func Fewer(t *testing.T, part int) {
	t.Helper()
	storetest.Fewer(t, part)
}
