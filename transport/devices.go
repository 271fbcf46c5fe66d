package transport

import (
	"sync"

	"tidings/services"
)

// devices counts the open sockets and event streams of each device that has a name, on this node. What a device has open (see
// SocketConfig.Gone) ends with its last connection, and not with the first of two tabs.
type devices struct {
	mu sync.Mutex
	// open has no entry of 0, so it is as large as the number of connected devices.
	open map[device]int
}

// device is a device by its user and its name. Two users may choose the same name.
//
// The name is the client's own choice and no secret: it only says which connections end together.
type device struct{ key, name string }

// arrive counts a socket once its viewer is known. Each call has one call of depart.
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

// depart uncounts a socket, and reports whether it was the last of a device that has a name.
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
