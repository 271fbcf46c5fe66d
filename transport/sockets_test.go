package transport

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestUpgradeRefused(t *testing.T) {
	runWithAndWithoutPoller(t, func(cfg *SocketConfig) { cfg.Origins = []string{"https://app.example.com"} }, func(w *socketFixture) {
		for _, test := range []struct {
			origin string
			status int
		}{
			{"", 101}, {"http://tidings.test", 101}, {"https://app.example.com", 101},
			{"https://app.example.com.evil.test", 403}, {"https://evil.test", 403}, {"null", 403}, {"http://tidings.test.evil.test", 403},
		} {
			header := http.Header{}
			if test.origin != "" {
				header.Set("Origin", test.origin)
			}
			conn, err := w.dial(header, webSocketSubprotocol)
			status := http.StatusSwitchingProtocols
			if err != nil {
				status = err.(*upgradeRefusal).status
			} else {
				conn.Close()
			}
			if status != test.status {
				t.Errorf("Origin %q: %d, want %d", test.origin, status, test.status)
			}
		}
		synctest.Wait()
		if stats := w.sockets.Stats(); stats.Refused != 4 || stats.Opened != 3 {
			t.Errorf("%+v", stats)
		}
	})
}

func TestABadUpgradeIsRefused(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		http1 := &http.Client{Transport: &http.Transport{DialContext: w.listener.dial, DisableKeepAlives: true}}
		request, err := http.NewRequest(http.MethodGet, "http://tidings.test/graphql", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Upgrade", "websocket")
		request.Header.Set("Connection", "Upgrade")
		request.Header.Set("Sec-WebSocket-Version", "8")
		response, err := http1.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusBadRequest || response.Header.Get("Sec-WebSocket-Version") != "13" {
			t.Errorf("%d %v", response.StatusCode, response.Header)
		}
	})
}

func TestDrainSpreadsTheCloses(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		const sockets = 40
		clients := make([]*socketClient, sockets)
		for i := range clients {
			clients[i] = w.openSocket("alice")
			clients[i].subscribe("1", "subscription { ticks }")
		}
		synctest.Wait()
		start := time.Now()
		drained := make(chan struct{})
		go func() {
			w.sockets.Drain(w.Context(), 4*time.Second)
			close(drained)
		}()
		passTime(2 * time.Second)
		synctest.Wait()
		if n := w.sockets.Stats().Open; n < 18 || n > 22 {
			t.Errorf("half way %d of %d sockets are open", n, sockets)
		}
		if _, err := w.dial(http.Header{}, webSocketSubprotocol); err == nil || err.(*upgradeRefusal).status != http.StatusServiceUnavailable {
			t.Errorf("an upgrade while draining: %v", err)
		}
		w.schema.hub.endAllWatchers() // the hub closes too: clients must not be notified that their subscriptions completed
		<-drained
		if took := time.Since(start); took < 3900*time.Millisecond || took > 4100*time.Millisecond {
			t.Errorf("drained in %v, want 4 s", took)
		}
		for _, c := range clients {
			c.expectClose(1012)
			if len(c.received) > 0 {
				t.Errorf("a last message: %s", <-c.received)
			}
		}
	})
}

// A drain of few sockets does not take the whole time that is given for it, because few clients may return at once.
func TestADrainOfFewSocketsIsShort(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		clients := []*socketClient{w.openSocket("alice"), w.openSocket("bob")}
		start := time.Now()
		w.sockets.Drain(w.Context(), 10*time.Second)
		if took := time.Since(start); took > 2*maxDrainGap {
			t.Errorf("drained in %v, want %v at most", took, 2*maxDrainGap)
		}
		for _, c := range clients {
			c.expectClose(1012)
		}
	})
}

func TestDrainCutsOffClientsThatStay(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		conn, err := w.dial(http.Header{}, webSocketSubprotocol) // and never reads
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		w.openSocket("alice")
		start := time.Now()
		w.sockets.Drain(w.Context(), time.Second)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("drained in %v", took)
		}
	})
}

// While the server drains, the hub refuses new subscriptions. Their clients get no error for that: they connect to another node.
func TestAHubThatRefusesWhileDrainingEndsNoSubscription(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		c := w.openSocket("alice")
		w.schema.hub.mu.Lock()
		w.schema.hub.watchErr = errors.New("going away")
		w.schema.hub.mu.Unlock()
		go w.sockets.Drain(w.Context(), 10*time.Second)
		synctest.Wait()
		c.subscribe("1", "subscription { ticks }")
		c.subscribe("2", "{ hello }") // operations under way are finished, because a client would repeat a mutation
		c.expectMessage(`{"type":"next","id":"2","payload":{"data":{"hello":"world"}}}`)
		c.expectMessage(`{"type":"complete","id":"2"}`)
		c.expectClose(1012)
		if len(c.received) > 0 {
			t.Errorf("got %s", <-c.received)
		}
	})
}
