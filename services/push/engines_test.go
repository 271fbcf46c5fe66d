package push

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/trace"
)

// fault lets an engine fail, recover or lose data.
func (w *world) fault() {
	if !w.faults {
		return
	}
	switch w.pick("fault", 6) {
	case 0:
		w.away = true
	case 1:
		w.endAbsence()
	case 2: // FLUSHALL
		clear(w.docs)
		clear(w.leased)
	case 3:
		user := w.someone()
		w.broken[user] = !w.broken[user]
	case 4:
		w.hub.HintAll()
	case 5: // one key evicted
		delete(w.leased, w.someone())
	}
}

// carry brings a user's facts into their document, and sends the hint if this node has a lease.
func (w *world) carry(user services.UserID) {
	doc, ok := w.docs[user]
	if !ok { // a writer skips missing documents
		return
	}
	doc = document{n: max(doc.n+1, w.stamp()), number: w.facts[user].number}
	w.docs[user] = doc
	if w.leased[user] {
		w.hints = append(w.hints, hint{user, doc.n})
		if w.pick("hint at once", 3) > 0 {
			w.deliverHint()
		}
	}
}

// endAbsence ends an absence of Redis: the waiting jobs run, and users who were shown a version from the clock get a newer
// document. Without that, later changes by time alone would look older than the version shown.
func (w *world) endAbsence() {
	w.away = false
	for user := services.UserID(1); user <= userCount; user++ {
		if doc, ok := w.docs[user]; ok && (doc.number != w.facts[user].number || w.fromClock[user]) {
			w.carry(user)
		}
	}
	clear(w.fromClock)
}

// deliverHint delivers one hint: any of the hints in flight, once, twice or not at all.
func (w *world) deliverHint() {
	if len(w.hints) == 0 {
		return
	}
	i := w.pick("hint", len(w.hints))
	next := w.hints[i]
	if w.pick("doubled", 4) > 0 {
		w.hints = append(w.hints[:i:i], w.hints[i+1:]...)
	}
	if w.faults && w.pick("lost", 3) == 0 || w.bug == deafInRender && len(w.reading) > 0 {
		return
	}
	w.hub.Hint(next.user, next.n, trace.Cause{})
}

// enter is Config.Enter.
func (w *world) enter(_ context.Context, users []services.UserID, _ time.Duration) error {
	defer w.beginCall("Enter", users)()
	w.meanwhile()
	if w.away && w.pick("enter applied", 2) == 0 {
		return errAway
	}
	effect := func() {
		for _, user := range users {
			w.leased[user] = true
		}
	}
	if w.bug == lateEnter {
		w.late = append(w.late, effect)
	} else {
		effect()
	}
	w.meanwhile()
	if w.away {
		return errAway
	}
	return nil
}

// leave is Config.Leave.
func (w *world) leave(_ context.Context, users []services.UserID) error {
	defer w.beginCall("Leave", users)()
	w.meanwhile()
	effect := func() {
		for _, user := range users {
			delete(w.leased, user)
		}
	}
	if w.bug == lateLeave {
		w.late = append(w.late, effect)
	} else {
		effect()
	}
	w.meanwhile()
	return nil
}

// versions is Config.Versions.
func (w *world) versions(_ context.Context, users []services.UserID) ([]uint64, error) {
	w.meanwhile()
	if w.away || !w.faults { // without faults the hub must do without reconciliation
		return nil, errAway
	}
	list := make([]uint64, len(users))
	for i, user := range users {
		list[i] = w.docs[user].n
	}
	w.meanwhile()
	return list, nil
}

// render is Config.Render.
func (w *world) render(_ context.Context, users []services.UserID) ([]*services.Badges, []error) {
	for _, user := range users {
		if w.reading[user] {
			w.recordFailure("user %d is read twice at once", user)
		}
		w.reading[user] = true
		defer delete(w.reading, user)
	}
	list, errs := make([]*services.Badges, len(users)), make([]error, len(users))
	w.meanwhile()
	for i, user := range users {
		list[i], errs[i] = w.renderOne(user)
	}
	w.meanwhile()
	for _, effect := range w.late {
		effect()
	}
	w.late = nil
	w.meanwhile()
	return list, errs
}

// renderOne reads the document, rebuilds a lost one, and reads the facts while Redis is away.
func (w *world) renderOne(user services.UserID) (*services.Badges, error) {
	if w.broken[user] {
		return nil, errors.New("broken")
	}
	doc, ok := w.docs[user]
	if w.away || !ok {
		doc = document{n: w.stamp(), number: w.facts[user].number}
	}
	w.fromClock[user] = w.fromClock[user] || w.away
	if !w.away && !ok {
		w.docs[user] = doc
	}
	value, shared, next := doc.number, uint64(0), time.Time{}
	for _, moment := range w.facts[user].moments {
		if !moment.After(w.clock.at) {
			value += 1000
			shared = max(shared, uint64(moment.UnixMicro()))
		} else if next.IsZero() || moment.Before(next) {
			next = moment
		}
	}
	version := services.Version(doc.n, shared)
	key := fmt.Sprint(user, " ", version)
	if known, ok := w.content[key]; ok && known != value {
		w.recordFailure("the model is wrong: user %d, version %s shows %d and %d", user, version, known, value)
	}
	w.content[key] = value
	return &services.Badges{Version: version, NextAt: next, Total: services.Count{Value: value}}, nil
}
