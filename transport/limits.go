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

// Limits bounds the requests of clients. Each method returns RATE_LIMITED, with the time to wait, if a request is too much; it
// is then not executed. Implementations are safe for concurrent use and do not wait.
type Limits interface {
	// Address is called for each HTTP request, each socket and each operation on a socket, before the token is looked at.
	Address(address string) error
	// Operation is called before an operation of that cost is executed. The context has the viewer, if there is one, who pays;
	// else the address does.
	Operation(ctx context.Context, address string, operation *graphql.OperationContext, cost int) error
	// Socket is called before a viewer's socket is acknowledged.
	Socket(viewer services.Viewer) error
}

// noLimits bounds nothing. It is the default, so that nobody asks whether there are limits.
type noLimits struct{}

// The methods of noLimits permit everything.
func (noLimits) Address(string) error                                                    { return nil }
func (noLimits) Operation(context.Context, string, *graphql.OperationContext, int) error { return nil }
func (noLimits) Socket(services.Viewer) error                                            { return nil }

// addresses finds the address of a client.
type addresses struct{ proxies []netip.Prefix }

// of is the address that a request is counted under: that of the connection or, if this is a trusted proxy, the last address in
// X-Forwarded-For that is not one. An IPv6 address counts as its /64, because a client usually has all of it. The list is read
// from its end, because each proxy appends what it has seen: what stands further in front, the client may have made up.
func (a addresses) of(r *http.Request) string {
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
			// What cannot be read ends the walk, with the last proxy as the client.
			if !ok {
				break
			}
			if client = address; !a.trusts(client) {
				break
			}
		}
	}
	return counted(client)
}

// counted is the text under which an address is counted. The zone names an interface of this machine and no client.
func counted(client netip.Addr) string {
	if client.Is6() {
		network, _ := client.WithZone("").Prefix(64) // 64 is a valid length for IPv6
		return network.String()
	}
	return client.String()
}

// trusts reports whether an address is that of a trusted proxy.
func (a addresses) trusts(address netip.Addr) bool {
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

// ParseProxies reads addresses and networks (10.0.0.0/8), or returns the item that is neither. A single address is the network of
// itself alone.
func ParseProxies(items []string) (proxies []netip.Prefix, wrong string) {
	for _, item := range items {
		network, err := netip.ParsePrefix(item)
		if err != nil {
			address, err := netip.ParseAddr(item)
			if err != nil {
				return nil, item
			}
			network = netip.PrefixFrom(address, address.BitLen())
		}
		proxies = append(proxies, network.Masked())
	}
	return proxies, ""
}

// occupancy counts the open items of each holder, up to a limit; 0 is no limit. A holder without an item takes no memory. It is
// safe for concurrent use.
type occupancy struct {
	limit int

	mu   sync.Mutex
	open map[string]int
}

// enter counts one more item; false if the holder is at its limit, and then nothing is counted.
func (o *occupancy) enter(holder string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.limit > 0 && o.open[holder] >= o.limit {
		return false
	}
	if o.open == nil {
		o.open = map[string]int{}
	}
	o.open[holder]++
	return true
}

// leave undoes one enter that returned true.
func (o *occupancy) leave(holder string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// The entry goes with the last item: addresses come and go without end, and the map must not grow with them.
	if o.open[holder]--; o.open[holder] <= 0 {
		delete(o.open, holder)
	}
}
