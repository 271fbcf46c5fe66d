package transport

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"tidings/services"
)

// Gone is called after the last socket of a device. It is not called for a device without a name, nor while the server drains.
func TestGoneIsCalledAfterADevicesLastSocket(t *testing.T) {
	var mu sync.Mutex
	var gone []string
	told := func() []string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(gone)
	}
	change := func(cfg *SocketConfig) {
		cfg.Gone = func(viewer services.Viewer) {
			mu.Lock()
			defer mu.Unlock()
			gone = append(gone, viewer.Key+"@"+viewer.Device)
		}
	}
	runInWorlds(t, change, func(w *world) {
		gone = nil
		open := func(key, device string) *client {
			header := http.Header{}
			if device != "" {
				header.Set("Tidings-Device", device)
			}
			c := w.connectWith(header, protocol)
			c.send(`{"type":"connection_init","payload":{"authorization":"dev:` + key + `"}}`)
			c.expect(`{"type":"connection_ack"}`)
			return c
		}
		first, second, other, nameless := open("alice", "phone"), open("alice", "phone"), open("bob", "phone"), open("alice", "")
		w.connect().conn.Close() // it has no viewer yet
		first.conn.Close()
		nameless.conn.Close()
		if got := told(); len(got) != 0 {
			t.Errorf("gone: %v", got)
		}
		second.conn.Close()
		if got := told(); !slices.Equal(got, []string{"alice@phone"}) {
			t.Errorf("gone: %v", got)
		}
		open("alice", "phone").conn.Close()
		if got := told(); len(got) != 2 {
			t.Errorf("back and gone again: %v", got)
		}
		w.sockets.mu.Lock()
		w.sockets.draining = true
		w.sockets.mu.Unlock()
		other.conn.Close()
		if got := told(); len(got) != 2 {
			t.Errorf("gone while draining: %v", got)
		}
	})
}
