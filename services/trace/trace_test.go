package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	otel "go.opentelemetry.io/otel/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"tidings/services"
)

// collector is a server that takes spans, or refuses them with a status.
type collector struct {
	*httptest.Server
	mu                 sync.Mutex   // guards the fields below
	answerStatus       int          // of each answer
	headers            http.Header  // of the last request
	spans              []*otlp.Span // the spans taken since the last takeSpans
	resourceAttributes []string     // attributes of the resource: name=value
}

func startCollector(tb testing.TB) *collector {
	c := &collector{answerStatus: http.StatusOK}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data otlp.TracesData
		if err == nil {
			err = proto.Unmarshal(body, &data)
		}
		if err != nil || r.URL.Path != tracesPath || r.Method != http.MethodPost {
			tb.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.headers = r.Header
		w.WriteHeader(c.answerStatus)
		if c.answerStatus != http.StatusOK {
			return
		}
		for _, of := range data.ResourceSpans {
			for _, attribute := range of.Resource.Attributes {
				c.resourceAttributes = append(c.resourceAttributes, attribute.Key+"="+attribute.Value.GetStringValue())
			}
			for _, scope := range of.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	tb.Cleanup(c.Close)
	return c
}

// takeSpans lets the recorder send its waiting spans. It returns all spans that the collector has, by name, and empties the collector.
func (c *collector) takeSpans(tb testing.TB, r *Recorder) map[string]*otlp.Span {
	tb.Helper()
	if err := r.provider.ForceFlush(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	byName := map[string]*otlp.Span{}
	for _, span := range c.spans {
		byName[span.Name] = span
	}
	c.spans = nil
	return byName
}

// answerWith sets the status of the answers.
func (c *collector) answerWith(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answerStatus = status
}

// openRecorder opens a recorder that sees only this environment.
func openRecorder(tb testing.TB, cfg Config, environment map[string]string) *Recorder {
	tb.Helper()
	cfg.Env = func(name string) string { return environment[name] }
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r, err := Open(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.Close)
	return r
}

func TestSpansAreNestedAndRecordOnlyErrorCodes(t *testing.T) {
	c := startCollector(t)
	r := openRecorder(t, Config{Settings: Settings{Endpoint: c.URL + "/"}, Node: "n1", Version: "v1"}, map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b, x=y"})
	ctx, outer := StartOperation(t.Context(), "query", strings.Repeat("long", 100))
	_, inner := Start(ctx, "sql", "one")
	inner.SetCount(3)
	inner.End(services.Errorf(services.Unavailable, "secret"))
	_, orphan := Start(t.Context(), "sql", "of nobody")
	orphan.End(nil)
	outer.End(errors.New("secret"))
	spans := c.takeSpans(t, r)
	query := spans["query "+strings.Repeat("long", 25)]
	one := spans["sql one"]
	if len(spans) != 2 || query == nil || one == nil {
		t.Fatalf("%v", spans)
	}
	if !bytes.Equal(one.ParentSpanId, query.SpanId) || !bytes.Equal(one.TraceId, query.TraceId) || len(query.ParentSpanId) != 0 {
		t.Errorf("%v is not within %v", one, query)
	}
	if one.Status.Message != "UNAVAILABLE" || query.Status.Message != "INTERNAL" || one.Attributes[0].Value.GetIntValue() != 3 {
		t.Errorf("%v, %v", one, query)
	}
	about := strings.Join(c.resourceAttributes, " ")
	for _, want := range []string{"service.name=tidings", "service.version=v1", "service.instance.id=n1"} {
		if !strings.Contains(about, want) {
			t.Errorf("%s is missing in %s", want, about)
		}
	}
	if c.headers.Get("api-key") != "a b" || c.headers.Get("x") != "y" || c.headers.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("headers: %v", c.headers)
	}
}

func TestLaterWorkIsTracedToItsCause(t *testing.T) {
	c := startCollector(t)
	r := openRecorder(t, Config{Settings: Settings{Endpoint: c.URL}}, nil)
	cause := func(name string) (Cause, []byte) {
		ctx, span := StartOperation(t.Context(), "mutation", name)
		defer span.End(nil)
		id := otel.SpanFromContext(ctx).SpanContext().SpanID()
		return ParseCause(CauseOf(ctx).Text()), id[:] // a cause goes as text from node to node
	}
	a, idOfA := cause("a")
	b, _ := cause("b")
	for what, causes := range map[string][]Cause{"none": {{}, {}}, "one": {a, {}, a}, "two": {a, b, a}} {
		_, span := StartFrom(t.Context(), causes, "job", what)
		span.End(nil)
	}
	spans := c.takeSpans(t, r)
	if spans["job none"] != nil || spans["job one"] == nil || spans["job two"] == nil {
		t.Fatalf("%v", spans)
	}
	if one := spans["job one"]; !bytes.Equal(one.TraceId, spans["mutation a"].TraceId) || !bytes.Equal(one.ParentSpanId, idOfA) || len(one.Links) != 0 {
		t.Errorf("%v", one)
	}
	if two := spans["job two"]; len(two.ParentSpanId) != 0 || len(two.Links) != 2 || !bytes.Equal(two.Links[0].SpanId, idOfA) {
		t.Errorf("%v", two)
	}
	for _, text := range []string{"", "x", "00-00000000000000000000000000000000-0000000000000000-01", strings.Repeat("00-", 1000)} {
		if found := ParseCause(text); !found.Equal(Cause{}) {
			t.Errorf("%q is the cause %s", text, found.Text())
		}
	}
}

func TestRequestsContinueTheirTrace(t *testing.T) {
	c := startCollector(t)
	r := openRecorder(t, Config{Settings: Settings{Endpoint: c.URL}}, nil)
	handler := Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, span := Start(r.Context(), "inner", "")
		span.End(nil)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	ask := func(header ...string) map[string]*otlp.Span {
		request := httptest.NewRequest(http.MethodPost, "/graphql?query=secret", nil)
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		handler.ServeHTTP(httptest.NewRecorder(), request)
		return c.takeSpans(t, r)
	}
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	spans := ask("traceparent", parent)
	outer, inner := spans["POST /graphql"], spans["inner"]
	if outer == nil || inner == nil || fmt.Sprintf("00-%x-%x-01", outer.TraceId, outer.ParentSpanId) != parent || !bytes.Equal(inner.ParentSpanId, outer.SpanId) {
		t.Errorf("%v", spans)
	}
	if text := fmt.Sprint(outer); strings.Contains(text, "secret") || !strings.Contains(text, "503") {
		t.Errorf("%s", text)
	}
	if spans := ask("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"); len(spans) != 0 {
		t.Errorf("a trace that its caller does not sample is recorded: %v", spans)
	}
	for _, header := range [][]string{{"Upgrade", "websocket"}, {"Accept", "text/event-stream"}} {
		if spans := ask(header...); len(spans) != 0 {
			t.Errorf("%v: a connection that lasts has a span: %v", header, spans)
		}
	}
	if spans := ask("Accept", "application/graphql-response+json, application/json, text/event-stream, multipart/mixed"); len(spans) != 2 {
		t.Errorf("a query of a client that can also read a stream has these spans: %v", spans)
	}
}

func TestALostCollectorIsLoggedOnce(t *testing.T) {
	c := startCollector(t)
	var log bytes.Buffer
	r := openRecorder(t, Config{Settings: Settings{Endpoint: c.URL}, Log: slog.New(slog.NewTextHandler(&log, nil))}, nil)
	for _, status := range []int{200, 500, 503, 500, 200, 200} {
		c.answerWith(status)
		_, span := StartOperation(t.Context(), "query", "")
		span.End(nil)
		c.takeSpans(t, r)
	}
	if text := log.String(); strings.Count(text, "\n") != 2 || strings.Count(text, "spans are lost") != 1 || strings.Count(text, "takes spans again") != 1 {
		t.Errorf("the log: %s", text)
	}
}

func TestVariablesThatCannotBeFollowedAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		endpoint    string
		environment map[string]string
		want        string // "": it is off
	}{
		"nothing":      {"", nil, ""},
		"disabled":     {"http://h", map[string]string{"OTEL_SDK_DISABLED": "true"}, ""},
		"no exporter":  {"http://h", map[string]string{"OTEL_TRACES_EXPORTER": "none"}, ""},
		"gRPC":         {"http://h:4317", map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "only http/protobuf is supported"},
		"no address":   {"", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "localhost:4318"}, "http://127.0.0.1:4318"},
		"time":         {"http://h", map[string]string{"OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, "whole milliseconds"},
		"headers":      {"http://h", map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "s3cret"}, "NAME=VALUE"},
		"a resource":   {"http://h", map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "a=%zz"}, "NAME=VALUE"},
		"other schema": {"ftp://h", nil, "http://127.0.0.1:4318"},
	} {
		r, err := Open(context.Background(), Config{Settings: Settings{Endpoint: c.endpoint}, Env: func(name string) string { return c.environment[name] }, Log: slog.New(slog.DiscardHandler)})
		if r != nil || Enabled() || (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %v, %v, want %q", name, r, err, c.want)
		}
		r.Close()
	}
}

// traceRequest makes the calls of this package that the program makes for a request, one of each kind. Tests and benchmarks call it
// without a collector.
func traceRequest(ctx context.Context) {
	ctx, span := Start(ctx, "sql", "one")
	span.SetCount(1)
	_, operation := StartOperation(ctx, "query", "one")
	_, job := StartFrom(ctx, nil, "job", "one")
	CauseOf(ctx)
	job.End(nil)
	operation.End(nil)
	span.End(nil)
}

// Without a collector nothing is allocated.
func TestSpansThatAreNotRecordedCostNothing(t *testing.T) {
	if n := testing.AllocsPerRun(1000, func() { traceRequest(t.Context()) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkOff measures a child span, an operation, a job and a cause without a collector.
func BenchmarkOff(b *testing.B) {
	ctx := b.Context()
	for b.Loop() {
		traceRequest(ctx)
	}
}
