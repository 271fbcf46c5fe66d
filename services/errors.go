package services

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Code is the machine-readable part of an error. The list is closed: no error has a code that is not in Codes.
type Code string

// The codes that a client can meet.
const (
	Invalid         Code = "INVALID"         // the input can never be right: correct it
	Unauthenticated Code = "UNAUTHENTICATED" // no token, or not a valid one
	Forbidden       Code = "FORBIDDEN"       // a valid token without the right
	NotFound        Code = "NOT_FOUND"       // the named object does not exist (or not for this caller)
	Conflict        Code = "CONFLICT"        // the state does not allow it, or a limit is reached
	RateLimited     Code = "RATE_LIMITED"    // too much, try again later
	Unavailable     Code = "UNAVAILABLE"     // an engine does not answer, try again later
	Internal        Code = "INTERNAL"        // our fault: the cause is in the log

	// These are the two codes of automatic persisted queries, with the names that Apollo's clients know.
	PersistedQueryNotFound     Code = "PERSISTED_QUERY_NOT_FOUND"     // the hash is not known here: send the text with it
	PersistedQueryNotSupported Code = "PERSISTED_QUERY_NOT_SUPPORTED" // hashes are not accepted: send texts
)

// Codes lists every code.
var Codes = []Code{Invalid, Unauthenticated, Forbidden, NotFound, Conflict, RateLimited, Unavailable, Internal, PersistedQueryNotFound, PersistedQueryNotSupported}

// Error is an error for people: Message names the field, the value and the limit. The fields beside it are for programs. The
// cause, if there is one, is for the log alone.
type Error struct {
	Code       Code
	Message    string
	Argument   string        // the argument, header or part of the request at fault; "": the message begins with it, or there is none
	Reason     string        // the fault as one word; "" if there is no word for it
	Limit      int           // the most that is allowed; 0: the error is about no limit
	RetryAfter time.Duration // when to retry, with RATE_LIMITED and UNAVAILABLE; 0: unknown
	Cause      error         // for the log alone; nil if there is none
}

// Extensions is the machine-readable part of the error, the same on every transport: code, argument, reason, limit,
// retryAfterMs; the last four only if known.
func (e *Error) Extensions() map[string]any {
	shown := map[string]any{"code": string(e.Code)}
	if argument := cmp.Or(e.Argument, argumentInMessage(e.Message)); argument != "" {
		shown["argument"] = argument
	}
	if e.Limit != 0 {
		shown["limit"] = e.Limit
	}
	if reason := e.reason(); reason != "" {
		shown["reason"] = reason
	}
	if e.RetryAfter > 0 {
		shown["retryAfterMs"] = e.RetryAfter.Milliseconds()
	}
	return shown
}

// Reasons that several errors share.
const (
	reasonLimit      = "LIMIT"   // a number or a size is not within its bounds: limit is the upper one
	ReasonExpired    = "EXPIRED" // the token's time is over: get a new one
	ReasonFeatureOff = "OFF"     // the request needs a part of the server that is not switched on
)

// reason is the word that clients branch on. An error with a limit and without a Reason has reasonLimit.
func (e *Error) reason() string {
	if e.Reason == "" && e.Limit != 0 {
		return reasonLimit
	}
	return e.Reason
}

var (
	// argumentPattern is a path into an input, such as input.items[3].at.
	argumentPattern = regexp.MustCompile(`^\$?[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_]+|\[\d+\])*`)
	// limitPattern is the upper bound in the wordings that Errorf lists: "up to N", "at most N", "1 to N".
	limitPattern = regexp.MustCompile(`(?:\bup to|\bat most|\b\d+ to) (\d+)\b`)
)

// argumentInMessage is the argument that a message begins with: in "body: is missing" it is body.
func argumentInMessage(message string) string {
	name := argumentPattern.FindString(message)
	if name == "" || !strings.HasPrefix(message[len(name):], ": ") {
		return ""
	}
	return name
}

// limitInMessage is the limit in a message: "up to 5 are allowed", "at most 5", "1 to 5".
func limitInMessage(message string) int {
	found := limitPattern.FindStringSubmatch(message)
	if found == nil {
		return 0
	}
	limit, err := strconv.Atoi(found[1])
	if err != nil {
		return 0
	}
	return limit
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

// Errorf makes an error with a code and a message for people. It takes no %w: Wrapf makes an error that has a cause. A message that
// begins with an argument and a colon is about that argument; a format with a limit says "up to N", "at most N" or "1 to N". The
// argument and the limit become the extensions of these names.
func Errorf(code Code, format string, args ...any) error {
	return newError(code, nil, format, args)
}

// newError reads the limit from the message if the format itself has one; values in the message do not count.
func newError(code Code, cause error, format string, args []any) *Error {
	made := &Error{Code: code, Message: fmt.Sprintf(format, args...), Cause: cause}
	// Only the format counts: a quoted input such as "up to 5" must not become a limit.
	for _, form := range []string{"up to %", "at most %", " to %"} {
		if strings.Contains(format, form) {
			made.Limit = limitInMessage(made.Message)
			break
		}
	}
	return made
}

// Wrapf makes an error with a code and a message for people from a cause that only the log shows.
func Wrapf(code Code, cause error, format string, args ...any) error {
	return newError(code, cause, format, args)
}

// WithArgument returns an error with another argument, for callers whose input has another name for the object at fault. An error
// without a code stays as it is.
func WithArgument(argument string, err error) error {
	known, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	about := *known
	// Drop the former argument's name, or the message would name two.
	if had := argumentInMessage(about.Message); had != "" {
		about.Message = strings.TrimPrefix(about.Message, had+": ")
	}
	about.Message, about.Argument = argument+": "+about.Message, argument
	return &about
}

// CodeOf returns the code of the Error within an error, INTERNAL for any other error, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known.Code
	}
	return Internal
}

// IsTransient reports whether work failed for a reason that may pass: the same request may succeed later. Any other error is an
// answer to the request.
func IsTransient(err error) bool {
	switch CodeOf(err) {
	case RateLimited, Unavailable, Internal:
		return true
	}
	return false
}

// IsUnavailable reports whether an engine did not answer: the work was not at fault and may be retried.
func IsUnavailable(err error) bool { return CodeOf(err) == Unavailable }
