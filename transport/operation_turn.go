package transport

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services"
)

// startWakingSubscription starts a waking subscription. Its events are delivered by turns, which workers run. The order matters. The
// shared operation context is acquired before the resolver runs, because it contains the middleware that taps the resolver's channel. The
// consumer is put into the context before the channel can get an event.
func (o *operation) startWakingSubscription(parsed *graphql.OperationContext) {
	sockets := o.peer.sockets
	use, held := sockets.sharedContexts.acquire(parsed)
	if held {
		o.sharedContext.Store(use)
		if o.ended.Load() {
			o.releaseSharedContext() // the operation was stopped before sharedContext was set
		}
	}
	o.ctx = sockets.cfg.WithWakeConsumer(o.ctx, o)
	switch {
	// The resolver was too late, and dispatch has ended the operation.
	case !o.dispatch(use):
	case !o.resolverChannel.IsValid(): // the resolver refused the subscription: next returns its error
		o.deliverEvents()
	default:
		if o.appendEventData != nil {
			// No responses are asked for, so the execution can be freed. From now on cancel has only the channel to end.
			o.cancelContext.Store(nil)
			o.execution = nil
		}
		sockets.workers.submit(o)
	}
}

// WriteEvents takes the function by which the schema appends the data of each event, so that nothing is executed for an event (see
// services.SubscriptionRequest). A resolver calls WriteEvents while the operation is dispatched.
func (o *operation) WriteEvents(write func(to []byte, event any) []byte) { o.appendEventData = write }

// tapResolverChannel keeps the resolver's channel, and returns eventSlot in its place, or the channel itself if the schema writes the
// events. Only the first channel is tapped: a second one would belong to a field below. eventSlot has one place, which a turn fills
// before it calls next, so next never waits.
func (o *operation) tapResolverChannel(result any) any {
	source := reflect.ValueOf(result)
	if o.resolverChannel.IsValid() || source.Kind() != reflect.Chan || source.IsNil() {
		return result
	}
	if o.resolverChannel = source; o.appendEventData != nil {
		return result
	}
	// Each resolver has its own element type, so eventSlot is made by reflection.
	kind := source.Type()
	o.eventSlot = reflect.MakeChan(reflect.ChanOf(reflect.BothDir, kind.Elem()), 1)
	return o.eventSlot.Convert(kind).Interface()
}

// Wake reports that the channel has an event or was closed. It does not wait, because the hub wakes thousands in a row, and any
// goroutine may call it. Wake-ups are not counted: one turn takes the newest event, whatever their number.
func (o *operation) Wake() {
	for {
		switch o.subscriptionState.Load() {
		case subscriptionIdle:
			if o.subscriptionState.CompareAndSwap(subscriptionIdle, subscriptionRunning) {
				o.peer.sockets.workers.submit(o)
				return
			}
		// The turn may have read the channel already, so another turn must follow.
		case subscriptionRunning:
			if o.subscriptionState.CompareAndSwap(subscriptionRunning, subscriptionWokenAgain) {
				return
			}
		// Another turn follows anyway.
		default:
			return
		}
	}
}

// runTurn delivers one event, if there is one. A worker calls it. It returns false if the worker has lost its slot (see workers) and must
// exit. An operation has one turn at a time, so its messages keep their order.
func (o *operation) runTurn() (stay bool) {
	// The state is set before the channel is read. A wake-up that comes later leads to another turn; one that came earlier is
	// served by this turn.
	o.subscriptionState.Store(subscriptionRunning)
	if o.ended.Load() {
		return true // the state stays running, so no turn follows
	}
	workers := &o.peer.sockets.workers
	// If ok is false and event is valid, the channel was closed.
	event, ok := o.resolverChannel.TryRecv()
	if !ok && !event.IsValid() { // there is no event yet
		o.endTurn()
		return true
	}
	frame, last := messageBuffers.Get().(*[]byte), true
	if ok && o.appendEventData != nil {
		last = o.writeEvent(frame, event)
	} else if ok {
		last, _ = o.renderEvent(frame, event) // a turn does not try again: that would keep its worker from other operations
	} else {
		// A closed channel is the orderly end: the hub drains, or the watched object is gone.
		*frame = o.peer.sender.complete((*frame)[:0], o.id)
	}
	// The frame was rendered in the worker's slot, because rendering needs the processor. Writing may wait for the client, so it
	// needs no slot.
	workers.freeSlot()
	if last {
		o.finish(*frame)
	} else if !o.ended.Load() && o.peer.sender.send(*frame) == nil {
		o.peer.sockets.sentEventCount.Add(1)
	}
	// The connection has copied the frame by now, also after a failure.
	messageBuffers.Put(frame)
	stay = workers.takeSlot()
	// The turn ends after the write, so that events replace each other in the channel while a client is slow.
	if !last {
		o.endTurn()
	}
	return stay
}

// endTurn ends a turn, and submits another turn if a wake-up came in the meantime. The state then stays subscriptionWokenAgain until
// that turn.
func (o *operation) endTurn() {
	if !o.subscriptionState.CompareAndSwap(subscriptionRunning, subscriptionIdle) {
		o.peer.sockets.workers.submit(o)
	}
}

// messageBuffers holds buffers for the texts of messages, for reuse. A buffer is returned when the connection has taken its message.
var messageBuffers = sync.Pool{New: func() any { return new([]byte) }}

// eventBuffer is the memory for an event that the schema writes: its data, and the response around the data.
type eventBuffer struct {
	data     []byte
	response graphql.Response
}

// eventBuffers holds eventBuffers for reuse.
var eventBuffers = sync.Pool{New: func() any { return new(eventBuffer) }}

// writeEvent makes the message of an event by the function that the schema has given; last reports that the message ends the
// operation.
func (o *operation) writeEvent(frame *[]byte, event reflect.Value) (last bool) {
	one := eventBuffers.Get().(*eventBuffer)
	defer func() {
		one.response = graphql.Response{}
		eventBuffers.Put(one)
	}()
	*frame = (*frame)[:0]
	defer func() {
		if fault := recover(); fault != nil {
			*frame, last = o.errorMessage(*frame, o.presentPanic(fault)), true
		}
	}()
	one.data = o.appendEventData(one.data[:0], event.Interface())
	one.response.Data = one.data
	if response := boundResponse(ast.Subscription, &one.response, o.peer.sockets.cfg.MaxAnswerBytes); isRequestError(response) {
		*frame = o.errorMessage(*frame, response.Errors)
		return true
	}
	*frame = o.peer.sender.next(*frame, o.id, &one.response)
	return false
}

// errorMessage makes the message that ends the operation with errors.
func (o *operation) errorMessage(frame []byte, faults gqlerror.List) []byte {
	return o.peer.sender.completeWithErrors(frame[:0], o.id, o.errorsWithID(faults))
}

// renderEvent makes the message of an event; last reports that the message ends the operation. An event must be rendered within the
// operation timeout, like a query, because a worker waits for it. forNow reports a fault that may pass, so that another try may
// succeed. With last, the event was not ready in time, or shows nothing because an engine does not answer. Without last, a part of the
// event is missing because an engine does not answer.
func (o *operation) renderEvent(frame *[]byte, event reflect.Value) (last, forNow bool) {
	*frame = (*frame)[:0]
	defer func() {
		if fault := recover(); fault != nil {
			*frame, last, forNow = o.errorMessage(*frame, o.presentPanic(fault)), true, false
		}
	}()
	// Each event has a context of its own, whose end does not end the subscription.
	timeout := o.peer.sockets.cfg.OperationTimeout
	ctx, cancel := context.WithTimeout(o.ctx, timeout)
	defer cancel()
	if !o.eventSlot.TrySend(event) { // middleware did not take the previous event
		o.eventSlot.TryRecv()
		o.eventSlot.TrySend(event)
	}
	// next finds the event in eventSlot and does not wait for it. Resolvers below the event may still wait for an engine.
	response := o.next(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) { // the response may be incomplete
		err := services.Errorf(services.Unavailable, "operation: an event was not ready within %v, try again later", timeout)
		*frame = o.errorMessage(*frame, asList(err))
		return true, true
	}
	if response != nil {
		response = boundResponse(ast.Subscription, response, o.peer.sockets.cfg.MaxAnswerBytes)
	}
	switch {
	case response == nil: // also if the client has ended the operation, and gets no message
		*frame = o.peer.sender.complete(*frame, o.id)
		return true, false
	// An event without data shows nothing, so the protocol's error message ends the operation, with the reason.
	case isRequestError(response):
		*frame = o.errorMessage(*frame, response.Errors)
		return true, hasUnavailableError(response)
	case hasNullRootField(response) && hasUnavailableError(response):
		*frame = o.errorMessage(*frame, response.Errors)
		return true, true
	default:
		*frame = o.peer.sender.next(*frame, o.id, o.withRequestID(response))
		return false, hasUnavailableError(response)
	}
}

// hasNullRootField reports whether the one field of an event is null. GraphQL makes it null if a field below it fails and cannot be
// null.
func hasNullRootField(response *graphql.Response) bool {
	return bytes.HasSuffix(response.Data, []byte(":null}"))
}

// hasUnavailableError reports whether an error of a response says that an engine did not answer.
func hasUnavailableError(response *graphql.Response) bool {
	return slices.ContainsFunc(response.Errors, func(fault *gqlerror.Error) bool {
		return fault.Extensions["code"] == string(services.Unavailable)
	})
}
