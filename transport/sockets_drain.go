package transport

import (
	"context"
	"time"
)

// Drain refuses new connections with 503, closes every socket with 1012 and ends every event stream. It spreads the closing over
// the given time so that the clients do not reconnect all at once; a few clients take at most maxDrainGap each. It returns when all
// are gone; when ctx ends first, the rest are cut off. Draining twice is the same as once. A peer that comes after the list was
// made is closed because add returns false.
func (s *Sockets) Drain(ctx context.Context, spread time.Duration) {
	// draining is set and the list is made under one lock, so that each peer is in the list or sees that it came too late.
	s.mu.Lock()
	s.draining = true
	peers := make([]messageSender, 0, len(s.openPeers))
	for one := range s.openPeers {
		peers = append(peers, one.sender)
	}
	s.mu.Unlock()

	spread = min(spread, time.Duration(len(peers))*maxDrainGap)
	ticker := time.NewTicker(drainTickInterval)
	defer ticker.Stop()
	began := time.Now()
	askToReconnectGradually(ctx, peers, ticker.C, func() float64 { return float64(time.Since(began)) / float64(max(spread, 1)) })
	// running counts peers, and operations that are still starting: after this no goroutine of a client uses the hub.
	gone := make(chan struct{})
	go func() {
		s.running.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-ctx.Done():
		for _, one := range peers {
			one.abort()
		}
	}
}

// CloseUser ends every socket, with 4403, and every event stream that the user with this key has on this node. Each node calls it
// when it learns that the user was erased. The user's next requests are refused. closed is the number of these sockets and streams.
func (s *Sockets) CloseUser(key string) (closed int) {
	s.mu.Lock()
	var peers []messageSender
	for one := range s.openPeers {
		one.mu.Lock()
		if one.countedUserKey == key {
			peers = append(peers, one.sender)
		}
		one.mu.Unlock()
	}
	s.mu.Unlock()
	for _, one := range peers {
		go one.closeForErasedUser() // may wait for a slow reader
	}
	return len(peers)
}

// askToReconnectGradually asks peers to reconnect, a part of them at each tick. passed returns the part of the whole time that has
// passed, and the same part of the peers is due. Ticks are not counted, because a busy machine loses some. If ctx ends, the rest
// are closed at once. askToReconnectGradually waits for no peer.
func askToReconnectGradually(ctx context.Context, peers []messageSender, ticks <-chan time.Time, passed func() float64) {
	for from := 0; from < len(peers); {
		to := len(peers)
		if part := passed(); part < 1 && ctx.Err() == nil {
			to = max(from, int(float64(len(peers))*part))
		}
		for _, one := range peers[from:to] {
			go one.askToReconnect() // may wait for a slow reader
		}
		if from = to; from == len(peers) {
			return
		}
		select {
		case <-ticks:
		case <-ctx.Done():
		}
	}
}
