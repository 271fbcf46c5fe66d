package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"tidings/services"
	"tidings/services/redis/redistest"
	"tidings/services/trace"
	"tidings/tests/eventually"
)

// hintListener is a node that receives hints.
type hintListener struct {
	*Client
	mu             sync.Mutex // guards hints and the numbers of calls
	hints          []Hint     // all hints received so far
	resyncCalls    int        // how often Resync was called
	changelogCalls int        // how often ChangelogGrown was called
}

// listenForHints runs a node's hints until the test ends, and waits for its first subscription.
func listenForHints(t *testing.T, options Options) *hintListener {
	t.Helper()
	l := &hintListener{Client: connect(t, options)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- l.RunHints(ctx, HintReceiver{
			DocumentsChanged: func(hints []Hint, _ trace.Cause) {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.hints = append(l.hints, hints...)
			},
			ChangelogGrown: func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.changelogCalls++
			},
			Resync: func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.resyncCalls++
			},
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("RunHints: %v, want nil at the end of its context", err)
		}
	})
	l.awaitResyncs(t, 1)
	return l
}

// receivedHints returns the hints so far.
func (l *hintListener) receivedHints() []Hint {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.hints)
}

// awaitResyncs waits until Resync was called n times.
func (l *hintListener) awaitResyncs(t *testing.T, n int) {
	t.Helper()
	eventually.Succeeds(t, 10*time.Second, "a subscription", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.resyncCalls < n {
			return fmt.Errorf("resync was called %d times, want %d", l.resyncCalls, n)
		}
		return nil
	})
}

// awaitHints waits until exactly these hints were received.
func (l *hintListener) awaitHints(t *testing.T, want ...Hint) {
	t.Helper()
	eventually.Succeeds(t, 5*time.Second, "the hints", func() error {
		if diff := cmp.Diff(want, l.receivedHints()); diff != "" {
			return fmt.Errorf("(-want +got)\n%s", diff)
		}
		return nil
	})
}

// eachShareableRedis runs a test on each kind of Redis that several nodes can share.
func eachShareableRedis(t *testing.T, run func(t *testing.T, url string)) {
	t.Run("single", func(t *testing.T) { run(t, redistest.Redis(t)) })
	t.Run("sentinel", func(t *testing.T) { run(t, redistest.Sentinel(t)) })
	t.Run("cluster", func(t *testing.T) { run(t, redistest.Cluster(t)) })
}

func TestHintsReachTheirNodeAndNoOther(t *testing.T) {
	eachShareableRedis(t, func(t *testing.T, url string) {
		a, b := listenForHints(t, Options{URL: url, NodeID: "a"}), listenForHints(t, Options{URL: url, NodeID: "b"})
		ctx, trips := WithRoundTrips(t.Context())
		err := a.PublishHints(ctx, map[string][]Hint{"a": {{1, 10}}, "b": {{2, 20}, {3, 1 << 60}}, "gone": {{4, 40}}, "empty": nil})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]Hint{{1, 10}}, a.receivedHints()); diff != "" {
			t.Errorf("its own, before PublishHints returns: %s", diff)
		}
		if trips.Count() != 1 {
			t.Errorf("%d round trips, want 1 for all other nodes", trips.Count())
		}
		b.awaitHints(t, Hint{2, 20}, Hint{3, 1 << 60})
		if err := b.PublishHints(t.Context(), map[string][]Hint{"a": {{5, 50}}}); err != nil {
			t.Fatal(err)
		}
		a.awaitHints(t, Hint{1, 10}, Hint{5, 50})
	})
}

// The growth of the changelog is reported to all nodes except the one that reports it.
func TestTheGrowthOfTheLogReachesTheOtherNodes(t *testing.T) {
	eachShareableRedis(t, func(t *testing.T, url string) {
		nodes := []*hintListener{listenForHints(t, Options{URL: url, NodeID: "a"}), listenForHints(t, Options{URL: url, NodeID: "b"}), listenForHints(t, Options{URL: url, NodeID: "c"})}
		grown := func(l *hintListener) int {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.changelogCalls
		}
		for turn := range 3 {
			nodes[0].QueueChangelogHint()
			for _, other := range nodes[1:] {
				eventually.Succeeds(t, 10*time.Second, "the growth", func() error {
					if got := grown(other); got != turn+1 {
						return fmt.Errorf("node %s was notified %d times, want %d", other.nodeID, got, turn+1)
					}
					return nil
				})
			}
		}
		if got := grown(nodes[0]); got != 0 {
			t.Errorf("the node itself was notified %d times", got)
		}
	})
}

func TestTheEmbeddedRedisDeliversHintsForAnyNode(t *testing.T) {
	// The embedded Redis has one node: hints under any older node ID are delivered to it.
	l := listenForHints(t, Options{URL: "embedded", NodeID: "now"})
	ctx, trips := WithRoundTrips(t.Context())
	if err := l.PublishHints(ctx, map[string][]Hint{"before": {{7, 70}}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Hint{{7, 70}}, l.receivedHints()); diff != "" || trips.Count() != 0 {
		t.Errorf("%d round trips, %s", trips.Count(), diff)
	}
}

func TestOwnHintsNeedNoRedis(t *testing.T) {
	server := redistest.NewServer(t)
	l := listenForHints(t, Options{URL: server.URL(), NodeID: "a"})
	server.Kill()
	if err := l.PublishHints(t.Context(), map[string][]Hint{"a": {{1, 1}}}); err != nil {
		t.Errorf("own hints without Redis: %v", err)
	}
	err := l.PublishHints(t.Context(), map[string][]Hint{"a": {{2, 2}}, "b": {{3, 3}}})
	if !services.IsUnavailable(err) {
		t.Errorf("another's hints without Redis: %v, want UNAVAILABLE", err)
	}
	if diff := cmp.Diff([]Hint{{1, 1}, {2, 2}}, l.receivedHints()); diff != "" {
		t.Errorf("own hints: %s", diff)
	}
}

func TestCloseEndsTheHints(t *testing.T) {
	for _, url := range []string{"embedded", redistest.Redis(t)} {
		c := connect(t, Options{URL: url, NodeID: "a"})
		ended, subscribed := make(chan error, 1), make(chan struct{}, 1)
		go func() {
			ended <- c.RunHints(t.Context(), HintReceiver{DocumentsChanged: func([]Hint, trace.Cause) {}, ChangelogGrown: func() {}, Resync: func() { subscribed <- struct{}{} }})
		}()
		<-subscribed
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s: %v, want nil", url, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: RunHints does not end with Close", url)
		}
	}
}

func TestHintsBeyondOneMessageAllArrive(t *testing.T) {
	url := redistest.Redis(t)
	a, b := connect(t, Options{URL: url, NodeID: "a"}), listenForHints(t, Options{URL: url, NodeID: "b"})
	hints := make([]Hint, 2*hintsPerMessage+1)
	for i := range hints {
		hints[i] = Hint{services.UserID(i), uint64(i) << 30}
	}
	if err := a.PublishHints(t.Context(), map[string][]Hint{"b": hints}); err != nil {
		t.Fatal(err)
	}
	b.awaitHints(t, hints...)
}

func TestAKilledSubscriptionComesBackWithAResync(t *testing.T) {
	eachShareableRedis(t, func(t *testing.T, url string) {
		a, b := connect(t, Options{URL: url, NodeID: "a"}), listenForHints(t, Options{URL: url, NodeID: "b"})
		for round := 1; round <= 3; round++ {
			killSubscriptions(t, a)
			b.awaitResyncs(t, 1+round)
		}
		if err := a.PublishHints(t.Context(), map[string][]Hint{"b": {{1, 1}}}); err != nil {
			t.Fatal(err)
		}
		b.awaitHints(t, Hint{1, 1})
	})
}

func TestHintsGoOnAfterAnOutage(t *testing.T) {
	server := redistest.NewServer(t)
	var log redistest.LogRecorder
	l := listenForHints(t, Options{URL: server.URL(), NodeID: "a", Log: log.Log()})
	server.Kill()
	eventually.Succeeds(t, 5*time.Second, "the loss is seen", func() error {
		if strings.Count(log.String(), "the connection for hints is lost") < 3 {
			return fmt.Errorf("log: %s", log.String())
		}
		return nil
	})
	server.Start()
	l.awaitResyncs(t, 2)
	other := connect(t, Options{URL: server.URL(), NodeID: "b"})
	if err := other.PublishHints(t.Context(), map[string][]Hint{"a": {{1, 1}}}); err != nil {
		t.Fatal(err)
	}
	l.awaitHints(t, Hint{1, 1})
}

func TestASubscriptionOverASilentNetworkIsReopened(t *testing.T) {
	server := redistest.NewServer(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l := listenForHints(t, Options{URL: proxy.URL(), NodeID: "a"})
	proxy.BlackHole(true)
	// No connection is closed: only the missing answers to pings show the failure.
	eventually.Succeeds(t, 3*maxHintSilence, "the old connection is given up", func() error {
		if text := fmt.Sprint(server.Do("PUBSUB", "NUMSUB", "node:a")); text != "[node:a 0]" {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
	proxy.BlackHole(false)
	l.awaitResyncs(t, 2)
}

func TestMalformedHintsAreLogged(t *testing.T) {
	server := redistest.NewServer(t)
	var log redistest.LogRecorder
	l := listenForHints(t, Options{URL: server.URL(), NodeID: "a", Log: log.Log()})
	for _, text := range []string{"", "hello", "\x02\x01\x01", "\x01\x01", "\x01\xff\xff\xff\xff\xff\x01\x01"} {
		server.Do("PUBLISH", "node:a", text)
	}
	server.Do("PUBLISH", "node:a", string(encodeHints([]Hint{{9, 9}})))
	l.awaitHints(t, Hint{9, 9})
	if n := strings.Count(log.String(), "a hint in a format"); n != 5 {
		t.Errorf("%d warnings, want 5:\n%s", n, log.String())
	}
}

func TestHintsKeepTheirValues(t *testing.T) {
	want := []Hint{{0, 0}, {1, 1}, {1<<32 - 1, 1<<64 - 1}, {77, 1_700_000_000_000_000}}
	got, ok := decodeHints(string(encodeHints(want)))
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("%v %s", ok, diff)
	}
}

func FuzzDecodeHints(f *testing.F) {
	f.Add(string(encodeHints([]Hint{{1, 2}, {3, 4}})))
	f.Add("\x01\x80")
	f.Fuzz(func(t *testing.T, message string) {
		hints, ok := decodeHints(message)
		if !ok {
			return
		}
		again, ok := decodeHints(string(encodeHints(hints)))
		if diff := cmp.Diff(hints, again); !ok || diff != "" {
			t.Errorf("%q: %s", message, diff)
		}
	})
}

// killSubscriptions ends the pub/sub connections on every master.
func killSubscriptions(t *testing.T, c *Client) {
	t.Helper()
	if err := c.EachMaster(t.Context(), func(ctx context.Context, master *redis.Client) error {
		return master.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub").Err()
	}); err != nil {
		t.Fatal(err)
	}
}

func TestHintsAreReadWithAndWithoutACause(t *testing.T) {
	plain := encodeHints([]Hint{{1, 2}})
	if message := withCause(trace.Cause{}, plain); string(message) != string(plain) {
		t.Errorf("a hint without a cause is %q: older versions do not understand it", message)
	}
	for _, message := range []string{"", "\x02", "\x02\x37too short", string(plain)} {
		if _, rest := cutCause(message); rest != message {
			t.Errorf("of %q %q is left", message, rest)
		}
	}
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	_, rest := cutCause("\x02\x37" + parent + string(plain))
	if hints, ok := decodeHints(rest); !ok || len(hints) != 1 {
		t.Errorf("hints with a cause are %v", hints)
	}
}
