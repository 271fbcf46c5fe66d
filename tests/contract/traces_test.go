package contract

import (
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"tidings/tests/world"
)

// One trace leads from a client's request through its job to the push to other users, and contains no text that users wrote.
func TestATraceLeadsFromTheRequestToThePush(t *testing.T) {
	c := world.StartSpanCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	p := world.StartServingProcess(t, "", "--data", t.TempDir(), "--redis", "embedded")
	waitReady(t, p.URL)
	const follow, publish, read = "0af7651916cd43dd8448eb211c80319c", "4bf92f3577b34da6a3ce929d0e0e4736", "1bf92f3577b34da6a3ce929d0e0e4731"
	world.AskInTrace(t, p.URL, "alice", follow, `mutation { follow(input: {userId: "user:bob"}) { changed } }`)
	watch := world.OpenBadgeSubscription(t, p.URL, "alice")
	watch.WaitCounts(t, 20*time.Second, 0, 0)
	world.AskInTrace(t, p.URL, "bob", publish, `mutation Say { publishPost(input: {body: "s3cret of bob"}) { post { id } } }`)
	watch.WaitCounts(t, 20*time.Second, 1, 0)
	world.AskInTrace(t, p.URL, "alice", read, `query Feed { viewer { homeFeed(first: 5) { edges { node { body } } } } node(id: "user:bob") { ... on User { viewerFollows } } }`)
	spans := c.WaitSpans(t, publish, "POST /graphql", "mutation Say", "sql transaction", "job ", "redis ", "push")
	for _, span := range append(spans, c.WaitSpans(t, read, "POST /graphql", "query Feed", "load ")...) {
		text := fmt.Sprint(span)
		for _, secret := range []string{"s3cret", "alice", "bob", "homeFeed", "publishPost"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in the span %s", secret, text)
			}
		}
	}
	for _, span := range spans {
		if span.Name == "POST /graphql" && hex.EncodeToString(span.ParentSpanId) != world.ClientSpanID {
			t.Errorf("the request's parent is %x", span.ParentSpanId)
		}
	}
	p.Terminate()
	if code := p.WaitExit(15 * time.Second); code != 0 {
		t.Errorf("exit code %d: %s", code, p.Output.String())
	}
}

// With a collector that does not answer, requests are answered, the log says once that spans are lost, and the process ends in time.
func TestASilentCollectorDelaysNothing(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "5")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "300")
	p := world.StartServingProcess(t, "", "--data", t.TempDir(), "--redis", "embedded", "--log-level", "warn", "--traces", "http://"+silent.Addr().String())
	waitReady(t, p.URL)
	for range 100 { // more spans than the queue takes: an export of 5 waits for 300 ms
		if err := world.Ask(p.URL, "alice", `{ viewer { badges { version } } }`, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	const lost = "spans are lost"
	world.Eventually(t, 20*time.Second, "the log says that spans are lost", func() bool { return strings.Contains(p.Output.String(), lost) })
	p.Terminate()
	if code := p.WaitExit(15 * time.Second); code != 0 || strings.Count(p.Output.String(), lost) != 1 {
		t.Errorf("exit code %d: %s", code, p.Output.String())
	}
}

func TestTracesThatCannotBeSentAreRefused(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	for want, line := range map[string]string{
		"--traces (OTEL_EXPORTER_OTLP_ENDPOINT)": "localhost:4318",
		"only http/protobuf is supported":        "http://127.0.0.1:4317",
	} {
		p := world.LaunchProcess(t, "", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--redis", "embedded", "--traces", line)
		if code := p.WaitExit(20 * time.Second); code == 0 || !strings.Contains(p.Output.String(), want) {
			t.Errorf("--traces %s: exit code %d: %s", line, code, p.Output.String())
		}
	}
}
