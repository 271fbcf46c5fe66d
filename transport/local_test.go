package transport

import (
	"context"
	"testing"
	"time"

	"tidings/services"
)

// preparedContextKey is the key of a value that the PrepareContext of newTestLocalExecutor puts into each context.
type preparedContextKey struct{}

// newTestLocalExecutor makes a LocalExecutor of the test schema.
func newTestLocalExecutor(timeout time.Duration) *LocalExecutor {
	return NewLocalExecutor(LocalExecutorConfig{
		Schema: newTestSchema(), PrepareContext: func(ctx context.Context) context.Context { return context.WithValue(ctx, preparedContextKey{}, true) },
		ErrorPresenter: presentErrorWithCode, Recover: recoverWithoutLog, OperationTimeout: timeout,
	})
}

// A LocalExecutor executes operations as the viewer of a context. Partial data comes with the errors, and each error has a code.
func TestLocalOperations(t *testing.T) {
	ann := services.WithViewer(t.Context(), services.Viewer{Key: "ann"})
	for _, c := range []struct {
		name, document string
		ctx            context.Context
		variables      map[string]any
		hello, text    string
		code           services.Code
	}{
		{"a query", `{hello text:who}`, ann, nil, "world", "ann@", ""},
		{"variables", `query($t:String!){text:echo(text:$t)}`, ann, map[string]any{"t": "<b>"}, "", "<b>", ""},
		{"a mutation", `mutation($t:String!){text:set(text:$t)}`, ann, map[string]any{"t": "on"}, "", "on", ""},
		{"no viewer", `{text:who}`, t.Context(), nil, "", "", services.Unauthenticated},
		{"an error of a part", `{hello fails}`, ann, nil, "world", "", services.Internal},
		{"a panic", `{hello fails:panics}`, ann, nil, "world", "", services.Internal},
		{"too slow", `{slow}`, ann, nil, "", "", services.Unavailable},
		{"no such field", `{missing}`, ann, nil, "", "", services.Invalid},
		{"no document", `{`, ann, nil, "", "", services.Invalid},
		{"a variable is missing", `query($t:String!){text:echo(text:$t)}`, ann, nil, "", "", services.Invalid},
		{"introspection", `{__schema{types{name}}}`, ann, nil, "", "", services.Internal},
	} {
		var data struct{ Hello, Text string }
		timeout := time.Minute
		if c.code == services.Unavailable {
			timeout = 50 * time.Millisecond
		}
		errs := newTestLocalExecutor(timeout).Do(c.ctx, c.document, c.variables, &data)
		if data.Hello != c.hello || data.Text != c.text {
			t.Errorf("%s: %+v", c.name, data)
		}
		code := services.Code("")
		if len(errs) > 0 {
			code = services.CodeOf(errs[0])
		}
		if code != c.code {
			t.Errorf("%s: %v, want the code %q", c.name, errs, c.code)
		}
	}
}

// A caller whose context has ended gets an error and no data.
func TestLocalOperationOfACallerWhoLeft(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	leave()
	var data struct{ Hello string }
	errs := newTestLocalExecutor(time.Minute).Do(ctx, `{hello}`, nil, &data)
	if len(errs) != 1 || services.CodeOf(errs[0]) != services.Unavailable || data.Hello != "" {
		t.Errorf("%+v, %v", data, errs)
	}
}

// Data that does not fit the caller's value is an error, not a panic.
func TestALocalAnswerOfAnotherTypeIsAnError(t *testing.T) {
	var data struct{ Hello int }
	if errs := newTestLocalExecutor(time.Minute).Do(t.Context(), `{hello}`, nil, &data); len(errs) != 1 || services.CodeOf(errs[0]) != services.Internal {
		t.Error(errs)
	}
}

// The viewer keeps the subject of the token (its claim sub) while the host application acts for a user.
func TestActingForAUserKeepsTheTokensSubject(t *testing.T) {
	identity, err := NewIdentity(t.Context(), IdentityConfig{Development: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ token, actAs, key, subject string }{
		{"dev:ann", "", "ann", "ann"}, {"dev:host:ingest", "ann", "ann", "host"}, {"dev:host:ingest,admin", "user:bob", "bob", "host"}, {"dev::ingest", "ann", "ann", ""},
	} {
		viewer, _, err := identity.Viewer(t.Context(), c.token, c.actAs, "")
		if err != nil || viewer.Key != c.key || viewer.Subject != c.subject {
			t.Errorf("%s for %q: %+v, %v", c.token, c.actAs, viewer, err)
		}
	}
}
