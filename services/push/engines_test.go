package push

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/trace"
)

// injectFault lets an engine fail, recover or lose data.
func (w *hubWorld) injectFault() {
	if !w.withFaults {
		return
	}
	switch w.pick("fault", 6) {
	case 0:
		w.redisUnavailable = true
	case 1:
		w.endRedisOutage()
	case 2: // FLUSHALL
		clear(w.docs)
		clear(w.leasedUsers)
	case 3:
		user := w.pickUser()
		w.unrenderableUsers[user] = !w.unrenderableUsers[user]
	case 4:
		w.hub.ReconcileAll()
	case 5: // one key evicted
		delete(w.leasedUsers, w.pickUser())
	}
}

// projectFact brings a user's facts into their document, and sends the hint if this node has a lease.
func (w *hubWorld) projectFact(user services.UserID) {
	doc, ok := w.docs[user]
	if !ok { // a writer skips missing documents
		return
	}
	doc = document{version: max(doc.version+1, w.nextStamp()), number: w.facts[user].number}
	w.docs[user] = doc
	if w.leasedUsers[user] {
		w.hintsInFlight = append(w.hintsInFlight, hint{user, doc.version})
		if w.pick("hint at once", 3) > 0 {
			w.deliverHint()
		}
	}
}

// endRedisOutage ends an absence of Redis: the waiting jobs run, and users who were shown a version from the clock get a newer
// document. Without that, later changes by time alone would look older than the version shown.
func (w *hubWorld) endRedisOutage() {
	w.redisUnavailable = false
	for user := services.UserID(1); user <= userCount; user++ {
		if doc, ok := w.docs[user]; ok && (doc.number != w.facts[user].number || w.renderedWithoutRedis[user]) {
			w.projectFact(user)
		}
	}
	clear(w.renderedWithoutRedis)
}

// deliverHint delivers one hint: any of the hints in flight, once, twice or not at all.
func (w *hubWorld) deliverHint() {
	if len(w.hintsInFlight) == 0 {
		return
	}
	i := w.pick("hint", len(w.hintsInFlight))
	next := w.hintsInFlight[i]
	if w.pick("doubled", 4) > 0 {
		w.hintsInFlight = append(w.hintsInFlight[:i:i], w.hintsInFlight[i+1:]...)
	}
	if w.withFaults && w.pick("lost", 3) == 0 || w.bug == hintLostInRender && len(w.usersInRender) > 0 {
		return
	}
	w.hub.Hint(next.user, next.version, trace.Cause{})
}

// writeLeases is the Config.WriteLeases of the world's hub: it gives users leases, or fails while Redis is away.
func (w *hubWorld) writeLeases(_ context.Context, users []services.UserID, _ time.Duration) error {
	defer w.beginLeaseCall("Enter", users)()
	w.runConcurrentEvents()
	if w.redisUnavailable && w.pick("enter applied", 2) == 0 {
		return errBackendUnavailable
	}
	effect := func() {
		for _, user := range users {
			w.leasedUsers[user] = true
		}
	}
	if w.bug == lateLeaseWrite {
		w.delayedEffects = append(w.delayedEffects, effect)
	} else {
		effect()
	}
	w.runConcurrentEvents()
	if w.redisUnavailable {
		return errBackendUnavailable
	}
	return nil
}

// removeLeasesOf is the Config.RemoveLeases of the world's hub: it takes back users' leases.
func (w *hubWorld) removeLeasesOf(_ context.Context, users []services.UserID) error {
	defer w.beginLeaseCall("Leave", users)()
	w.runConcurrentEvents()
	effect := func() {
		for _, user := range users {
			delete(w.leasedUsers, user)
		}
	}
	if w.bug == lateLeaseRemoval {
		w.delayedEffects = append(w.delayedEffects, effect)
	} else {
		effect()
	}
	w.runConcurrentEvents()
	return nil
}

// versions is the Config.DocumentVersions of the world's hub: it returns the versions of users' documents.
func (w *hubWorld) versions(_ context.Context, users []services.UserID) ([]uint64, error) {
	w.runConcurrentEvents()
	if w.redisUnavailable || !w.withFaults { // without faults the hub must do without reconciliation
		return nil, errBackendUnavailable
	}
	list := make([]uint64, len(users))
	for i, user := range users {
		list[i] = w.docs[user].version
	}
	w.runConcurrentEvents()
	return list, nil
}

// render is the Config.Render of the world's hub: it renders each user by renderOne.
func (w *hubWorld) render(_ context.Context, users []services.UserID) ([]*services.Badges, []error) {
	for _, user := range users {
		if w.usersInRender[user] {
			w.recordFailure("user %d is read twice at once", user)
		}
		w.usersInRender[user] = true
		defer delete(w.usersInRender, user)
	}
	list, errs := make([]*services.Badges, len(users)), make([]error, len(users))
	w.runConcurrentEvents()
	for i, user := range users {
		list[i], errs[i] = w.renderOne(user)
	}
	w.runConcurrentEvents()
	for _, effect := range w.delayedEffects {
		effect()
	}
	w.delayedEffects = nil
	w.runConcurrentEvents()
	return list, errs
}

// renderOne renders a user's badges from their document. It rebuilds a lost document, and renders from the facts while Redis is away.
func (w *hubWorld) renderOne(user services.UserID) (*services.Badges, error) {
	if w.unrenderableUsers[user] {
		return nil, errors.New("broken")
	}
	doc, ok := w.docs[user]
	if w.redisUnavailable || !ok {
		doc = document{version: w.nextStamp(), number: w.facts[user].number}
	}
	w.renderedWithoutRedis[user] = w.renderedWithoutRedis[user] || w.redisUnavailable
	if !w.redisUnavailable && !ok {
		w.docs[user] = doc
	}
	value, shared, next := doc.number, uint64(0), time.Time{}
	for _, moment := range w.facts[user].increaseTimes {
		if !moment.After(w.clock.at) {
			value += 1000
			shared = max(shared, uint64(moment.UnixMicro()))
		} else if next.IsZero() || moment.Before(next) {
			next = moment
		}
	}
	version := services.BadgesVersion(doc.version, shared)
	key := fmt.Sprint(user, " ", version)
	if known, ok := w.contentOfVersion[key]; ok && known != value {
		w.recordFailure("the model is wrong: user %d, version %s shows %d and %d", user, version, known, value)
	}
	w.contentOfVersion[key] = value
	return &services.Badges{Version: version, NextAt: next, Total: services.Count{Value: value}}, nil
}
