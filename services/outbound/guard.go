package outbound

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"tidings/services"
)

// nonPublicNetworks are the networks whose addresses are not public: they lead to this machine, to its neighbours, or through a gateway into
// IPv4. In IPv6 only 2000::/3 is public, so of IPv6 the list has only parts of 2000::/3: the protocol assignments (with
// Teredo), documentation and 6to4.
var nonPublicNetworks = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

var publicIPv6 = netip.MustParsePrefix("2000::/3") // all of IPv6 that is public

// prefixes parses networks; a mistake in one stops the program at once.
func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// Guard says which addresses may be called. The zero value allows public addresses by https alone.
type Guard struct {
	Allow       []netip.Prefix // networks that may be called though they are not public, also without https
	SettingName string         // the setting that lists them, for errors
}

// isPublic reports whether an address is one of the public internet.
func isPublic(address netip.Addr) bool {
	if address.Is6() && !publicIPv6.Contains(address) {
		return false
	}
	return !slices.ContainsFunc(nonPublicNetworks, func(p netip.Prefix) bool { return p.Contains(address) })
}

// checkAddress returns why requests may not be sent to an address: it is not allowed, and it is not public or the scheme is
// not https. It judges ::ffff:10.0.0.1 as 10.0.0.1, which is where the connection would go.
func (g Guard) checkAddress(address netip.Addr, scheme string) error {
	address = address.WithZone("").Unmap()
	switch {
	case slices.ContainsFunc(g.Allow, func(p netip.Prefix) bool { return p.Contains(address) }):
		return nil
	case !isPublic(address):
		return services.Errorf(services.Invalid, "the address %s is not public: %s lists networks that are allowed all the same", address, g.SettingName)
	case scheme != "https":
		return services.Errorf(services.Invalid, "https is required: without it only networks of %s are called", g.SettingName)
	}
	return nil
}

// CheckURL checks an address, the value of field, before it is used: the error is INVALID for an address that could never be
// called. The address behind a host name is checked only when it is dialled.
func (g Guard) CheckURL(field, text string) (*url.URL, error) {
	if text == "" {
		return nil, services.Errorf(services.Invalid, "%s: is missing", field)
	}
	if err := services.CheckURL(field, text); err != nil {
		return nil, err
	}
	at, err := url.Parse(text)
	if err != nil || at.Hostname() == "" {
		return nil, services.Errorf(services.Invalid, "%s: %s is not an address", field, services.Quote(text))
	}
	// A password would be stored and shown with the address; a fragment is never sent.
	if at.User != nil || at.Fragment != "" {
		return nil, services.Errorf(services.Invalid, "%s: a user, a password or a fragment is not allowed", field)
	}
	if literal, err := netip.ParseAddr(at.Hostname()); err == nil {
		if err := g.checkAddress(literal, at.Scheme); err != nil {
			return nil, services.Errorf(services.Invalid, "%s: %s", field, err.Error())
		}
	}
	return at, nil
}

// dialer connects to allowed addresses alone. The address that is dialled is checked, after the name was resolved, so that a name
// that resolves to another address the second time does not get past the check.
func (g Guard) dialer(scheme string) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("the address %s cannot be read", address)
		}
		return g.checkAddress(at.Addr(), scheme)
	}}
	return d.DialContext
}
