package transport

import (
	"context"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services"
)

// peer is one client with subscriptions, over a WebSocket or an event stream: its viewer, its operations and its end. Its
// line carries the messages.
type peer struct {
	sockets *Sockets
	line    line
	exec    graphql.GraphExecutor
	ctx     context.Context // carries the viewer once they are known; never ends: each operation has an end of its own

	address string // under which the client is counted
	holder  string // the user under whom the client is counted; "" for none

	write sync.Mutex // held for one message

	mu         sync.Mutex
	closing    bool
	expires    time.Time // of the token; zero is never
	nextPing   time.Time
	operations []*operation // few: a list is smaller and faster than a map
}

// line carries messages to a peer, in the form of its protocol.
type line interface {
	// send writes one message and waits until the client's side has taken it, at most the write deadline. A message that cannot
	// be written ends the peer; on a peer that is closing it is left out.
	send(text []byte) error
	// next, failed and complete append the messages of an operation. The last two end it.
	next(to []byte, id string, response *graphql.Response) []byte
	failed(to []byte, id string, errors gqlerror.List) []byte
	complete(to []byte, id string) []byte
	// finished says that an operation has ended and its last message was sent.
	finished()
	// restart asks the client to connect again, because the server goes away.
	restart()
	// cut ends the peer without a word.
	cut()
}

// admit counts the peer among its user's, or answers RATE_LIMITED. A viewer without a key is the host application, which is
// not counted.
func (p *peer) admit(viewer services.Viewer) error {
	if err := p.sockets.cfg.Limits.Socket(viewer); err != nil {
		return err
	}
	if viewer.Key != "" {
		if !p.sockets.perUser.enter(viewer.Key) {
			return services.Errorf(services.RateLimited, "connections: up to %d sockets and event streams of one user are allowed at a time", p.sockets.cfg.PerUser)
		}
		p.holder = viewer.Key
	}
	p.ctx = services.WithViewer(p.ctx, viewer)
	p.sockets.devices.arrive(viewer)
	return nil
}

// The reasons why an operation cannot begin.
type hurdle int

const (
	hurdleNone hurdle = iota
	hurdleTwice
	hurdleFull
	hurdleClosing
)

// begin takes an operation in. Where nothing stands in its way the caller must start it.
func (p *peer) begin(one *operation) hurdle {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.beginLocked(one)
}

// beginLocked is begin with the lock held.
func (p *peer) beginLocked(one *operation) hurdle {
	switch {
	case p.closing:
		return hurdleClosing
	case p.index(one.id) >= 0:
		return hurdleTwice
	case len(p.operations) >= p.sockets.cfg.Subscriptions:
		return hurdleFull
	}
	p.operations = append(p.operations, one)
	p.sockets.operations.Add(1)
	p.sockets.running.Add(1) // the peer itself is counted: it is not zero
	return hurdleNone
}

// tooMany says that the peer has as many operations as it may.
func (p *peer) tooMany() error {
	return services.Errorf(services.Conflict, "subscribe: up to %d operations at a time are allowed on one connection", p.sockets.cfg.Subscriptions)
}

// index finds an operation in the list; -1 is none. The lock is held.
func (p *peer) index(id string) int {
	for i, one := range p.operations {
		if one.id == id {
			return i
		}
	}
	return -1
}

// take removes an operation by its id, so that the id is free again; nil when there is none.
func (p *peer) take(id string) *operation {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.index(id)
	if i < 0 {
		return nil
	}
	one := p.operations[i]
	p.drop(i)
	return one
}

// remove takes this very operation out of the list. The caller that gets true may say that it ended.
func (p *peer) remove(one *operation) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.index(one.id)
	if i < 0 || p.operations[i] != one { // the id may already be another's
		return false
	}
	p.drop(i)
	return true
}

func (p *peer) drop(i int) {
	last := len(p.operations) - 1
	p.operations[i] = p.operations[last]
	p.operations[last] = nil
	p.operations = p.operations[:last]
	p.sockets.operations.Add(-1)
}

// shut ends all operations, and lets nothing more begin; true for the first caller.
func (p *peer) shut() bool {
	p.mu.Lock()
	first := !p.closing
	p.closing = true
	stopped := p.operations
	p.operations = nil
	p.sockets.operations.Add(int64(-len(stopped)))
	p.mu.Unlock()
	for _, one := range stopped {
		one.stop()
	}
	return first
}

// gone is the last of a peer: nothing of it is counted any more.
func (p *peer) gone() {
	if viewer, err := services.ViewerFrom(p.ctx); err == nil && p.sockets.devices.depart(viewer) && p.sockets.cfg.Gone != nil && !p.sockets.isDraining() {
		p.sockets.cfg.Gone(viewer)
	}
	p.sockets.remove(p)
}

func (p *peer) isClosing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closing
}

// untilDue is how long it is until the next ping or the end of the token. The lock is held.
func (p *peer) untilDue() time.Duration {
	due := p.nextPing
	if !p.expires.IsZero() && p.expires.Before(due) {
		due = p.expires
	}
	return max(due.Sub(p.sockets.cfg.Clock.Now()), 0)
}

// due says what is due now, and sets the next ping. The lock is held.
func (p *peer) due() (expired, ping bool) {
	now := p.sockets.cfg.Clock.Now()
	expired = !p.expires.IsZero() && !now.Before(p.expires)
	if ping = !expired && !now.Before(p.nextPing); ping {
		p.nextPing = now.Add(jittered(p.sockets.cfg.PingInterval))
	}
	return expired, ping
}
