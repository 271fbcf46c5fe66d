package transport

import (
	"net/http"
	"strings"
	"testing"
)

// In development mode the pages of this machine may call, on any port, and in production only listed pages; the refusal
// names the setting.
func TestOriginsOfThisMachine(t *testing.T) {
	development := newDevelopmentHandler(t, nil)
	keyed := newDevelopmentHandler(t, func(cfg *Config) {
		cfg.Identity = newIdentity(t, IdentityConfig{TokenSettings: TokenSettings{HMACSecret: testHMACSecret}})
	})
	for _, origin := range []string{"http://localhost:5173", "https://localhost", "http://app.localhost:3000", "http://127.0.0.1:8081", "http://[::1]:9"} {
		got := postQuery(t, development, "{ hello }", "Origin", origin)
		if got.status != 200 || got.header.Get("Access-Control-Allow-Origin") != origin {
			t.Errorf("%s in development: %d %v", origin, got.status, got.header)
		}
		preflight := askHandler(t, development, http.MethodOptions, "/graphql", "", "Origin", origin)
		if allowed := preflight.header.Get("Access-Control-Allow-Headers"); !strings.Contains(allowed, "X-Graphql-Event-Stream-Token") {
			t.Errorf("%s: the preflight allows %s", origin, allowed)
		}
		if got := postQuery(t, keyed, "{ hello }", "Origin", origin); got.status != http.StatusForbidden || !strings.Contains(got.body, "--origins") {
			t.Errorf("%s in production: %d %s", origin, got.status, got.body)
		}
	}
	for _, origin := range []string{"http://localhost.evil.test", "http://127.0.0.1.evil.test", "null", "ftp://localhost", "http://localhost@evil.test", "https://app.example.com"} {
		got := postQuery(t, development, "{ hello }", "Origin", origin)
		if got.status != http.StatusForbidden || !strings.Contains(got.body, "--origins") || got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s in development: %d %s", origin, got.status, got.body)
		}
	}
}
