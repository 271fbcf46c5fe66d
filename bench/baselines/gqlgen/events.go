package main

import (
	"context"
	"sync"
	"time"
)

// eventBroker hands an event to every subscriber of this process when it is triggered.
type eventBroker struct {
	mu          sync.Mutex              // guards the fields below
	subscribers map[chan *Badges]uint32 // the channel of each subscription, with the user's ID
	lastVersion uint64                  // the version of the last event
}

func newEventBroker() *eventBroker { return &eventBroker{subscribers: map[chan *Badges]uint32{}} }

// subscribe makes a channel that gets the present state at once and every later event, until ctx ends.
func (e *eventBroker) subscribe(ctx context.Context, user uint32) <-chan *Badges {
	channel := make(chan *Badges, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subscribers[channel] = user
	channel <- newBadgesEvent(e.lastVersion)
	context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.subscribers, channel)
		close(channel)
	})
	return channel
}

// sendToAll sends each subscriber one event, unless the last one was not received yet. It returns the number of events sent.
func (e *eventBroker) sendToAll() (given int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastVersion++
	for channel := range e.subscribers {
		select {
		case channel <- newBadgesEvent(e.lastVersion):
			given++
		default:
		}
	}
	return given
}

// newBadgesEvent returns a badge document of the usual size. Each subscriber gets a separate copy, as if it were read from Redis.
func newBadgesEvent(version uint64) *Badges {
	n := uint64(time.Now().UnixMicro()) + version
	badges, err := renderBadges(n, "50", "3;0;0;2,0,0,0,0,0,0,0", zeroID, time.Unix(0, 0))
	if err != nil {
		panic(err) // the document above is a constant
	}
	return badges
}
