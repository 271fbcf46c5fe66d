package transport

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"tidings/services"
)

// LoopbackOnly refuses every request whose Host is not a loopback name or address of this machine, and every request that a proxy
// has forwarded. Development mode needs no secret, and listening on loopback alone does not keep others out. A foreign page can
// point its own host name at this machine (DNS rebinding), and the browser then takes this server for the page's own. A proxy on
// this machine forwards requests from anywhere, with any Host. The Front makes the same two checks.
func LoopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			writeFault(newRequest(w, r), http.StatusForbidden, services.Errorf(services.Forbidden,
				"Host: %s is not this machine: in development mode only localhost, *.localhost, 127.0.0.0/8 and ::1 are served; configure a key for tokens to serve others",
				services.Quote(r.Host)))
			return
		}
		for name := range r.Header {
			if isForwardingHeader(name) {
				writeFault(newRequest(w, r), http.StatusForbidden, services.Errorf(services.Forbidden,
					"%s: in development mode a request that a proxy has forwarded is refused; configure a key for tokens", name))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// isForwardingHeader reports whether a header is one that proxies add. A proxy that adds none cannot be told from a client.
func isForwardingHeader(name string) bool {
	return strings.HasPrefix(name, "X-Forwarded-") || name == "Forwarded" || name == "Via" || name == "X-Real-Ip" // in Go's canonical form
}

// isLoopback reports whether a host, with or without a port, is this machine. Browsers resolve *.localhost to it by themselves, so
// no name server can point such a name elsewhere.
func isLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		// Without a port an IPv6 address may still be in brackets.
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if address, err := netip.ParseAddr(name); err == nil {
		return address.Unmap().IsLoopback()
	}
	// A name with a dot at its end is the same name, for browsers and for name servers.
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}
