package main

import (
	"context"
	"sync"
	"time"
)

// events hands an event to every subscriber of this process when it is triggered.
type events struct {
	mu          sync.Mutex
	subscribers map[chan *Badges]uint32
	version     uint64
}

func newEvents() *events { return &events{subscribers: map[chan *Badges]uint32{}} }

// subscribe makes a channel that gets the present state at once and every later event, until ctx ends.
func (e *events) subscribe(ctx context.Context, user uint32) <-chan *Badges {
	channel := make(chan *Badges, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subscribers[channel] = user
	channel <- event(e.version)
	context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.subscribers, channel)
		close(channel)
	})
	return channel
}

// trigger sends each subscriber one event, unless the last one was not received yet. It returns the number of events sent.
func (e *events) trigger() (given int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.version++
	for channel := range e.subscribers {
		select {
		case channel <- event(e.version):
			given++
		default:
		}
	}
	return given
}

// event returns a badge document of the usual size. Each subscriber gets a separate copy, as if it were read from Redis.
func event(version uint64) *Badges {
	n := uint64(time.Now().UnixMicro()) + version
	badges, err := render(n, "50", "3;0;0;2,0,0,0,0,0,0,0", noPlace, time.Unix(0, 0))
	if err != nil {
		panic(err) // the document above is a constant
	}
	return badges
}
