package transport

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/golang-jwt/jwt/v5"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services"
)

// hotTestSchema answers { who }, { hello } and { echo(text: $t) } without the executor, and counts these answers.
type hotTestSchema struct {
	*testSchema
	hotAnswerCount atomic.Int64                                               // the number of answers without the executor
	beforeAnswer   func(ctx context.Context) bool                             // is called before an answer; if it returns false, the answer fails
	beforeBatch    atomic.Pointer[func(context.Context, []JointRequest) bool] // what setBeforeBatch set; nil: nothing
}

// HotAnswer answers an operation of one field: who, hello, or echo with variables.
func (s *hotTestSchema) HotAnswer(operation *ast.OperationDefinition, variables map[string]any) func(ctx context.Context, to []byte) ([]byte, bool) {
	field, _ := operation.SelectionSet[0].(*ast.Field)
	echoes := field.Name == "echo" && len(operation.VariableDefinitions) > 0
	if len(operation.SelectionSet) > 1 || field.Name != "who" && field.Name != "hello" && !echoes {
		return nil
	}
	return func(ctx context.Context, to []byte) ([]byte, bool) {
		if s.beforeAnswer != nil && !s.beforeAnswer(ctx) {
			return to, false
		}
		s.hotAnswerCount.Add(1)
		viewer, _ := services.ViewerFrom(ctx)
		value := s.helloValue
		switch field.Name {
		case "who":
			value = viewer.Key + "@" + viewer.Device
		case "echo":
			value = field.ArgumentMap(variables)["text"].(string)
		}
		return fmt.Appendf(to, `{%q:%q}`, field.Alias, value), true
	}
}

func (s *hotTestSchema) Joint(operation *ast.OperationDefinition, variables map[string]any) any {
	if hotAnswer := s.HotAnswer(operation, variables); hotAnswer != nil {
		return hotAnswer
	}
	return nil
}

// setBeforeBatch sets a function that is called before a batch is answered; if it returns false, the batch is left to HotAnswer.
func (s *hotTestSchema) setBeforeBatch(before func(ctx context.Context, requests []JointRequest) bool) {
	s.beforeBatch.Store(&before)
}

func (s *hotTestSchema) AnswerJointly(ctx context.Context, requests []JointRequest) {
	if before := s.beforeBatch.Load(); before != nil && !(*before)(ctx, requests) {
		return
	}
	for i := range requests {
		one := &requests[i]
		one.Text, one.OK = one.Operation.(HotAnswerFunc)(one.Context, one.Text)
	}
}

// countingLimits counts the operations that are charged, and refuses a charge with missing arguments.
type countingLimits struct {
	fakeLimits
	operationCharges atomic.Int64 // the calls of ChargeOperation
}

func (l *countingLimits) ChargeOperation(ctx context.Context, address string, operation *graphql.OperationContext, cost int) error {
	l.operationCharges.Add(1)
	if viewer, err := services.ViewerFrom(ctx); err == nil && viewer.Key == "" || address == "" || operation.Operation == nil || cost == 0 {
		return fmt.Errorf("charged %q, %v, %d", address, operation.Operation, cost)
	}
	return l.fakeLimits.ChargeOperation(ctx, address, operation, cost)
}

// frontFixture is a handler behind a front, and the same handler behind the HTTP server alone.
type frontFixture struct {
	*testing.T
	schema        *hotTestSchema
	limits        *countingLimits
	front         *Front
	frontAddress  string // of the front
	directAddress string // of the HTTP server without a front
}

// newFrontFixture starts the front and the HTTP server. loopback applies the checks of LoopbackOnly.
func newFrontFixture(t *testing.T, loopback bool, change func(*Config, *http.Server)) *frontFixture {
	t.Helper()
	f := &frontFixture{T: t, schema: &hotTestSchema{testSchema: newTestSchema()}, limits: &countingLimits{}}
	server := &http.Server{ErrorLog: slog.NewLogLogger(discardLog.Handler(), slog.LevelError), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	handler := newDevelopmentHandler(t, func(cfg *Config) {
		cfg.Schema, cfg.Limits, cfg.ErrorPresenter = f.schema, f.limits, presentErrorWithCode
		cfg.Origins = []string{"https://app.example"}
		if change != nil {
			change(cfg, server)
		}
	})
	mux := http.NewServeMux()
	mux.Handle(frontPath, handler)
	server.Handler = mux
	if loopback {
		server.Handler = LoopbackOnly(mux)
	}
	f.front = NewFront(handler, server, loopback)
	alone := &http.Server{Handler: server.Handler, ErrorLog: server.ErrorLog}
	f.frontAddress, f.directAddress = serveUntilTestEnds(t, f.front.Serve, f.front.Close), serveUntilTestEnds(t, alone.Serve, alone.Close)
	return f
}

// serveUntilTestEnds calls serve with a new listener, and end at the end of the test.
func serveUntilTestEnds(t *testing.T, serve func(net.Listener) error, end func() error) (address string) {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	done := make(chan error, 1)
	go func() { done <- serve(listener) }()
	t.Cleanup(func() {
		_ = end()
		if err := <-done; err != http.ErrServerClosed {
			t.Errorf("serving ended with %v", err)
		}
	})
	return listener.Addr().String()
}

// rawRequest returns the text of a request. A line replaces the request line or the header of the same name; "-Name" leaves a header
// out.
func rawRequest(body string, lines ...string) string {
	headers := []string{"Host: 127.0.0.1", "Content-Type: application/json", "Authorization: Bearer dev:alice", fmt.Sprint("Content-Length: ", len(body))}
	start := "POST /graphql HTTP/1.1"
	for _, line := range lines {
		if !strings.Contains(line, ": ") && strings.Contains(line, " HTTP/") {
			start = line
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "-"), ":")
		headers = slices.DeleteFunc(headers, func(header string) bool { return strings.HasPrefix(header, name+":") })
		if !strings.HasPrefix(line, "-") {
			headers = append(headers, strings.Split(line, "\n")...)
		}
	}
	return start + "\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n" + body
}

// queryBody returns the body of a request for an operation.
func queryBody(text string) string {
	return string(must(json.Marshal(map[string]string{"query": text})))
}

// sendAndReadAnswers writes texts, one after the other, and reads answers until count have come or the server ends the connection.
func (f *frontFixture) sendAndReadAnswers(address string, count int, texts ...string) (answers []string) {
	f.Helper()
	conn := must(net.Dial("tcp", address))
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	go func() {
		for _, text := range texts {
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
		}
	}()
	return f.readAnswers(bufio.NewReader(conn), count)
}

// readAnswers reads answers as texts that can be compared.
func (f *frontFixture) readAnswers(reader *bufio.Reader, count int) (answers []string) {
	for range count {
		got, err := http.ReadResponse(reader, nil)
		if err != nil {
			return append(answers, "no answer")
		}
		body, err := io.ReadAll(got.Body)
		if err != nil {
			return append(answers, "half an answer")
		}
		if _, err := http.ParseTime(got.Header.Get("Date")); err != nil && got.StatusCode == http.StatusOK {
			f.Errorf("Date: %v", err)
		}
		got.Header.Del("Date")
		if len(got.Header.Get(requestIDHeader)) == 26 { // made by the server
			got.Header.Set(requestIDHeader, "made")
		}
		text := fmt.Sprintln(got.Status, got.Close)
		for _, name := range slices.Sorted(maps.Keys(got.Header)) {
			text += fmt.Sprintln(name, got.Header[name])
		}
		answers = append(answers, text+generatedRequestIDPattern.ReplaceAllString(string(body), `"requestId":"made"`))
	}
	return answers
}

// generatedRequestIDPattern matches an ID that the server made, in an error.
var generatedRequestIDPattern = regexp.MustCompile(`"requestId":"[0-9A-Z]{26}"`)

func TestFrontAnswersAsTheServerDoes(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	for _, test := range frontCases {
		t.Run(test.name, func(t *testing.T) {
			want := f.sendAndReadAnswers(f.directAddress, 1, test.text)
			addresses, operations := f.limits.addressCharges.Load(), f.limits.operationCharges.Load()
			f.sendAndReadAnswers(f.directAddress, 1, test.text)
			perAddress, perOperation := f.limits.addressCharges.Load()-addresses, f.limits.operationCharges.Load()-operations
			for range 2 { // the second time from memory
				addresses, operations = f.limits.addressCharges.Load(), f.limits.operationCharges.Load()
				before := f.schema.hotAnswerCount.Load()
				if got := f.sendAndReadAnswers(f.frontAddress, 1, test.text); !slices.Equal(got, want) {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
				if hot := f.schema.hotAnswerCount.Load() > before; hot != test.hot {
					t.Errorf("the front answered: %v, want %v", hot, test.hot)
				}
				if a, o := f.limits.addressCharges.Load()-addresses, f.limits.operationCharges.Load()-operations; a != perAddress || o != perOperation {
					t.Errorf("%d requests and %d operations were charged, want %d and %d", a, o, perAddress, perOperation)
				}
			}
		})
	}
}

func TestFrontTakesRequestsInPiecesAndInARow(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	one, two, foreign := rawRequest(queryBody("{ who }")), rawRequest(queryBody("{ hello }"), "Authorization: Bearer dev:bob"), rawRequest(queryBody("{ fails }"))
	want := slices.Concat(f.sendAndReadAnswers(f.directAddress, 1, one), f.sendAndReadAnswers(f.directAddress, 1, two), f.sendAndReadAnswers(f.directAddress, 1, one), f.sendAndReadAnswers(f.directAddress, 1, foreign), f.sendAndReadAnswers(f.directAddress, 1, two))
	whole := one + two + one + foreign + two
	if got := f.sendAndReadAnswers(f.frontAddress, 5, whole); !slices.Equal(got, want) {
		t.Errorf("in one piece: got\n%s\nwant\n%s", got, want)
	}
	for at := 1; at < len(whole); at += 7 {
		if got := f.sendAndReadAnswers(f.frontAddress, 5, whole[:at], whole[at:]); !slices.Equal(got, want) {
			t.Fatalf("cut at %d: got\n%s\nwant\n%s", at, got, want)
		}
	}
	long := rawRequest(queryBody("{ who }" + strings.Repeat(" ", 9000)))
	if got := f.sendAndReadAnswers(f.frontAddress, 3, one+long+one); !slices.Equal(got, slices.Repeat(want[:1], 3)) {
		t.Errorf("a long request among others: %s", got)
	}
}

func TestFrontLeavesASlowRequestToTheServer(t *testing.T) {
	f := newFrontFixture(t, false, func(_ *Config, server *http.Server) {
		server.ReadHeaderTimeout, server.ReadTimeout = 200*time.Millisecond, 200*time.Millisecond
	})
	text := rawRequest(queryBody("{ who }"))
	if got := f.sendAndReadAnswers(f.frontAddress, 1, text[:len(text)-3]); !strings.HasPrefix(got[0], "408 ") {
		t.Errorf("half a body: %s, want the server's 408", got)
	}
	if got := f.sendAndReadAnswers(f.frontAddress, 1, text[:30]); got[0] != "no answer" {
		t.Errorf("half a head: %s, want the end of the connection", got)
	}
	if f.schema.hotAnswerCount.Load() != 0 {
		t.Error("half a request was answered")
	}
}

// The front answers a request above a limit of Limits with the same 429 as the HTTP server.
func TestFrontAnswersRateLimitedRequestsWith429(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	text := rawRequest(queryBody("{ who }"))
	for name, refused := range map[string]*atomic.Bool{"address": &f.limits.refuseAddress, "operation": &f.limits.refuseOperation} {
		refused.Store(true)
		want, before := f.sendAndReadAnswers(f.directAddress, 2, text, text), f.schema.hotAnswerCount.Load()
		if got := f.sendAndReadAnswers(f.frontAddress, 2, text, text); !slices.Equal(got, want) || !strings.HasPrefix(got[0], "429 ") {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
		if f.schema.hotAnswerCount.Load() != before {
			t.Errorf("%s: a refused request was answered", name)
		}
		refused.Store(false)
	}
}

func TestFrontFallsBackToTheExecutor(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	text := rawRequest(queryBody("{ who }"), "Origin: https://app.example")
	want := f.sendAndReadAnswers(f.directAddress, 2, text, text)
	for name, do := range map[string]func(context.Context) bool{
		"fails":  func(context.Context) bool { return false },
		"panics": func(context.Context) bool { panic("in a plan") },
	} {
		f.schema.beforeAnswer = do
		addresses, operations := f.limits.addressCharges.Load(), f.limits.operationCharges.Load()
		if got := f.sendAndReadAnswers(f.frontAddress, 2, text, text); !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
		if a, o := f.limits.addressCharges.Load()-addresses, f.limits.operationCharges.Load()-operations; a != 2 || o != 2 {
			t.Errorf("%s: 2 requests were charged as %d requests and %d operations", name, a, o)
		}
	}
}

func TestFrontForgetsAnInvalidToken(t *testing.T) {
	clock := &fixedClock{now: noon}
	path := filepath.Join(t.TempDir(), "jwks.json")
	keep := func(keys ...map[string]string) {
		if err := os.WriteFile(path, []byte(keySetJSON(keys...)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keep(ed25519JWK("e", ed25519PublicKey()), rsaJWK("r", &rsaKey().PublicKey))
	identity := newIdentity(t, IdentityConfig{TokenSettings: TokenSettings{JWKS: path}, Clock: clock})
	f := newFrontFixture(t, false, func(cfg *Config, _ *http.Server) { cfg.Identity = identity })
	signed := func(lasts time.Duration) string {
		return rawRequest(queryBody("{ who }"), "Authorization: Bearer "+signClaims(t, jwt.SigningMethodEdDSA, ed25519Key(), "e", claimsOf("alice", noon.Add(lasts))))
	}
	short, long := signed(time.Minute), signed(time.Hour)
	answered := func(text string, want bool) {
		t.Helper()
		before := f.schema.hotAnswerCount.Load()
		got := f.sendAndReadAnswers(f.frontAddress, 2, text, text)
		if is := strings.HasPrefix(got[0], "200 ") && f.schema.hotAnswerCount.Load() == before+2; is != want || !want && !strings.HasPrefix(got[0], "401 ") {
			t.Errorf("answered %v, want %v: %s", is, want, got)
		}
	}
	answered(short, true)
	answered(long, true)
	clock.advance(time.Minute + tokenLeeway)
	answered(short, false)
	answered(long, true)
	keep(rsaJWK("r", &rsaKey().PublicKey)) // the key is revoked
	if err := identity.keys.(*jwks).read(t.Context()); err != nil {
		t.Fatal(err)
	}
	answered(long, false)
	keep(ed25519JWK("e", ed25519PublicKey()))
	if err := identity.keys.(*jwks).read(t.Context()); err != nil {
		t.Fatal(err)
	}
	answered(long, true)
}

func TestFrontOfDevelopmentModeServesLoopbackOnly(t *testing.T) {
	f := newFrontFixture(t, true, nil)
	for name, test := range map[string]struct {
		hot  bool
		text string
	}{
		"this machine": {true, rawRequest(queryBody("{ who }"))},
		"a name":       {true, rawRequest(queryBody("{ who }"), "Host: a.localhost:8080")},
		"another name": {false, rawRequest(queryBody("{ who }"), "Host: evil.example")},
		"forwarded":    {false, rawRequest(queryBody("{ who }"), "X-Forwarded-For: 10.1.2.3")},
		"by a proxy":   {false, rawRequest(queryBody("{ who }"), "Via: 1.1 proxy")},
	} {
		want, before := f.sendAndReadAnswers(f.directAddress, 1, test.text), f.schema.hotAnswerCount.Load()
		if got := f.sendAndReadAnswers(f.frontAddress, 1, test.text); !slices.Equal(got, want) || (f.schema.hotAnswerCount.Load() > before) != test.hot {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestFrontSendsLongAnswers(t *testing.T) {
	f := newFrontFixture(t, false, func(cfg *Config, _ *http.Server) { cfg.MaxAnswerBytes = 40 << 10 })
	for _, length := range []int{100, 3000, 30_000, 80_000} {
		f.schema.helloValue = strings.Repeat("x", length)
		for _, encoding := range []string{"Accept-Encoding: gzip", "Accept-Encoding: identity"} {
			text := rawRequest(queryBody("{ hello }"), encoding)
			if got, want := f.sendAndReadAnswers(f.frontAddress, 2, text, text), f.sendAndReadAnswers(f.directAddress, 2, text, text); !slices.Equal(got, want) {
				t.Errorf("%d bytes, %s: got\n%.300s\nwant\n%.300s", length, encoding, got, want)
			}
		}
	}
}

// If the handler sets no length, as gqlgen's after a panic, the front adds it, so that the client's answer ends.
func TestFrontSendsTheLengthOfEveryAnswer(t *testing.T) {
	f := newFrontFixture(t, false, func(cfg *Config, _ *http.Server) {
		cfg.AddMiddleware = func(server *handler.Server) {
			server.AroundOperations(func(context.Context, graphql.OperationHandler) graphql.ResponseHandler { panic("in the executor") })
		}
	})
	text := rawRequest(queryBody("{ fails }"))
	want := f.sendAndReadAnswers(f.directAddress, 2, text, text)
	if got := f.sendAndReadAnswers(f.frontAddress, 2, text, text); !slices.Equal(got, want) || !strings.HasPrefix(got[1], "500 ") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
