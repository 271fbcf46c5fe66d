package transport

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidings/services"
)

// A subscription, a query and a mutation each have their own event stream, which ends with the operation.
func TestDistinctConnections(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		e := w.openOperationStream("alice", "subscription { ticks }")
		synctest.Wait()
		w.schema.hub.publish(1)
		e.expectEvent(nextEventText(`{"data":{"ticks":1}}`))
		w.schema.hub.publish(2)
		e.expectEvent(nextEventText(`{"data":{"ticks":2}}`))
		w.schema.hub.endAllWatchers()
		e.expectEvent(completeEventText)
		e.waitEnd()
		for query, want := range map[string]string{
			"{ who }":                        nextEventText(`{"data":{"who":"alice@"}}`),
			`mutation { set(text: \"it\") }`: nextEventText(`{"data":{"set":"it"}}`),
			"{ nothing }":                    "",
			"subscription { refused }":       "",
		} {
			status, text := w.statusAndBody(http.MethodPost, "", `{"query":"`+query+`"}`, "Accept", typeEvents, "Authorization", "Bearer dev:alice")
			text = strings.TrimPrefix(text, ":\n\n")
			if status != 200 || !strings.HasPrefix(text, firstNonEmpty(want, "event: next\ndata: {\"errors\":[{")) || !strings.HasSuffix(text, "\n\n"+completeEventText+"\n\n") {
				t.Errorf("%s: %d %q", query, status, text)
			}
		}
	})
}

// firstNonEmpty returns want, or other if want is "".
func firstNonEmpty(want, other string) string {
	if want == "" {
		return other
	}
	return want
}

// A client that prefers JSON gets JSON; if it accepts an event stream too, a subscription gets one.
func TestAcceptOfAnEventStream(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		const all = "application/graphql-response+json, application/json, text/event-stream, multipart/mixed"
		if status, text := w.statusAndBody(http.MethodPost, "", `{"query":"{ hello }"}`, "Accept", all); status != 200 || text != `{"data":{"hello":"world"}}` {
			t.Errorf("a query: %d %s", status, text)
		}
		e := w.readEventStream(w.sendHTTP(http.MethodGet, "?query=subscription%7Bticks%7D", "", "Accept", all))
		synctest.Wait()
		w.schema.hub.publish(1)
		e.expectEvent(nextEventText(`{"data":{"ticks":1}}`))
		e.response.Body.Close()
		e.waitEnd()
		if status, text := w.statusAndBody(http.MethodGet, "?query=mutation%7Bset(text:%22a%22)%7D", "", "Accept", typeEvents); status != 405 {
			t.Errorf("a mutation by GET: %d %s", status, text)
		}
	})
}

// A client ends its subscription by closing the stream.
func TestClosingAnEventStreamEndsItsSubscription(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		for _, field := range []string{"ticks", "plain"} {
			e := w.openOperationStream("alice", "subscription { "+field+" }")
			synctest.Wait()
			if stats := w.sockets.Stats(); stats.Streams != 1 || stats.Open != 0 || stats.Operations != 1 || w.schema.hub.countWatchers() != 1 {
				t.Errorf("%s: %+v", field, stats)
			}
			e.response.Body.Close()
			e.waitEnd()
			synctest.Wait()
			if stats := w.sockets.Stats(); stats.Streams != 0 || stats.Operations != 0 || w.schema.hub.countWatchers() != 0 {
				t.Errorf("%s: after its end: %+v", field, stats)
			}
		}
	})
}

// One stream carries the operations of a client, by their ids.
func TestSingleConnection(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		token := w.reserveStream("alice")
		e := w.openReservedStream(token)
		for _, id := range []string{"1", "2"} {
			if status, text := w.postOperation("alice", token, id, "subscription { ticks }"); status != 202 || text != "" {
				t.Fatalf("%d %s", status, text)
			}
		}
		if status, _ := w.postOperation("alice", token, "3", "{ who }"); status != 202 {
			t.Fatal(status)
		}
		e.expectEvent(nextEventText(`{"id":"3","payload":{"data":{"who":"alice@"}}}`))
		e.expectEvent(completeEventText + `{"id":"3"}`)
		synctest.Wait()
		w.schema.hub.publish(5)
		got := []string{<-e.received, <-e.received}
		slices.Sort(got)
		if want := []string{nextEventText(`{"id":"1","payload":{"data":{"ticks":5}}}`), nextEventText(`{"id":"2","payload":{"data":{"ticks":5}}}`)}; !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
		if status, _ := w.statusAndBody(http.MethodDelete, "?operationId=1", "", "Authorization", "Bearer dev:alice", streamTokenHeader, token); status != 200 {
			t.Error(status)
		}
		synctest.Wait()
		w.schema.hub.publish(6)
		e.expectEvent(nextEventText(`{"id":"2","payload":{"data":{"ticks":6}}}`))
		w.schema.hub.endAllWatchers()
		e.expectEvent(completeEventText + `{"id":"2"}`)
		e.expectNothing()
		e.response.Body.Close()
		e.waitEnd()
		synctest.Wait()
		if status, _ := w.postOperation("alice", token, "4", "{ who }"); status != 404 {
			t.Errorf("after its stream ended a token has %d", status)
		}
	})
}

// Results of operations on a reservation arrive once its stream is connected.
func TestResultsWaitForTheReservedStream(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		token := w.reserveStream("alice")
		if status, _ := w.postOperation("alice", token, "1", "{ hello }"); status != 202 {
			t.Fatal(status)
		}
		passTime(5 * time.Second)
		e := w.openReservedStream(token)
		e.expectEvent(nextEventText(`{"id":"1","payload":{"data":{"hello":"world"}}}`))
		e.expectEvent(completeEventText + `{"id":"1"}`)
	})
}

func TestAnUnusedReservationExpires(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		token := w.reserveStream("alice")
		if status, _ := w.postOperation("alice", token, "1", "subscription { ticks }"); status != 202 {
			t.Fatal(status)
		}
		passTime(streamReservationTimeout - time.Millisecond)
		if w.sockets.Stats().Streams != 1 {
			t.Error("ended too early")
		}
		passTime(2 * time.Millisecond)
		synctest.Wait()
		if stats := w.sockets.Stats(); stats.Streams != 0 || stats.Operations != 0 || len(w.sockets.reservedStreams) != 0 {
			t.Errorf("left: %+v", stats)
		}
		if status, text := w.statusAndBody(http.MethodGet, "?token="+token, "", "Accept", typeEvents); status != 404 || !strings.Contains(text, "NOT_FOUND") {
			t.Errorf("%d %s", status, text)
		}
	})
}

// Requests on another user's stream and malformed requests are refused.
func TestEventStreamsThatAreRefused(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		token := w.reserveStream("alice")
		e := w.openReservedStream(token)
		const subscribe = `{"query":"subscription { ticks }","extensions":{"operationId":"1"}}`
		if status, text := w.statusAndBody(http.MethodPost, "", subscribe, "Authorization", "Bearer dev:alice", streamTokenHeader, token); status != 202 {
			t.Fatal(status, text)
		}
		for _, test := range []struct {
			name, method, target, body string
			header                     []string
			status                     int
			code                       services.Code
		}{
			{"SecondStream", "GET", "?token=" + token, "", []string{"Accept", typeEvents}, 409, services.Conflict},
			{"StreamOfAnother", "GET", "?token=" + token, "", []string{"Accept", typeEvents, "Authorization", "Bearer dev:bob"}, 403, services.Forbidden},
			{"OperationOfAnother", "POST", "?token=" + token, subscribe, []string{"Authorization", "Bearer dev:bob"}, 403, services.Forbidden},
			{"OperationOfNobody", "POST", "?token=" + token, subscribe, nil, 403, services.Forbidden},
			{"OperationOfAnotherScope", "POST", "?token=" + token, subscribe, []string{"Authorization", "Bearer dev:alice:admin"}, 403, services.Forbidden},
			{"StopOfAnother", "DELETE", "?operationId=1&token=" + token, "", []string{"Authorization", "Bearer dev:bob"}, 403, services.Forbidden},
			{"UnknownToken", "POST", "?token=nonsense", subscribe, nil, 404, services.NotFound},
			{"DeleteWithoutToken", "DELETE", "?operationId=1", "", nil, 404, services.NotFound},
			{"DeleteWithoutID", "DELETE", "?token=" + token, "", []string{"Authorization", "Bearer dev:alice"}, 400, services.Invalid},
			{"IDTwice", "POST", "?token=" + token, subscribe, []string{"Authorization", "Bearer dev:alice"}, 409, services.Conflict},
			{"NoID", "POST", "?token=" + token, `{"query":"{ hello }"}`, []string{"Authorization", "Bearer dev:alice"}, 400, services.Invalid},
			{"LongID", "POST", "?token=" + token, `{"query":"{ hello }","extensions":{"operationId":"` + strings.Repeat("a", 129) + `"}}`, []string{"Authorization", "Bearer dev:alice"}, 400, services.Invalid},
			{"NotValid", "POST", "?token=" + token, `{"query":"{ nothing }","extensions":{"operationId":"2"}}`, []string{"Authorization", "Bearer dev:alice"}, 400, services.Invalid},
			{"MutationByGet", "GET", "?token=" + token + "&query=mutation%7Bset(text:%22a%22)%7D&extensions=%7B%22operationId%22:%223%22%7D", "", []string{"Authorization", "Bearer dev:alice"}, 405, services.Invalid},
			{"BadToken", "PUT", "", "", []string{"Authorization", "Bearer nonsense"}, 401, services.Unauthenticated},
			{"BadDevice", "PUT", "", "", []string{"Authorization", "Bearer dev:alice", "Tidings-Device", "a b"}, 400, services.Invalid},
			{"ForeignPage", "PUT", "", "", []string{"Origin", "https://evil.example"}, 403, services.Forbidden},
			{"ForeignStream", "GET", "?query=subscription%7Bticks%7D", "", []string{"Accept", typeEvents, "Sec-Fetch-Site", "cross-site"}, 403, services.Forbidden},
			{"FormBody", "POST", "", "query=subscription%7Bticks%7D", []string{"Accept", typeEvents, "Content-Type", "application/x-www-form-urlencoded"}, 415, services.Invalid},
			{"NotTaken", "POST", "", `{"query":"subscription { ticks }"}`, []string{"Accept", typeJSON}, 400, services.Invalid},
		} {
			status, text := w.statusAndBody(test.method, test.target, test.body, test.header...)
			if status != test.status || !strings.Contains(text, `"code":"`+string(test.code)+`"`) || strings.Contains(text, token) {
				t.Errorf("%s: %d %s, want %d with the code %s", test.name, status, text, test.status, test.code)
			}
		}
		e.expectNothing()
		if stats := w.sockets.Stats(); stats.Streams != 1 || stats.Operations != 1 {
			t.Errorf("left: %+v", stats)
		}
	})
}

// Sockets and event streams share their limits.
func TestEventStreamsHaveTheLimitsOfSockets(t *testing.T) {
	for name, change := range map[string]func(*SocketConfig){
		"PerUser": func(c *SocketConfig) { c.MaxPerUser = 2 }, "PerAddress": func(c *SocketConfig) { c.MaxPerAddress = 2 },
	} {
		runWithAndWithoutPoller(t, change, func(w *socketFixture) {
			w.openSocket("alice")
			w.openOperationStream("alice", "subscription { ticks }")
			for method, body := range map[string]string{http.MethodPut: "", http.MethodPost: `{"query":"subscription { ticks }"}`} {
				status, text := w.statusAndBody(method, "", body, "Accept", typeEvents, "Authorization", "Bearer dev:alice")
				if status != http.StatusTooManyRequests || !strings.Contains(text, "RATE_LIMITED") {
					t.Errorf("%s, %s: %d %s", name, method, status, text)
				}
			}
			if refused := w.sockets.Stats().Refused; refused != 2 {
				t.Errorf("%s: %d refused", name, refused)
			}
		})
	}
	runWithAndWithoutPoller(t, func(c *SocketConfig) { c.MaxOperations = 3 }, func(w *socketFixture) {
		token := w.reserveStream("alice")
		e := w.openReservedStream(token)
		for i := range 4 {
			status, text := w.postOperation("alice", token, fmt.Sprint(i), "subscription { ticks }")
			if want := map[bool]int{true: 202, false: 409}[i < 3]; status != want {
				t.Errorf("%d: %d %s", i, status, text)
			}
		}
		e.expectNothing()
	})
	limits := &fakeLimits{}
	runWithAndWithoutPoller(t, func(c *SocketConfig) { c.Limits = limits }, func(w *socketFixture) {
		limits.refuseSocket.Store(true)
		if status, _ := w.statusAndBody(http.MethodPut, "", "", "Authorization", "Bearer dev:alice"); status != http.StatusTooManyRequests {
			t.Errorf("a user beyond the rate of sockets: %d", status)
		}
	})
}
