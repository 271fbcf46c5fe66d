package transport

import (
	"errors"
	"reflect"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services"
)

// deliverEvents delivers the events of a subscription that is not woken for them (see SocketConfig.WithWakeConsumer). It waits for them
// in the operation's own goroutine, until the resolver closes its channel or the context ends.
//
// The first event is charged with the operation. Each other event is charged once it is sent. After a refusal deliverEvents waits
// as long as the refusal says, and then tries the charge again, before it sends another event. While it waits it goes on taking events,
// and keeps the newest. If it did not take them, it could get an old one after the wait, because a resolver may try to send an
// event before it looks for a newer one. The end of the channel is noticed at once too.
//
// If an event cannot be rendered for now, deliverEvents tries it again after a pause, or a newer event if one has come. To most
// clients an error of a subscription is final, so a database that stalls for some seconds would end their lists for good. An event
// that lost a part for now is sent without the part. It is then tried again in the same way, and sent again once it is whole. The
// sender counts it as delivered, so without this the part would be missing until something else changes. A newer event shortens the
// pause to that of a first failure, because the engines may answer again. Each try is charged as an event is.
func (o *operation) deliverEvents() {
	if !o.resolverChannel.IsValid() { // the resolver refused the subscription: next returns its error
		o.deliverLastResponses()
		return
	}
	either := []reflect.SelectCase{
		{Dir: reflect.SelectRecv, Chan: o.resolverChannel},
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(o.ctx.Done())},
		{Dir: reflect.SelectRecv}, // the timer of a wait or a pause; ignored while there is none
	}
	var newest reflect.Value // the event to be sent; invalid: there is none
	first, unpaid, sentInPart, failures := true, false, false, 0
	var soonest time.Time // when a newer event can be tried; zero: no pause, or a newer event has shortened it
	for {
		waits := either[2].Chan.IsValid()
		if unpaid && !waits {
			if wait := o.chargeEvent(); wait > 0 {
				either[2].Chan, waits = reflect.ValueOf(time.After(wait)), true
			} else {
				unpaid = false
			}
		}
		if newest.IsValid() && !waits {
			outcome := o.deliverEvent(newest, sentInPart)
			switch outcome {
			case eventEndedOperation:
				return
			case eventSent:
				newest, failures = reflect.Value{}, 0
			default:
				sentInPart = sentInPart || outcome == eventSentInPart
				pause := pauseAfter(failures)
				either[2].Chan = reflect.ValueOf(time.After(pause))
				soonest = time.Now().Add(min(pause, pauseAfter(0)))
				failures++
			}
			first, unpaid = false, !first
			continue
		}
		chosen, event, ok := reflect.Select(either)
		switch {
		case !ok: // the channel or the context has ended
			o.deliverLastResponses()
			return
		case chosen == 2:
			either[2].Chan, soonest = reflect.Value{}, time.Time{}
		default:
			newest, sentInPart = event, false
			if !soonest.IsZero() {
				either[2].Chan, soonest = reflect.ValueOf(time.After(time.Until(soonest))), time.Time{}
			}
		}
	}
}

// pauseAfter is the pause after a failed try to render an event. failures is the number of tries that failed in a row before that one.
// The pause doubles from a second to half a minute.
func pauseAfter(failures int) time.Duration {
	return jittered(min(time.Second<<min(failures, 5), 30*time.Second))
}

// eventOutcome is what became of an event.
type eventOutcome int

const (
	eventSent           eventOutcome = iota // the whole event was sent
	eventSentInPart                         // it was sent, but a part is missing for now
	eventFailed                             // nothing was sent, because of a fault that may pass
	eventEndedOperation                     // the operation has ended
)

// deliverEvent delivers one event. An event that was sent in part is sent again only if it is whole.
func (o *operation) deliverEvent(event reflect.Value, sentInPart bool) eventOutcome {
	frame := messageBuffers.Get().(*[]byte)
	defer messageBuffers.Put(frame)
	last, forNow := false, false
	if o.appendEventData != nil {
		last = o.writeEvent(frame, event)
	} else {
		last, forNow = o.renderEvent(frame, event)
	}
	if forNow && (last || sentInPart) {
		return eventFailed
	}
	if last {
		o.finish(*frame)
		return eventEndedOperation
	}
	if o.ended.Load() || o.peer.sender.send(*frame) != nil {
		return eventEndedOperation
	}
	o.peer.sockets.sentEventCount.Add(1)
	if forNow {
		return eventSentInPart
	}
	return eventSent
}

// deliverLastResponses delivers what gqlgen still returns after the last event, such as the resolver's error, and ends the operation. If
// the schema writes the events by itself, there are no such responses.
func (o *operation) deliverLastResponses() {
	if o.eventSlot.IsValid() {
		o.eventSlot.TryRecv() // an event that could not be rendered may still be there
		o.eventSlot.Close()
	}
	for o.appendEventData == nil {
		response := o.next(o.ctx)
		if response == nil {
			break
		}
		if !o.deliver(boundResponse(ast.Subscription, response, o.peer.sockets.cfg.MaxAnswerBytes)) {
			return
		}
	}
	o.complete()
}

// chargeEvent charges an event, and returns how long to wait before the next try; 0 if the event is charged.
func (o *operation) chargeEvent() time.Duration {
	err := o.peer.sockets.cfg.Limits.ChargeEvent(o.ctx, o.peer.address, o.operationCost)
	if err == nil {
		return 0
	}
	if refused, ok := errors.AsType[*services.Error](err); ok && refused.RetryAfter > 0 {
		return refused.RetryAfter
	}
	return time.Second
}
