package services

import (
	"context"
	"crypto/rand"
)

// Request is one request, or one operation on a socket or an event stream. It has an id, which its errors and the log name.
type Request interface {
	// RequestID is the same at every call, by any goroutine.
	RequestID() string
}

// EventRequest is the Request of a subscription whose channel its transport reads. Before the channel is returned, the resolver may
// give a function that appends the data of an event to a text, as execution would make it. From then on the transport calls it
// for each event, and asks for no responses. The function cannot fail, does not wait, and keeps no event.
type EventRequest interface {
	Request
	WriteEvents(write func(to []byte, event any) []byte)
}

// Consumer receives from a channel without a goroutine: it waits for nothing, and is woken. It has one channel.
type Consumer interface {
	// Wake says that there is a value in the channel, or that it was closed. It is called by a goroutine that serves others too, so it
	// does not wait. The first call may come before the consumer has the channel. Two calls may stand for one value, when the second
	// value replaced the first: the consumer receives without waiting, and takes an empty channel for "nothing new".
	Wake()
	// OnEnd gives what the consumer ends, once, when it wants no more values; at once if it has ended already.
	OnEnd(channel Ender)
}

// Ender is what a Consumer ends. End does not wait, and closes the channel.
type Ender interface{ End() }

type requestKey struct{}

// WithRequest puts a request into a context.
func WithRequest(ctx context.Context, request Request) context.Context {
	return context.WithValue(ctx, requestKey{}, request)
}

// RequestFrom returns the request of a context; nil without one.
func RequestFrom(ctx context.Context) Request {
	request, _ := ctx.Value(requestKey{}).(Request)
	return request
}

// RequestID returns the id of the context's request. Without one it makes an id, so that an error always has one.
func RequestID(ctx context.Context) string {
	if request := RequestFrom(ctx); request != nil {
		return request.RequestID()
	}
	return rand.Text()
}
