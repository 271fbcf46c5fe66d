package transport

import (
	"math/rand/v2"
	"time"

	"github.com/gorilla/websocket"
)

// handleTimer does the work that is due: it ends the wait for connection_init, closes a socket whose token has expired, sends a
// ping, or cuts a socket whose client is dead or does not answer our close. The timer calls it. It sets the timer again, unless the
// socket is ending.
func (s *socket) handleTimer() {
	// The decision is made under the lock. The action follows without it, because each action may wait for the client.
	s.mu.Lock()
	now := time.Now()
	waiting, closing := !s.initAcknowledged, s.closing
	dead := closing && !s.closeDeadline.IsZero() && !now.Before(s.closeDeadline)
	var expired, ping bool
	if !waiting && !closing {
		dead = !now.Before(s.silenceDeadline)
		if expired, ping = s.checkPingAndExpiry(); !expired {
			s.scheduleTimer()
		}
	}
	s.mu.Unlock()
	switch {
	case dead:
		s.abort()
	case closing: // the method close sets the timer again
	case waiting:
		s.close(closeInitTimeout, "connection_init did not come in time")
	case expired:
		s.close(closeForbidden, "token: has expired")
	case ping:
		if s.frameWriter.tryAcquireTurn() {
			_ = s.writeFrame(websocket.PingMessage, appendFrameHeadRoom(nil), controlFrameTimeout)
			return
		}
		// The ping is left out while a message is being written: the deadline of that write detects a dead client. The ping comes soon
		// after, because a client that reads the message may send nothing until a ping comes, and would then count as dead.
		s.mu.Lock()
		if !s.closing {
			s.nextPing = s.sockets.cfg.Clock.Now().Add(controlFrameTimeout)
			s.scheduleTimer()
		}
		s.mu.Unlock()
	}
}

// scheduleTimer sets the timer to the next time at which work is due. The lock is held. Pings, the expiry of the token and the silence
// of the client share one timer per socket, because there may be ten thousand sockets.
func (s *socket) scheduleTimer() {
	s.timer.Reset(min(s.untilPingOrExpiry(), time.Until(s.silenceDeadline)))
}

// jittered varies an interval by up to a tenth, so that sockets that opened together do not stay in step.
func jittered(interval time.Duration) time.Duration {
	return interval + rand.N(interval/5+1) - interval/10
}

// answerPing answers a ping of the WebSocket protocol. The ping counts as a message, or a flood of pings would cost nothing.
func (s *socket) answerPing(payload []byte) {
	if !s.takeMessageAllowance() {
		s.close(closeTooManyRequests, "too many messages")
		return
	}
	if s.extendReadDeadline() && s.frameWriter.acquireTurn() == nil {
		_ = s.writeFrame(websocket.PongMessage, append(appendFrameHeadRoom(nil), payload...), controlFrameTimeout)
	}
}

// takeMessageAllowance counts one message against the socket's allowance, which grows with time up to maxMessageBurst. Only the
// reading goroutine calls it. A clock that goes backwards gives nothing and takes nothing.
func (s *socket) takeMessageAllowance() bool {
	s.refillAllowances()
	s.messageAllowance--
	return s.messageAllowance >= 0
}

// framesPerMessage is how many pongs and unfinished parts of messages a client may send for each message that it may send. The longest
// message fits, also in the parts of 4 KB that some clients make.
const framesPerMessage = 16

// takeFrameAllowance counts a pong or a part of a message that is not the last. They are too cheap to count as messages, but a
// client that sends them without end would keep a processor busy. If there are too many, it closes the socket and returns false.
// Only the reading goroutine calls it.
func (s *socket) takeFrameAllowance() bool {
	s.refillAllowances()
	s.frameAllowance--
	if s.frameAllowance >= 0 {
		return true
	}
	s.close(closeTooManyRequests, "too many frames")
	return false
}

// refillAllowances raises the allowances by the time since they were last computed.
func (s *socket) refillAllowances() {
	now, burst := s.sockets.cfg.Clock.Now(), s.sockets.maxMessageBurst()
	more := max(0, now.Sub(s.allowancesRefilledAt)).Seconds() * float64(s.sockets.cfg.MessagesPerSecond)
	s.messageAllowance = min(burst, s.messageAllowance+more)
	s.frameAllowance = min(burst*framesPerMessage, s.frameAllowance+more*framesPerMessage)
	s.allowancesRefilledAt = now
}

// extendReadDeadline extends the read deadline after a sign of life, but not beyond the deadline of a message that has begun: pings
// between its parts would extend it without end. It returns false if the socket is closing, and then leaves the deadline to close.
// Only the reading goroutine calls it.
func (s *socket) extendReadDeadline() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	// A client answers each ping. One that is silent for two intervals and a little is gone.
	patience := deadlineAfter(2*s.sockets.cfg.PingInterval + s.sockets.cfg.InitTimeout)
	s.silenceDeadline = patience // handleTimer checks it, because nothing reads while the socket is watched
	if !s.messageDeadline.IsZero() && s.messageDeadline.Before(patience) {
		patience = s.messageDeadline
	}
	_ = s.frameWriter.conn.SetReadDeadline(patience) // the next read returns the error
	return true
}

// deadlineAfter returns a time of the machine's clock, because connections use that clock. The configured clock, which tests move,
// does not affect them.
func deadlineAfter(after time.Duration) time.Time { return time.Now().Add(after) }
