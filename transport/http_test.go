package transport

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services"
)

// newDevelopmentHandler returns a handler in development mode.
func newDevelopmentHandler(t *testing.T, change func(*Config)) http.Handler {
	t.Helper()
	cfg := Config{
		Schema: newTestSchema(), Identity: newIdentity(t, IdentityConfig{Development: true}), Recover: recoverWithoutLog, Log: discardLog,
	}
	if change != nil {
		change(&cfg)
	}
	return Handler(cfg)
}

// httpAnswer is a parsed response.
type httpAnswer struct {
	status int
	header http.Header
	body   string
	parsed struct { // the body, if it is JSON
		Data   json.RawMessage
		Errors []struct {
			Message    string
			Extensions struct{ Code services.Code }
		}
	}
}

// errorCode returns the code of the first error; "" without one.
func (a httpAnswer) errorCode() services.Code {
	if len(a.parsed.Errors) == 0 {
		return ""
	}
	return a.parsed.Errors[0].Extensions.Code
}

// askHandler sends a request to a handler. header has names and values in turn.
func askHandler(t *testing.T, handler http.Handler, method, target, body string, header ...string) httpAnswer {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	request.Host = "tidings.test"
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "" {
			request.Header.Del(header[i])
		} else {
			request.Header.Set(header[i], header[i+1])
		}
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	got := httpAnswer{status: recorder.Code, header: recorder.Header(), body: withoutRequestIDs(recorder.Body.String())}
	if got.body != "" {
		if err := json.Unmarshal([]byte(got.body), &got.parsed); err != nil {
			t.Fatalf("%s %s: the answer is no JSON: %v: %s", method, target, err, got.body)
		}
	}
	return got
}

// postQuery asks for an operation by POST.
func postQuery(t *testing.T, handler http.Handler, query string, header ...string) httpAnswer {
	t.Helper()
	return askHandler(t, handler, http.MethodPost, "/graphql", string(must(json.Marshal(map[string]string{"query": query}))), header...)
}

// getQuery asks for an operation by GET.
func getQuery(t *testing.T, handler http.Handler, query string, header ...string) httpAnswer {
	t.Helper()
	return askHandler(t, handler, http.MethodGet, "/graphql?query="+url.QueryEscape(query), "", header...)
}

func TestQueriesByPostAndGet(t *testing.T) {
	handler := newDevelopmentHandler(t, nil)
	for name, got := range map[string]httpAnswer{
		"POST": postQuery(t, handler, "{ hello }"),
		"GET":  getQuery(t, handler, "{ hello }"),
		"Variables": askHandler(t, handler, http.MethodPost, "/graphql",
			`{"query":"query A{hello} query B($t:String!){hello:echo(text:$t)}","operationName":"B","variables":{"t":"world"},"extensions":null}`),
		"VariablesInTheURL": askHandler(t, handler, http.MethodGet, "/graphql?operationName=B&variables=%7B%22t%22%3A%22world%22%7D&extensions=%7B%7D&query="+
			url.QueryEscape("query A{hello} query B($t:String!){hello:echo(text:$t)}"), ""),
		"Charset":      postQuery(t, handler, "{ hello }", "Content-Type", "application/json; charset=UTF-8"),
		"OtherUpgrade": postQuery(t, handler, "{ hello }", "Upgrade", "h2c", "Connection", "Upgrade, HTTP2-Settings"),
	} {
		if got.status != http.StatusOK || got.body != `{"data":{"hello":"world"}}` {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		if got.header.Get("Content-Type") != "application/json; charset=utf-8" || got.header.Get("Cache-Control") != "no-store" ||
			got.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", name, got.header)
		}
	}
	if got := postQuery(t, handler, `mutation { set(text: "it") }`); got.body != `{"data":{"set":"it"}}` {
		t.Errorf("mutation: %d %s", got.status, got.body)
	}
}

func TestErrorsInOperations(t *testing.T) {
	handler := newDevelopmentHandler(t, nil)
	for name, query := range map[string]string{"Parse": "{", "Validation": "{ nothing }", "OperationName": "query A { hello } query B { hello }"} {
		for accept, status := range map[string]int{
			"application/json": 200, "application/graphql-response+json": 400, "*/*": 200,
			"application/graphql-response+json, application/json;q=0.9": 400, "application/graphql-response+json;q=0.5, application/json": 200,
		} {
			got := postQuery(t, handler, query, "Accept", accept)
			if got.status != status || got.errorCode() != services.Invalid || strings.Contains(got.body, `"data"`) {
				t.Errorf("%s, %s: %d %s", name, accept, got.status, got.body)
			}
		}
	}
	got := postQuery(t, handler, "{ hello fails }", "Accept", "application/graphql-response+json")
	if got.status != http.StatusOK || !strings.Contains(got.body, `"data":{"hello":"world","fails":null}`) || len(got.parsed.Errors) != 1 {
		t.Errorf("an error of a field: %d %s", got.status, got.body)
	}
	if got.header.Get("Content-Type") != "application/graphql-response+json; charset=utf-8" {
		t.Errorf("Content-Type %s", got.header.Get("Content-Type"))
	}
}

func TestViewerOfARequest(t *testing.T) {
	handler := newDevelopmentHandler(t, nil)
	for want, header := range map[string][]string{
		`{"data":{"who":"alice@phone"}}`: {"Authorization", "Bearer dev:alice", "Tidings-Device", "phone"},
		`{"data":{"who":"carol@"}}`:      {"Authorization", "Bearer dev:host:ingest", "Tidings-Act-As", "carol"},
		`{"data":{"who":"dora@"}}`:       {"Authorization", "Bearer dev:host:ingest", "Tidings-Act-As", "user:dora"},
		`{"data":{"who":"did:plc:x@"}}`:  {"Authorization", "Bearer dev:host:ingest", "Tidings-Act-As", "did%3Aplc%3Ax"},
		`{"data":{"who":"auth0|12@"}}`:   {"Authorization", "Bearer dev:host:ingest", "Tidings-Act-As", "user:auth0%7C12"},
		`{"data":{"who":"user:dora@"}}`:  {"Authorization", "Bearer dev:host:ingest", "Tidings-Act-As", "user%3Adora"},
		`{"data":{"who":"a:admin@"}}`:    {"Authorization", "Bearer dev:a%3Aadmin"},
	} {
		if got := postQuery(t, handler, "{ who }", header...); got.body != want {
			t.Errorf("got %s, want %s", got.body, want)
		}
	}
	if got := postQuery(t, handler, "{ who }"); got.status != http.StatusOK || !strings.Contains(got.body, "a token is needed") {
		t.Errorf("without a token: %d %s", got.status, got.body)
	}
}

func TestQueryTokenLimit(t *testing.T) {
	handler := newDevelopmentHandler(t, func(cfg *Config) { cfg.MaxQueryTokens = 12 })
	if got := postQuery(t, handler, "{"+strings.Repeat(" hello", 10)+"}"); got.status != 200 || len(got.parsed.Errors) > 0 {
		t.Errorf("12 tokens: %.200s", got.body)
	}
	if got := postQuery(t, handler, "{"+strings.Repeat(" hello", 11)+"}"); got.errorCode() != services.Invalid || !strings.Contains(got.body, "token") {
		t.Errorf("13 tokens: %.200s", got.body)
	}
	if got := postQuery(t, newDevelopmentHandler(t, nil), "{"+strings.Repeat(" hello", 1000)+"}"); got.errorCode() != services.Invalid || !strings.Contains(got.body, "token") {
		t.Errorf("1,002 tokens: %.200s", got.body)
	}
}

func TestIntrospectionAndSuggestions(t *testing.T) {
	open, closed := newDevelopmentHandler(t, func(cfg *Config) { cfg.Introspection = true }), newDevelopmentHandler(t, nil)
	const introspection = "{ __schema { queryType { name } } }"
	if got := postQuery(t, open, introspection); got.body != `{"data":{"__schema":"open"}}` {
		t.Errorf("open: %s", got.body)
	}
	if got := postQuery(t, closed, introspection); strings.Contains(got.body, "open") || len(got.parsed.Errors) == 0 {
		t.Errorf("closed: %s", got.body)
	}
	for _, query := range []string{"{ helo }", "{ echo(txt: 1) }", "{ ... on Quer { hello } }", "query($a: Strin) { hello }"} {
		if got := postQuery(t, closed, query); strings.Contains(got.body, "Did you mean") || len(got.parsed.Errors) == 0 {
			t.Errorf("%s: %s", query, got.body)
		}
	}
	if got := postQuery(t, open, "{ helo }"); !strings.Contains(got.body, "Did you mean") {
		t.Errorf("open: %s", got.body)
	}
}

func TestCrossOrigin(t *testing.T) {
	const app = "https://app.example.com"
	handler := newDevelopmentHandler(t, func(cfg *Config) { cfg.Origins = []string{app} })
	got := askHandler(t, handler, http.MethodOptions, "/graphql", "", "Origin", app)
	if got.status != http.StatusNoContent || got.header.Get("Access-Control-Allow-Origin") != app ||
		!strings.Contains(got.header.Get("Access-Control-Allow-Headers"), "Tidings-Device") || got.header.Get("Vary") != "Origin" {
		t.Errorf("preflight of a listed origin: %d %v", got.status, got.header)
	}
	if got := postQuery(t, handler, "{ hello }", "Origin", app); got.status != 200 || got.header.Get("Access-Control-Allow-Origin") != app {
		t.Errorf("listed origin: %d %v", got.status, got.header)
	}
	if got := postQuery(t, handler, "{ hello }", "Origin", "http://tidings.test"); got.status != 200 {
		t.Errorf("own host: %d %s", got.status, got.body)
	}
	for _, origin := range []string{"https://app.example.com.evil.test", "http://app.example.com", "https://evil.test", "null", ""} {
		got := askHandler(t, handler, http.MethodOptions, "/graphql", "", "Origin", origin)
		if allowed := got.header.Get("Access-Control-Allow-Origin"); allowed != "" || got.status != http.StatusNoContent {
			t.Errorf("preflight of %q: %d, %q is allowed", origin, got.status, allowed)
		}
		if origin == "" {
			continue
		}
		if got := postQuery(t, handler, "{ hello }", "Origin", origin); got.status != http.StatusForbidden || got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%q: %d %v", origin, got.status, got.header)
		}
	}
	keyed := newDevelopmentHandler(t, func(cfg *Config) {
		cfg.Identity = newIdentity(t, IdentityConfig{TokenSettings: TokenSettings{HMACSecret: testHMACSecret}})
	})
	if got := postQuery(t, keyed, "{ hello }"); got.header.Get("Vary") != "" {
		t.Error("Vary without origins")
	}
}

// The error presenter, the recovery from panics and the middleware of Config are used.
func TestPresenterRecoverAndAround(t *testing.T) {
	var around int
	handler := newDevelopmentHandler(t, func(cfg *Config) {
		cfg.ErrorPresenter = func(_ context.Context, err error) *gqlerror.Error {
			return &gqlerror.Error{Message: "presented", Extensions: map[string]any{"code": services.CodeOf(err)}}
		}
		cfg.Recover = func(context.Context, any) error { return services.Errorf(services.Unavailable, "recovered") }
		cfg.AddMiddleware = func(server *handler.Server) {
			server.AroundOperations(func(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
				around++
				return next(ctx)
			})
		}
	})
	for query, code := range map[string]services.Code{
		"{ fails }": services.Internal, "{ panics }": services.Unavailable, "{": services.Invalid, "{ nothing }": services.Invalid,
	} {
		if got := postQuery(t, handler, query); got.errorCode() != code || got.parsed.Errors[0].Message != "presented" {
			t.Errorf("%s: %s", query, got.body)
		}
	}
	if around != 2 {
		t.Errorf("the middleware ran %d times, want once for each operation", around)
	}
}

func TestOperationTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		got := postQuery(t, newDevelopmentHandler(t, nil), "{ slow }")
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("took %v, want 5 s", took)
		}
		if len(got.parsed.Errors) == 0 || !strings.Contains(got.body, "not done in time") {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}

// The media type of the answer follows from the header Accept, and from whether there are event streams.
func TestNegotiate(t *testing.T) {
	for accept, want := range map[string]string{
		"": "", "*/*": typeJSON, "application/*": typeJSON, typeJSON: typeJSON, typeResponse: typeResponse,
		typeResponse + "; charset=utf-8": typeResponse, "text/html, */*;q=0.1": typeJSON, "text/html": "", "application/json;q=0": "",
		typeJSON + ", " + typeResponse: typeJSON, typeResponse + ", " + typeJSON: typeResponse, "nonsense;;, " + typeJSON: typeJSON,
		"application/json;q=x": "",
	} {
		for _, hasEvents := range []bool{false, true} {
			if got, events := negotiateMediaType([]string{accept}, hasEvents); got != want || events {
				t.Errorf("%q: %q %v, want %q", accept, got, events, want)
			}
		}
	}
	for accept, want := range map[string]string{
		typeEvents: typeEvents, typeEvents + ";q=0": "", typeResponse + ", " + typeJSON + ", " + typeEvents + ", multipart/mixed": typeResponse,
		typeEvents + ", */*;q=0.1": typeEvents, typeEvents + ";q=0.5, */*": typeJSON,
	} {
		if got, events := negotiateMediaType([]string{accept}, true); got != want || events != !strings.HasSuffix(accept, ";q=0") {
			t.Errorf("%q: %q %v, want %q", accept, got, events, want)
		}
		if _, events := negotiateMediaType([]string{accept}, false); events {
			t.Errorf("%q: event streams where there are none", accept)
		}
	}
	if got, events := negotiateMediaType(nil, true); got != typeJSON || events {
		t.Errorf("no Accept: %q %v", got, events)
	}
}

func TestAppendResponseEqualsTheLibrarysEncoding(t *testing.T) {
	for _, response := range []*graphql.Response{
		{Data: json.RawMessage(`{"a":1}`)},
		{Data: json.RawMessage(`null`), Errors: gqlerror.List{{Message: "it \"failed\""}}},
		{Data: json.RawMessage(`{"a":null}`), Errors: gqlerror.List{{Message: "a"}, {Message: "b"}}, Extensions: map[string]any{"x": 1}},
		{},
	} {
		if got, want := string(appendResponse(nil, response)), string(must(json.Marshal(response))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := string(appendResponse(nil, &graphql.Response{Errors: gqlerror.List{{Message: "a"}}})); strings.Contains(got, "data") {
		t.Errorf("a request error has data: %s", got)
	}
}
