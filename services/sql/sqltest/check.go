package sqltest

import (
	"github.com/google/go-cmp/cmp"

	"tidings/services"
)

// Tester is what tests of both kinds have, Go's and rapid's.
type Tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Must is the value of a call that must succeed.
func Must[T any](value T, err error) func(t Tester) T {
	return func(t Tester) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// Equal ends the test when two values differ.
func Equal(t Tester, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

// Coded ends the test when an error has another code; "" is the code of no error.
func Coded(t Tester, err error, want services.Code) {
	t.Helper()
	if services.CodeOf(err) != want {
		t.Fatalf("the error has the code %q, want %q: %v", services.CodeOf(err), want, err)
	}
}
