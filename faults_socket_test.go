package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// precisions from the best to the worst: a total is as good as its worst part.
var precisions = map[string]int{"EXACT": 0, "AT_LEAST": 1, "STALE": 2, "UNKNOWN": 3}

// holds is check and more: what P1 and P5 say of any document that anyone can read, at any moment.
func (b badges) holds() error {
	if err := b.check(); err != nil {
		return err
	}
	feed, like, total := b.HomeFeed, b.Notifications.Like, b.Total
	if !feed.InTotal || !like.InTotal {
		return fmt.Errorf("a part is not in the total: %+v", b)
	}
	worst := 0
	for _, part := range []count{feed, b.Notifications.Total, b.SiteMessages.Total, b.Announcements, b.Conversations.Total} {
		if part.InTotal {
			worst = max(worst, precisions[part.Precision])
		}
	}
	if rank, known := precisions[total.Precision]; !known || rank != worst {
		return fmt.Errorf("the total is %q, its worst part is %d: %+v", total.Precision, worst, b)
	}
	want := fmt.Sprint(total.Value)
	if total.Value > 99 {
		want = "99+"
	}
	if total.Display != want {
		return fmt.Errorf("%d is displayed as %q", total.Value, total.Display)
	}
	return nil
}

// watch is a device with an open subscription to badgesChanged. It holds of every event what must hold, and keeps
// the newest.
type watch struct {
	person string
	conn   *websocket.Conn
	ended  chan struct{} // closed when the connection is no more

	mu      sync.Mutex
	newest  badges
	events  int
	wrong   error
	closing int // the code of the close frame, 0 while it is open
}

// openWatch opens a socket as a person of the development mode and subscribes. Like any client it comes again where the
// node is not ready yet. The test's end closes it.
func openWatch(tb testing.TB, url, person string) *watch {
	tb.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{"graphql-transport-ws"}, HandshakeTimeout: 10 * time.Second}
	var conn *websocket.Conn
	eventually(tb, 30*time.Second, "the node takes sockets", func() bool {
		opened, response, err := dialer.DialContext(tb.Context(), "ws"+strings.TrimPrefix(url, "http")+"/graphql", http.Header{})
		if response != nil && response.StatusCode == http.StatusServiceUnavailable {
			return false
		}
		if err != nil {
			tb.Fatalf("open a socket: %v (%v)", err, response)
		}
		conn = opened
		return true
	})
	w := &watch{person: person, conn: conn, ended: make(chan struct{})}
	write := func(message string) {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
			tb.Fatalf("write to a socket: %v", err)
		}
	}
	write(`{"type":"connection_init","payload":{"authorization":"Bearer dev:` + person + `"}}`)
	if _, text, err := conn.ReadMessage(); err != nil || string(text) != `{"type":"connection_ack"}` {
		tb.Fatalf("the acknowledgement is %s, %v", text, err)
	}
	write(`{"id":"1","type":"subscribe","payload":{"query":` + quoted(`subscription{badgesChanged{`+badgeFields+`}}`) + `}}`)
	go w.read()
	tb.Cleanup(func() {
		_ = conn.Close()
		<-w.ended
	})
	return w
}

func quoted(text string) string {
	quoted, _ := json.Marshal(text) // a string is always JSON
	return string(quoted)
}

func (w *watch) read() {
	defer close(w.ended)
	for {
		_, text, err := w.conn.ReadMessage()
		w.mu.Lock()
		if err != nil {
			w.closing = websocket.CloseAbnormalClosure
			if frame, ok := errors.AsType[*websocket.CloseError](err); ok {
				w.closing = frame.Code
			}
			w.mu.Unlock()
			return
		}
		if err := w.receive(text); err != nil && w.wrong == nil {
			w.wrong = fmt.Errorf("the socket of %s: %w", w.person, err)
		}
		w.mu.Unlock()
	}
}

// receive takes one message in. The lock is held.
func (w *watch) receive(text []byte) error {
	var message struct {
		Type    string
		Payload json.RawMessage
	}
	if err := json.Unmarshal(text, &message); err != nil {
		return err
	}
	if message.Type != "next" {
		return fmt.Errorf("got %s", text)
	}
	var event struct {
		Data   struct{ BadgesChanged badges }
		Errors []struct{ Message string }
	}
	if err := json.Unmarshal(message.Payload, &event); err != nil || len(event.Errors) > 0 {
		return fmt.Errorf("got %s (%w)", text, err)
	}
	got := event.Data.BadgesChanged
	if got.Version <= w.newest.Version {
		return fmt.Errorf("version %s came after %s", got.Version, w.newest.Version)
	}
	w.newest = got
	w.events++
	return got.holds()
}

// shown is the newest document on the device. An error says what was wrong with any event, or that it was cut off.
func (w *watch) shown() (badges, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wrong == nil && w.closing != 0 {
		return w.newest, fmt.Errorf("the socket of %s was closed with %d", w.person, w.closing)
	}
	return w.newest, w.wrong
}

// shows waits until the device shows a count of the feed and of the likes.
func (w *watch) shows(tb testing.TB, within time.Duration, feed, likes int) {
	tb.Helper()
	converge(tb, within, func() error {
		got, err := w.shown()
		if err != nil {
			tb.Fatal(err)
		}
		if got.Version == "" || got.HomeFeed.Value != feed || got.Notifications.Like.Value != likes {
			return fmt.Errorf("the device of %s shows %d posts and %d likes at %q, want %d and %d",
				w.person, got.HomeFeed.Value, got.Notifications.Like.Value, got.Version, feed, likes)
		}
		return nil
	})
}

// closedWith waits for the end of the connection and answers the code of the close frame; 1006 is none.
func (w *watch) closedWith(tb testing.TB, within time.Duration) int {
	tb.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-w.ended:
	case <-timer.C:
		tb.Fatalf("the socket of %s is open after %s", w.person, within)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wrong != nil {
		tb.Error(w.wrong)
	}
	return w.closing
}

// converge asks until there is no error, and fails with the last one when that does not come in time.
func converge(tb testing.TB, within time.Duration, state func() error) {
	tb.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := state()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			tb.Fatalf("not within %s: %v", within, err)
		case <-tick.C:
		}
	}
}

// decode reads JSON into a value.
func decode(tb testing.TB, text []byte, into any) {
	tb.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
}
