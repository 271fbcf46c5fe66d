package transport

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"tidings/services"
)

// LoopbackOnly refuses every request whose Host is no name or address of this machine's loopback. The development mode
// needs no secret, and listening on loopback alone does not keep a foreign page out: its name may be made to point here,
// and then the browser takes us for that page's own server.
func LoopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			writeFault(w, http.StatusForbidden, services.Errorf(services.Forbidden,
				"Host: %s is not this machine: in development mode only localhost, *.localhost, 127.0.0.0/8 and ::1 are served; configure a key for others",
				services.Quote(r.Host)))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if address, err := netip.ParseAddr(name); err == nil {
		return address.Unmap().IsLoopback()
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}
