package resolvers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services"
)

// A refused request gets the code and the reason of its error. Without SQL the code is UNAVAILABLE, and the message hides the cause.
func TestARefusalHasItsCode(t *testing.T) {
	a := newAPI(t)
	post := a.publishPost("alice")
	a.must("bob", `mutation { follow(input: {userId: "user:alice"}) { user { id } } }`, nil)
	viewer := []services.Scope{services.ScopeViewer}
	for _, question := range []struct {
		what, key string
		scopes    []services.Scope
		query     string
		code      services.Code
		says      string // a part of the error's message
	}{
		{"a bad body", "bob", viewer, `mutation { publishPost(input: {body: " "}) { post { id } } }`, services.Invalid, "body"},
		{"an unknown field", "bob", viewer, `{ viewer { shoeSize } }`, services.Invalid, "shoeSize"},
		{"a broken query", "bob", viewer, `{ viewer {`, services.Invalid, ""},
		{"no token", "", nil, `{ viewer { user { id } } }`, services.Unauthenticated, "Authorization"},
		{"no scope", "bob", viewer, `{ admin { jobs { waiting } } }`, services.Forbidden, "admin"},
		{"no user", "", viewer, `{ viewer { user { id } } }`, services.Forbidden, "Tidings-Act-As"},
		{"another's post to edit", "bob", viewer, `mutation { editPost(input: {postId: "` + post + `", body: "b"}) { post { id } } }`, services.Forbidden, "not your post"},
		{"another's post", "bob", viewer, `mutation { deletePost(input: {postId: "` + post + `"}) { postId } }`, services.Forbidden, "not your post"},
		{"no such post", "bob", viewer, `mutation { likePost(input: {postId: "post:0000000000001"}) { post { id } } }`, services.NotFound, "0000000000001"},
	} {
		got := a.ask(question.key, question.scopes, question.query, nil)
		if got.code() != question.code {
			t.Errorf("%s: %+v, want %s", question.what, got, question.code)
		} else if !strings.Contains(got.Errors[0].Message, question.says) {
			t.Errorf("%s: %q does not speak of %q", question.what, got.Errors[0].Message, question.says)
		}
	}
	a.Must(a.DB.Close())
	got := a.askAs("bob", `mutation { unfollow(input: {userId: "user:alice"}) { user { id } } }`, nil)
	if got.code() != services.Unavailable || strings.Contains(got.Errors[0].Message, "sql") {
		t.Errorf("without SQL: %+v", got)
	}
}

// An internal error shows only an ID, which the log has together with the cause.
func TestAnInternalErrorHidesItsCause(t *testing.T) {
	a := newAPI(t)
	a.resolver.Queue = brokenQueue{}
	for _, question := range []struct{ what, cause string }{{"an error", "secret cause"}, {"a panic", "secret panic"}} {
		if question.what == "a panic" {
			a.resolver.Queue = panickyQueue{}
		}
		a.log.Reset()
		got := a.ask("root", []services.Scope{services.ScopeAdmin}, `{ admin { jobs { waiting } } }`, nil)
		if got.code() != services.Internal {
			t.Fatalf("%s: %+v", question.what, got)
		}
		id, _ := got.Errors[0].Extensions["requestId"].(string)
		if len(id) < 20 || !strings.Contains(got.Errors[0].Message, id) || strings.Contains(got.Errors[0].Message, "secret") {
			t.Errorf("%s: the client sees %+v", question.what, got.Errors[0])
		}
		if log := a.log.String(); !strings.Contains(log, id) || !strings.Contains(log, question.cause) {
			t.Errorf("%s: the log lacks the id or the cause: %s", question.what, log)
		}
	}
	if got := a.must("bob", `{ viewer { user { key } } }`, nil); got.valueAt("viewer", "user", "key") != "bob" {
		t.Errorf("after a panic: %+v", got)
	}
}

// brokenQueue is a queue that cannot be read.
type brokenQueue struct{}

// JobCounts fails.
func (brokenQueue) JobCounts(context.Context) (waiting, dead int, oldest time.Time, err error) {
	return 0, 0, oldest, errors.New("secret cause")
}

// panickyQueue is a queue whose read panics.
type panickyQueue struct{}

// JobCounts panics.
func (panickyQueue) JobCounts(context.Context) (waiting, dead int, oldest time.Time, err error) {
	panic("secret panic")
}

func TestEachErrorIsPresentedWithItsCode(t *testing.T) {
	coded := gqlerror.Errorf("too deep")
	coded.Extensions = map[string]any{"code": "RATE_LIMITED"}
	foreign := gqlerror.Errorf("unknown field")
	foreign.Extensions = map[string]any{"code": "GRAPHQL_VALIDATION_FAILED"}
	limited := &services.Error{Code: services.RateLimited, Message: "too much", RetryAfter: 1500 * time.Millisecond}
	for _, row := range []struct {
		what    string
		err     error
		code    services.Code
		message string
	}{
		{"ours", services.Errorf(services.Conflict, "liked already"), services.Conflict, "liked already"},
		{"ours within another", fmt.Errorf("post 7: %w", services.Errorf(services.NotFound, "there is no post")), services.NotFound, "there is no post"},
		{"ours within the language's", gqlerror.Wrap(services.Errorf(services.Forbidden, "not yours")), services.Forbidden, "not yours"},
		{"ours with a cause", services.Wrapf(services.Unavailable, errors.New("10.0.0.7"), "Redis does not answer"), services.Unavailable, "Redis does not answer"},
		{"limited", limited, services.RateLimited, "too much"},
		{"out of time", fmt.Errorf("read: %w", context.DeadlineExceeded), services.Unavailable, "no answer in time: try again"},
		{"given up", context.Canceled, services.Unavailable, "no answer in time: try again"},
		{"the language's", gqlerror.Errorf("unexpected }"), services.Invalid, "unexpected }"},
		{"the language's with our code", coded, services.RateLimited, "too deep"},
		{"the language's with a code of its own", foreign, services.Invalid, "unknown field"},
	} {
		shown := clientError(t.Context(), slog.New(slog.DiscardHandler), row.err)
		if shown.Extensions["code"] != string(row.code) || shown.Message != row.message {
			t.Errorf("%s is shown as %q with %v", row.what, shown.Message, shown.Extensions)
		}
	}
	if shown := clientError(t.Context(), slog.New(slog.DiscardHandler), limited); shown.Extensions["retryAfterMs"] != int64(1500) {
		t.Errorf("when to try again: %v", shown.Extensions)
	}
}

// The log has the cause of an error, which the client does not get. If the client has left, the log has it only at the level debug.
func TestTheLogHasTheCause(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, row := range []struct {
		what  string
		ctx   context.Context
		lines int // how many lines of the log must have the cause
	}{{"waits", t.Context(), 1}, {"has waited too long", late, 1}, {"left", left, 0}} {
		var log bytes.Buffer
		clientError(row.ctx, slog.New(slog.NewTextHandler(&log, nil)), services.Wrapf(services.Unavailable, errors.New("10.0.0.7"), "Redis does not answer"))
		if lines := strings.Count(log.String(), "10.0.0.7"); lines != row.lines {
			t.Errorf("the client %s: %d lines have the cause, want %d: %s", row.what, lines, row.lines, &log)
		}
	}
}

// An error names the field that failed, and the other fields are answered.
func TestAnErrorHasItsPath(t *testing.T) {
	a := newAPI(t)
	got := a.askAs("bob", `{ good: node(id: "user:bob") { id } bad: node(id: "nothing") { id } }`, nil)
	if len(got.Errors) != 1 || len(got.Errors[0].Path) != 1 || got.Errors[0].Path[0] != "bad" || got.valueAt("good", "id") != "user:bob" {
		t.Errorf("got %+v", got)
	}
}
