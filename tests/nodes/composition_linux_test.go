package nodes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/golang-jwt/jwt/v5"

	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// composedDeployment is the deployment of deploy/compose, run without containers. It uses the commands, the environments and the proxy's
// configuration from the files in deploy/compose, with addresses of this machine in place of the names of services.
type composedDeployment struct {
	t                *testing.T
	addressPrefix    string                    // the first three parts of all addresses: 127.A.B
	services         map[string]composeService // of the compose file, by name
	imageEnvironment map[string]string         // the variables that deploy/Dockerfile sets
	databaseURL      string                    // of the database that all nodes share
	nodes            map[string]*world.Process // by the name of the service
	ProxyURL         string                    // the address at which clients reach the nodes

	mu              sync.Mutex // guards lastClientOctet
	lastClientOctet int        // the last part of the newest client's address
}

// composeService is a service of the compose file.
type composeService struct {
	Environment map[string]string
	Command     string
}

// serviceLastOctets are the last parts (D of 127.A.B.D) of the addresses of services. The last parts of clients' addresses are higher.
var serviceLastOctets = map[string]int{"proxy": 2, "node-1": 11, "node-2": 12, "redis-1": 21, "redis-2": 22, "redis-3": 23}

const maxServiceOctet = 100 // the last parts of the addresses of services are at most this; those of clients are greater

// startComposedDeployment starts all services: the Redis cluster, the database, two nodes and the proxy.
func startComposedDeployment(t *testing.T) *composedDeployment {
	t.Helper()
	c := &composedDeployment{t: t, addressPrefix: testAddressPrefix(), nodes: map[string]*world.Process{}, lastClientOctet: maxServiceOctet}
	var file struct{ Services map[string]composeService }
	if err := yaml.Unmarshal([]byte(c.readFile("deploy/compose/compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	c.services = file.Services
	c.imageEnvironment = map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^ENV (.*)$`).FindAllStringSubmatch(c.readFile("deploy/Dockerfile"), -1) {
		for _, setting := range strings.Fields(line[1]) {
			name, value, _ := strings.Cut(setting, "=")
			c.imageEnvironment[name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(serviceLastOctets)) {
		if strings.HasPrefix(name, "redis-") {
			c.startRedis(name)
		}
	}
	c.createRedisCluster()
	c.databaseURL = sqltest.NewServer(t).NewDatabase(t)
	for _, name := range []string{"node-1", "node-2"} { // both nodes create the tables, at the same time
		c.startNode(name)
	}
	for name := range c.nodes {
		c.waitReady(name)
	}
	c.startProxy(c.readFile("deploy/compose/nginx.conf"))
	return c
}

// testAddressPrefix returns the first three parts of all addresses of this process. Each process that runs tests has its own, so that the
// ports that the compose file names are free.
func testAddressPrefix() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d", 16+pid/250%200, 1+pid%250)
}

// readFile reads a file of the repository.
func (c *composedDeployment) readFile(path string) string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(world.RepositoryRoot(), path))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// serviceAddress returns the IP address that stands for a service's name.
func (c *composedDeployment) serviceAddress(name string) string {
	return fmt.Sprint(c.addressPrefix, ".", serviceLastOctets[name])
}

// replaceNamesByAddresses replaces the names of nodes and of Redis servers by addresses.
func (c *composedDeployment) replaceNamesByAddresses(text string) string {
	return regexp.MustCompile(`\b(node|redis)-\d\b`).ReplaceAllStringFunc(text, c.serviceAddress)
}

// startProgram starts a program in a folder. The end of the test kills it.
func (c *composedDeployment) startProgram(folder, program string, arguments ...string) {
	c.t.Helper()
	var output bytes.Buffer
	command := exec.Command(program, arguments...)
	command.Dir, command.Stdout, command.Stderr = folder, &output, &output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		c.t.Fatal(err)
	}
	cancelKill := world.KillWhenTestsEnd(c.t, -command.Process.Pid)
	c.t.Cleanup(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // the whole group
		_ = command.Wait()
		cancelKill()
		if c.t.Failed() {
			c.t.Logf("%s %q said %s", program, arguments, output.String())
		}
	})
}

// startRedis starts a Redis of the cluster with its command from the compose file. The server listens on one address and also connects
// from that address, as in a container.
func (c *composedDeployment) startRedis(name string) {
	c.t.Helper()
	here := c.serviceAddress(name)
	c.startProgram(c.t.TempDir(), "/bin/sh", "-c", fmt.Sprintf("exec %s --bind %s --bind-source-addr %[2]s", c.services[name].Command, here))
}

// createRedisCluster creates the cluster with the command of the compose file. Run a second time, the command finds the cluster and
// does nothing.
func (c *composedDeployment) createRedisCluster() {
	c.t.Helper()
	for _, name := range []string{"redis-1", "redis-2", "redis-3"} {
		world.Eventually(c.t, 20*time.Second, name+" answers", func() bool {
			return exec.Command("redis-cli", "-h", c.serviceAddress(name), "ping").Run() == nil
		})
	}
	for _, want := range []string{"All 16384 slots covered", ""} {
		said, err := exec.Command("/bin/sh", "-c", c.replaceNamesByAddresses(c.services["redis-cluster"].Command)).CombinedOutput()
		if err != nil || !strings.Contains(string(said), want) || want == "" && len(said) > 0 {
			c.t.Fatalf("the command of redis-cluster: %v: %s", err, said)
		}
		world.Eventually(c.t, 20*time.Second, "the cluster is whole", func() bool {
			info, err := exec.Command("redis-cli", "-h", c.serviceAddress("redis-1"), "cluster", "info").Output()
			return err == nil && strings.Contains(string(info), "cluster_state:ok")
		})
	}
}

// startNode starts a node as its container does, without arguments.
func (c *composedDeployment) startNode(name string) {
	c.t.Helper()
	environment := maps.Clone(c.imageEnvironment)
	maps.Copy(environment, c.services[name].Environment)
	var exports strings.Builder
	for setting, value := range environment {
		value = os.Expand(value, func(variable string) string {
			if variable, _, _ = strings.Cut(variable, ":"); variable == "TIDINGS_JWT_SECRET" {
				return world.TestSecret
			}
			return "a-password"
		})
		switch {
		case setting == "DATABASE_URL":
			if value != "postgres://tidings:a-password@postgres/tidings" {
				c.t.Fatalf("the database of %s is %s", name, value)
			}
			value = c.databaseURL
		case setting == "REDIS_URL":
			value = c.replaceNamesByAddresses(value)
		case setting == "TIDINGS_TRUSTED_PROXIES": // nginx connects to local addresses from 127.0.0.1
			value = "127.0.0.1/32"
		case setting == "TIDINGS_DATA":
			value = c.t.TempDir()
		case strings.HasPrefix(value, ":"): // a port alone: in the container, the port of all addresses
			value = c.serviceAddress(name) + value
		}
		fmt.Fprintf(&exports, " %s='%s'", setting, value)
	}
	// Only this setting is not in the compose file: a limit of sockets that a test can reach.
	c.nodes[name] = world.LaunchProcess(c.t, "export TIDINGS_SOCKETS_PER_ADDRESS=3"+exports.String())
}

// waitReady waits until /readyz of a node says that it is ready.
func (c *composedDeployment) waitReady(name string) {
	c.t.Helper()
	world.Eventually(c.t, 30*time.Second, name+" is ready", func() bool {
		select {
		case <-c.nodes[name].Ended:
			c.t.Fatalf("%s ended: %s", name, c.nodes[name].Output.String())
		default:
		}
		response, err := http.Get("http://" + c.serviceAddress(name) + ":9090/readyz")
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
}

// sumMetrics returns the sum of the values of some metrics of a node; names are without the prefix tidings_.
func (c *composedDeployment) sumMetrics(node string, names ...string) (sum int) {
	c.t.Helper()
	response, err := http.Get("http://" + c.serviceAddress(node) + ":9090/metrics")
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, name := range names {
		var value int
		_, rest, found := strings.Cut(string(text), "\ntidings_"+name+" ")
		if _, err := fmt.Sscan(rest, &value); err != nil || !found {
			c.t.Fatalf("%s has no %s: %v", node, name, err)
		}
		sum += value
	}
	return sum
}

// openSocketCount returns the number of sockets and event streams that a node has open.
func (c *composedDeployment) openSocketCount(node string) int {
	c.t.Helper()
	return c.sumMetrics(node, "sockets_open", "event_streams_open")
}

// startProxy starts nginx with a configuration, the text of deploy/compose/nginx.conf. It changes the listen address, so that it is the
// test's own, and the folders, so that nginx needs no special rights.
func (c *composedDeployment) startProxy(text string) {
	c.t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx" // on Debian it is not in the PATH of users
	}
	if _, err := os.Stat(path); err != nil {
		c.t.Fatalf("nginx is missing, and the tests need it: apt-get install nginx")
	}
	text = strings.Replace(c.replaceNamesByAddresses(text), "listen 8080;", "listen "+c.serviceAddress("proxy")+":8080;", 1)
	folder := c.t.TempDir()
	folders := "http {\n  access_log off;\n"
	for _, one := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		folders += fmt.Sprintf("  %s_temp_path %s/%[1]s;\n", one, folder)
	}
	text = strings.Replace(text, "http {\n", folders, 1)
	for _, one := range []string{folder, filepath.Dir(folder)} { // if root starts nginx, its worker runs as another user
		if err := os.Chmod(one, 0o755); err != nil {
			c.t.Fatal(err)
		}
	}
	file := filepath.Join(folder, "nginx.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	directives := fmt.Sprintf("daemon off; pid %s/pid; error_log stderr;", folder)
	if said, err := exec.Command(path, "-e", "stderr", "-t", "-q", "-c", file, "-g", directives).CombinedOutput(); err != nil {
		c.t.Fatalf("nginx refuses its configuration: %s", said)
	}
	c.startProgram(folder, path, "-e", "stderr", "-c", file, "-g", directives)
	c.ProxyURL = "http://" + c.serviceAddress("proxy") + ":8080"
	world.Eventually(c.t, 20*time.Second, "the proxy answers", func() bool {
		response, err := http.Get(c.ProxyURL + "/healthz")
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
}

// makeToken makes a token of a user with scopes, which are separated by spaces.
func (c *composedDeployment) makeToken(user, scope string) string {
	c.t.Helper()
	claims := jwt.MapClaims{"sub": user, "scope": scope, "exp": time.Now().Add(time.Hour).Unix()}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(world.TestSecret))
	if err != nil {
		c.t.Fatal(err)
	}
	return token
}

// newClientAddress returns a local address to connect from that no other client has.
func (c *composedDeployment) newClientAddress() net.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lastClientOctet++; c.lastClientOctet > 254 {
		c.t.Error("there are no more addresses for clients")
	}
	return &net.TCPAddr{IP: net.ParseIP(fmt.Sprint(c.addressPrefix, ".", c.lastClientOctet))}
}

// openDevice opens a subscription to a user's badges through the proxy, as a client with an address of its own.
func (c *composedDeployment) openDevice(user string) *world.BadgeSubscription {
	c.t.Helper()
	return world.OpenBadgeSubscriptionFrom(c.t, c.ProxyURL, user, c.makeToken(user, "viewer"), c.newClientAddress())
}

// ask sends a request of a user through the proxy, once, and returns the text of the answer. GraphQL errors are errors too.
func (c *composedDeployment) ask(user, query string, variables map[string]any) (text string, err error) {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.ProxyURL+"/graphql", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + c.makeToken(user, "viewer ingest")}}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || bytes.Contains(answer, []byte(`"errors"`))) {
		err = fmt.Errorf("%s: %s", response.Status, answer)
	}
	return string(answer), err
}

// mustAsk sends a request of a user through the proxy, and fails the test on an error.
func (c *composedDeployment) mustAsk(user, query string, variables map[string]any) string {
	c.t.Helper()
	answer, err := c.ask(user, query, variables)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer
}
