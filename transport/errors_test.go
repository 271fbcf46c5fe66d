package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/google/go-cmp/cmp"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services"
)

// errorsOfEveryCode returns errors of every code and kind, each with the extensions that a client must see, except requestId.
func errorsOfEveryCode() map[string]struct {
	err  error
	want map[string]any
} {
	type one = struct {
		err  error
		want map[string]any
	}
	cases := map[string]one{
		"limit":   {services.Errorf(services.Invalid, "ids: 1 to %d are allowed, got %d", 100, 207), map[string]any{"code": "INVALID", "argument": "ids", "limit": 100.0, "reason": "LIMIT"}},
		"nested":  {services.Errorf(services.Conflict, "input.events[3].key: is taken"), map[string]any{"code": "CONFLICT", "argument": "input.events[3].key"}},
		"expired": {&services.Error{Code: services.Unauthenticated, Message: "token: has expired", Reason: services.ReasonExpired}, map[string]any{"code": "UNAUTHENTICATED", "argument": "token", "reason": "EXPIRED"}},
		"rate": {&services.Error{Code: services.RateLimited, Message: "WRITES: up to 600 a minute are allowed", Reason: "WRITES", Limit: 600, RetryAfter: 1500 * time.Millisecond},
			map[string]any{"code": "RATE_LIMITED", "argument": "WRITES", "reason": "WRITES", "limit": 600.0, "retryAfterMs": 1500.0}},
	}
	for _, code := range services.Codes {
		cases[string(code)] = one{services.Errorf(code, "it is so"), map[string]any{"code": string(code)}}
	}
	return cases
}

// recordErrorResponse returns the answer that refuses a request with an error.
func recordErrorResponse(err error) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	writeFault(newRequest(recorder, httptest.NewRequest(http.MethodPost, "/graphql", nil)), statusOf(err), err)
	return recorder
}

// An error has the same extensions over HTTP, where it refuses a request, and over WebSocket and event stream, where it comes
// from a resolver.
func TestErrorsHaveTheSameExtensionsEverywhere(t *testing.T) {
	for name, test := range errorsOfEveryCode() {
		runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
			w.schema.hub.watchErr = test.err
			check := func(where, text, id string) {
				t.Helper()
				var shown struct {
					Errors  []struct{ Extensions map[string]any }
					Payload []struct{ Extensions map[string]any }
				}
				if err := json.Unmarshal([]byte(text), &shown); err != nil || len(shown.Errors)+len(shown.Payload) != 1 {
					t.Fatalf("%s, %s: %s", name, where, text)
				}
				got := append(shown.Errors, shown.Payload...)[0].Extensions
				if had, _ := got["requestId"].(string); had == "" || id != "" && had != id {
					t.Errorf("%s, %s: the requestId is %q, want %q", name, where, had, id)
				}
				delete(got, "requestId")
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("%s, %s (-want +got):\n%s", name, where, diff)
				}
			}
			socket := w.connect()
			socket.keepsRequestIDs = true
			socket.send(`{"type":"connection_init"}`)
			socket.expectMessage(connectionAck)
			for _, field := range []string{"ticks", "plain"} {
				socket.subscribe(field, "subscription { "+field+" }")
				check("socket, "+field, socket.nextMessage(), "")
				query := `{"query":"subscription { ` + field + ` }"}`
				_, text := w.statusAndBody(http.MethodPost, "", query, "Accept", typeEvents, "X-Request-Id", "host-6")
				_, text, _ = strings.Cut(text, "data: ")
				check("event stream, "+field, strings.SplitN(text, "\n", 2)[0], "host-6")
			}
			recorded := recordErrorResponse(test.err)
			check("HTTP", recorded.Body.String(), recorded.Header().Get("X-Request-Id"))
		})
	}
}

// The answer to a request that is refused before it is parsed has the client's request ID too, in the header and in the error.
func TestRefusalsCarryTheClientsRequestID(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		for name, header := range map[string][]string{
			"token":     {"Authorization", "Bearer nonsense"},
			"handshake": {"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "7"},
		} {
			method, body := http.MethodPost, `{"query":"{ hello }"}`
			if name == "handshake" {
				method, body = http.MethodGet, ""
			}
			response := w.sendHTTP(method, "", body, append(header, "X-Request-Id", "host-7")...)
			text, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err != nil || response.StatusCode < 400 {
				t.Fatalf("%s: %d %v", name, response.StatusCode, err)
			}
			if id := response.Header.Get("X-Request-Id"); id != "host-7" || !strings.Contains(string(text), `"requestId":"host-7"`) {
				t.Errorf("%s: the header names %q, the body is %s", name, id, text)
			}
		}
	})
}

// If the text that wraps an error names an argument, the argument is in the error's extensions.
func TestAWrappingTextNamesTheArgument(t *testing.T) {
	err := fmt.Errorf("Tidings-Act-As: %w", services.Errorf(services.Invalid, "a user key has 1 to 128 characters"))
	if got := graphQLError(err).Extensions["argument"]; got != "Tidings-Act-As" {
		t.Errorf("the argument is %v", got)
	}
}

// The extensions of an error before execution name the validation rule or the limit, or the variable or argument at fault.
func TestParseAndValidationErrorsHaveAReason(t *testing.T) {
	handler := newDevelopmentHandler(t, nil)
	for query, want := range map[string][2]string{
		`{"query":"{ nothing }"}`: {"", "FieldsOnCorrectType"},
		`{"query":"query($t:String!){ echo(text:$t) }","variables":{"t":5}}`: {"$t", ""},
		`{"query":"{ hello ` + strings.Repeat("a", 300) + `:hello }"}`:       {"query", "LIMIT"},
		`{"query":"{ ` + strings.Repeat("hello ", 1200) + `}"}`:              {"query", "LIMIT"},
		`{"extensions":{"persistedQuery":{}}}`:                               {"extensions.persistedQuery", ""},
	} {
		got := askHandler(t, handler, http.MethodPost, "/graphql", query)
		var shown struct {
			Errors []struct {
				Extensions struct{ Argument, Reason string }
			}
		}
		if err := json.Unmarshal([]byte(got.body), &shown); err != nil || len(shown.Errors) == 0 {
			t.Fatal(got.body)
		}
		if e := shown.Errors[0].Extensions; e.Argument != want[0] || want[1] != "" && e.Reason != want[1] {
			t.Errorf("%.60s: %+v, want %v: %s", query, e, want, got.body)
		}
	}
}

// A request's ID is in the header of its answer and in the context of the error presenter. It is the client's ID if that is
// valid, and otherwise a unique one. An answer without an error has no ID of the server's own.
func TestRequestIDs(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	handler := newDevelopmentHandler(t, func(cfg *Config) {
		cfg.ErrorPresenter = func(ctx context.Context, err error) *gqlerror.Error {
			logger.Error("seen", "requestId", services.RequestID(ctx))
			return graphql.DefaultErrorPresenter(ctx, err)
		}
	})
	seen := map[string]bool{}
	for _, given := range []string{"", "host-1", strings.Repeat("a", 65), "a b\n"} {
		log.Reset()
		got := postQuery(t, handler, "{ hello fails }", "X-Request-Id", given)
		id := got.header.Get("X-Request-Id")
		if want := given == "host-1"; (id == given) != want || id == "" {
			t.Errorf("%q: the header says %q", given, id)
		}
		if !strings.Contains(log.String(), "requestId="+id) {
			t.Errorf("%q: the log says %s", given, log.String())
		}
		if seen[id] {
			t.Errorf("%q twice", id)
		}
		seen[id] = true
	}
	if got := postQuery(t, handler, "{ hello }"); got.header.Get("X-Request-Id") != "" {
		t.Errorf("an answer without an error names %q", got.header.Get("X-Request-Id"))
	}
}
