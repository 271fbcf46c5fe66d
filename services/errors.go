package services

import (
	"errors"
	"fmt"
	"time"
)

// Code is the machine-readable part of an error. The list is closed: see DESIGN.
type Code string

// The codes that a client can meet.
const (
	Invalid         Code = "INVALID"         // the input can never be right: correct it
	Unauthenticated Code = "UNAUTHENTICATED" // no token, or not a valid one
	Forbidden       Code = "FORBIDDEN"       // a valid token without the right
	NotFound        Code = "NOT_FOUND"       // the named object does not exist (or not for this caller)
	Conflict        Code = "CONFLICT"        // the state does not allow it, or a limit is reached
	RateLimited     Code = "RATE_LIMITED"    // too much, try again later
	Unavailable     Code = "UNAVAILABLE"     // an engine does not answer: try again later
	Internal        Code = "INTERNAL"        // our fault: the cause is in the log

	// The two of automatic persisted queries, as Apollo's clients know them.
	PersistedQueryNotFound     Code = "PERSISTED_QUERY_NOT_FOUND"     // the hash is not known here: send the text with it
	PersistedQueryNotSupported Code = "PERSISTED_QUERY_NOT_SUPPORTED" // hashes are not taken here: send texts
)

// Codes lists every code.
var Codes = []Code{Invalid, Unauthenticated, Forbidden, NotFound, Conflict, RateLimited, Unavailable, Internal, PersistedQueryNotFound, PersistedQueryNotSupported}

// Error is an error for people: Message names the field, the value and the limit. The cause, if there is one, is for the log
// alone.
type Error struct {
	Code       Code
	Message    string
	RetryAfter time.Duration // when to retry, with RATE_LIMITED and UNAVAILABLE; 0: unknown
	Cause      error
}

// Error returns the message, followed by the cause for the log.
func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Errorf makes an error with a code and a message for people. It takes no %w: see Wrapf.
func Errorf(code Code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrapf makes an error with a code and a message for people from a cause that only the log shows.
func Wrapf(code Code, cause error, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// CodeOf is the code of an error: that of the Error within it, INTERNAL for any other, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known.Code
	}
	return Internal
}

// IsUnavailable reports whether an engine did not answer: the work was not at fault and may be retried.
func IsUnavailable(err error) bool { return CodeOf(err) == Unavailable }
