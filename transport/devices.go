package transport

import (
	"sync"

	"tidings/services"
)

// devices counts the open sockets and event streams of each device that has a name.
type devices struct {
	mu   sync.Mutex
	open map[device]int
}

type device struct{ key, name string }

// arrive counts a socket once its viewer is known.
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
