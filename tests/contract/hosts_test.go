package contract

import (
	"net/http"
	"testing"

	"tidings/services/node"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// In development mode no route answers a request for a host name other than this machine's. With a key for tokens, any host name
// is served.
func TestDevelopmentModeAnswersToLoopbackNamesOnly(t *testing.T) {
	status := func(n *world.Node, path, host string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	paths := []string{"/", "/graphql?query=%7B__typename%7D", "/graphiql", "/healthz", "/readyz", "/metrics"}
	development := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
	production := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ChangeConfig: func(cfg *node.Config) {
		cfg.Tokens.HMACSecret = "0123456789abcdef0123456789abcdef"
	}})
	for _, path := range paths {
		if got := status(development, path, "evil.test:8080"); got != http.StatusForbidden {
			t.Errorf("development, %s: %d, want 403", path, got)
		}
		if got := status(development, path, "localhost:8080"); got >= 400 {
			t.Errorf("development, %s as localhost: %d", path, got)
		}
		if got := status(production, path, "tidings.example:8080"); got == http.StatusForbidden {
			t.Errorf("production, %s: %d", path, got)
		}
	}
}
