package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// The client of the row sockets opens thousands of graphql-transport-ws sockets in one process. Each is a goroutine with a small
// buffer. The client understands only what servers send here: whole, unfragmented frames.

const (
	handshakeTimeout   = 30 * time.Second // for a socket to open and subscribe
	readBufferBytes    = 1 << 10          // bytes of a socket's first buffer, which can grow
	maxFrameBytes      = 64 << 10         // bytes of the longest frame
	maxConcurrentDials = 64               // sockets that are being opened at a time

	opText, opClose, opPing, opPong = 1, 8, 9, 10 // opcodes of WebSocket frames
)

// socketFleet is a set of open sockets to one server, with one subscription each.
type socketFleet struct {
	sockets         []*socket
	readLoops       sync.WaitGroup        // the goroutines that read the sockets, one for each
	lostSockets     atomic.Int64          // how many sockets have ended
	firstLossReason atomic.Pointer[error] // why the first of the lost sockets ended
	firstFrameBytes int                   // the length of the first event's frame, in bytes

	timeOrigin       time.Time                     // the times of events are nanoseconds after it
	pendingEvents    atomic.Int64                  // how many sockets have not yet got the event of expectOneEventPerSocket
	allEventsArrived atomic.Pointer[chan struct{}] // closed when pendingEvents gets to 0
	onEvent          atomic.Pointer[eventFunc]     // gets every event; may be nil
}

// eventFunc receives each event: the index of its socket, its text and its time.
type eventFunc func(i int, payload []byte, at time.Time)

// socket is one WebSocket connection of a fleet.
type socket struct {
	fleet         *socketFleet // the fleet that the socket belongs to
	index         int          // the index in the fleet's field sockets
	conn          net.Conn
	buffer        []byte       // what was read from conn
	bufferedBytes int          // how many bytes of the buffer are filled
	frameBytes    int          // of these bytes, the length of the frame that readFrame has returned
	eventNanos    atomic.Int64 // the time of the first expected event, in ns after the fleet's timeOrigin; 0 if there is none
}

// subscribeFunc subscribes socket number i. It returns when it has read the first event.
type subscribeFunc func(s *socket, i int) error

// openFleet opens n sockets to an address, subscribes each with open, and starts to read their events.
func openFleet(ctx context.Context, address string, n int, open subscribeFunc) (*socketFleet, error) {
	f := &socketFleet{timeOrigin: time.Now(), sockets: make([]*socket, n)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, maxConcurrentDials)
	var next atomic.Int64
	var group sync.WaitGroup
	for d := range maxConcurrentDials {
		group.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1) - 1)
				if i >= n {
					return
				}
				if errs[d] = f.openSocket(ctx, address, i, open); errs[d] != nil {
					cancel()
				}
			}
		})
	}
	group.Wait()
	if err := errors.Join(append(errs, context.Cause(ctx))...); err != nil {
		f.close()
		return nil, fmt.Errorf("opening %d sockets to %s: %w", n, address, err)
	}
	return f, nil
}

// openSocket opens and subscribes socket number i.
func (f *socketFleet) openSocket(ctx context.Context, address string, i int, open subscribeFunc) error {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(sourceAddresses[i%len(sourceAddresses)])}, KeepAlive: -1}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	s := &socket{fleet: f, index: i, conn: conn, buffer: make([]byte, readBufferBytes)}
	f.sockets[i] = s
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	if err := open(s, i); err != nil {
		return fmt.Errorf("socket %d: %w", i, err)
	}
	if i == 0 {
		f.firstFrameBytes = s.frameBytes
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	f.readLoops.Go(s.readUntilClosed) // at once, because the server sends pings while other sockets are being opened
	return nil
}

// close ends every socket at once and waits until all read loops have ended.
func (f *socketFleet) close() {
	for _, s := range f.sockets {
		if s == nil {
			continue
		}
		// Linger 0 resets the connection. This frees the port at once, which the next fleet may need.
		_ = s.conn.(*net.TCPConn).SetLinger(0)
		_ = s.conn.Close()
	}
	f.readLoops.Wait()
}

// expectOneEventPerSocket prepares for one event on every socket; the channel is closed when each socket has received its event.
func (f *socketFleet) expectOneEventPerSocket() <-chan struct{} {
	all := make(chan struct{})
	f.allEventsArrived.Store(&all)
	f.pendingEvents.Store(int64(len(f.sockets)))
	for _, s := range f.sockets {
		s.eventNanos.Store(0) // from here on its next event counts
	}
	return all
}

// nanosSinceOrigin returns the time since the fleet's timeOrigin, in nanoseconds: the form in which sockets keep times.
func (f *socketFleet) nanosSinceOrigin() int64 { return int64(time.Since(f.timeOrigin)) }

// recordEvent notes the time of an event. Only the first one after expectOneEventPerSocket counts.
func (s *socket) recordEvent() {
	if s.eventNanos.CompareAndSwap(0, s.fleet.nanosSinceOrigin()) && s.fleet.pendingEvents.Add(-1) == 0 {
		if all := s.fleet.allEventsArrived.Load(); all != nil {
			close(*all)
		}
	}
}

// nextMessageType is the part of a message by which an event is recognized.
var nextMessageType = []byte(`"type":"next"`)

// readUntilClosed handles frames until the connection ends. Then the socket counts as lost.
func (s *socket) readUntilClosed() {
	err := s.handleFrames()
	s.fleet.firstLossReason.CompareAndSwap(nil, &err)
	s.fleet.lostSockets.Add(1)
}

// handleFrames handles frames until the connection or the subscription ends, and returns why it ended.
func (s *socket) handleFrames() error {
	for {
		opcode, payload, err := s.readFrame()
		if err != nil {
			return err
		}
		switch {
		case opcode == opPing:
			err = s.write(opPong, payload)
		case opcode == opClose:
			err = fmt.Errorf("the server closed it: %q", payload)
		case bytes.Contains(payload, nextMessageType):
			if watch := s.fleet.onEvent.Load(); watch != nil {
				(*watch)(s.index, payload, time.Now())
			}
			s.recordEvent()
		case bytes.Contains(payload, []byte(`"type":"ping"`)):
			err = s.write(opText, []byte(`{"type":"pong"}`))
		case bytes.Contains(payload, []byte(`"type":"error"`)), bytes.Contains(payload, []byte(`"type":"complete"`)):
			err = fmt.Errorf("the subscription is over: %s", payload)
		}
		if err != nil {
			return err
		}
	}
}

// readFrame reads one frame; the payload is valid until the next call.
func (s *socket) readFrame() (opcode byte, payload []byte, err error) {
	s.bufferedBytes = copy(s.buffer, s.buffer[s.frameBytes:s.bufferedBytes])
	s.frameBytes = 0
	for {
		frame, header := frameLength(s.buffer[:s.bufferedBytes])
		if frame > maxFrameBytes {
			return 0, nil, fmt.Errorf("a frame of %d bytes", frame)
		}
		if frame > len(s.buffer) {
			s.buffer = append(s.buffer, make([]byte, frame-len(s.buffer))...)
		}
		if frame > 0 && frame <= s.bufferedBytes {
			s.frameBytes = frame
			return s.buffer[0] & 0x0f, s.buffer[header:frame], nil
		}
		n, err := s.conn.Read(s.buffer[s.bufferedBytes:])
		s.bufferedBytes += n
		if err != nil {
			return 0, nil, err
		}
	}
}

// frameLength returns the length of the frame at the start of the buffer, and the length of the frame's header. Both are 0 while the
// header is incomplete. The frames of servers have no mask.
func frameLength(buffer []byte) (frame, header int) {
	if len(buffer) < 2 {
		return 0, 0
	}
	length, header := int(buffer[1]&0x7f), 2
	switch length {
	case 126:
		header = 4
		if len(buffer) < header {
			return 0, 0
		}
		length = int(binary.BigEndian.Uint16(buffer[2:]))
	case 127:
		header = 10
		if len(buffer) < header {
			return 0, 0
		}
		length = int(binary.BigEndian.Uint64(buffer[2:]) & (1<<31 - 1))
	}
	return header + length, header
}

// appendFrame appends a frame to the bytes in to. The frame of a client is masked, here with zeros, which change nothing.
func appendFrame(to []byte, opcode byte, payload []byte, masked bool) []byte {
	mask := byte(0)
	if masked {
		mask = 0x80
	}
	to = append(to, 0x80|opcode)
	if len(payload) < 126 {
		to = append(to, mask|byte(len(payload)))
	} else {
		to = binary.BigEndian.AppendUint16(append(to, mask|126), uint16(len(payload)))
	}
	if masked {
		to = append(to, 0, 0, 0, 0)
	}
	return append(to, payload...)
}

// write sends one frame to the server.
func (s *socket) write(opcode byte, payload []byte) error {
	_, err := s.conn.Write(appendFrame(nil, opcode, payload, true))
	return err
}

// badgeSubscriptionOpener returns a subscribeFunc that opens graphql-transport-ws with the token of the socket, subscribes to the
// badges and reads the first state.
func badgeSubscriptionOpener(address string, token func(i int) string) subscribeFunc {
	return subscriptionOpener(address, badgeSubscription, token)
}

// subscriptionOpener returns a subscribeFunc that opens graphql-transport-ws with the token of the socket, starts a subscription and
// reads its first event.
func subscriptionOpener(address, subscription string, token func(i int) string) subscribeFunc {
	const messageLimit = 8
	return func(s *socket, i int) error {
		if err := s.upgradeToWebSocket(address); err != nil {
			return err
		}
		if err := s.write(opText, []byte(`{"type":"connection_init","payload":{"authorization":"Bearer `+token(i)+`"}}`)); err != nil {
			return err
		}
		for range messageLimit {
			opcode, payload, err := s.readFrame()
			switch {
			case err != nil:
				return err
			case opcode == opText && bytes.Contains(payload, []byte(`"type":"connection_ack"`)):
				query := `{"id":"1","type":"subscribe","payload":{"query":` + strconv.Quote(subscription) + `}}`
				if err := s.write(opText, []byte(query)); err != nil {
					return err
				}
			case opcode == opText && bytes.Contains(payload, nextMessageType):
				return nil
			case opcode == opPing:
				if err := s.write(opPong, payload); err != nil {
					return err
				}
			case opcode == opText && bytes.Contains(payload, []byte(`"type":"ping"`)):
			default:
				return fmt.Errorf("instead of the first event came %d %q", opcode, payload)
			}
		}
		return fmt.Errorf("%d messages and no event", messageLimit)
	}
}

// upgradeToWebSocket asks for a WebSocket and reads the answer's headers to their end.
func (s *socket) upgradeToWebSocket(address string) error {
	request := "GET /graphql HTTP/1.1\r\nHost: " + address + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n"
	if _, err := s.conn.Write([]byte(request)); err != nil {
		return err
	}
	for {
		if end := bytes.Index(s.buffer[:s.bufferedBytes], []byte("\r\n\r\n")); end >= 0 {
			if !bytes.HasPrefix(s.buffer, []byte("HTTP/1.1 101 ")) {
				return fmt.Errorf("no upgrade: %q", s.buffer[:s.bufferedBytes])
			}
			s.bufferedBytes = copy(s.buffer, s.buffer[end+4:s.bufferedBytes])
			return nil
		}
		if s.bufferedBytes == len(s.buffer) {
			return errors.New("the answer to the upgrade is too long")
		}
		n, err := s.conn.Read(s.buffer[s.bufferedBytes:])
		s.bufferedBytes += n
		if err != nil {
			return err
		}
	}
}
