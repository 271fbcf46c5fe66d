package outbound

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"tidings/services"
	"tidings/services/outbound/outboundtest"
	"tidings/tests/eventually"
)

// No request goes to an address that is not public, whatever its notation, unless the address is allowed. Public addresses
// need https.
func TestPrivateAddresses(t *testing.T) {
	allowed, wrong := services.ParseNetworks([]string{"10.1.0.0/16", "192.168.7.7", "fd00::/8"})
	if wrong != "" {
		t.Fatal(wrong)
	}
	guard := Guard{Allow: allowed, SettingName: "--allow"}
	for address, want := range map[string]bool{
		"93.184.216.34": true, "2606:2800:220:1::1": true, "::ffff:93.184.216.34": true,
		"10.1.2.3": true, "192.168.7.7": true, "fd12::1": true, "::ffff:10.1.2.3": true,
		"10.2.0.1": false, "192.168.7.8": false, "127.0.0.1": false, "127.9.9.9": false, "0.0.0.0": false, "169.254.169.254": false, "172.16.0.1": false,
		"172.31.255.255": false, "100.64.0.1": false, "224.0.0.1": false, "255.255.255.255": false, "240.0.0.1": false, "198.18.0.1": false, "192.0.0.1": false,
		"::1": false, "::": false, "fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "ff02::1": false, "::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false,
		"64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "2002:7f00:1::": false, "2001:0:1::1": false, "2001:db8::1": false, "::127.0.0.1": false,
	} {
		err := guard.checkAddress(netip.MustParseAddr(address), "https")
		if (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := guard.checkAddress(netip.MustParseAddr("93.184.216.34"), "http"); err == nil {
		t.Error("a public address is called without encryption")
	}
	if err := guard.checkAddress(netip.MustParseAddr("10.1.2.3"), "http"); err != nil {
		t.Error(err)
	}
}

// A receiver can ask to wait by a number of seconds or by a time of its own clock. The wait is an hour at most.
func TestRetryAfter(t *testing.T) {
	const date = "Tue, 24 Nov 2026 10:00:00 GMT"
	for text, want := range map[string]time.Duration{
		"": 0, "-5": 0, "0": 0, "7": 7 * time.Second, "3600": time.Hour, "99999999": time.Hour, "soon": 0, "99999999999999999999": 0,
		"Tue, 24 Nov 2026 10:00:30 GMT": 30 * time.Second, "Tue, 24 Nov 2026 09:00:30 GMT": 0, "Wed, 25 Nov 2026 10:00:30 GMT": time.Hour,
	} {
		if got := retryAfter(http.Header{"Retry-After": {text}, "Date": {date}}); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// Pauses double up to the longest, and are shortened by a fifth at most.
func TestPause(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: 5 * time.Second, 1: 10 * time.Second, 3: 40 * time.Second, 12: time.Hour, 1000: time.Hour} {
		if got := RetryPause(failures, LongestRetryPause); got > want || got < want*4/5 {
			t.Errorf("after %d failures: %v", failures, got)
		}
	}
}

// The error is kept in SQL and shown to operators. A receiver whose certificate has unprintable characters cannot make it a text
// that PostgreSQL refuses, or a text that moves the cursor of a terminal.
func TestErrorIsPrintableWhateverTheReceiverSends(t *testing.T) {
	allowed, _ := services.ParseNetworks([]string{"127.0.0.1"})
	client := NewClient(Guard{Allow: allowed, SettingName: "--allow"}, 5*time.Second, 1)
	defer client.CloseIdle()
	address := outboundtest.StartServerWithNames(t, "a\x00b.example", "c\x1b[2Jd\n.example")
	a := client.Send(t.Context(), func(ctx context.Context) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodPost, address, nil)
	})
	if !strings.Contains(a.Err, "certificate is valid for a") || strings.ContainsFunc(a.Err, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%q", a.Err)
	}
}

// A client keeps few unused connections, whatever number of hosts it has called.
func TestUnusedConnectionsAreBounded(t *testing.T) {
	for name, prepare := range map[string]func(*httptest.Server){
		"http": (*httptest.Server).Start, "https": (*httptest.Server).StartTLS,
		"HTTP/2": func(server *httptest.Server) {
			server.EnableHTTP2 = true
			server.StartTLS()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var open atomic.Int64
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if (name == "HTTP/2") != (r.ProtoMajor == 2) {
					t.Errorf("the request came by %s", r.Proto)
				}
			}))
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				switch state {
				case http.StateNew:
					open.Add(1)
				case http.StateClosed:
					open.Add(-1)
				}
			}
			prepare(server)
			defer server.Close()
			const most, hosts = 5, 40
			scheme, _, _ := strings.Cut(server.URL, "://")
			client := newClient(func(string) dialFunc {
				return func(ctx context.Context, network, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
				}
			}, time.Minute, 1)
			defer client.CloseIdle()
			client.maxIdleConnections = most
			if pool := server.Client().Transport.(*http.Transport).TLSClientConfig; pool != nil {
				client.tlsTransport.TLSClientConfig = &tls.Config{RootCAs: pool.RootCAs, ServerName: "example.com"} // the certificate's
			}
			for i := range hosts {
				a := client.Send(t.Context(), func(ctx context.Context) (*http.Request, error) {
					return http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s://host%d.example/", scheme, i), nil)
				})
				if a.Err != "" {
					t.Fatal(a.Err)
				}
			}
			// Well before they are closed because of their age.
			eventually.HoldsWithin(t, idleConnectionTimeout/2, "few connections are open", func() bool { return open.Load() <= most+1 })
			client.CloseIdle()
			eventually.Holds(t, "no connection is open", func() bool { return open.Load() == 0 && client.connections.Load() == 0 })
		})
	}
}
