package transport

import (
	"errors"
	"reflect"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services"
)

// stream delivers the events of a subscription that does not wake. It waits in the operation's own goroutine, until the resolver
// closes its channel or the context ends.
//
// Each event after the first, which is paid for with the operation, is charged once it is sent. After a refusal stream waits before
// it takes another event: the resolver's channel replaces its event meanwhile, so that the client gets the latest state, only later.
func (o *operation) stream() {
	if !o.source.IsValid() { // the resolver refused it: next returns the error
		o.rest()
		return
	}
	either := []reflect.SelectCase{
		{Dir: reflect.SelectRecv, Chan: o.source},
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(o.ctx.Done())},
	}
	for first := true; ; first = false {
		_, event, ok := reflect.Select(either)
		if !ok { // one of them is closed
			if o.feed.IsValid() {
				o.feed.Close()
			}
			o.rest()
			return
		}
		if !o.event(event) {
			return
		}
		if !first {
			o.pay()
		}
	}
}

// event delivers one event; false if the operation has ended.
func (o *operation) event(event reflect.Value) bool {
	frame := frames.Get().(*[]byte)
	defer frames.Put(frame)
	last := false
	if o.write != nil {
		last = o.writeEvent(frame, event)
	} else {
		last = o.render(frame, event)
	}
	if last {
		o.finish(*frame)
		return false
	}
	if o.ended.Load() || o.peer.line.send(*frame) != nil {
		return false
	}
	o.peer.sockets.events.Add(1)
	return true
}

// rest delivers the last responses, and ends the operation. A schema that writes the events has none.
func (o *operation) rest() {
	for o.write == nil {
		response := o.next(o.ctx)
		if response == nil {
			break
		}
		if !o.deliver(bounded(ast.Subscription, response, o.peer.sockets.cfg.AnswerLimit)) {
			return
		}
	}
	o.complete()
}

// pay charges an event. If that is refused, it waits as long as the refusal says, and tries again, until the context ends.
func (o *operation) pay() {
	for {
		err := o.peer.sockets.cfg.Limits.Event(o.ctx, o.peer.address, o.price)
		if err == nil {
			return
		}
		wait := time.Second
		if refused, ok := errors.AsType[*services.Error](err); ok && refused.RetryAfter > 0 {
			wait = refused.RetryAfter
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-o.ctx.Done():
			timer.Stop()
			return
		}
	}
}
