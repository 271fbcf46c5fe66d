package transport

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"tidings/services"
)

// fakeLimits is a Limits for tests. It counts charges, and refuses those that a test selects.
type fakeLimits struct {
	addressCharges                               atomic.Int64 // the number of calls of ChargeAddress
	eventCostSum                                 atomic.Int64 // the sum of the costs that ChargeEvent charged
	refuseAddress, refuseOperation, refuseSocket atomic.Bool  // ChargeAddress, ChargeOperation or ChargeSocket returns errRateLimited
	refuseEvent                                  atomic.Bool  // ChargeEvent returns errRateLimited
	panicsOnCharge                               atomic.Bool  // ChargeOperation and ChargeSocket panic
}

// errRateLimited is the error with which fakeLimits refuses.
var errRateLimited = &services.Error{Code: services.RateLimited, Message: "WRITES: too many", RetryAfter: 1500 * time.Millisecond}

// refuseIf returns errRateLimited if refused is set.
func refuseIf(refused *atomic.Bool) error {
	if refused.Load() {
		return errRateLimited
	}
	return nil
}

// ChargeAddress counts the charge, even if it refuses it.
func (f *fakeLimits) ChargeAddress(string) error {
	f.addressCharges.Add(1)
	return refuseIf(&f.refuseAddress)
}

func (f *fakeLimits) ChargeOperation(context.Context, string, *graphql.OperationContext, int) error {
	if f.panicsOnCharge.Load() {
		panic("in the limits")
	}
	return refuseIf(&f.refuseOperation)
}

func (f *fakeLimits) ChargeEvent(_ context.Context, _ string, cost int) error {
	if f.refuseEvent.Load() {
		return errRateLimited
	}
	f.eventCostSum.Add(int64(cost))
	return nil
}

func (f *fakeLimits) ChargeSocket(services.Viewer) error {
	if f.panicsOnCharge.Load() {
		panic("in the limits")
	}
	return refuseIf(&f.refuseSocket)
}

func TestRateLimitedRequestIsNotExecuted(t *testing.T) {
	limits := &fakeLimits{}
	handler := newDevelopmentHandler(t, func(cfg *Config) { cfg.Limits = limits })
	if got := postQuery(t, handler, "{ hello }"); got.status != 200 || limits.addressCharges.Load() != 1 {
		t.Fatalf("within the limits: %d %s, %d requests counted", got.status, got.body, limits.addressCharges.Load())
	}
	for name, refused := range map[string]*atomic.Bool{"address": &limits.refuseAddress, "operation": &limits.refuseOperation} {
		refused.Store(true)
		got := postQuery(t, handler, `mutation { set(text: "never") }`)
		want := `{"errors":[{"message":"WRITES: too many","extensions":{"argument":"WRITES","code":"RATE_LIMITED","retryAfterMs":1500}}]}`
		if got.status != http.StatusTooManyRequests || got.body != want || got.header.Get("Retry-After") != "2" {
			t.Errorf("%s: %d, Retry-After %q, %s: want 429, 2, %s", name, got.status, got.header.Get("Retry-After"), got.body, want)
		}
		refused.Store(false)
	}
}

func TestRateLimitedOperationLeavesTheSocketOpen(t *testing.T) {
	limits := &fakeLimits{}
	runWithAndWithoutPoller(t, func(cfg *SocketConfig) { cfg.Limits = limits }, func(w *socketFixture) {
		c := w.openSocket("alice")
		limits.refuseOperation.Store(true)
		c.subscribe("1", "subscription { ticks }")
		c.expectMessage(`{"type":"error","id":"1","payload":[{"message":"WRITES: too many","extensions":{"argument":"WRITES","code":"RATE_LIMITED","retryAfterMs":1500}}]}`)
		limits.refuseOperation.Store(false)
		limits.refuseAddress.Store(true)
		c.subscribe("1", "{ hello }")
		c.expectMessage(`{"type":"error","id":"1","payload":[{"message":"WRITES: too many","extensions":{"argument":"WRITES","code":"RATE_LIMITED","retryAfterMs":1500}}]}`)
		limits.refuseAddress.Store(false)
		c.subscribe("1", "{ hello }")
		if got := c.nextMessage(); got != `{"type":"next","id":"1","payload":{"data":{"hello":"world"}}}` {
			t.Errorf("after the refusals: %s", got)
		}
		c.expectMessage(`{"type":"complete","id":"1"}`)
	})
}

func TestRateLimitedSocketIsRefused(t *testing.T) {
	limits := &fakeLimits{}
	runWithAndWithoutPoller(t, func(cfg *SocketConfig) { cfg.Limits = limits }, func(w *socketFixture) {
		limits.refuseSocket.Store(true)
		limits.refuseAddress.Store(false)
		c := w.connect()
		c.send(`{"type":"connection_init","payload":{"authorization":"Bearer dev:alice"}}`)
		if closing := c.expectClose(closeTooManyRequests); closing.Text != "WRITES: too many" {
			t.Errorf("the reason is %q", closing.Text)
		}
		limits.refuseAddress.Store(true)
		_, err := w.dial(http.Header{}, webSocketSubprotocol)
		if refused, ok := err.(*upgradeRefusal); !ok || refused.status != http.StatusTooManyRequests || refused.header.Get("Retry-After") != "2" {
			t.Errorf("the upgrade: %v: want 429 with Retry-After", err)
		}
	})
}

func TestSocketsOfAUserAreBounded(t *testing.T) {
	runWithAndWithoutPoller(t, func(cfg *SocketConfig) { cfg.MaxPerUser = 2 }, func(w *socketFixture) {
		first, second := w.openSocket("alice"), w.openSocket("alice")
		third := w.connect()
		third.send(`{"type":"connection_init","payload":{"authorization":"Bearer dev:alice"}}`)
		third.expectClose(closeTooManyRequests)
		w.openSocket("bob")
		first.conn.Close()
		synctest.Wait()
		w.openSocket("alice")
		second.subscribe("1", "{ hello }")
		second.nextMessage()
		if len(w.sockets.perUser.openByHolder) != 2 {
			t.Errorf("%v are counted", w.sockets.perUser.openByHolder)
		}
	})
}

func TestSocketsOfAnAddressAreBounded(t *testing.T) {
	runWithAndWithoutPoller(t, func(cfg *SocketConfig) { cfg.MaxPerAddress = 2 }, func(w *socketFixture) {
		first := w.connect() // counted before its first message
		w.connect()
		_, err := w.dial(http.Header{}, webSocketSubprotocol)
		if refused, ok := err.(*upgradeRefusal); !ok || refused.status != http.StatusTooManyRequests {
			t.Errorf("the third: %v: want 429", err)
		}
		first.conn.Close()
		synctest.Wait()
		w.openSocket("alice")
	})
}

// No socket stays counted for its user or its address once it is gone, however it ended.
func TestClosedSocketsAreNotCounted(t *testing.T) {
	var sockets *Sockets
	runWithAndWithoutPoller(t, func(cfg *SocketConfig) { cfg.MaxPerUser, cfg.MaxPerAddress = 3, 4 }, func(w *socketFixture) {
		sockets = w.sockets
		for _, header := range []http.Header{{}, {"Sec-Websocket-Version": {"8"}}} {
			if conn, err := w.dial(header, "another-protocol"); err == nil {
				conn.Close()
			}
		}
		synctest.Wait()
		w.openSocket("alice").send("not a message")
		w.openSocket("alice").conn.Close()
		w.openSocket("")
	})
	if len(sockets.perUser.openByHolder) != 0 || len(sockets.perAddress.openByHolder) != 0 {
		t.Errorf("%v and %v are left", sockets.perUser.openByHolder, sockets.perAddress.openByHolder)
	}
}

func TestClientAddress(t *testing.T) {
	proxies, wrong := services.ParseNetworks([]string{"10.0.0.0/8", "192.0.2.1", "fd00::/8"})
	if wrong != "" {
		t.Fatal(wrong)
	}
	for _, test := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"direct", "203.0.113.7:5", nil, "203.0.113.7"},
		{"direct, and it says otherwise", "203.0.113.7:5", []string{"198.51.100.1"}, "203.0.113.7"},
		{"by a proxy", "10.1.2.3:5", []string{"198.51.100.1"}, "198.51.100.1"},
		{"by two proxies", "10.1.2.3:5", []string{"198.51.100.1, 192.0.2.1"}, "198.51.100.1"},
		{"by a proxy, and the client forged more", "10.1.2.3:5", []string{"1.1.1.1, 198.51.100.1"}, "198.51.100.1"},
		{"several headers", "10.1.2.3:5", []string{"1.1.1.1", "198.51.100.1, 10.9.9.9"}, "198.51.100.1"},
		{"a port", "10.1.2.3:5", []string{"198.51.100.1:80"}, "198.51.100.1"},
		{"by a proxy that says nothing", "10.1.2.3:5", nil, "10.1.2.3"},
		{"by a proxy that says nonsense", "10.1.2.3:5", []string{"1.1.1.1, unknown"}, "10.1.2.3"},
		{"proxies alone", "10.1.2.3:5", []string{"10.2.2.2"}, "10.2.2.2"},
		{"an IPv6 address is its network", "[2001:db8:1:2:3:4:5:6]:5", nil, "2001:db8:1:2::/64"},
		{"IPv4 in IPv6", "[::ffff:203.0.113.7]:5", nil, "203.0.113.7"},
		{"IPv4 in IPv6, by a proxy", "[::ffff:10.0.0.1]:5", []string{"2001:db8::1"}, "2001:db8::/64"},
		{"a zone", "[fe80::1%eth0]:5", nil, "fe80::/64"},
		{"a Unix socket", "@", nil, "@"},
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		request.RemoteAddr = test.peer
		for _, line := range test.forwarded {
			request.Header.Add("X-Forwarded-For", line)
		}
		if got := (trustedProxies{proxies}).clientAddress(request); got != test.want {
			t.Errorf("%s: %s: want %s", test.name, got, test.want)
		}
	}
	if _, wrong := services.ParseNetworks([]string{"10.0.0.1", "example.com"}); wrong != "example.com" {
		t.Errorf("the wrong one is %q", wrong)
	}
}
