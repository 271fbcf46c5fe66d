package world

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// precisions numbers the precisions from the best to the worst. A total has the precision of its worst part.
var precisions = map[string]int{"EXACT": 0, "AT_LEAST": 1, "STALE": 2, "UNKNOWN": 3}

// CheckInvariants does what check does, and also checks that the home feed and the likes are in the total, and the total's precision and
// display. All these rules must hold at any moment.
func (b Badges) CheckInvariants() error {
	if err := b.check(); err != nil {
		return err
	}
	feed, like, total := b.HomeFeed, b.Notifications.Like, b.Total
	if !feed.InTotal || !like.InTotal {
		return fmt.Errorf("a part is not in the total: %+v", b)
	}
	worst := 0
	for _, part := range []Count{feed, b.Notifications.Total, b.SiteMessages.Total, b.Announcements, b.Conversations.Total, b.Views, b.LiveBoard} {
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

// Watch is a device with an open subscription to badgesChanged. It checks each event, and keeps the newest.
type Watch struct {
	Person string // their key
	conn   *websocket.Conn
	ended  chan struct{} // closed when the connection has ended

	mu        sync.Mutex
	newest    Badges // the last badges that were pushed
	events    int    // the number of events so far
	wrong     error  // the first event that broke a rule; nil: none
	closeCode int    // the code of the close frame, 0 while it is open
}

// OpenWatch opens a socket as a person of development mode, and subscribes. Like any client it retries while the node is not
// ready. The test's end closes the socket.
func OpenWatch(tb testing.TB, url, person string) *Watch {
	tb.Helper()
	return OpenWatchFrom(tb, url, person, "dev:"+person, nil)
}

// OpenWatchFrom is OpenWatch with a token of the person, from the local address from; nil means any.
func OpenWatchFrom(tb testing.TB, url, person, token string, from net.Addr) *Watch {
	tb.Helper()
	network := net.Dialer{LocalAddr: from}
	dialer := websocket.Dialer{NetDialContext: network.DialContext, Subprotocols: []string{"graphql-transport-ws"}, HandshakeTimeout: 10 * time.Second}
	var conn *websocket.Conn
	Eventually(tb, 30*time.Second, "the node takes sockets", func() bool {
		opened, response, err := dialer.DialContext(tb.Context(), "ws"+strings.TrimPrefix(url, "http")+"/graphql", http.Header{})
		if response != nil && slices.Contains([]int{http.StatusServiceUnavailable, http.StatusBadGateway}, response.StatusCode) {
			return false
		}
		if err != nil && response != nil {
			text, _ := io.ReadAll(response.Body) // the dialer keeps the beginning of the body
			tb.Fatalf("open a socket: %v: %s %s", err, response.Status, text)
		}
		if err != nil {
			tb.Fatalf("open a socket: %v", err)
		}
		conn = opened
		return true
	})
	w := &Watch{Person: person, conn: conn, ended: make(chan struct{})}
	write := func(message string) {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
			tb.Fatalf("write to a socket: %v", err)
		}
	}
	write(`{"type":"connection_init","payload":{"authorization":"Bearer ` + token + `"}}`)
	if _, text, err := conn.ReadMessage(); err != nil || string(text) != `{"type":"connection_ack"}` {
		tb.Fatalf("the acknowledgement is %s, %v", text, err)
	}
	write(`{"id":"1","type":"subscribe","payload":{"query":` + Quoted(`subscription{badgesChanged{`+BadgeFields+`}}`) + `}}`)
	go w.read()
	tb.Cleanup(func() {
		_ = conn.Close()
		<-w.ended
	})
	return w
}

// read receives messages until the connection ends.
func (w *Watch) read() {
	defer close(w.ended)
	for {
		_, text, err := w.conn.ReadMessage()
		w.mu.Lock()
		if err != nil {
			w.closeCode = websocket.CloseAbnormalClosure
			if frame, ok := errors.AsType[*websocket.CloseError](err); ok {
				w.closeCode = frame.Code
			}
			w.mu.Unlock()
			return
		}
		if err := w.receive(text); err != nil && w.wrong == nil {
			w.wrong = fmt.Errorf("the socket of %s: %w", w.Person, err)
		}
		w.mu.Unlock()
	}
}

// receive handles one message. The caller holds the lock.
func (w *Watch) receive(text []byte) error {
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
		Data   struct{ BadgesChanged Badges }
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
	return got.CheckInvariants()
}

// ShownBadges returns the newest badges on the device. The error reports a wrong event, or that the device was disconnected.
func (w *Watch) ShownBadges() (Badges, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wrong == nil && w.closeCode != 0 {
		return w.newest, fmt.Errorf("the socket of %s was closed with %d", w.Person, w.closeCode)
	}
	return w.newest, w.wrong
}

// WaitCounts waits until the device shows these numbers of new posts and of likes.
func (w *Watch) WaitCounts(tb testing.TB, within time.Duration, feed, likes int) {
	tb.Helper()
	EventuallySucceeds(tb, within, func() error {
		got, err := w.ShownBadges()
		if err != nil {
			tb.Fatal(err)
		}
		if got.Version == "" || got.HomeFeed.Value != feed || got.Notifications.Like.Value != likes {
			return fmt.Errorf("the device of %s shows %d posts and %d likes at %q, want %d and %d",
				w.Person, got.HomeFeed.Value, got.Notifications.Like.Value, got.Version, feed, likes)
		}
		return nil
	})
}

// WaitCloseCode waits for the end of the connection and returns the code of the close frame, or 1006 if there was no close frame.
func (w *Watch) WaitCloseCode(tb testing.TB, within time.Duration) int {
	tb.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-w.ended:
	case <-timer.C:
		tb.Fatalf("the socket of %s is open after %s", w.Person, within)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wrong != nil {
		tb.Error(w.wrong)
	}
	return w.closeCode
}

// EventuallySucceeds calls state until it returns no error, and fails with the last error if that takes too long.
func EventuallySucceeds(tb testing.TB, within time.Duration, state func() error) {
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

// WaitAnnouncements waits until the device shows a count of announcements, and one dot lit or not.
func (w *Watch) WaitAnnouncements(tb testing.TB, announcements int, dot string, lit bool) {
	tb.Helper()
	EventuallySucceeds(tb, ArrivalTimeout, func() error {
		got, err := w.ShownBadges()
		if err != nil {
			tb.Fatal(err)
		}
		shown := false
		for _, one := range got.Dots {
			shown = shown || one.Name == dot && one.Lit
		}
		if got.Version == "" || got.Announcements.Value != announcements || shown != lit {
			return fmt.Errorf("the device of %s shows %d announcements and the dots %+v at %q, want %d, and %s lit: %t",
				w.Person, got.Announcements.Value, got.Dots, got.Version, announcements, dot, lit)
		}
		return nil
	})
}

// WaitUnreadMessages waits until the device shows this number of unread messages.
func (w *Watch) WaitUnreadMessages(tb testing.TB, unread int) {
	tb.Helper()
	EventuallySucceeds(tb, ArrivalTimeout, func() error {
		got, err := w.ShownBadges()
		if err != nil {
			tb.Fatal(err)
		}
		if got.Version == "" || got.Conversations.Total.Value != unread {
			return fmt.Errorf("the device of %s shows %+v at %q, want %d", w.Person, got.Conversations.Total, got.Version, unread)
		}
		return nil
	})
}
