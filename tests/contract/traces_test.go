package contract

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"tidings/tests/world"
)

// collector takes the spans of a process.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*otlp.Span
}

func startCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data otlp.TracesData
		if err == nil {
			err = proto.Unmarshal(body, &data)
		}
		if err != nil {
			t.Errorf("the collector got %q: %v", body, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, of := range data.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// of waits until a trace has spans whose names begin with all of these, and returns the spans.
func (c *collector) of(t *testing.T, trace string, names ...string) (spans []*otlp.Span) {
	t.Helper()
	world.Converge(t, 20*time.Second, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		spans = nil
		text := "\n"
		for _, span := range c.spans {
			if hex.EncodeToString(span.TraceId) == trace {
				spans = append(spans, span)
				text += span.Name + "\n"
			}
		}
		for _, name := range names {
			if !strings.Contains(text, "\n"+name) {
				return fmt.Errorf("the trace has no span %q, but%s", name, text)
			}
		}
		return nil
	})
	return spans
}

// asks sends an operation as a user of the development mode within a trace.
func asks(t *testing.T, url, as, trace, query string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/graphql", strings.NewReader(`{"query":`+world.Quoted(query)+`}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer dev:" + as}, "Traceparent": {"00-" + trace + "-00f067aa0ba902b7-01"}}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err != nil || bytes.Contains(text, []byte(`"errors"`)) {
		t.Fatalf("%s, %v", text, err)
	}
}

// One trace leads from the request of a client over the job that it left behind to the push that others see, and holds nothing
// that anybody wrote.
func TestATraceLeadsFromTheRequestToThePush(t *testing.T) {
	c := startCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	p := world.StartProcess(t, "", "--data", t.TempDir(), "--redis", "embedded")
	waitReady(t, p.URL)
	const follow, publish, read = "0af7651916cd43dd8448eb211c80319c", "4bf92f3577b34da6a3ce929d0e0e4736", "1bf92f3577b34da6a3ce929d0e0e4731"
	asks(t, p.URL, "alice", follow, `mutation { follow(input: {userId: "user:bob"}) { changed } }`)
	watch := world.OpenWatch(t, p.URL, "alice")
	watch.Shows(t, 20*time.Second, 0, 0)
	asks(t, p.URL, "bob", publish, `mutation Say { publishPost(input: {body: "s3cret of bob"}) { post { id } } }`)
	watch.Shows(t, 20*time.Second, 1, 0)
	asks(t, p.URL, "alice", read, `query Feed { viewer { homeFeed(first: 5) { edges { node { body } } } } node(id: "user:bob") { ... on User { viewerFollows } } }`)
	spans := c.of(t, publish, "POST /graphql", "mutation Say", "sql transaction", "job ", "redis ", "push")
	for _, span := range append(spans, c.of(t, read, "POST /graphql", "query Feed", "load ")...) {
		text := fmt.Sprint(span)
		for _, secret := range []string{"s3cret", "alice", "bob", "homeFeed", "publishPost"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in the span %s", secret, text)
			}
		}
	}
	for _, span := range spans {
		if span.Name == "POST /graphql" && hex.EncodeToString(span.ParentSpanId) != "00f067aa0ba902b7" {
			t.Errorf("the request's parent is %x", span.ParentSpanId)
		}
	}
	p.Terminate()
	if code := p.Exits(15 * time.Second); code != 0 {
		t.Errorf("exit code %d: %s", code, p.Output.String())
	}
}

// A collector that does not answer holds nothing up: neither requests nor the end.
func TestACollectorThatIsGoneHoldsNothingUp(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "5")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "300")
	p := world.StartProcess(t, "", "--data", t.TempDir(), "--redis", "embedded", "--log-level", "warn", "--traces", "http://"+silent.Addr().String())
	waitReady(t, p.URL)
	for range 100 { // at 300 ms for 5 spans they would take 6 s and more
		if err := world.Ask(p.URL, "alice", `{ viewer { badges { version } } }`, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	const lost = "spans are lost"
	world.Eventually(t, 20*time.Second, "the log says that spans are lost", func() bool { return strings.Contains(p.Output.String(), lost) })
	p.Terminate()
	if code := p.Exits(15 * time.Second); code != 0 || strings.Count(p.Output.String(), lost) != 1 {
		t.Errorf("exit code %d: %s", code, p.Output.String())
	}
}

func TestTracesThatCannotBeSentAreRefused(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	for want, line := range map[string]string{
		"--traces (OTEL_EXPORTER_OTLP_ENDPOINT)": "localhost:4318",
		"only http/protobuf is supported":        "http://127.0.0.1:4317",
	} {
		p := world.Launch(t, "", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--redis", "embedded", "--traces", line)
		if code := p.Exits(20 * time.Second); code == 0 || !strings.Contains(p.Output.String(), want) {
			t.Errorf("--traces %s: exit code %d: %s", line, code, p.Output.String())
		}
	}
}
