package sqltest

import (
	"slices"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
)

// Tester has the methods that Go's tests and rapid's tests share.
type Tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Must returns the value of a call that must succeed, as in value := Must(call())(t). An error of the call ends the test t.
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

// WantCode ends the test when an error has another code; "" is the code of no error.
func WantCode(t Tester, err error, want services.Code) {
	t.Helper()
	if services.CodeOf(err) != want {
		t.Fatalf("the error has the code %q, want %q: %v", services.CodeOf(err), want, err)
	}
}

// WantOneErrorWithCode ends the test unless exactly one of some calls failed, with the given code.
func WantOneErrorWithCode(t Tester, want services.Code, errs ...error) {
	t.Helper()
	failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	if len(failed) != 1 || services.CodeOf(failed[0]) != want {
		t.Fatalf("the errors are %v, want one, with the code %q", errs, want)
	}
}
