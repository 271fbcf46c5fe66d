package nodes

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"tidings/tests/world"
)

// The deployment of deploy/compose serves requests, sockets and event streams through its proxy. It goes on when a node is
// killed, and no request fails while a node drains.
func TestTheComposedDeployment(t *testing.T) {
	c := startComposedDeployment(t)
	c.mustAsk("author", `mutation{setProfile(input:{name:"Author"}){user{name}}}`, nil)
	c.mustAsk("reader", `mutation{follow(input:{userId:"user:author"}){changed}}`, nil)
	posts := 0
	publish := func() error {
		_, err := c.ask("author", `mutation($b:String!){publishPost(input:{body:$b}){post{id}}}`, map[string]any{"b": fmt.Sprint("post ", posts)})
		if err == nil {
			posts++
		}
		return err
	}
	devices := make([]*world.BadgeSubscription, 6)
	open := func() {
		for i := range devices {
			devices[i] = c.openDevice("reader")
		}
	}
	show := func() {
		t.Helper()
		for _, device := range devices {
			device.WaitCounts(t, world.RedisLossRecoveryTimeout, posts, 0)
		}
	}
	open()
	events := c.openBadgeStream("reader")

	t.Log("both nodes serve, by WebSocket and event stream")
	for range 3 {
		if err := publish(); err != nil {
			t.Fatal(err)
		}
	}
	show()
	c.waitPostsInEventStream(events, posts)
	if first, second := c.openSocketCount("node-1"), c.openSocketCount("node-2"); first < 2 || second < 2 || first+second != len(devices)+1 {
		t.Errorf("the nodes have %d and %d sockets", first, second)
	}
	c.checkSocketLimitPerClient()
	c.checkLargeBatch()

	t.Log("a node is killed")
	c.nodes["node-1"].Kill()
	for i := range 20 {
		if err := publish(); err != nil {
			t.Errorf("request %d after the end of a node: %v", i, err)
		}
	}
	open() // the clients of the killed node must connect again; here all clients do
	show()
	c.startNode("node-1")
	c.waitReady("node-1")
	visitor := c.newClientAddress()
	world.Eventually(t, world.RedisLossRecoveryTimeout, "the proxy uses the node again", func() bool {
		_, leave := c.openSocketFrom(visitor)
		leave()
		return c.sumMetrics("node-1", "sockets_opened_total") > 0
	})
	show()
	c.checkDrain(devices, publish)
	c.openBadgeStream("reader") // a client whose stream was refused now gets the other node
	for _, device := range devices {
		c.waitShownAfterDrain(device, posts)
	}
}

// waitShownAfterDrain waits until a client with an open subscription (device) shows this number of posts. The close frame of the node
// that has ended may reach the client only now: then the client connects again.
func (c *composedDeployment) waitShownAfterDrain(device *world.BadgeSubscription, posts int) {
	c.t.Helper()
	var closed error
	world.EventuallySucceeds(c.t, world.RedisLossRecoveryTimeout, func() error {
		var got world.Badges
		if got, closed = device.ShownBadges(); closed == nil && (got.HomeFeed.Value != posts || got.Notifications.Like.Value != 0) {
			return fmt.Errorf("a device shows %d posts and %d likes, want %d and none", got.HomeFeed.Value, got.Notifications.Like.Value, posts)
		}
		return nil
	})
	if closed != nil {
		c.reconnect(device).WaitCounts(c.t, world.RedisLossRecoveryTimeout, posts, 0)
	}
}

// reconnect opens the subscription of a client (device) again, and fails unless its node has closed the socket with the code that asks
// the client to connect again.
func (c *composedDeployment) reconnect(device *world.BadgeSubscription) *world.BadgeSubscription {
	c.t.Helper()
	if code := device.WaitCloseCode(c.t, time.Second); code != websocket.CloseServiceRestart {
		c.t.Errorf("a device was closed with %d", code)
	}
	return c.openDevice("reader")
}

// checkSocketLimitPerClient checks that the nodes count each client's sockets by the client's own address, and not by the proxy's.
func (c *composedDeployment) checkSocketLimitPerClient() {
	c.t.Helper()
	one, refused := c.newClientAddress(), 0
	for range 7 { // three are allowed on each node
		if status, _ := c.openSocketFrom(one); status == http.StatusTooManyRequests {
			refused++
		} else if status != http.StatusSwitchingProtocols {
			c.t.Errorf("a socket got %d", status)
		}
	}
	if refused == 0 {
		c.t.Error("no socket of one address was refused")
	}
	if status, _ := c.openSocketFrom(c.newClientAddress()); status != http.StatusSwitchingProtocols {
		c.t.Errorf("the socket of another client got %d", status)
	}
}

// checkLargeBatch sends a batch of events of nearly 1 MB, which is the limit of the node and of the proxy.
func (c *composedDeployment) checkLargeBatch() {
	c.t.Helper()
	var events []map[string]any
	for i := range 16 {
		events = append(events, map[string]any{"as": "user:writer", "do": map[string]any{"publishPost": map[string]any{"body": fmt.Sprint(i, strings.Repeat("x", 4_000))}}})
	}
	for len(fmt.Sprint(events)) < 900_000 {
		events = append(events, events[:16]...)
	}
	answer := c.mustAsk("writer", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{id error{message}}}}`, map[string]any{"e": events})
	if created := strings.Count(answer, `"post:`); created != len(events) {
		c.t.Errorf("of %d events %d created a post: %.300s", len(events), created, answer)
	}
}

// checkDrain ends a node by SIGTERM while users publish, read and connect, and fails if a request fails. The node closes the sockets of
// its clients (devices) and asks them to connect again; the clients get the other node at once.
func (c *composedDeployment) checkDrain(devices []*world.BadgeSubscription, publish func() error) {
	t := c.t
	t.Helper()
	for i := range devices {
		devices[i] = c.openDevice("reader")
	}
	if c.openSocketCount("node-2") == 0 {
		t.Fatal("no device is on the node that drains")
	}
	drained := c.nodes["node-2"]
	drained.Terminate()
	var work sync.WaitGroup
	var mu sync.Mutex
	var failures []error
	asked := 0
	until := func(pause time.Duration, ask func() error) {
		work.Go(func() {
			turn := time.NewTicker(pause)
			defer turn.Stop()
			for {
				err := ask()
				mu.Lock()
				asked++
				if err != nil {
					failures = append(failures, err)
				}
				mu.Unlock()
				select {
				case <-drained.Ended:
					return
				case <-turn.C:
				}
			}
		})
	}
	until(50*time.Millisecond, publish)
	for range 3 {
		until(5*time.Millisecond, func() error {
			_, err := c.ask("reader", `{viewer{badges{total{value}}homeFeed(first:1){nodes{body}}}}`, nil)
			return err
		})
	}
	until(200*time.Millisecond, c.tryOpenSocket)
	until(500*time.Millisecond, c.tryOpenEventStream)
	for i, device := range devices {
		work.Go(func() {
			world.Eventually(t, 20*time.Second, "the device is asked to connect again, or its node stays", func() bool {
				_, err := device.ShownBadges()
				select {
				case <-drained.Ended:
					return true
				default:
					return err != nil
				}
			})
			if _, err := device.ShownBadges(); err == nil {
				return
			}
			devices[i] = c.reconnect(device)
		})
	}
	work.Wait()
	if code := drained.WaitExit(time.Second); code != 0 {
		t.Errorf("exit code %d: %s", code, drained.Output.String())
	}
	t.Logf("%d requests during the drain", asked)
	if len(failures) > 0 {
		t.Errorf("%d of %d requests failed during the drain, the first: %v", len(failures), asked, slices.MinFunc(failures, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) }))
	}
}

// tryOpenSocket opens a socket through the proxy and closes it. It returns an error if the socket is refused.
func (c *composedDeployment) tryOpenSocket() error {
	status, leave := c.openSocketFrom(c.newClientAddress())
	defer leave()
	if status != http.StatusSwitchingProtocols {
		return fmt.Errorf("a socket got %d", status)
	}
	return nil
}

// tryOpenEventStream opens an event stream and closes it. A stream is a POST, which the proxy sends to one node only. So a draining
// node may refuse it with 503 and a time to try again.
func (c *composedDeployment) tryOpenEventStream() error {
	network := net.Dialer{LocalAddr: c.newClientAddress()}
	client := http.Client{Transport: &http.Transport{DialContext: network.DialContext}}
	defer client.CloseIdleConnections()
	response, err := c.requestEventStream(&client, "reader")
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode == http.StatusOK:
		return nil
	case response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") == "1":
		return nil
	}
	return fmt.Errorf("an event stream got %s, to be tried again after %q s", response.Status, response.Header.Get("Retry-After"))
}

// openSocketFrom opens a socket through the proxy from a client's address. It returns the HTTP status of the answer, and a function that
// closes the socket; the test's end closes it too.
func (c *composedDeployment) openSocketFrom(from net.Addr) (status int, leave func()) {
	c.t.Helper()
	network := net.Dialer{LocalAddr: from}
	dialer := websocket.Dialer{NetDialContext: network.DialContext, Subprotocols: []string{"graphql-transport-ws"}}
	conn, response, err := dialer.DialContext(c.t.Context(), "ws"+strings.TrimPrefix(c.ProxyURL, "http")+"/graphql", nil)
	if err == nil {
		leave = func() { _ = conn.Close() }
		c.t.Cleanup(leave)
		return response.StatusCode, leave
	}
	if response == nil {
		c.t.Errorf("open a socket: %v", err)
		return 0, func() {}
	}
	return response.StatusCode, func() {}
}

// openBadgeStream opens an event stream of a user's badges through the proxy, and returns its lines.
func (c *composedDeployment) openBadgeStream(user string) *bufio.Scanner {
	c.t.Helper()
	response, err := c.requestEventStream(http.DefaultClient, user)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		c.t.Fatalf("the event stream got %s", response.Status)
	}
	return bufio.NewScanner(response.Body)
}

// requestEventStream sends the request that opens an event stream of a user's badges, and returns the response.
func (c *composedDeployment) requestEventStream(client *http.Client, user string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.ProxyURL+"/graphql", strings.NewReader(`{"query":"subscription{badgesChanged{homeFeed{value}}}"}`))
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "Authorization": {"Bearer " + c.makeToken(user, "viewer")}}
	return client.Do(request)
}

// waitPostsInEventStream reads events until an event shows this number of posts. The stream stays open, so the event arrives only
// if the proxy does not buffer it.
func (c *composedDeployment) waitPostsInEventStream(events *bufio.Scanner, posts int) {
	c.t.Helper()
	for events.Scan() {
		if strings.Contains(events.Text(), fmt.Sprintf(`"homeFeed":{"value":%d}`, posts)) {
			return
		}
	}
	c.t.Errorf("the event stream ended before it showed %d posts: %v", posts, events.Err())
}
