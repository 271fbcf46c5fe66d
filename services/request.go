package services

import (
	"context"
	"crypto/rand"
)

// Request is one request, or one operation on a socket or an event stream. It has an id, which its errors and the log name.
type Request interface {
	// RequestID returns the same id at every call, from any goroutine.
	RequestID() string
}

// SubscriptionRequest is the Request of a subscription. Before the resolver returns its channel, it may call WriteEvents with a
// function that appends the data of an event to a text, in the form that execution would give it. From then on the transport reads
// the channel itself and calls the function for each event, instead of asking execution for responses. The function cannot fail,
// does not wait, and keeps no event.
type SubscriptionRequest interface {
	Request
	// WriteEvents sets the function that appends the data of an event to a text.
	WriteEvents(write func(to []byte, event any) []byte)
}

// ChannelConsumer receives from a channel without a goroutine of its own: it never waits for a value, but is woken by Wake. A consumer
// has one channel.
type ChannelConsumer interface {
	// Wake says that the channel has a value or was closed. The caller's goroutine also serves others, so Wake does not wait. The
	// first call may come before the consumer has the channel. Two calls may stand for one value, if the second value replaced
	// the first: the consumer receives without waiting, and takes an empty channel for "nothing new".
	Wake()
	// OnEnd sets the ChannelEnder of the consumer's channel. The consumer calls channel.End once: when it wants no more values, or
	// at once if the consumer has already ended.
	OnEnd(channel ChannelEnder)
}

// ChannelEnder is the sending side of a ChannelConsumer's channel. End does not wait, and closes the channel.
type ChannelEnder interface{ End() }

// requestKey is the context key of WithRequest.
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
