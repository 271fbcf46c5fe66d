package nodes

import (
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// One trace leads from a mutation on one node, through its job, to the push of the other node. The parent of each span is a span of
// the same trace, and the first parent is the client's span.
func TestATraceCrossesNodes(t *testing.T) {
	c := world.StartSpanCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	database, redis := sqltest.Postgres(t), redistest.Redis(t)
	start := func(name string) *world.Process {
		// With this interval only hints cause pushes. A shorter one would let reconciliation sometimes find a change before its hint,
		// and reconciliation does not know the trace.
		return world.StartServingProcess(t, "", "--node", name, "--database", database, "--redis", redis, "--data", t.TempDir(), "--reconcile-interval", "1m")
	}
	a, b := start("a"), start("b")
	for _, way := range []struct {
		name           string
		here, there    *world.Process
		follow, notify string // the IDs of the traces: of the follow, and of the post
	}{
		{"from a to b", a, b, "0af7651916cd43dd8448eb211c80319a", "4bf92f3577b34da6a3ce929d0e0e473a"},
		{"from b to a", b, a, "0af7651916cd43dd8448eb211c80319b", "4bf92f3577b34da6a3ce929d0e0e473b"},
	} {
		t.Run(way.name, func(t *testing.T) {
			here, there := way.name[5:6], way.name[len(way.name)-1:]
			reader, author := here+"-reader", here+"-author"
			if err := world.Ask(way.here.URL, author, `{viewer{user{key}}}`, nil, nil); err != nil { // creates the author
				t.Fatal(err)
			}
			world.AskInTrace(t, way.here.URL, reader, way.follow, `mutation { follow(input: {userId: "user:`+author+`"}) { changed } }`)
			watch := world.OpenBadgeSubscription(t, way.there.URL, reader)
			watch.WaitCounts(t, world.RedisLossRecoveryTimeout, 0, 0)
			way.here.WaitForJobs(world.RedisLossRecoveryTimeout) // otherwise one push could report the follow and the post, in a trace of its own
			world.AskInTrace(t, way.here.URL, author, way.notify, `mutation Say { publishPost(input: {body: "body"}) { post { id } } }`)
			watch.WaitCounts(t, world.RedisLossRecoveryTimeout, 1, 0)
			// A span ends before its parent, and a node may send the parent later. So the parents are waited for.
			world.EventuallySucceeds(t, 20*time.Second, func() error {
				spans := c.WaitSpans(t, way.notify, here+": POST /graphql", here+": mutation Say", here+": sql transaction", "job ", there+": push")
				known := map[string]bool{world.ClientSpanID: true}
				for _, span := range spans {
					known[hex.EncodeToString(span.SpanId)] = true
				}
				for _, span := range spans {
					if !known[hex.EncodeToString(span.ParentSpanId)] {
						return fmt.Errorf("%s of node %s has a parent %x that nobody sent", span.Name, span.NodeName, span.ParentSpanId)
					}
				}
				return nil
			})
		})
	}
	for _, p := range []*world.Process{a, b} {
		p.Terminate()
		if code := p.WaitExit(15 * time.Second); code != 0 {
			t.Errorf("exit code %d: %s", code, p.Output.String())
		}
	}
}
