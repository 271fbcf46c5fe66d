package live

import (
	"sync"
	"time"

	"tidings/services"
	"tidings/services/changelog"
)

// audience notifies receivers when shows of their hosts change; K identifies a receiver. Each receiver has a list of host
// IDs, and a notification walks all lists, at most ten times a second. For 10,000 receivers with 200 hosts each that takes 8
// MB and some milliseconds; an index by host would take ten times that.
type audience[K comparable] struct {
	clock services.Clock
	tell  func(whom []K) // must not block

	mu    sync.Mutex
	shown map[K][]services.UserID
	owed  map[services.UserID]struct{} // hosts whose shows have changed since the last notification; not yet reported
	all   bool                         // shows of unknown hosts have changed
	told  time.Time
	waits bool // a timer will send the next notification
}

func newAudience[K comparable](clock services.Clock, tell func(whom []K)) *audience[K] {
	return &audience[K]{clock: clock, tell: tell, shown: map[K][]services.UserID{}, owed: map[services.UserID]struct{}{}}
}

// show sets the hosts of a receiver.
func (a *audience[K]) show(whom K, hosts []services.FollowedAuthor) {
	a.mu.Lock()
	defer a.mu.Unlock()
	former := a.shown[whom]
	same := len(former) == len(hosts)
	for i := 0; same && i < len(hosts); i++ {
		same = former[i] == hosts[i].Author
	}
	switch {
	case same:
	case len(hosts) == 0:
		delete(a.shown, whom)
	default:
		numbers := make([]services.UserID, len(hosts))
		for i, host := range hosts {
			numbers[i] = host.Author
		}
		a.shown[whom] = numbers
	}
}

func (a *audience[K]) leave(whom []K) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range whom {
		delete(a.shown, one)
	}
}

// moved records that shows of a host have changed.
func (a *audience[K]) moved(host services.UserID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.shown) > 0 {
		a.owed[host] = struct{}{}
	}
}

// movedAll records that shows of unknown hosts have changed.
func (a *audience[K]) movedAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = len(a.shown) > 0
}

// tellOwed notifies of the pending changes: at once, or by a timer when the last notification was just now.
func (a *audience[K]) tellOwed() {
	a.mu.Lock()
	whom := a.due(a.clock.Now())
	if (len(a.owed) > 0 || a.all) && !a.waits {
		a.waits = true
		time.AfterFunc(changelog.NotifyGap, func() {
			a.mu.Lock()
			a.waits = false
			a.mu.Unlock()
			a.tellOwed() // it starts a timer again if a notification was sent meanwhile
		})
	}
	a.mu.Unlock()
	a.tell(whom)
}

func (a *audience[K]) due(now time.Time) (whom []K) {
	if since := now.Sub(a.told); len(a.owed) == 0 && !a.all || since >= 0 && since < changelog.NotifyGap {
		return nil
	}
	// Most IDs do not match, and one bit is enough to find that out.
	const bits = 1 << 12
	var maybe [bits]bool
	for host := range a.owed {
		maybe[host%bits] = true
	}
	for one, hosts := range a.shown {
		concerned := a.all
		for i := 0; !concerned && i < len(hosts); i++ {
			if maybe[hosts[i]%bits] {
				_, concerned = a.owed[hosts[i]]
			}
		}
		if concerned {
			whom = append(whom, one)
		}
	}
	clear(a.owed)
	a.all, a.told = false, now
	return whom
}

// HostWatch notifies an open board when a show of one of its hosts has changed.
type HostWatch struct {
	boards *audience[*HostWatch]
	moved  chan struct{}
}

// WatchHosts opens a watch without hosts; Show sets them. Close it with the board.
func (m *Memory) WatchHosts() *HostWatch {
	return &HostWatch{boards: m.boards, moved: make(chan struct{}, 1)}
}

// Moved is a channel that gets a token when a show has changed since the last token was taken: its position or its texts.
func (w *HostWatch) Moved() <-chan struct{} { return w.moved }

// Show sets the hosts of the board. Call it before reading their shows, so that no change is missed in between.
func (w *HostWatch) Show(hosts []services.FollowedAuthor) { w.boards.show(w, hosts) }

// Close ends the watch.
func (w *HostWatch) Close() { w.boards.leave([]*HostWatch{w}) }

func wakeBoards(boards []*HostWatch) {
	for _, board := range boards {
		select {
		case board.moved <- struct{}{}:
		default: // it has a token already
		}
	}
}
