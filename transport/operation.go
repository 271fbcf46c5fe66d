package transport

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services"
)

// The states of a waking subscription, which has no goroutine and is read only when it is woken (see SocketConfig.WithWakeConsumer). In a
// turn a worker delivers one event. A wake-up during a turn is not lost: another turn follows. The states also ensure that an operation
// is queued at most once, as the list of the workers requires.
const (
	subscriptionIdle       = iota // nothing to do until the next wake-up
	subscriptionRunning           // its turn is queued or running
	subscriptionWokenAgain        // running, and woken again in the meantime
)

// operation is one subscription, query or mutation of a peer. It is in its peer's list from begin until removeByID, remove or
// stopAllOperations takes it out. The goroutine that takes it out calls stop, and no other goroutine sends the last message.
type operation struct {
	peer *peer
	id   string // chosen by the client; "" on an event stream of its own
	requestID
	// The execution; nil once the schema writes the events by itself (see WriteEvents), because nothing is executed any more then.
	// Other goroutines end the operation by cancel and do not read this field.
	*execution
	// cancelContext cancels the context; nil if there is nothing to cancel. It is atomic, because the operation may be ended while it
	// starts.
	cancelContext atomic.Pointer[context.CancelFunc]
	// ender is set by OnEnd, and ends the resolver's channel; nil once cancel has taken it. The peer's mu guards it.
	ender services.ChannelEnder
	// sharedContext is the shared operation context to release; nil for none. It is atomic, because the operation may be ended while
	// it starts.
	sharedContext atomic.Pointer[graphql.OperationContext]

	// The fields below are for subscriptions, except ended and isSubscription. resolverChannel is the channel of events that the
	// resolver returned. Only runTurn or deliverEvents reads it, and moves an event from there to eventSlot; next, which makes the
	// response, then finds the event in eventSlot. If next read resolverChannel itself, it would block when the hub has taken the
	// event back to replace it by a newer one. If the schema has set appendEventData, eventSlot and next are unused.
	resolverChannel   reflect.Value
	appendEventData   func(to []byte, event any) []byte // appends the data of an event from resolverChannel; nil: next makes the response
	nextQueued        *operation                        // the next operation in the list of the workers
	subscriptionState atomic.Int32                      // subscriptionIdle, subscriptionRunning or subscriptionWokenAgain
	ended             atomic.Bool                       // cancel was called
	isSubscription    bool                              // the end of a subscription is not reported to the client during a drain
}

// execution is the state for asking gqlgen for responses. A subscription whose events the schema writes needs it only to start.
type execution struct {
	// ctx is the context of the operation. The starting goroutine replaces it, before the first event.
	ctx context.Context
	end context.CancelFunc // ends ctx
	// next makes the next response, nil after the last. It is set by dispatch, and called by one goroutine at a time.
	next          graphql.ResponseHandler
	eventSlot     reflect.Value // a channel of one place, into which each event is put before next takes it from there
	operationCost int           // the cost of the operation, for deliverEvents
}

// newOperation makes an operation, which is not in its peer's list yet. A caller that does not begin it calls its cancel. The state is
// subscriptionRunning from the start, so that a wake-up before startWakingSubscription has finished queues no turn too early.
func newOperation(p *peer, id string) *operation {
	one := &operation{peer: p, id: id, execution: &execution{}}
	one.ctx, one.execution.end = context.WithCancel(services.WithRequest(p.ctx, one))
	one.cancelContext.Store(&one.execution.end)
	one.subscriptionState.Store(subscriptionRunning)
	return one
}

// cancel ends the context of the operation, and its channel by ender. It calls End without the peer's lock, because End takes the
// hub's lock.
func (o *operation) cancel() {
	o.ended.Store(true)
	if end := o.cancelContext.Load(); end != nil {
		(*end)()
	}
	o.peer.mu.Lock()
	channel := o.ender
	o.ender = nil
	o.peer.mu.Unlock()
	if channel != nil {
		channel.End()
	}
}

// OnEnd sets what ends the resolver's channel; the side that sends to the channel calls it (see services.ChannelConsumer). OnEnd ends an
// earlier channel, which has no reader any more, and the new one if the operation has ended already.
func (o *operation) OnEnd(channel services.ChannelEnder) {
	o.peer.mu.Lock()
	former := channel
	if !o.ended.Load() { // cancel sets ended before it looks for an ender
		former, o.ender = o.ender, channel
	}
	o.peer.mu.Unlock()
	if former != nil {
		former.End()
	}
}

// context returns the operation's context. Without an execution it is a new one, which never ends.
func (o *operation) context() context.Context {
	if o.execution == nil {
		return services.WithRequest(o.peer.ctx, o)
	}
	return o.ctx
}

// stop ends the resolvers of the operation, without waiting for them. The goroutine that takes the operation out of its peer's
// list calls it.
func (o *operation) stop() {
	o.cancel()
	o.releaseSharedContext()
}

// releaseSharedContext gives the shared operation context back. Only the first call has an effect.
func (o *operation) releaseSharedContext() {
	if use := o.sharedContext.Swap(nil); use != nil {
		o.peer.sockets.sharedContexts.release(use)
	}
}

// start prepares and runs the operation of a message, in a goroutine of its own. begin has counted the operation in Sockets.running.
func (o *operation) start(request *requestParams) {
	parsed, cost, faults := o.prepare(request)
	if faults != nil {
		defer o.peer.sockets.running.Done()
		o.fail(faults)
		return
	}
	o.run(parsed, cost)
}

// prepare parses, validates and charges the operation. It recovers the panics of middleware too: no HTTP server does so here, and
// they would end the process.
func (o *operation) prepare(request *requestParams) (parsed *graphql.OperationContext, cost int, faults gqlerror.List) {
	defer func() {
		if fault := recover(); fault != nil {
			faults = o.presentPanic(fault)
		}
	}()
	exec, sockets := o.peer.exec, o.peer.sockets
	// An operation on a socket is counted like an HTTP request, so that a socket is no way around the limit.
	if err := sockets.cfg.Limits.ChargeAddress(o.peer.address); err != nil {
		return nil, 0, asList(err)
	}
	parsed, cost, faults = createOperation(graphql.StartOperationTrace(o.ctx), exec, sockets.documents, request)
	if faults != nil {
		return nil, 0, exec.DispatchError(graphql.WithOperationContext(o.ctx, parsed), withCodes(faults)).Errors
	}
	if err := sockets.cfg.Limits.ChargeOperation(o.ctx, o.peer.address, parsed, cost); err != nil {
		return nil, 0, asList(err)
	}
	return parsed, cost, nil
}

// run executes an operation that was charged, to its end. A waking subscription is the exception: run only starts
// it, and workers go on with it.
func (o *operation) run(parsed *graphql.OperationContext, cost int) {
	defer o.peer.sockets.running.Done()
	defer o.recoverPanic()
	o.isSubscription = parsed.Operation.Operation == ast.Subscription
	switch {
	case !o.isSubscription:
		o.answer(parsed)
	case o.peer.sockets.wakingFields[rootFieldName(parsed)]:
		o.startWakingSubscription(parsed)
	default:
		o.operationCost = cost
		tapResolverChannels(parsed)
		if o.dispatch(parsed) {
			o.deliverEvents()
		}
	}
}

// rootFieldName returns the name of the one field of a subscription; "" if there is none. rootFieldsExtension has refused any other
// number of fields.
func rootFieldName(parsed *graphql.OperationContext) string {
	fields := graphql.CollectFields(parsed, parsed.Operation.SelectionSet, []string{"Subscription"})
	if len(fields) == 0 {
		return ""
	}
	return fields[0].Name
}

// answer runs a query or a mutation. A response of nil means that the context ended before a resolver ran.
func (o *operation) answer(parsed *graphql.OperationContext) {
	timeout := o.peer.sockets.cfg.OperationTimeout
	ctx, cancel := context.WithTimeout(o.ctx, timeout)
	defer cancel()
	next, ctx := o.peer.exec.DispatchOperation(ctx, parsed)
	if response := next(ctx); response != nil {
		if o.deliver(boundResponse(parsed.Operation.Operation, response, o.peer.sockets.cfg.MaxAnswerBytes)) {
			o.complete()
		}
		return
	}
	o.failWith(services.Errorf(services.Unavailable, "operation: not finished within %v, try again later", timeout))
}

// dispatch asks the resolver for its channel; false if the operation has ended. After the operation timeout the resolver's context
// ends, and the resolver must give up. The context has no deadline, because the subscription goes on using it.
func (o *operation) dispatch(parsed *graphql.OperationContext) bool {
	timeout := o.peer.sockets.cfg.OperationTimeout
	timer := time.AfterFunc(timeout, o.cancel)
	o.next, o.ctx = o.peer.exec.DispatchOperation(o.ctx, parsed)
	// The timer has not fired and never will, so it cannot end the subscription later.
	if timer.Stop() {
		return true
	}
	o.failWith(services.Errorf(services.Unavailable, "operation: did not start within %v, try again later", timeout))
	return false
}

// deliver writes a response; false if the operation or its peer has ended, or if the response is an error that ends the operation.
func (o *operation) deliver(response *graphql.Response) bool {
	if isRequestError(response) {
		o.fail(response.Errors)
		return false
	}
	if o.ended.Load() || o.peer.sender.send(o.peer.sender.next(nil, o.id, o.withRequestID(response))) != nil {
		return false
	}
	o.peer.sockets.sentEventCount.Add(1)
	return true
}

// errorsWithID returns the errors with the ID of the operation.
func (o *operation) errorsWithID(list gqlerror.List) gqlerror.List {
	return errorsWithID(list, o.RequestID())
}

// withRequestID returns the response with the ID of the operation in its errors. It changes a copy, because middleware may keep the
// response.
func (o *operation) withRequestID(response *graphql.Response) *graphql.Response {
	if len(response.Errors) == 0 {
		return response
	}
	copied := *response
	copied.Errors = o.errorsWithID(response.Errors)
	return &copied
}

// complete ends the operation without an error.
func (o *operation) complete() { o.finish(o.peer.sender.complete(nil, o.id)) }

// fail ends the operation with errors.
func (o *operation) fail(errors gqlerror.List) {
	o.finish(o.peer.sender.completeWithErrors(nil, o.id, o.errorsWithID(errors)))
}

// failWith ends the operation with one error of services.
func (o *operation) failWith(err error) { o.fail(asList(err)) }

// finish ends the operation with a last message. The message is omitted if the client has already ended the operation, and for a
// subscription while the server drains: the client continues the subscription on another node. In both cases the goroutine that
// takes the operation out of the list releases it.
func (o *operation) finish(last []byte) {
	if o.isSubscription && o.peer.sockets.isDraining() {
		return
	}
	// The ID is freed before the last message is sent, so that the client may use it again at once.
	if o.peer.remove(o) {
		o.stop()
		_ = o.peer.sender.send(last) // a failure ends the peer
		o.peer.sender.operationEnded()
	}
}

// recoverPanic turns a panic outside of any field into an error of the operation. Inside of a field, gqlgen does so itself.
func (o *operation) recoverPanic() {
	if fault := recover(); fault != nil {
		o.fail(o.presentPanic(fault))
	}
}

// presentPanic returns the errors that the client gets for a panic. If the executor has a PresentRecoveredError hook, the hook also
// logs the panic. Otherwise nothing logs it.
func (o *operation) presentPanic(fault any) gqlerror.List {
	if presenter, ok := o.peer.exec.(interface {
		PresentRecoveredError(ctx context.Context, err any) error
	}); ok {
		if shown, ok := errors.AsType[*gqlerror.Error](presenter.PresentRecoveredError(o.context(), fault)); ok {
			return gqlerror.List{shown}
		}
	}
	return asList(services.Errorf(services.Internal, "an error on our side"))
}
