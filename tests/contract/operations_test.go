package contract

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"tidings/tests/world"
)

// The paths for operators, the paths of profiles, and the paths for everybody.
var (
	operatorPaths = []string{"/metrics", "/graphiql", "/docs/", "/", "/admin/style.css"}
	profilePaths  = []string{"/debug/pprof/", "/debug/pprof/heap?debug=1", "/debug/pprof/goroutine", "/debug/pprof/symbol", "/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=1"}
	publicPaths   = []string{"/healthz", "/readyz", "/graphql?query=%7B__typename%7D"}
)

// getPath gets a path of a server, following no redirect. header are names and values of header fields in turn.
func getPath(t *testing.T, origin, path string, header ...string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, origin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			request.Host = header[i+1]
		}
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// wantServed checks that the paths in there are served and that the paths in missing are not.
func wantServed(t *testing.T, origin string, there, missing []string) {
	t.Helper()
	for _, path := range there {
		if status, body := getPath(t, origin, path); status >= 400 {
			t.Errorf("%s%s: %d %s", origin, path, status, body)
		}
	}
	for _, path := range missing {
		if status, body := getPath(t, origin, path); status != http.StatusNotFound {
			t.Errorf("%s%s: %d, want 404: %.100s", origin, path, status, body)
		}
	}
}

// waitReady waits until a node takes traffic.
func waitReady(t *testing.T, origin string) {
	t.Helper()
	world.Eventually(t, 30*time.Second, "the node is ready", func() bool {
		status, _ := getPath(t, origin, "/readyz")
		return status == http.StatusOK
	})
}

// addressLogLine returns the line in which a process logs its address.
func addressLogLine(p *world.Process) string {
	_, rest, _ := strings.Cut(p.Output.String(), "Tidings serves ")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

func TestProductionWithoutOperationsListenerServesNoMetrics(t *testing.T) {
	p := world.StartServingProcess(t, "", "--data", t.TempDir(), "--redis", "embedded", "--jwt-secret", world.TestSecret)
	waitReady(t, p.URL)
	wantServed(t, p.URL, publicPaths, append(append(operatorPaths, profilePaths...), "/graphiql/assets/x/favicon.svg"))
	if line := addressLogLine(p); !strings.Contains(line, "--operations-listen") || strings.Contains(line, "/graphiql") {
		t.Errorf("the process says %q", line)
	}
}

// operationsAddressPattern finds the operations address in the line that a process logs.
var operationsAddressPattern = regexp.MustCompile(`operations: (http://[^ ,)]+)`)

// operationsAddressOf returns the operations address that a process logs.
func operationsAddressOf(t *testing.T, p *world.Process) string {
	t.Helper()
	found := operationsAddressPattern.FindStringSubmatch(addressLogLine(p))
	if found == nil || found[1] == p.URL {
		t.Fatalf("the process says %q, and no other address for operations", addressLogLine(p))
	}
	return found[1]
}

func TestProductionServesOperatorsOnTheirListenerAlone(t *testing.T) {
	p := world.StartServingProcess(t, "", "--data", t.TempDir(), "--redis", "embedded", "--jwt-secret", world.TestSecret, "--operations-listen", "127.0.0.1:0", "--pprof")
	operations := operationsAddressOf(t, p)
	waitReady(t, p.URL)
	waitReady(t, operations)
	wantServed(t, p.URL, publicPaths, append(operatorPaths, profilePaths...))
	wantServed(t, operations, append(append(operatorPaths, publicPaths...), profilePaths...), []string{"/debug/pprof/cmdline"}) // the command line contains the key for tokens
	if _, body := getPath(t, operations, "/metrics"); !strings.Contains(body, "tidings_sockets_open") {
		t.Errorf("/metrics has no numbers of ours: %.200s", body)
	} else if problems, err := promlint.New(strings.NewReader(body)).Lint(); err != nil || len(problems) > 0 { // as promtool check metrics
		t.Errorf("the metrics are not as Prometheus wants them: %v, %v", problems, err)
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "alice", "exp": time.Now().Add(time.Hour).Unix()}).SignedString([]byte(world.TestSecret))
	if err != nil {
		t.Fatal(err)
	}
	const query = "/graphql?query=%7Bviewer%7Buser%7Bkey%7D%7D%7D"
	if status, body := getPath(t, operations, query, "Authorization", "Bearer "+token); !strings.Contains(body, `"alice"`) {
		t.Errorf("GraphQL for GraphiQL: %d %s", status, body)
	}
	for _, without := range []string{"", "Bearer dev:alice"} {
		if status, body := getPath(t, operations, query, "Authorization", without); strings.Contains(body, `"alice"`) {
			t.Errorf("with the token %q: %d %s", without, status, body)
		}
	}
	p.Terminate()
	if code := p.WaitExit(15 * time.Second); code != 0 {
		t.Errorf("exit code %d: %s", code, p.Output.String())
	}
	for _, origin := range []string{p.URL, operations} {
		if response, err := http.Get(origin + "/healthz"); err == nil {
			_ = response.Body.Close()
			t.Errorf("%s is served still", origin)
		}
	}
	again := world.StartServingProcess(t, "", "--data", t.TempDir(), "--redis", "embedded", "--operations-listen", strings.TrimPrefix(operations, "http://"))
	if got := operationsAddressOf(t, again); got != operations {
		t.Errorf("the port was freed, and the next process serves %s, not %s", got, operations)
	}
	wantServed(t, again.URL, nil, profilePaths) // without --pprof
	wantServed(t, operations, nil, profilePaths)
}

func TestDevelopmentServesOperatorsOnBothListeners(t *testing.T) {
	p := world.StartServingProcess(t, "", "--data", t.TempDir(), "--redis", "embedded", "--operations-listen", "127.0.0.1:0", "--pprof")
	operations := operationsAddressOf(t, p)
	waitReady(t, operations)
	wantServed(t, p.URL, nil, profilePaths)
	wantServed(t, operations, profilePaths, nil)
	for _, origin := range []string{p.URL, operations} {
		wantServed(t, origin, append(operatorPaths, publicPaths...), nil)
		for _, path := range append(operatorPaths, publicPaths...) {
			if status, _ := getPath(t, origin, path, "Host", "evil.test"); status != http.StatusForbidden {
				t.Errorf("%s%s as evil.test: %d, want 403", origin, path, status)
			}
			if status, _ := getPath(t, origin, path, "X-Forwarded-For", "192.0.2.1"); status != http.StatusForbidden {
				t.Errorf("%s%s, forwarded: %d, want 403", origin, path, status)
			}
		}
	}
	if line := addressLogLine(p); !strings.Contains(line, p.URL+"/graphiql") {
		t.Errorf("the process says %q", line)
	}
}

func TestDevelopmentServesProfilesToThisMachineAlone(t *testing.T) {
	p := world.StartServingProcess(t, "", "--data", t.TempDir(), "--redis", "embedded", "--pprof")
	wantServed(t, p.URL, profilePaths, []string{"/debug/pprof/cmdline"})
	for _, path := range profilePaths {
		if status, _ := getPath(t, p.URL, path, "Host", "evil.test"); status != http.StatusForbidden {
			t.Errorf("%s as evil.test: %d, want 403", path, status)
		}
	}
}
