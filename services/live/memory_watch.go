package live

import (
	"sync"
	"time"

	"tidings/services"
	"tidings/services/changelog"
)

// hostChangeReceivers notifies receivers when shows of their hosts change; K identifies a receiver. Each receiver has a list of
// host IDs, and a notification walks all lists, at most ten times a second. For 10,000 receivers with 200 hosts each the lists take
// 8 MB, and a walk takes some milliseconds; an index by host would take ten times as much.
type hostChangeReceivers[K comparable] struct {
	clock  services.Clock
	notify func(list []K) // must not block

	mu         sync.Mutex                   // guards the fields below
	hosts      map[K][]services.UserID      // the IDs of each receiver's hosts
	pending    map[services.UserID]struct{} // hosts whose shows have changed since the last notification; not yet reported
	allChanged bool                         // shows have changed, and it is unknown whose
	notified   time.Time                    // when receivers were last notified
	waits      bool                         // a timer will send the next notification
}

func newReceivers[K comparable](clock services.Clock, notify func(list []K)) *hostChangeReceivers[K] {
	return &hostChangeReceivers[K]{clock: clock, notify: notify, hosts: map[K][]services.UserID{}, pending: map[services.UserID]struct{}{}}
}

// setHosts replaces the hosts of a receiver. A receiver without hosts is not notified.
func (a *hostChangeReceivers[K]) setHosts(receiver K, hosts []services.FollowedAuthor) {
	a.mu.Lock()
	defer a.mu.Unlock()
	former := a.hosts[receiver]
	// Usually nothing has changed: then the list is kept, and no new one is allocated.
	same := len(former) == len(hosts)
	for i := 0; same && i < len(hosts); i++ {
		same = former[i] == hosts[i].Author
	}
	switch {
	case same:
	case len(hosts) == 0:
		delete(a.hosts, receiver)
	default:
		ids := services.Map(hosts, func(host services.FollowedAuthor) services.UserID { return host.Author })
		a.hosts[receiver] = ids
	}
}

// remove ends the notifications of some receivers. A notification that is under way may still reach them.
func (a *hostChangeReceivers[K]) remove(list []K) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range list {
		delete(a.hosts, one)
	}
}

// recordChange records that shows of a host have changed.
func (a *hostChangeReceivers[K]) recordChange(host services.UserID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Without receivers nothing is recorded. A receiver that comes later reads the shows after it has set its hosts.
	if len(a.hosts) > 0 {
		a.pending[host] = struct{}{}
	}
}

// recordAllChanged records that shows have changed and that it is unknown of which hosts: all receivers are notified.
func (a *hostChangeReceivers[K]) recordAllChanged() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.allChanged = len(a.hosts) > 0
}

// notifyPending notifies of the pending changes: at once, or by a timer if the last notification is less than MinNotifyInterval ago.
func (a *hostChangeReceivers[K]) notifyPending() {
	a.mu.Lock()
	now := a.clock.Now()
	list := a.due(now)
	if (len(a.pending) > 0 || a.allChanged) && !a.waits {
		a.waits = true
		// The timer ends with the interval since the last notification. If it took a whole interval from now on, each of many shows
		// that start one after the other would be notified an interval late.
		time.AfterFunc(changelog.MinNotifyInterval-now.Sub(a.notified), func() {
			a.mu.Lock()
			a.waits = false
			a.mu.Unlock()
			a.notifyPending() // it starts a timer again if a notification was sent meanwhile
		})
	}
	a.mu.Unlock()
	// notify runs outside the lock, because the hub's callback takes its own locks.
	a.notify(list)
}

// due lists the receivers to notify now: none if the last notification was less than MinNotifyInterval ago. The lock is held.
func (a *hostChangeReceivers[K]) due(now time.Time) (list []K) {
	if since := now.Sub(a.notified); len(a.pending) == 0 && !a.allChanged || since >= 0 && since < changelog.MinNotifyInterval {
		return nil
	}
	// Most IDs do not match, and one look-up in this array is enough to find that out.
	const bits = 1 << 12
	var candidateHosts [bits]bool
	for host := range a.pending {
		candidateHosts[host%bits] = true
	}
	for one, hosts := range a.hosts {
		concerned := a.allChanged
		for i := 0; !concerned && i < len(hosts); i++ {
			if candidateHosts[hosts[i]%bits] {
				_, concerned = a.pending[hosts[i]]
			}
		}
		if concerned {
			list = append(list, one)
		}
	}
	clear(a.pending)
	a.allChanged, a.notified = false, now
	return list
}

// boardHostsWatch notifies an open board when a show of one of its hosts has changed.
type boardHostsWatch struct {
	boards *hostChangeReceivers[*boardHostsWatch] // notifies this watch and those of the other open boards
	// changed gets a value when the position or the texts of a show have changed since the last value was received.
	changed chan struct{}
}

// watchHosts makes the watch of an open board, without hosts; setHosts sets them. Close the watch when the board closes.
func (m *Memory) watchHosts() *boardHostsWatch {
	return &boardHostsWatch{boards: m.boards, changed: make(chan struct{}, 1)}
}

// setHosts sets the hosts of the board. Call it before reading their shows, so that no change is missed in between.
func (w *boardHostsWatch) setHosts(hosts []services.FollowedAuthor) { w.boards.setHosts(w, hosts) }

// close ends the watch.
func (w *boardHostsWatch) close() { w.boards.remove([]*boardHostsWatch{w}) }

// wakeBoards puts a value into the channel of each board, unless one waits there already.
func wakeBoards(boards []*boardHostsWatch) {
	for _, board := range boards {
		services.Signal(board.changed)
	}
}
