package transport

import (
	"reflect"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services"
)

// listen starts a subscription that wakes and leaves the rest to its turns. The order matters: the operation context is held
// before the resolver runs, because the middleware that taps its channel is part of it, and the consumer is in the context before
// the resolver can put an event.
func (o *operation) listen(parsed *graphql.OperationContext) {
	sockets := o.peer.sockets
	use, held := sockets.shared.acquire(parsed)
	if held {
		o.holds.Store(use)
		if o.ended.Load() {
			o.release() // it was stopped before it held the context
		}
	}
	o.ctx = sockets.cfg.Wake(o.ctx, o)
	switch {
	// It was too late, and dispatch has ended the operation.
	case !o.dispatch(use):
	case !o.source.IsValid(): // the resolver refused it: next returns the error
		o.stream()
	default:
		if o.write != nil {
			// No responses are asked for, so what was made for them can be freed. The end of the channel is all that there is to end.
			o.end.Store(nil)
			o.execution = nil
		}
		sockets.workers.submit(o)
	}
}

// WriteEvents takes the function that writes events: see services.EventRequest. It is called while the operation is dispatched.
func (o *operation) WriteEvents(write func(to []byte, event any) []byte) { o.write = write }

// tap takes the resolver's channel as source, and returns feed in its place. Only the first channel is tapped: a second result of
// that kind would belong to a field below. feed has one place, which a turn fills before it calls next, so next never waits.
func (o *operation) tap(result any) any {
	source := reflect.ValueOf(result)
	if o.source.IsValid() || source.Kind() != reflect.Chan || source.IsNil() {
		return result
	}
	if o.source = source; o.write != nil {
		return result
	}
	// The element's type is the resolver's own, so the channel in its place must be made by reflection.
	kind := source.Type()
	o.feed = reflect.MakeChan(reflect.ChanOf(reflect.BothDir, kind.Elem()), 1)
	return o.feed.Convert(kind).Interface()
}

// Wake reports that the channel has an event or was closed. It does not wait, because the hub wakes thousands in a row, and any
// goroutine may call it. Wake-ups are not counted: one turn takes the newest event, whatever their number.
func (o *operation) Wake() {
	for {
		switch o.state.Load() {
		case stateIdle:
			if o.state.CompareAndSwap(stateIdle, stateRunning) {
				o.peer.sockets.workers.submit(o)
				return
			}
		// The turn may have looked at the channel already, so it is told to look again.
		case stateRunning:
			if o.state.CompareAndSwap(stateRunning, stateAgain) {
				return
			}
		// Another turn follows anyway.
		default:
			return
		}
	}
}

// turn delivers one event, if there is one. A worker calls it. false: the worker lost its slot and must exit. An operation has one
// turn at a time, so its messages keep their order.
func (o *operation) turn() (stay bool) {
	// Before the channel is read: a wake-up from here on leads to another turn, one before is served by this.
	o.state.Store(stateRunning)
	if o.ended.Load() {
		return true // the state stays running, so no turn follows
	}
	workers := &o.peer.sockets.workers
	// Not ok with a valid event means that the channel was closed.
	event, ok := o.source.TryRecv()
	if !ok && !event.IsValid() { // there is no event yet
		o.endTurn()
		return true
	}
	frame, last := frames.Get().(*[]byte), true
	if ok && o.write != nil {
		last = o.writeEvent(frame, event)
	} else if ok {
		last = o.render(frame, event)
	} else {
		// A closed channel is the orderly end: the hub drains, or what was watched is gone.
		*frame = o.peer.line.complete((*frame)[:0], o.id)
	}
	// The frame is rendered while the worker has its slot, because that is work. Writing is waiting, and holds no slot.
	workers.leave()
	if last {
		o.finish(*frame)
	} else if !o.ended.Load() && o.peer.line.send(*frame) == nil {
		o.peer.sockets.events.Add(1)
	}
	// The connection has copied it by now, also after a failure.
	frames.Put(frame)
	stay = workers.enter()
	// After the write, so that events which come while a client is slow replace each other in the channel.
	if !last {
		o.endTurn()
	}
	return stay
}

// endTurn ends a turn, and submits another if a wake-up came in the meantime. The state then stays stateAgain until that turn.
func (o *operation) endTurn() {
	if !o.state.CompareAndSwap(stateRunning, stateIdle) {
		o.peer.sockets.workers.submit(o)
	}
}

// frames are reused buffers for messages. A frame is returned when the connection has taken it.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// written is an event as a schema writes it.
type written struct {
	data     []byte
	response graphql.Response
}

// writtenEvents are reused buffers for what schemas write.
var writtenEvents = sync.Pool{New: func() any { return new(written) }}

// writeEvent makes the message of an event by the function that the schema has given; last reports that it ends the operation.
func (o *operation) writeEvent(frame *[]byte, event reflect.Value) (last bool) {
	one := writtenEvents.Get().(*written)
	defer func() {
		one.response = graphql.Response{}
		writtenEvents.Put(one)
	}()
	*frame = (*frame)[:0]
	defer func() {
		if fault := recover(); fault != nil {
			*frame, last = o.faulty(*frame, o.presented(fault)), true
		}
	}()
	one.data = o.write(one.data[:0], event.Interface())
	one.response.Data = one.data
	if response := bounded(ast.Subscription, &one.response, o.peer.sockets.cfg.AnswerLimit); isRequestError(response) {
		*frame = o.faulty(*frame, response.Errors)
		return true
	}
	*frame = o.peer.line.next(*frame, o.id, &one.response)
	return false
}

// faulty makes the message that ends the operation with errors.
func (o *operation) faulty(frame []byte, faults gqlerror.List) []byte {
	return o.peer.line.failed(frame[:0], o.id, o.named(faults))
}

// render makes the message of an event; last reports that it ends the operation. An event must be rendered within the operation
// timeout, like a query, because a worker waits for it.
func (o *operation) render(frame *[]byte, event reflect.Value) (last bool) {
	*frame = (*frame)[:0]
	defer func() {
		if fault := recover(); fault != nil {
			*frame, last = o.faulty(*frame, o.presented(fault)), true
		}
	}()
	timeout := o.peer.sockets.cfg.OperationTimeout
	timer := time.AfterFunc(timeout, o.cancel) // a timer costs less than a context with a deadline
	defer timer.Stop()
	if !o.feed.TrySend(event) { // middleware did not take the previous event
		o.feed.TryRecv()
		o.feed.TrySend(event)
	}
	// next finds the event in feed and does not wait for it. Resolvers below the event may still wait for an engine.
	response := o.next(o.ctx)
	if response != nil {
		response = bounded(ast.Subscription, response, o.peer.sockets.cfg.AnswerLimit)
	}
	switch {
	// Stopped before anything is promised: a timer that fired later would end the operation, and nobody would tell the client.
	case !timer.Stop() || o.ended.Load(): // too late, or ended by the client, who then gets nothing
		err := services.Errorf(services.Unavailable, "operation: an event was not ready within %v, try again later", timeout)
		*frame = o.faulty(*frame, asList(err))
		return true
	case response == nil:
		*frame = o.peer.line.complete(*frame, o.id)
		return true
	// Without data the event shows nothing, so the protocol's error ends the operation, with its reason.
	case isRequestError(response):
		*frame = o.faulty(*frame, response.Errors)
		return true
	default:
		*frame = o.peer.line.next(*frame, o.id, o.shown(response))
		return false
	}
}
