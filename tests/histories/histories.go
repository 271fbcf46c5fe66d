// Package histories defines how many histories, which are random sequences of actions, a test runs. Each commit is tested with a short
// set, which still finds every injected bug. make nightly runs the full set.
package histories

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// fullSetVariable is the environment variable that selects the full set of histories with the value "full". It is read while a test runs,
// so that Go's test cache knows of it.
const fullSetVariable = "TIDINGS_TEST_HISTORIES"

// FullSetSelected reports whether the environment selects the full set of histories.
func FullSetSelected(tb testing.TB) bool {
	tb.Helper()
	switch value := os.Getenv(fullSetVariable); value {
	case "":
		return false
	case "full":
		return true
	default:
		tb.Fatalf("%s is %q: it may be full, or not set", fullSetVariable, value)
		return false
	}
}

// ShortOrFull returns the number short, or the number full if the full set of histories is selected.
func ShortOrFull(tb testing.TB, short, full int) int {
	tb.Helper()
	if FullSetSelected(tb) {
		return full
	}
	return short
}

// ReduceRapidChecks makes rapid run only 1/part of its histories until the end of the test, unless the full set is selected. The
// full set is the number of -rapid.checks, 100 by default.
func ReduceRapidChecks(tb testing.TB, part int) {
	tb.Helper()
	checks := flag.Lookup("rapid.checks").Value
	before := checks.String()
	number, err := strconv.Atoi(before)
	if err == nil {
		err = checks.Set(strconv.Itoa(max(number/ShortOrFull(tb, part, 1), 1)))
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = checks.Set(before) }) // cannot fail, because it was the flag's value
}
