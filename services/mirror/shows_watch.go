package mirror

import (
	"sync"

	"tidings/services"
)

// hostWatches are the open boards by the hosts that they show.
type hostWatches struct {
	mu sync.Mutex
	of map[services.UserNumber]map[*HostWatch]struct{}
	at map[*HostWatch]struct{}
}

func newHostWatches() *hostWatches {
	return &hostWatches{of: map[services.UserNumber]map[*HostWatch]struct{}{}, at: map[*HostWatch]struct{}{}}
}

// HostWatch tells an open board that a show of one of its hosts has changed.
type HostWatch struct {
	watches *hostWatches
	moved   chan struct{}
	hosts   []services.UserNumber
}

// WatchHosts opens a watch, for nobody's shows until Show says whose. It is closed when the board is.
func (m *Mirror) WatchHosts() *HostWatch {
	watch := &HostWatch{watches: m.shows.boards, moved: make(chan struct{}, 1)}
	watch.watches.mu.Lock()
	defer watch.watches.mu.Unlock()
	watch.watches.at[watch] = struct{}{}
	return watch
}

// Moved is a channel that has a token when a show has changed since the last one was taken: where it stands, or its texts.
func (w *HostWatch) Moved() <-chan struct{} { return w.moved }

// Show says whose shows the board has from now on. It is called before they are read, so that no change falls between.
func (w *HostWatch) Show(hosts []services.FollowedAuthor) {
	w.watches.mu.Lock()
	defer w.watches.mu.Unlock()
	same := len(hosts) == len(w.hosts)
	for i := 0; same && i < len(hosts); i++ {
		same = w.hosts[i] == hosts[i].Author
	}
	if same {
		return
	}
	w.leave()
	w.hosts = make([]services.UserNumber, len(hosts))
	for i, host := range hosts {
		w.hosts[i] = host.Author
		if w.watches.of[host.Author] == nil {
			w.watches.of[host.Author] = map[*HostWatch]struct{}{}
		}
		w.watches.of[host.Author][w] = struct{}{}
	}
}

// Close ends the watch.
func (w *HostWatch) Close() {
	w.watches.mu.Lock()
	defer w.watches.mu.Unlock()
	w.leave()
	delete(w.watches.at, w)
}

func (w *HostWatch) leave() {
	for _, host := range w.hosts {
		if delete(w.watches.of[host], w); len(w.watches.of[host]) == 0 {
			delete(w.watches.of, host)
		}
	}
	w.hosts = nil
}

func (w *hostWatches) moved(host services.UserNumber) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for watch := range w.of[host] {
		watch.wake()
	}
}

func (w *hostWatches) movedAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for watch := range w.at {
		watch.wake()
	}
}

func (w *HostWatch) wake() {
	select {
	case w.moved <- struct{}{}:
	default: // it has a token already
	}
}
