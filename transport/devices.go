package transport

import (
	"sync"

	"tidings/services"
)

// connectedDevices counts the open sockets and event streams of each device that has a name, on this node. A device is gone (see
// SocketConfig.DeviceGone) when its last connection ends, and not when the first of two tabs is closed.
type connectedDevices struct {
	mu sync.Mutex // guards connectionCounts
	// connectionCounts has the number of open connections of each device. A device without a connection has no entry.
	connectionCounts map[device]int
}

// device identifies a device by its user's key and its name. Two users may choose the same name.
//
// The client chooses the name, and it is no secret: it only says which connections belong together.
type device struct{ key, name string }

// addConnection counts a socket or an event stream once its viewer is known. Each call is followed by one call of removeConnection.
func (d *connectedDevices) addConnection(viewer services.Viewer) {
	if viewer.Device == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.connectionCounts == nil {
		d.connectionCounts = map[device]int{}
	}
	d.connectionCounts[device{viewer.Key, viewer.Device}]++
}

// removeConnection uncounts a socket or an event stream, and reports whether it was the last one of a device that has a name.
func (d *connectedDevices) removeConnection(viewer services.Viewer) (last bool) {
	if viewer.Device == "" {
		return false
	}
	of := device{viewer.Key, viewer.Device}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.connectionCounts[of]--; d.connectionCounts[of] > 0 {
		return false
	}
	delete(d.connectionCounts, of)
	return true
}
