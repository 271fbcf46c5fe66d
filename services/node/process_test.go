package node

import (
	"runtime"
	"testing"
)

// A node sets GOMAXPROCS to spareThreads more than the number of processors, unless the environment sets it.
func TestGOMAXPROCSIncludesSpareThreads(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	AddSpareThreads(func(string) string { return "3" })
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("GOMAXPROCS is %d, the environment has set %d", got, before)
	}
	AddSpareThreads(func(string) string { return "" })
	if got := runtime.GOMAXPROCS(0); got != before+spareThreads {
		t.Errorf("GOMAXPROCS is %d, want %d and %d more", got, before, spareThreads)
	}
}
