package transport

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/tests/eventually"
)

// panickingSchema panics when it compiles a field with the alias boom.
type panickingSchema struct{ *hotTestSchema }

func (s panickingSchema) HotAnswer(operation *ast.OperationDefinition, variables map[string]any) HotAnswerFunc {
	if field, ok := operation.SelectionSet[0].(*ast.Field); ok && field.Alias == "boom" {
		panic("while it compiles")
	}
	return s.hotTestSchema.HotAnswer(operation, variables)
}

// lockedBuffer keeps what is written to it. It is safe for concurrent use.
type lockedBuffer struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *lockedBuffer) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A panic while the front reads a request ends its connection and not the process. The client gets a 500, and the log the stack.
func TestFrontSurvivesAPanic(t *testing.T) {
	log := &lockedBuffer{}
	f := newFrontFixture(t, false, func(cfg *Config, _ *http.Server) {
		cfg.Schema = panickingSchema{cfg.Schema.(*hotTestSchema)}
		cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	})
	good, bad := rawRequest(queryBody("{ who }")), rawRequest(queryBody("{ boom: who }"))
	kept := f.openKeepAliveConn()
	if last, err := kept.ask(good); err != nil || last {
		t.Fatalf("before: the last answer: %v, %v", last, err)
	}
	answers := f.sendAndReadAnswers(f.frontAddress, 3, good, bad, good)
	if len(answers) != 3 || !strings.HasPrefix(answers[0], "200 ") || answers[2] != "no answer" {
		t.Errorf("got %s", answers)
	}
	if !strings.HasPrefix(answers[1], "500 Internal Server Error true") || !strings.Contains(answers[1], `"code":"INTERNAL","requestId":"made"`) {
		t.Errorf("got %s, want a 500 that ends the connection", answers[1])
	}
	if text := log.String(); !strings.Contains(text, "while it compiles") || !strings.Contains(text, "panickingSchema.HotAnswer") {
		t.Errorf("the log has no stack: %s", text)
	}
	if last, err := kept.ask(good); err != nil || last {
		t.Errorf("another connection, after: the last answer: %v, %v", last, err)
	}
	_ = kept.Close()
	eventually.Holds(t, "no connection is left", func() bool { f.front.mu.Lock(); defer f.front.mu.Unlock(); return len(f.front.conns) == 0 })
}

// If the front panics after a part of an answer was written, it adds no 500 to that part.
func TestFrontAddsNothingToAPartialAnswer(t *testing.T) {
	f := newFrontFixture(t, false, func(cfg *Config, _ *http.Server) { cfg.Log = discardLog })
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	client := must(net.Dial("tcp", listener.Addr().String()))
	defer client.Close()
	one := &frontConn{front: f.front, conn: must(listener.Accept())}
	one.serve(func() frontOutcome {
		if err := one.send([]byte("HTTP/1.1 200 OK")); err != nil {
			t.Error(err)
		}
		panic("behind a part of an answer")
	}, nil)
	if got := must(io.ReadAll(client)); string(got) != "HTTP/1.1 200 OK" {
		t.Errorf("the client got %s", got)
	}
}
