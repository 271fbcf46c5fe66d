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
