package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql"
	"github.com/gorilla/websocket"

	"tidings/services"
)

const (
	lingerTime  = 2 * time.Second // for the client to answer our close
	controlTime = time.Second     // for a ping, a pong or a close to be written
	maxReason   = 123             // bytes of a close reason, as the protocol has it
)

// socket is one client. Its goroutine reads; whoever has something to say writes under the lock write.
type socket struct {
	sockets *Sockets
	conn    *websocket.Conn
	exec    graphql.GraphExecutor
	ctx     context.Context // carries the viewer once he is known; never ends: each operation has an end of its own

	allowance float64   // messages that may come now; of the reading goroutine alone
	counted   time.Time // when it was last reckoned
	upgrade   *upgrade  // what the upgrade said, until connection_init
	address   string    // under which the client is counted
	holder    string    // the user under whom the socket is counted; "" for none; of the reading goroutine alone

	write sync.Mutex // held for one message

	mu         sync.Mutex
	timer      *time.Timer
	acked      bool
	closing    bool
	expires    time.Time // of the token; zero is never
	nextPing   time.Time
	operations []*operation // few: a list is smaller and faster than a map
}

// upgrade is what the headers of the upgrade say about the viewer. A browser cannot set them; others can.
type upgrade struct {
	authorization error
	token         string
	actAs         string
	device        string
}

func newSocket(owner *Sockets, conn *websocket.Conn, exec graphql.GraphExecutor, header http.Header, address string) *socket {
	s := &socket{sockets: owner, conn: conn, exec: exec, address: address, counted: owner.cfg.Clock.Now(), allowance: owner.burst()}
	s.upgrade = &upgrade{actAs: header.Get(actAsHeader), device: header.Get(deviceHeader)}
	s.upgrade.token, s.upgrade.authorization = bearer(header)
	// The request's own context ends when its handler returns, and holds the whole request.
	s.ctx = context.Background()
	conn.SetReadLimit(owner.cfg.MessageLimit)
	conn.SetPingHandler(s.pinged)
	conn.SetPongHandler(s.ponged)
	return s
}

// burst is how many messages may come at once: a client that comes back subscribes to everything at once.
func (s *Sockets) burst() float64 { return float64(s.cfg.Subscriptions + s.cfg.MessagesPerSecond) }

// start begins to read.
func (s *socket) start() {
	welcome := s.sockets.add(s)
	s.mu.Lock()
	s.timer = time.AfterFunc(s.sockets.cfg.InitTimeout, s.tick)
	s.mu.Unlock()
	go s.read()
	if !welcome {
		s.close(websocket.CloseServiceRestart, "the server restarts, connect again")
	} else if s.conn.Subprotocol() != protocol {
		s.close(closeSubprotocol, "the subprotocol must be "+protocol)
	}
}

var inputs = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// read reads until the connection ends. After a close it goes on, so that the client has the time to read why:
// closing a connection with unread input throws away what was sent last.
func (s *socket) read() {
	defer s.end()
	for {
		kind, reader, err := s.conn.NextReader()
		if err != nil {
			return
		}
		if !s.renew() {
			if _, err := io.Copy(io.Discard, reader); err != nil {
				return
			}
			continue
		}
		input := inputs.Get().(*bytes.Buffer)
		input.Reset()
		if _, err = input.ReadFrom(reader); err == nil {
			s.received(kind, input.Bytes())
		}
		inputs.Put(input)
		if err != nil {
			return
		}
	}
}

// received acts on one message. What it does with text it does before it returns.
func (s *socket) received(kind int, text []byte) {
	if !s.allowed() {
		s.close(closeTooMany, "too many messages")
		return
	}
	if kind != websocket.TextMessage {
		s.close(closeBadMessage, "message: must be text")
		return
	}
	read, err := parseMessage(text)
	if err != nil {
		s.close(closeBadMessage, messageOf(err))
		return
	}
	switch read.kind {
	case messageInit:
		s.init(read.object)
	case messagePing:
		answer := appendHead(nil, messagePong, "")
		if read.raw != nil {
			answer = append(append(answer, `,"payload":`...), read.raw...)
		}
		_ = s.send(append(answer, '}')) // a failure ends the socket
	case messageSubscribe:
		s.subscribe(read)
	case messageComplete:
		if one := s.take(read.id); one != nil {
			one.stop()
		}
	}
}

// init checks who asks, once, and acknowledges.
func (s *socket) init(payload map[string]any) {
	asked := s.upgrade
	if asked == nil {
		s.close(closeTooMany, "connection_init: only one is allowed")
		return
	}
	s.upgrade = nil
	token, device, err := credentials(payload)
	if err == nil && token == "" {
		token, err = asked.token, asked.authorization
	}
	if device == "" {
		device = asked.device
	}
	var expires time.Time
	if err == nil && token != "" {
		var viewer services.Viewer
		if viewer, expires, err = s.sockets.cfg.Identity.Viewer(s.ctx, token, asked.actAs, device); err == nil {
			err = s.admit(viewer)
		}
	}
	if err != nil {
		s.close(closeCodeOf(err), messageOf(err))
		return
	}
	s.mu.Lock()
	s.acked, s.expires = true, expires
	s.nextPing = s.sockets.cfg.Clock.Now().Add(jittered(s.sockets.cfg.PingInterval))
	s.schedule()
	s.mu.Unlock()
	_ = s.send(append(appendHead(nil, messageAck, ""), '}'))
}

// admit counts the socket among its user's, or answers RATE_LIMITED. Whoever acts for nobody is the host application,
// which is not counted.
func (s *socket) admit(viewer services.Viewer) error {
	if err := s.sockets.cfg.Limits.Socket(viewer); err != nil {
		return err
	}
	if viewer.Key != "" {
		if !s.sockets.perUser.enter(viewer.Key) {
			return services.Errorf(services.RateLimited, "connection_init: up to %d sockets of one user are allowed at a time", s.sockets.cfg.PerUser)
		}
		s.holder = viewer.Key
	}
	s.ctx = services.WithViewer(s.ctx, viewer)
	s.sockets.devices.arrive(viewer)
	return nil
}

func closeCodeOf(err error) int {
	switch services.CodeOf(err) {
	case services.RateLimited:
		return closeTooMany
	case services.Unauthenticated, services.Forbidden:
		return closeForbidden
	case services.Invalid:
		return closeBadMessage
	case services.Unavailable:
		return websocket.CloseTryAgainLater
	default:
		return websocket.CloseInternalServerErr
	}
}

// subscribe starts an operation, of whichever kind.
func (s *socket) subscribe(read message) {
	limit := s.sockets.cfg.Subscriptions
	one := newOperation(s, read.id)
	s.mu.Lock()
	ready, twice, full := s.acked, s.index(read.id) >= 0, len(s.operations) >= limit
	if ready && !twice && !full && !s.closing {
		s.operations = append(s.operations, one)
		s.sockets.operations.Add(1)
		s.sockets.running.Add(1) // the socket itself is counted: it is not zero
	}
	closing := s.closing
	s.mu.Unlock()
	switch {
	case !ready:
		s.close(closeUnauthorized, "subscribe: connection_init has to be acknowledged before")
	case twice:
		s.close(closeDuplicate, "subscribe: the id is in use")
	case full:
		one.cancel()
		_ = s.send(appendError(nil, read.id, asList(services.Errorf(services.Conflict,
			"subscribe: up to %d operations at a time are allowed on a socket", limit))))
	case closing:
		one.cancel()
	default:
		go one.start(read.params)
	}
}

// index finds an operation in the list; -1 is none. The lock is held.
func (s *socket) index(id string) int {
	for i, one := range s.operations {
		if one.id == id {
			return i
		}
	}
	return -1
}

// take removes an operation by its id, so that the id is free again; nil when there is none.
func (s *socket) take(id string) *operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index(id)
	if i < 0 {
		return nil
	}
	one := s.operations[i]
	s.drop(i)
	return one
}

// remove takes this very operation out of the list. Whoever gets true may say that it ended.
func (s *socket) remove(one *operation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index(one.id)
	if i < 0 || s.operations[i] != one { // the id may already be another's
		return false
	}
	s.drop(i)
	return true
}

func (s *socket) drop(i int) {
	last := len(s.operations) - 1
	s.operations[i] = s.operations[last]
	s.operations[last] = nil
	s.operations = s.operations[:last]
	s.sockets.operations.Add(-1)
}

// send writes one message and waits until the client's side has taken it, at most the write deadline. A
// message that cannot be written ends the socket; on one that is closing it is left out.
func (s *socket) send(text []byte) error {
	s.write.Lock()
	defer s.write.Unlock()
	if s.isClosing() {
		return websocket.ErrCloseSent
	}
	_ = s.conn.SetWriteDeadline(deadline(s.sockets.cfg.WriteTimeout)) // never fails
	err := s.conn.WriteMessage(websocket.TextMessage, text)
	if err != nil && !errors.Is(err, websocket.ErrCloseSent) {
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			s.sockets.slow.Add(1)
		}
		s.cut()
	}
	return err
}

// close says why and ends the socket, once; the client has two seconds to answer.
func (s *socket) close(code int, reason string) {
	if !s.shut() {
		return
	}
	err := s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, shorten(reason)), deadline(controlTime))
	if err != nil {
		s.cut()
		return
	}
	_ = s.conn.SetReadDeadline(deadline(lingerTime))
}

// cut ends the socket without a word.
func (s *socket) cut() {
	s.shut()
	_ = s.conn.Close()
}

// shut ends all operations, and lets nothing more begin; true for whoever came first.
func (s *socket) shut() bool {
	s.mu.Lock()
	first := !s.closing
	s.closing = true
	s.timer.Stop()
	stopped := s.operations
	s.operations = nil
	s.sockets.operations.Add(int64(-len(stopped)))
	s.mu.Unlock()
	for _, one := range stopped {
		one.stop()
	}
	return first
}

// end is the last of a socket.
func (s *socket) end() {
	s.cut()
	if viewer, err := services.ViewerFrom(s.ctx); err == nil && s.sockets.devices.depart(viewer) && s.sockets.cfg.Gone != nil && !s.sockets.isDraining() {
		s.sockets.cfg.Gone(viewer)
	}
	s.sockets.remove(s)
}

func (s *socket) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// shorten cuts a close reason to what a close frame can hold.
func shorten(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	cut := maxReason
	for cut > 0 && !utf8.RuneStart(reason[cut]) {
		cut--
	}
	return reason[:cut]
}

// messageOf is the part of an error that is for people.
func messageOf(err error) string { return faultError(err).Message }
