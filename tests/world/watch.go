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

	"tidings/tests/eventually"
)

// precisionRanks numbers the precisions from the best to the worst. A total has the precision of its worst part.
var precisionRanks = map[string]int{"EXACT": 0, "AT_LEAST": 1, "STALE": 2, "UNKNOWN": 3}

// CheckInvariants checks rules that hold at any moment: no count is negative, each total is the sum of its parts, the home feed and
// the likes are in the total, the total has the precision of its worst part, and it is displayed as its number or as 99+.
func (b Badges) CheckInvariants() error {
	if err := b.checkTotals(); err != nil {
		return err
	}
	feed, like, total := b.HomeFeed, b.Notifications.Like, b.Total
	if !feed.InTotal || !like.InTotal {
		return fmt.Errorf("a part is not in the total: %+v", b)
	}
	worst := 0
	for _, part := range []Count{feed, b.Notifications.Total, b.SiteMessages.Total, b.Announcements, b.Conversations.Total, b.Views, b.LiveBoard} {
		if part.InTotal {
			worst = max(worst, precisionRanks[part.Precision])
		}
	}
	if rank, known := precisionRanks[total.Precision]; !known || rank != worst {
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

// BadgeSubscription is a device with an open subscription to badgesChanged. It checks each event, and keeps the newest.
type BadgeSubscription struct {
	Person string // their key
	conn   *websocket.Conn
	ended  chan struct{} // closed when the connection has ended

	mu           sync.Mutex // guards the fields below
	newestBadges Badges     // the last badges that were pushed
	eventCount   int        // the number of events so far
	firstError   error      // the first event that broke a rule; nil: none
	closeCode    int        // the code of the close frame, or 1006 without one; 0 while the connection is open
}

// OpenBadgeSubscription opens a socket as a person of development mode, and subscribes to their badges. Like any client it retries while
// the node is not ready. The test's end closes the socket.
func OpenBadgeSubscription(tb testing.TB, url, person string) *BadgeSubscription {
	tb.Helper()
	return OpenBadgeSubscriptionFrom(tb, url, person, "dev:"+person, nil)
}

// OpenBadgeSubscriptionFrom opens a socket with any token of a person, and subscribes to their badges. As in OpenBadgeSubscription, it
// retries while the node is not ready, and the test's end closes the socket. The connection comes from the local address from; nil means
// any.
func OpenBadgeSubscriptionFrom(tb testing.TB, url, person, token string, from net.Addr) *BadgeSubscription {
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
	w := &BadgeSubscription{Person: person, conn: conn, ended: make(chan struct{})}
	write := func(message string) {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
			tb.Fatalf("write to a socket: %v", err)
		}
	}
	write(`{"type":"connection_init","payload":{"authorization":"Bearer ` + token + `"}}`)
	if _, text, err := conn.ReadMessage(); err != nil || string(text) != `{"type":"connection_ack"}` {
		tb.Fatalf("the acknowledgement is %s, %v", text, err)
	}
	write(`{"id":"1","type":"subscribe","payload":{"query":` + QuoteJSON(`subscription{badgesChanged{`+BadgeFields+`}}`) + `}}`)
	go w.readMessages()
	tb.Cleanup(func() {
		_ = conn.Close()
		<-w.ended
	})
	return w
}

// readMessages receives messages until the connection ends.
func (w *BadgeSubscription) readMessages() {
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
		if err := w.handleMessage(text); err != nil && w.firstError == nil {
			w.firstError = fmt.Errorf("the socket of %s: %w", w.Person, err)
		}
		w.mu.Unlock()
	}
}

// handleMessage checks one message and keeps the badges in it. The caller holds mu.
func (w *BadgeSubscription) handleMessage(text []byte) error {
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
	if got.Version <= w.newestBadges.Version {
		return fmt.Errorf("version %s came after %s", got.Version, w.newestBadges.Version)
	}
	w.newestBadges = got
	w.eventCount++
	return got.CheckInvariants()
}

// ShownBadges returns the newest badges on the device. The error reports a wrong event, or that the device was disconnected.
func (w *BadgeSubscription) ShownBadges() (Badges, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.firstError == nil && w.closeCode != 0 {
		return w.newestBadges, fmt.Errorf("the socket of %s was closed with %d", w.Person, w.closeCode)
	}
	return w.newestBadges, w.firstError
}

// WaitCounts waits until the device shows these numbers of new posts and of likes.
func (w *BadgeSubscription) WaitCounts(tb testing.TB, within time.Duration, feed, likes int) {
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
func (w *BadgeSubscription) WaitCloseCode(tb testing.TB, within time.Duration) int {
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
	if w.firstError != nil {
		tb.Error(w.firstError)
	}
	return w.closeCode
}

// EventuallySucceeds calls state until it returns no error, and fails with the last error if that takes too long.
func EventuallySucceeds(tb testing.TB, within time.Duration, state func() error) {
	tb.Helper()
	eventually.Succeeds(tb, within, "the state is right", state)
}

// WaitAnnouncements waits until the device shows a count of announcements, and one dot lit or not.
func (w *BadgeSubscription) WaitAnnouncements(tb testing.TB, announcements int, dot string, lit bool) {
	tb.Helper()
	EventuallySucceeds(tb, DeviceUpdateTimeout, func() error {
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
func (w *BadgeSubscription) WaitUnreadMessages(tb testing.TB, unread int) {
	tb.Helper()
	EventuallySucceeds(tb, DeviceUpdateTimeout, func() error {
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
