package transport

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services"
)

// The states of a subscription that wakes. A wake-up during a turn is not lost: another turn follows.
const (
	stateIdle    = iota // nothing to do until the next wake-up
	stateRunning        // its turn is queued or running
	stateAgain          // running, and woken again in the meantime
)

// operation is one subscription, query or mutation of a peer.
type operation struct {
	peer *peer
	id   string
	requestID
	ctx    context.Context
	cancel context.CancelFunc
	next   graphql.ResponseHandler
	lasts  bool                                     // whether it is a subscription
	holds  atomic.Pointer[graphql.OperationContext] // the operation context to release; nil for none

	// These belong to a subscription that wakes. next blocks until its channel has an event, and the hub may take an event back
	// to replace it by a newer one. So next reads from feed, a channel of the operation. Only a turn, which can check source
	// without waiting, moves an event from source to feed.
	source, feed reflect.Value
	state        atomic.Int32
	following    *operation // in the list of the workers
}

func newOperation(p *peer, id string) *operation {
	one := &operation{peer: p, id: id}
	one.ctx, one.cancel = context.WithCancel(services.WithRequest(p.ctx, one))
	one.state.Store(stateRunning)
	return one
}

// stop ends the resolvers of the operation. Whoever removes it from its peer's list calls it.
func (o *operation) stop() {
	o.cancel()
	o.release()
}

func (o *operation) release() {
	if use := o.holds.Swap(nil); use != nil {
		o.peer.sockets.shared.release(use)
	}
}

// start prepares and runs the operation of a message.
func (o *operation) start(request *params) {
	parsed, faults := o.prepare(request)
	if faults != nil {
		defer o.peer.sockets.running.Done()
		o.fail(faults)
		return
	}
	o.run(parsed)
}

// prepare parses, validates and charges the operation.
func (o *operation) prepare(request *params) (parsed *graphql.OperationContext, faults gqlerror.List) {
	defer func() {
		if fault := recover(); fault != nil {
			faults = o.presented(fault)
		}
	}()
	exec, sockets := o.peer.exec, o.peer.sockets
	if err := sockets.cfg.Limits.Address(o.peer.address); err != nil {
		return nil, asList(err)
	}
	parsed, price, faults := createOperation(graphql.StartOperationTrace(o.ctx), exec, sockets.documents, request)
	if faults != nil {
		return nil, exec.DispatchError(graphql.WithOperationContext(o.ctx, parsed), withCodes(faults)).Errors
	}
	if err := sockets.cfg.Limits.Operation(o.ctx, o.peer.address, parsed, price); err != nil {
		return nil, asList(err)
	}
	return parsed, nil
}

// run executes an operation that was admitted. For all but a subscription that wakes, it runs to the end.
func (o *operation) run(parsed *graphql.OperationContext) {
	defer o.peer.sockets.running.Done()
	defer o.recovered()
	o.lasts = parsed.Operation.Operation == ast.Subscription
	switch {
	case !o.lasts:
		o.answer(parsed)
	case o.peer.sockets.waking[rootField(parsed)]:
		o.listen(parsed)
	default:
		if o.dispatch(parsed) {
			o.stream()
		}
	}
}

// rootField is the one field of a subscription.
func rootField(parsed *graphql.OperationContext) string {
	fields := graphql.CollectFields(parsed, parsed.Operation.SelectionSet, []string{"Subscription"})
	if len(fields) == 0 {
		return ""
	}
	return fields[0].Name
}

// answer runs a query or a mutation.
func (o *operation) answer(parsed *graphql.OperationContext) {
	timeout := o.peer.sockets.cfg.OperationTimeout
	ctx, cancel := context.WithTimeout(o.ctx, timeout)
	defer cancel()
	next, ctx := o.peer.exec.DispatchOperation(ctx, parsed)
	if response := next(ctx); response != nil {
		if o.deliver(bounded(parsed.Operation.Operation, response, o.peer.sockets.cfg.AnswerLimit)) {
			o.complete()
		}
		return
	}
	o.failWith(services.Errorf(services.Unavailable, "operation: not finished within %v, try again later", timeout))
}

// dispatch asks the resolver for its channel; false if the operation has ended. A resolver has as long as a query; then its
// context ends, and the resolver must give up.
func (o *operation) dispatch(parsed *graphql.OperationContext) bool {
	timeout := o.peer.sockets.cfg.OperationTimeout
	timer := time.AfterFunc(timeout, o.cancel)
	o.next, o.ctx = o.peer.exec.DispatchOperation(o.ctx, parsed)
	if timer.Stop() {
		return true
	}
	o.failWith(services.Errorf(services.Unavailable, "operation: did not start within %v, try again later", timeout))
	return false
}

// stream delivers the events of a subscription that does not wake; it waits in a goroutine of its own.
func (o *operation) stream() {
	for {
		response := o.next(o.ctx)
		if response == nil {
			o.complete()
			return
		}
		if !o.deliver(bounded(ast.Subscription, response, o.peer.sockets.cfg.AnswerLimit)) {
			return
		}
	}
}

// listen starts a subscription that wakes and leaves the rest to its turns.
func (o *operation) listen(parsed *graphql.OperationContext) {
	sockets := o.peer.sockets
	use, held := sockets.shared.acquire(parsed)
	if held {
		o.holds.Store(use)
		if o.ctx.Err() != nil {
			o.release() // it was stopped before it held the context
		}
	}
	o.ctx = sockets.cfg.Wake(o.ctx, o.wake)
	switch {
	case !o.dispatch(use):
	case !o.source.IsValid(): // the resolver refused it: next returns the error
		o.stream()
	default:
		sockets.workers.submit(o)
	}
}

// tap takes the resolver's channel as source, and returns feed in its place.
func (o *operation) tap(result any) any {
	source := reflect.ValueOf(result)
	if o.source.IsValid() || source.Kind() != reflect.Chan || source.IsNil() {
		return result
	}
	kind := source.Type()
	o.source, o.feed = source, reflect.MakeChan(reflect.ChanOf(reflect.BothDir, kind.Elem()), 1)
	return o.feed.Convert(kind).Interface()
}

// wake reports that the channel has an event or was closed. It does not wait, and any goroutine may call it.
func (o *operation) wake() {
	for {
		switch o.state.Load() {
		case stateIdle:
			if o.state.CompareAndSwap(stateIdle, stateRunning) {
				o.peer.sockets.workers.submit(o)
				return
			}
		case stateRunning:
			if o.state.CompareAndSwap(stateRunning, stateAgain) {
				return
			}
		default:
			return
		}
	}
}

// turn delivers one event, if there is one. A worker calls it. false: the worker lost its slot and must exit.
func (o *operation) turn() (stay bool) {
	o.state.Store(stateRunning)
	if o.ctx.Err() != nil {
		return true // the state stays running, so no turn follows
	}
	workers := &o.peer.sockets.workers
	event, ok := o.source.TryRecv()
	if !ok && !event.IsValid() { // there is no event yet
		o.rest()
		return true
	}
	frame, last := frames.Get().(*[]byte), true
	if ok {
		last = o.render(frame, event)
	} else {
		*frame = o.peer.line.complete((*frame)[:0], o.id)
	}
	workers.leave()
	if last {
		o.finish(*frame)
	} else if o.ctx.Err() == nil && o.peer.line.send(*frame) == nil {
		o.peer.sockets.events.Add(1)
	}
	frames.Put(frame)
	stay = workers.enter()
	if !last {
		o.rest()
	}
	return stay
}

// rest ends a turn, and submits another if a wake-up came in the meantime.
func (o *operation) rest() {
	if !o.state.CompareAndSwap(stateRunning, stateIdle) {
		o.peer.sockets.workers.submit(o)
	}
}

// frames are reused buffers for messages.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// render makes the message of an event; last reports that it ends the operation.
func (o *operation) render(frame *[]byte, event reflect.Value) (last bool) {
	*frame = (*frame)[:0]
	defer func() {
		if fault := recover(); fault != nil {
			*frame, last = o.peer.line.failed((*frame)[:0], o.id, o.named(o.presented(fault))), true
		}
	}()
	timeout := o.peer.sockets.cfg.OperationTimeout
	timer := time.AfterFunc(timeout, o.cancel) // a timer costs less than a context with a deadline
	defer timer.Stop()
	if !o.feed.TrySend(event) { // middleware did not take the previous event
		o.feed.TryRecv()
		o.feed.TrySend(event)
	}
	response := o.next(o.ctx)
	if response != nil {
		response = bounded(ast.Subscription, response, o.peer.sockets.cfg.AnswerLimit)
	}
	switch {
	case !timer.Stop() || o.ctx.Err() != nil: // too late, or ended by the client, who then gets nothing
		err := services.Errorf(services.Unavailable, "operation: an event was not ready within %v, try again later", timeout)
		*frame = o.peer.line.failed(*frame, o.id, o.named(asList(err)))
		return true
	case response == nil:
		*frame = o.peer.line.complete(*frame, o.id)
		return true
	case isRequestError(response):
		*frame = o.peer.line.failed(*frame, o.id, o.named(response.Errors))
		return true
	default:
		*frame = o.peer.line.next(*frame, o.id, o.shown(response))
		return false
	}
}

// deliver writes a response; false if the operation has ended with it.
func (o *operation) deliver(response *graphql.Response) bool {
	if isRequestError(response) {
		o.fail(response.Errors)
		return false
	}
	if o.ctx.Err() != nil || o.peer.line.send(o.peer.line.next(nil, o.id, o.shown(response))) != nil {
		return false
	}
	o.peer.sockets.events.Add(1)
	return true
}

// named returns the errors with the ID of the operation.
func (o *operation) named(list gqlerror.List) gqlerror.List { return named(list, o.RequestID()) }

// shown returns the response with the ID of the operation in its errors.
func (o *operation) shown(response *graphql.Response) *graphql.Response {
	if len(response.Errors) == 0 {
		return response
	}
	copied := *response
	copied.Errors = o.named(response.Errors)
	return &copied
}

// complete ends the operation without an error.
func (o *operation) complete() { o.finish(o.peer.line.complete(nil, o.id)) }

// fail ends the operation with errors.
func (o *operation) fail(errors gqlerror.List) {
	o.finish(o.peer.line.failed(nil, o.id, o.named(errors)))
}

func (o *operation) failWith(err error) { o.fail(asList(err)) }

// finish ends the operation with a last message. The message is omitted if the client has already ended the operation, and for
// a subscription while the server drains: it is not over then, and the client continues it on another node.
func (o *operation) finish(last []byte) {
	if o.lasts && o.peer.sockets.isDraining() {
		return
	}
	if o.peer.remove(o) {
		o.stop()
		_ = o.peer.line.send(last) // a failure ends the peer
		o.peer.line.finished()
	}
}

// recovered turns a panic outside of any field into an error of the operation.
func (o *operation) recovered() {
	if fault := recover(); fault != nil {
		o.fail(o.presented(fault))
	}
}

// presented is the error list that the server shows for a panic.
func (o *operation) presented(fault any) gqlerror.List {
	if presenter, ok := o.peer.exec.(interface {
		PresentRecoveredError(ctx context.Context, err any) error
	}); ok {
		if shown, ok := errors.AsType[*gqlerror.Error](presenter.PresentRecoveredError(o.ctx, fault)); ok {
			return gqlerror.List{shown}
		}
	}
	return asList(services.Errorf(services.Internal, "an error on our side"))
}
