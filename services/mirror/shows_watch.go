package mirror

import (
	"sync"
	"time"

	"tidings/services"
	"tidings/services/changelog"
)

// audience is who is told when shows of a host change: K is whom or what. Who is shown whose shows is kept as a list of
// numbers for each, and all lists are walked when something is to be told, at most ten times a second: 10,000 who are shown
// 200 hosts are 8 MB and some milliseconds so, where an index by hosts would be ten times that.
type audience[K comparable] struct {
	clock services.Clock
	tell  func(whom []K) // must not block

	mu    sync.Mutex
	shown map[K][]services.UserID
	owed  map[services.UserID]struct{} // their shows have changed, and the audience does not know yet
	all   bool                         // whose shows have changed is not known
	told  time.Time
	waits bool // a timer will tell them
}

func newAudience[K comparable](clock services.Clock, tell func(whom []K)) *audience[K] {
	return &audience[K]{clock: clock, tell: tell, shown: map[K][]services.UserID{}, owed: map[services.UserID]struct{}{}}
}

// show says whose shows somebody is shown from now on.
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

// moved says that shows of a host have changed.
func (a *audience[K]) moved(host services.UserID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.shown) > 0 {
		a.owed[host] = struct{}{}
	}
}

// movedAll says that it is not known whose shows have changed.
func (a *audience[K]) movedAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = len(a.shown) > 0
}

// tellOwed tells of what changed: at once, or by a timer when it was told of something just now.
func (a *audience[K]) tellOwed() {
	a.mu.Lock()
	whom := a.due(a.clock.Now())
	if (len(a.owed) > 0 || a.all) && !a.waits {
		a.waits = true
		time.AfterFunc(changelog.NotifyGap, func() {
			a.mu.Lock()
			a.waits = false
			a.mu.Unlock()
			a.tellOwed() // which waits again when others were told meanwhile
		})
	}
	a.mu.Unlock()
	a.tell(whom)
}

func (a *audience[K]) due(now time.Time) (whom []K) {
	if since := now.Sub(a.told); len(a.owed) == 0 && !a.all || since >= 0 && since < changelog.NotifyGap {
		return nil
	}
	// Most numbers are none of those that are looked for, and one bit says so.
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

// HostWatch tells an open board that a show of one of its hosts has changed.
type HostWatch struct {
	boards *audience[*HostWatch]
	moved  chan struct{}
}

// WatchHosts opens a watch, for nobody's shows until Show says whose. It is closed when the board is.
func (m *Shows) WatchHosts() *HostWatch {
	return &HostWatch{boards: m.boards, moved: make(chan struct{}, 1)}
}

// Moved is a channel that has a token when a show has changed since the last one was taken: where it stands, or its texts.
func (w *HostWatch) Moved() <-chan struct{} { return w.moved }

// Show says whose shows the board has from now on. It is called before they are read, so that no change falls between.
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
