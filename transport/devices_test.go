package transport

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"tidings/services"
)

// DeviceGone is called after the last socket of a device. It is not called for a device without a name, nor while the server drains.
func TestDeviceGoneIsCalledAfterTheLastSocket(t *testing.T) {
	var mu sync.Mutex
	var gone []string
	reported := func() []string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(gone)
	}
	change := func(cfg *SocketConfig) {
		cfg.DeviceGone = func(viewer services.Viewer) {
			mu.Lock()
			defer mu.Unlock()
			gone = append(gone, viewer.Key+"@"+viewer.Device)
		}
	}
	runWithAndWithoutPoller(t, change, func(w *socketFixture) {
		gone = nil
		open := func(key, device string) *socketClient {
			header := http.Header{}
			if device != "" {
				header.Set("Tidings-Device", device)
			}
			c := w.connectWith(header, webSocketSubprotocol)
			c.send(`{"type":"connection_init","payload":{"authorization":"dev:` + key + `"}}`)
			c.expectMessage(`{"type":"connection_ack"}`)
			return c
		}
		first, second, other, nameless := open("alice", "phone"), open("alice", "phone"), open("bob", "phone"), open("alice", "")
		w.connect().conn.Close() // it has no viewer yet
		first.conn.Close()
		nameless.conn.Close()
		if got := reported(); len(got) != 0 {
			t.Errorf("gone: %v", got)
		}
		second.conn.Close()
		if got := reported(); !slices.Equal(got, []string{"alice@phone"}) {
			t.Errorf("gone: %v", got)
		}
		open("alice", "phone").conn.Close()
		if got := reported(); len(got) != 2 {
			t.Errorf("back and gone again: %v", got)
		}
		w.sockets.mu.Lock()
		w.sockets.draining = true
		w.sockets.mu.Unlock()
		other.conn.Close()
		if got := reported(); len(got) != 2 {
			t.Errorf("gone while draining: %v", got)
		}
	})
}
