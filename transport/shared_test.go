package transport

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"

	"tidings/services"
)

// subscriptionCounts returns, for each shared operation context, the number of subscriptions that use it, in no order.
func (s *sharedOperationContexts) subscriptionCounts() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var users []int
	for _, entry := range s.entries {
		users = append(users, entry.subscriptionCount)
	}
	return users
}

// Subscriptions with the same document share one operation context, also if their users differ.
func TestSubscriptionsWithTheSameDocumentShare(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		expect := func(what string, want ...int) {
			t.Helper()
			synctest.Wait()
			if got := w.sockets.sharedContexts.subscriptionCounts(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: users %v, want %v", what, got, want)
			}
		}
		alice, bob := w.openSocket("alice"), w.openSocket("bob")
		alice.subscribe("1", "subscription { ticks }")
		expect("the first", 1) // also waits, so that the text is parsed only once
		alice.subscribe("2", "subscription { ticks }")
		bob.subscribe("1", "subscription { ticks }")
		expect("three of one document", 3)
		bob.send(`{"type":"subscribe","id":"v","payload":{"query":"subscription($s: String) { ticks(since: $s) }","variables":{"s":"7"}}}`)
		bob.send(`{"type":"subscribe","id":"e","payload":{"query":"subscription { ticks }","extensions":{"a":1}}}`)
		expect("variables and extensions are one's own", 3)
		w.schema.hub.publish(1)
		alice.nextMessage()
		alice.nextMessage()
		for range 3 {
			bob.nextMessage()
		}
		alice.send(`{"type":"complete","id":"2"}`)
		expect("after complete", 2)
		bob.conn.Close()
		expect("after the end of a socket", 1)
		alice.subscribe("r", "subscription { refused }")
		alice.nextMessage()
		expect("after one that was refused", 1)
		alice.subscribe("s", "subscription { stuck }")
		synctest.Wait()
		alice.send(`{"type":"complete","id":"s"}`)
		expect("after one that never started", 1)
		w.schema.hub.endAllWatchers()
		alice.expectMessage(`{"type":"complete","id":"1"}`)
		expect("after the end of all")
	})
}

// TestAStoppedOperationReleasesItsContext tests the race between complete and the start of an operation: the operation must not
// stay counted in its shared operation context.
func TestAStoppedOperationReleasesItsContext(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		c := w.openSocket("alice")
		for range 10 {
			c.subscribe("1", "subscription { ticks }")
			c.send(`{"type":"complete","id":"1"}`)
		}
		synctest.Wait()
		if got := w.sockets.sharedContexts.subscriptionCounts(); len(got) != 0 {
			t.Errorf("users %v are left", got)
		}
	})
}

// Subscriptions that share an operation context get their events as their own viewers.
func TestSharedContextsHoldNoViewer(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		w.server.Handler = Handler(Config{
			Schema: w.schema, Identity: w.identity, Sockets: w.sockets,
			AddMiddleware: func(server *handler.Server) {
				server.AroundResponses(func(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
					response := next(ctx)
					if viewer, err := services.ViewerFrom(ctx); err == nil && response != nil {
						response.Extensions = map[string]any{"viewer": viewer.Key}
					}
					return response
				})
			},
		})
		names := []string{"alice", "bob", "carol"}
		clients := make([]*socketClient, len(names))
		for i, name := range names {
			clients[i] = w.openSocket(name)
			clients[i].subscribe("1", "subscription { ticks }")
		}
		synctest.Wait()
		if got := w.sockets.sharedContexts.subscriptionCounts(); len(got) != 1 || got[0] != len(names) {
			t.Fatalf("they do not share: %v", got)
		}
		for value := range 3 {
			w.schema.hub.publish(value)
			for i, name := range names {
				clients[i].expectMessage(fmt.Sprintf(`{"type":"next","id":"1","payload":{"data":{"ticks":%d},"extensions":{"viewer":"%s"}}}`, value, name))
			}
		}
	})
}
