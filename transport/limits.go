package transport

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/99designs/gqlgen/graphql"

	"tidings/services"
)

// Limits bounds the requests of clients. Each method returns RATE_LIMITED, with the time to wait, if a request exceeds a limit;
// the request is then not executed. Implementations are safe for concurrent use and do not wait.
type Limits interface {
	// ChargeAddress is called for each operation on a socket, and, before the token is checked, for each upgrade and each HTTP
	// request. It is not called for a preflight, nor for a request that is refused by an earlier check, such as those of the method
	// and the origin.
	ChargeAddress(address string) error
	// ChargeOperation is called before an operation with this cost is executed. It charges the viewer in the context, or the
	// address if there is no viewer.
	ChargeOperation(ctx context.Context, address string, operation *graphql.OperationContext, cost int) error
	// ChargeEvent charges a try to render an event of a subscription, at the cost of the whole operation. It is used only for
	// subscriptions that do not wake: a goroutine reads their events (see SocketConfig.WithWakeConsumer). It is called after each try
	// except the subscription's first. An event has several tries while an engine does not answer. If ChargeEvent returns an error, the
	// subscription waits for RetryAfter, calls it again, and makes its next try only once ChargeEvent returns no error.
	ChargeEvent(ctx context.Context, address string, cost int) error
	// ChargeSocket is called before a viewer's socket is acknowledged, or their event stream is opened.
	ChargeSocket(viewer services.Viewer) error
}

// noLimits bounds nothing. It is the default, so that no caller checks for nil.
type noLimits struct{}

// The methods of noLimits permit everything.
func (noLimits) ChargeAddress(string) error { return nil }
func (noLimits) ChargeOperation(context.Context, string, *graphql.OperationContext, int) error {
	return nil
}
func (noLimits) ChargeEvent(context.Context, string, int) error { return nil }
func (noLimits) ChargeSocket(services.Viewer) error             { return nil }

// trustedProxies are the networks of the proxies whose header X-Forwarded-For is believed. clientAddress finds the address of a client
// by them.
type trustedProxies struct{ proxies []netip.Prefix }

// clientAddress returns the address that a request is counted under: the address of the connection or, if that is a trusted proxy,
// the last address in X-Forwarded-For that is not a trusted proxy. An IPv6 address counts as its /64, because a client usually has
// all of it. The list is read from its end, because each proxy appends the address that it has seen: the client may have invented
// the entries before that one.
func (a trustedProxies) clientAddress(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr // a Unix socket, or a test
	}
	// An IPv4 address in IPv6 form is the same client.
	client := peer.Addr().Unmap()
	if a.trusts(client) {
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for _, hop := range slices.Backward(hops) {
			address, ok := parseHop(hop)
			// An entry that cannot be read ends the walk: the last proxy is then the client.
			if !ok {
				break
			}
			if client = address; !a.trusts(client) {
				break
			}
		}
	}
	return addressKey(client)
}

// addressKey returns the text under which an address is counted. It drops the zone, which names an interface of this machine and not
// a client.
func addressKey(client netip.Addr) string {
	if client.Is6() {
		network, _ := client.WithZone("").Prefix(64) // 64 is a valid length for IPv6
		return network.String()
	}
	return client.String()
}

// trusts reports whether an address belongs to a trusted proxy.
func (a trustedProxies) trusts(address netip.Addr) bool {
	return slices.ContainsFunc(a.proxies, func(proxy netip.Prefix) bool { return proxy.Contains(address) })
}

// parseHop reads one element of X-Forwarded-For. Some proxies add a port.
func parseHop(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if address, err := netip.ParseAddr(text); err == nil {
		return address.Unmap(), true
	}
	withPort, err := netip.ParseAddrPort(text)
	return withPort.Addr().Unmap(), err == nil
}

// concurrencyLimiter counts the open items of each holder, such as the connections of an address or the sockets of a user, up to a limit.
// A holder without an item takes no memory. concurrencyLimiter is safe for concurrent use.
type concurrencyLimiter struct {
	limit int // the most open items of one holder; 0: no limit

	mu           sync.Mutex     // guards openByHolder
	openByHolder map[string]int // the number of open items, by holder
}

// enter counts one more open item of a holder. If the holder is at its limit, enter counts nothing and returns false.
func (o *concurrencyLimiter) enter(holder string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.limit > 0 && o.openByHolder[holder] >= o.limit {
		return false
	}
	if o.openByHolder == nil {
		o.openByHolder = map[string]int{}
	}
	o.openByHolder[holder]++
	return true
}

// leave uncounts one item of a holder. It undoes one call of enter that returned true.
func (o *concurrencyLimiter) leave(holder string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// The entry is deleted with the last item: addresses come and go without end, and the map must not grow with them.
	if o.openByHolder[holder]--; o.openByHolder[holder] <= 0 {
		delete(o.openByHolder, holder)
	}
}
