package services

import (
	"errors"
	"strings"
	"testing"
)

// A panic becomes an error with the stack of its first goroutine, and a function without a panic keeps its own error.
func TestRecover(t *testing.T) {
	call := func(fn func() error) (err error) {
		defer Recover(&err)
		return fn()
	}
	mine := errors.New("mine")
	if err := call(func() error { return mine }); err != mine {
		t.Errorf("the error is %v", err)
	}
	first := call(func() error { panic("while it works") })
	if CodeOf(first) != Internal || !strings.HasPrefix(first.Error(), "panic: while it works\n") || !strings.Contains(first.Error(), "TestRecover") {
		t.Errorf("the error is %v", first)
	}
	if again := call(func() error { panic(first) }); again != first {
		t.Errorf("the panic that was raised again became %v", again)
	}
}
