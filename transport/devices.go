package transport

import (
	"sync"

	"tidings/services"
)

// devices counts the open sockets and event streams of each device that has a name, on this node. A device is gone (see
// SocketConfig.Gone) when its last connection ends, and not when the first of two tabs is closed.
type devices struct {
	mu sync.Mutex
	// A device without a connection has no entry, so the map does not outgrow the connected devices.
	open map[device]int
}

// device identifies a device by its user's key and its name. Two users may choose the same name.
//
// The client chooses the name, and it is no secret: it only says which connections belong together.
type device struct{ key, name string }

// arrive counts a socket or an event stream once its viewer is known. Each call is followed by one call of depart.
func (d *devices) arrive(viewer services.Viewer) {
	if viewer.Device == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == nil {
		d.open = map[device]int{}
	}
	d.open[device{viewer.Key, viewer.Device}]++
}

// depart uncounts a socket or an event stream, and reports whether it was the last one of a device that has a name.
func (d *devices) depart(viewer services.Viewer) (last bool) {
	if viewer.Device == "" {
		return false
	}
	of := device{viewer.Key, viewer.Device}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[of]--; d.open[of] > 0 {
		return false
	}
	delete(d.open, of)
	return true
}
