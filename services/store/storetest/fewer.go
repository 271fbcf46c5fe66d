package storetest

import (
	"flag"
	"strconv"
	"testing"
)

// Fewer lets rapid try one part of the histories that it would: for long ones, so that the whole suite stays quick. More
// are tried with -rapid.checks.
func Fewer(t *testing.T, part int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks").Value
	before := checks.String()
	number, err := strconv.Atoi(before)
	if err == nil {
		err = checks.Set(strconv.Itoa(max(number/part, 1)))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Set(before) }) // it was good before
}
