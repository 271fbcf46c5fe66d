package services

import (
	"fmt"
	"runtime/debug"
)

// panicked is the error of a panic. Its text has the stack, so that whoever logs the error logs the stack too.
type panicked struct{ text string }

func (p *panicked) Error() string { return p.text }

// Panicked returns the error for a panic, from the value that recover returned: INTERNAL, with the stack in its second and further
// lines. An error of a panic that was raised again in another goroutine stays as it is: it has the first stack.
func Panicked(cause any) error {
	if known, again := cause.(*panicked); again {
		return known
	}
	return &panicked{fmt.Sprintf("panic: %v\n%s", cause, debug.Stack())}
}

// Recover turns a panic of the function that defers it into that function's error. A goroutine that runs the code of a feature, or
// handles what a host or a client has sent, defers it around each step: a panic then fails the step and does not end the process,
// which serves everybody.
func Recover(err *error) {
	if cause := recover(); cause != nil {
		*err = Panicked(cause)
	}
}
