package world

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// SpanCollector receives the spans of processes, as an OpenTelemetry collector does.
type SpanCollector struct {
	*httptest.Server
	mu    sync.Mutex // guards spans
	spans []Span     // what was received so far
}

// Span is a span and the name of the node that sent it.
type Span struct {
	*otlp.Span
	NodeName string // the name of the node that sent the span
}

// StartSpanCollector starts a collector. The test's end closes it.
func StartSpanCollector(t *testing.T) *SpanCollector {
	c := &SpanCollector{}
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
			node := ""
			for _, attribute := range of.Resource.GetAttributes() {
				if attribute.Key == "service.instance.id" {
					node = attribute.Value.GetStringValue()
				}
			}
			for _, scope := range of.ScopeSpans {
				for _, span := range scope.Spans {
					c.spans = append(c.spans, Span{span, node})
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// WaitSpans waits until a trace has, for each of names, a span whose name begins with it, and returns the trace's spans. The form
// "NODE: SPAN" means a span of the node NODE.
func (c *SpanCollector) WaitSpans(t *testing.T, trace string, names ...string) (spans []Span) {
	t.Helper()
	EventuallySucceeds(t, 20*time.Second, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		spans = nil
		text := "\n"
		for _, span := range c.spans {
			if hex.EncodeToString(span.TraceId) == trace {
				spans = append(spans, span)
				text += span.Name + "\n" + span.NodeName + ": " + span.Name + "\n"
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

// AskInTrace sends an operation as a user of development mode. The request's parent is the span ClientSpanID of the trace.
func AskInTrace(t *testing.T, url, as, trace, query string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/graphql", strings.NewReader(`{"query":`+QuoteJSON(query)+`}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer dev:" + as}, "Traceparent": {"00-" + trace + "-" + ClientSpanID + "-01"}}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err != nil || strings.Contains(string(text), `"errors"`) {
		t.Fatalf("%s, %v", text, err)
	}
}

// ClientSpanID is the ID of the client's span in AskInTrace.
const ClientSpanID = "00f067aa0ba902b7"
