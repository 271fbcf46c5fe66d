package transport

import (
	"context"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services"
)

// peer is the common part of a WebSocket and an event stream: the viewer, the operations and the end of one client's connection.
// Its sender carries the messages. A peer ends once: stopAllOperations stops its operations, and then unregister takes it out of
// the counts.
type peer struct {
	sockets *Sockets              // counts the peer, and has the settings
	sender  messageSender         // carries the messages to the client
	exec    graphql.GraphExecutor // executes the operations
	ctx     context.Context       // has the viewer once they are known; never ends, because each operation ends by itself

	// The peer is counted under these two until unregister. countedUserKey is guarded by mu, because CloseUser reads it.
	address        string // the address that the client is counted under
	countedUserKey string // the user that the client is counted under; "" for none

	// mu guards the rest, countedUserKey included. It is held for moments and never while a message is written: a slow client must
	// not delay the hub or a drain. A goroutine that needs both locks takes Sockets.mu before mu.
	mu sync.Mutex
	// closing is set by stopAllOperations and never reset. No operation begins, and no message is sent, from then on.
	closing      bool
	tokenExpires time.Time    // when the viewer's token expires; zero: never
	nextPing     time.Time    // when a ping is due
	operations   []*operation // the operations under way; few, so a list is smaller and faster than a map
}

// messageSender carries messages to a client, in the form of its protocol. socket and stream implement it. Any goroutine may call any
// method.
type messageSender interface {
	// send writes one message, which next, completeWithErrors or complete has made. It waits until the connection has taken the message,
	// at most the write deadline. If a message cannot be written, the peer ends; if the peer is closing, the message is omitted. send
	// may change the bytes of the message.
	send(message []byte) error
	// next appends the message for one response of an operation to the text to, which is empty.
	next(to []byte, id string, response *graphql.Response) []byte
	// completeWithErrors appends the last message of an operation that ends with errors, as next does.
	completeWithErrors(to []byte, id string, errors gqlerror.List) []byte
	// complete appends the last message of an operation that ends without errors, as next does.
	complete(to []byte, id string) []byte
	// operationEnded reports that an operation has ended and its last message was sent.
	operationEnded()
	// askToReconnect asks the client to reconnect, because the server drains.
	askToReconnect()
	// closeForErasedUser closes the connection because its user was erased: their tokens are refused from now on.
	closeForErasedUser()
	// abort ends the peer without a message.
	abort()
}

// admit counts the peer for its user, or returns RATE_LIMITED. The host application has no user key and is not counted. admit is
// called at most once, before the peer has an operation, and unregister undoes it.
func (p *peer) admit(viewer services.Viewer) error {
	if err := p.sockets.cfg.Limits.ChargeSocket(viewer); err != nil {
		return err
	}
	if viewer.Key != "" {
		if !p.sockets.perUser.enter(viewer.Key) {
			return services.Errorf(services.RateLimited, "connections: up to %d sockets and event streams of one user are allowed at a time", p.sockets.cfg.MaxPerUser)
		}
		// The lock is needed, because CloseUser may read countedUserKey while the peer is being admitted.
		p.mu.Lock()
		p.countedUserKey = viewer.Key
		p.mu.Unlock()
	}
	p.ctx = services.WithViewer(p.ctx, viewer)
	p.sockets.devices.addConnection(viewer)
	return nil
}

// beginResult says that an operation may begin, or why it may not. Each protocol reports the reason to the client in its own way.
type beginResult int

const (
	beginOK beginResult = iota // the operation is registered
	// beginDuplicateID: an operation with the same ID is under way. The client could not tell the messages of the two apart.
	beginDuplicateID
	// beginAtLimit: the peer is at its limit of operations. The client may try again when one has ended.
	beginAtLimit
	// beginClosing: the connection of the peer is ending.
	beginClosing
)

// begin registers an operation. If the result is beginOK, the caller must start the operation, because Drain waits for it.
func (p *peer) begin(one *operation) beginResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.beginLocked(one)
}

// beginLocked is begin with the lock held.
func (p *peer) beginLocked(one *operation) beginResult {
	switch {
	case p.closing:
		return beginClosing
	case p.operationIndex(one.id) >= 0:
		return beginDuplicateID
	case len(p.operations) >= p.sockets.cfg.MaxOperations:
		return beginAtLimit
	}
	p.operations = append(p.operations, one)
	p.sockets.operationCount.Add(1)
	p.sockets.running.Add(1) // the peer itself is counted, so the group is not at zero
	return beginOK
}

// operationLimitError is the error for a peer at its limit of operations.
func (p *peer) operationLimitError() error {
	return services.Errorf(services.Conflict, "subscribe: up to %d operations at a time are allowed on one connection", p.sockets.cfg.MaxOperations)
}

// operationIndex returns the index of an operation in p.operations; -1 if none has the ID. The lock is held. IDs are unique within a
// peer.
func (p *peer) operationIndex(id string) int {
	for i, one := range p.operations {
		if one.id == id {
			return i
		}
	}
	return -1
}

// removeByID removes the operation with an ID and returns it, so that the ID is free again; nil if no operation has the ID. The client
// has ended the operation, so no last message is sent.
func (p *peer) removeByID(id string) *operation {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.operationIndex(id)
	if i < 0 {
		return nil
	}
	one := p.operations[i]
	p.removeAt(i)
	return one
}

// remove removes this very operation from the list, and not another one with its ID. Only the caller that gets true may report the end of
// the operation.
func (p *peer) remove(one *operation) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.operationIndex(one.id)
	if i < 0 || p.operations[i] != one { // another operation may have the ID by now
		return false
	}
	p.removeAt(i)
	return true
}

// removeAt removes an operation from the list. The order of the list means nothing. The lock is held.
func (p *peer) removeAt(i int) {
	last := len(p.operations) - 1
	p.operations[i] = p.operations[last]
	p.operations[last] = nil
	p.operations = p.operations[:last]
	p.sockets.operationCount.Add(-1)
}

// stopAllOperations ends all operations and refuses new ones; true for the first caller. It stops them after it has released the
// lock, because stop takes the lock again.
func (p *peer) stopAllOperations() bool {
	p.mu.Lock()
	first := !p.closing
	p.closing = true
	stopped := p.operations
	p.operations = nil
	p.sockets.operationCount.Add(int64(-len(stopped)))
	p.mu.Unlock()
	for _, one := range stopped {
		one.stop()
	}
	return first
}

// unregister uncounts the peer. It is called once, as the peer's last act. Until then the peer counts against the limit of its user.
func (p *peer) unregister() {
	if viewer, err := services.ViewerFrom(p.ctx); err == nil && p.sockets.devices.removeConnection(viewer) && p.sockets.cfg.DeviceGone != nil && !p.sockets.isDraining() {
		p.sockets.cfg.DeviceGone(viewer)
	}
	p.sockets.remove(p)
}

// isClosing reports whether stopAllOperations was called.
func (p *peer) isClosing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closing
}

// untilPingOrExpiry is the time until the next ping or the expiry of the token, whichever comes first. The lock is held. Both are
// times of the configured clock.
func (p *peer) untilPingOrExpiry() time.Duration {
	due := p.nextPing
	if !p.tokenExpires.IsZero() && p.tokenExpires.Before(due) {
		due = p.tokenExpires
	}
	return max(due.Sub(p.sockets.cfg.Clock.Now()), 0)
}

// checkPingAndExpiry reports whether the token has expired and whether a ping is due, and then sets the time of the next ping. The
// lock is held. An expired token needs no ping any more.
func (p *peer) checkPingAndExpiry() (expired, ping bool) {
	now := p.sockets.cfg.Clock.Now()
	expired = !p.tokenExpires.IsZero() && !now.Before(p.tokenExpires)
	if ping = !expired && !now.Before(p.nextPing); ping {
		p.nextPing = now.Add(jittered(p.sockets.cfg.PingInterval))
	}
	return expired, ping
}
