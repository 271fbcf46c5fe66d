package transport

import (
	"math/rand/v2"
	"time"

	"github.com/gorilla/websocket"
)

// tick does what is due: the end of the wait for connection_init, the end of the token, a ping.
func (s *socket) tick() {
	s.mu.Lock()
	waiting, closing := !s.acked, s.closing
	var expired, ping bool
	if !waiting && !closing {
		if expired, ping = s.due(); !expired {
			s.schedule()
		}
	}
	s.mu.Unlock()
	switch {
	case waiting:
		s.close(closeInitTimeout, "connection_init did not come in time")
	case expired:
		s.close(closeForbidden, "token: has expired")
	case ping:
		// When it cannot be written, a message is on its way or the socket is dead: the deadlines find out.
		_ = s.conn.WriteControl(websocket.PingMessage, nil, deadline(controlTime))
	}
}

// schedule sets the timer to what is due next. The lock is held.
func (s *socket) schedule() { s.timer.Reset(s.untilDue()) }

// jittered is an interval give or take a tenth, so that sockets that came together do not go on in step.
func jittered(interval time.Duration) time.Duration {
	return interval + rand.N(interval/5+1) - interval/10
}

// pinged answers a ping of the WebSocket protocol. It counts as a message.
func (s *socket) pinged(payload string) error {
	if !s.allowed() {
		s.close(closeTooMany, "too many messages")
		return nil
	}
	if s.renew() {
		_ = s.conn.WriteControl(websocket.PongMessage, []byte(payload), deadline(controlTime))
	}
	return nil
}

func (s *socket) ponged(string) error {
	s.renew()
	return nil
}

// allowed counts one message against the allowance.
func (s *socket) allowed() bool {
	now, cfg := s.sockets.cfg.Clock.Now(), &s.sockets.cfg
	s.allowance = min(s.sockets.burst(), s.allowance+max(0, now.Sub(s.counted)).Seconds()*float64(cfg.MessagesPerSecond))
	s.counted = now
	s.allowance--
	return s.allowance >= 0
}

// renew puts the end of patience off after a sign of life, but not that of a message that has begun: with pings between its parts it
// would last for ever. It returns false when the socket is closing. Only the reading goroutine calls it.
func (s *socket) renew() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	patience := deadline(2*s.sockets.cfg.PingInterval + s.sockets.cfg.InitTimeout)
	if !s.whole.IsZero() && s.whole.Before(patience) {
		patience = s.whole
	}
	_ = s.conn.SetReadDeadline(patience) // a dead one is seen when read
	return true
}

// deadline is a moment of the machine's clock, which is what a connection goes by.
func deadline(after time.Duration) time.Time { return time.Now().Add(after) }
