package webhooks

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"tidings/services"
)

// special are networks of the public internet's form that lead elsewhere: to this machine, its neighbours, or through a gateway
// into IPv4. Of IPv6 only 2000::/3 is public at all.
var special = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

var publicSix = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// ParseNetworks reads networks and addresses. wrong is the first text that is neither.
func ParseNetworks(texts []string) (networks []netip.Prefix, wrong string) {
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			address, err := netip.ParseAddr(text)
			if err != nil {
				return nil, text
			}
			network = netip.PrefixFrom(address, address.BitLen())
		}
		networks = append(networks, network.Masked())
	}
	return networks, ""
}

// public reports whether an address is one of the public internet.
func public(address netip.Addr) bool {
	if address.Is6() && !publicSix.Contains(address) {
		return false
	}
	return !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(address) })
}

// checkAddress is why events may not be sent to an address: it is not public, or is not encrypted, and is not allowed.
func checkAddress(address netip.Addr, scheme string, allowed []netip.Prefix) error {
	address = address.WithZone("").Unmap()
	switch {
	case slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(address) }):
		return nil
	case !public(address):
		return services.Errorf(services.Invalid, "the address %s is not public: --webhooks-allow (TIDINGS_WEBHOOKS_ALLOW) lists networks that are allowed all the same", address)
	case scheme != "https":
		return services.Errorf(services.Invalid, "https is required: without it only networks of --webhooks-allow (TIDINGS_WEBHOOKS_ALLOW) are called")
	}
	return nil
}

// dialer connects to allowed addresses alone. The check is made of the address that is dialled, after the name was resolved, so
// that a name that resolves to another address the second time does not get past it.
func dialer(scheme string, allowed []netip.Prefix) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("the address %s cannot be read", address)
		}
		return checkAddress(at.Addr(), scheme, allowed)
	}}
	return d.DialContext
}
