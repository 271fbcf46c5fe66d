package devices

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/leases"
	"tidings/services/outbound"
	"tidings/services/sql"
	"tidings/services/stream"
)

// An open socket alerts its user by itself, so with the setting OnlyAway the user's devices wait until it is closed. A waiting
// device is checked again after a pause, which grows with the time that it has waited.
const (
	minOnlineRecheckPause = 30 * time.Second // the first pause of a waiting device
	maxOnlineRecheckPause = 10 * time.Minute // its longest pause
)

// deviceSender sends to all devices, while this node has the lease. Only one goroutine uses it, except for the fields that mu guards:
// requests are goroutines of their own, which end at any time and leave an outcome.
//
// The path of a message: followChanges makes a device due in SQL; beginRequests takes its row, and gives it a request or settles it
// without one; send puts its outcome into unrecorded; recordOutcomes writes the outcome in the next Step. From beginRequests to
// recordOutcomes the device is under way, and nothing else is done for it.
type deviceSender struct {
	devices *Service      // the service of this node
	lease   *leases.Lease // the right to send to all devices

	runningRequests sync.WaitGroup  // the requests under way
	mu              sync.Mutex      // guards the fields below
	pushServices    *pushServices   // bounds the requests to each push service at once
	underwayByHash  map[string]bool // by the device's hash: a request runs, or its outcome is not recorded yet
	unrecorded      []sendOutcome   // outcomes that are not in SQL yet
}

// newDeviceSender makes the worker that sends to all devices while it has the lease.
func (s *Service) newDeviceSender(lease *leases.Lease) *deviceSender {
	return &deviceSender{devices: s, lease: lease, pushServices: newPushServices(s.cfg.RequestsPerService), underwayByHash: map[string]bool{}}
}

// Step records the outcomes of messages, follows the change stream, and begins requests to due devices. It waits for no request:
// a push service that hangs must not hold up the others. Errors are of SQL or Redis, and the step is tried again.
func (c *deviceSender) Step(ctx context.Context) (wait time.Duration, err error) {
	defer func() {
		if err == leases.ErrLeaseLost {
			c.runningRequests.Wait() // the next deviceSender of this node does not know of these requests
		}
	}()
	// Without the lease no request may begin.
	if err := c.lease.Hold(ctx); err != nil {
		return 0, err
	}
	// Record first: a device whose outcome is on disk can be due again in this step.
	if err := c.recordOutcomes(ctx); err != nil {
		return 0, err
	}
	followed, err := c.followChanges(ctx)
	if err != nil {
		return 0, err
	}
	began, err := c.beginRequests(ctx)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	// The batch was full: the stream may have more.
	case followed == c.devices.maxPerStep:
		return 0, nil
	case began || len(c.underwayByHash) > 0:
		return busyPollInterval, nil
	}
	return pollInterval, nil
}

// Resign ends the work: requests under way are broken off, and the outcomes are recorded, so that the next node repeats little.
func (c *deviceSender) Resign(ctx context.Context) {
	c.runningRequests.Wait() // the requests have the context of Step, which has ended, so they end soon
	recording, cancel := context.WithTimeout(ctx, leases.UnavailablePause)
	_ = c.recordOutcomes(recording) // if this fails, the next node repeats the messages
	cancel()
	c.lease.Resign(ctx)
}

// followChanges reads the changes after the stored position, makes the devices of their users due and advances the position, in one
// transaction, so that no change is missed. It sends nothing: a device that cannot be reached does not hold up the position.
func (c *deviceSender) followChanges(ctx context.Context) (followed int, err error) {
	var from uint64
	found, err := c.devices.db.One(ctx, readStreamPosition, []any{c.lease.Token()}, &from)
	if err == nil && !found {
		err = leases.ErrLeaseLost
	}
	if err != nil {
		return 0, err
	}
	changes, err := c.devices.cfg.Stream.ChangesAfter(ctx, from, c.devices.maxPerStep)
	if err != nil || len(changes) == 0 {
		return 0, err
	}
	// Most users have no device. The statement finds that by its index, without a list of devices in memory.
	wanted := sql.RowsParameter(services.Map(changes, func(change stream.Change) []any { return []any{change.User, int64(change.Seq)} }))
	err = c.devices.db.Write(ctx, func(tx *sql.Tx) error {
		n, err := tx.Run(ctx, moveStreamPosition, c.lease.Token(), int64(changes[len(changes)-1].Seq))
		if err == nil && n == 0 {
			err = leases.ErrLeaseLost
		}
		if err == nil {
			_, err = tx.Run(ctx, setWantedVersions, wanted, tx.Now)
		}
		return err
	})
	return len(changes), err
}

// readDueDevices lists devices to send to now, without devices that are under way. The statement leaves out devices of a push
// service that can take no further request, so that they do not delay others. It also finds the devices under way, which are still
// due, so its limit is greater by their number.
func (c *deviceSender) readDueDevices(ctx context.Context) (list []deviceRow, err error) {
	now := c.devices.db.Now()
	c.mu.Lock()
	onlyListed, services := c.pushServices.serviceFilter(now)
	limit := c.devices.maxPerStep + len(c.underwayByHash)
	c.mu.Unlock()
	// dueDevices leaves out the busy services. While services that have accepted nothing yet may get no further request (see
	// pushServices), dueAmong reads only devices of the other services that are not busy.
	st := dueDevices
	if onlyListed {
		st = dueAmong
	}
	if list, err = readRows(ctx, c.devices.db, st, now, services, limit); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(list, func(r deviceRow) bool { return c.underwayByHash[r.hash] }), nil
}

// beginRequests begins requests to due devices, and settles devices that need none. began reports whether it did either for any
// device. The changes and the sockets are looked up for all devices at once.
func (c *deviceSender) beginRequests(ctx context.Context) (began bool, err error) {
	list, err := c.readDueDevices(ctx)
	if err != nil || len(list) == 0 {
		return false, err
	}
	// A user may have several devices: the user's change and socket are looked up once.
	users := map[services.UserID]bool{}
	for _, r := range list {
		users[r.user] = true
	}
	asked := slices.Sorted(maps.Keys(users))
	newest, err := c.devices.cfg.Stream.ChangesOf(ctx, asked)
	if err != nil {
		return false, err
	}
	online := map[services.UserID]bool{}
	if c.devices.cfg.OnlyAway {
		if online, err = c.devices.cfg.Online(ctx, asked); err != nil {
			return false, err
		}
	}
	now, until := c.devices.db.Now(), c.lease.Until()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range list {
		change, some := newest[r.user]
		switch {
		// A user without a change is erased, or has no badges yet.
		case !some || change.Seq <= r.deliveredVersion || !r.needsMessage(change):
			c.unrecorded = append(c.unrecorded, r.skippedOutcome(change))
		case r.vapidPublicKey != c.devices.keys.Public:
			c.unrecorded = append(c.unrecorded, r.givenUpOutcome(now, "it was registered for another key of the server: it has to register again"))
		case online[r.user]:
			c.unrecorded = append(c.unrecorded, r.deferredOutcome(change, now))
		case c.pushServices.beginRequest(r.pushServiceHost, now):
			c.runningRequests.Go(func() { c.send(ctx, until, r, change) })
		default:
			continue // the push service is busy
		}
		// Until its outcome is on disk the row still says that the device is due.
		c.underwayByHash[r.hash] = true
		began = true
	}
	return began, nil
}

// send sends one message, in a goroutine of its own. until is the end of the lease when beginRequests ran: the request must not
// outlast the lease, since another node might send a newer version to the device first. lease itself belongs to the goroutine of
// Step.
func (c *deviceSender) send(ctx context.Context, until time.Time, r deviceRow, change stream.Change) {
	within, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	a := c.sendChange(within, r, change)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.devices.db.Now()
	if within.Err() != nil && a.Err != "" { // this node stops, or its lease ends: the request is repeated later
		c.pushServices.endRequest(r.pushServiceHost)
		delete(c.underwayByHash, r.hash)
		return
	}
	// 404 and 410 are answers of a service that works: it has forgotten the subscription, and no later message would arrive.
	gone := a.Status == http.StatusNotFound || a.Status == http.StatusGone
	switch {
	case gone:
		c.pushServices.endAnsweredRequest(r.pushServiceHost, false)
		c.unrecorded = append(c.unrecorded, sendOutcome{deviceRow: r, removed: true})
	case a.Err == "":
		c.pushServices.endAnsweredRequest(r.pushServiceHost, true)
		c.unrecorded = append(c.unrecorded, r.sentOutcome(change, now))
	default:
		c.pushServices.endFailedRequest(r.pushServiceHost, r.consecutiveFailures == 0, now, a.RetryAfter)
		c.unrecorded = append(c.unrecorded, r.failedOutcome(now, a))
	}
}

// sendChange sends a change to a device. A panic counts as a failure of the request, which is tried again. One is possible, because
// the keys come from a browser.
func (c *deviceSender) sendChange(ctx context.Context, r deviceRow, change stream.Change) (a outbound.Answer) {
	defer func() {
		if cause := recover(); cause != nil {
			c.devices.cfg.Log.Error("a message of Web Push panicked", "error", services.NewPanicError(cause))
			a = outbound.Answer{Err: "an error on our side: see the log of the server"}
		}
	}()
	return c.devices.send(ctx, r, r.messageFor(change))
}

// sendOutcome is the change of a device's row after a message, or after the decision to send none. It is about the version that the
// row wanted when it was read, or about a newer one. With a zero dueAt the device has what it wants, or was given up;
// recordOutcomes makes it due again if it wants a newer version by then.
type sendOutcome struct {
	deviceRow
	dueAt       time.Time // when the device is tried again; zero: it is not
	deadAt      time.Time // when the device was given up; zero: it was not
	deliveredAt time.Time // when the push service accepted the message; zero: it did not, or none was sent
	err         string    // of the failure; "" for none
	failed      bool      // the message failed, or the device was given up
	removed     bool      // the push service does not know the device any more: its row goes
}

// skippedOutcome is the outcome of a device that needs no message now. The device counts as having the change, so that only later
// changes can need one.
func (r deviceRow) skippedOutcome(change stream.Change) sendOutcome {
	r.deliveredVersion, r.consecutiveFailures, r.undeliveredSince = max(r.deliveredVersion, change.Seq), 0, time.Time{} // Seq is 0 without badges; the version must not fall
	return sendOutcome{deviceRow: r}
}

// sentOutcome is the outcome of a device that has a change now. Items that came in quiet hours do not alert after these hours.
func (r deviceRow) sentOutcome(change stream.Change, now time.Time) sendOutcome {
	had := r.deliveredVersion
	r.deliveredVersion, r.consecutiveFailures, r.undeliveredSince = change.Seq, 0, time.Time{}
	if loud := change.State.NewestAlertVersion(); change.State.Quiet && loud > had {
		r.alertedUpTo = max(r.alertedUpTo, loud)
	}
	return sendOutcome{deviceRow: r, deliveredAt: now}
}

// deferredOutcome is the outcome of a device whose user has an open socket, which alerts the user. The longer the device has
// waited, the less often the socket is checked.
func (r deviceRow) deferredOutcome(change stream.Change, now time.Time) sendOutcome {
	r.alertedUpTo = max(r.alertedUpTo, change.Seq)
	if r.consecutiveFailures > 0 || r.undeliveredSince.IsZero() {
		r.consecutiveFailures, r.undeliveredSince = 0, now
	}
	return sendOutcome{deviceRow: r, dueAt: now.Add(min(max(now.Sub(r.undeliveredSince), minOnlineRecheckPause), maxOnlineRecheckPause))}
}

// failedOutcome is the outcome of a device whose message failed. After a day the device is given up until its user's next change.
func (r deviceRow) failedOutcome(now time.Time, a outbound.Answer) sendOutcome {
	if r.consecutiveFailures == 0 {
		r.undeliveredSince = now
	}
	r.consecutiveFailures++
	end := r.undeliveredSince.Add(outbound.RetryFor)
	// The device has failed for a day now.
	if !now.Before(end) {
		return r.givenUpOutcome(now, a.Err)
	}
	due := now.Add(max(outbound.RetryPause(r.consecutiveFailures-1, outbound.LongestRetryPause), a.RetryAfter))
	if end.Before(due) {
		due = end
	}
	return sendOutcome{deviceRow: r, dueAt: due, err: a.Err, failed: true}
}

// givenUpOutcome is the outcome of a device that is given up until its user's next change. It counts at least one failure, so that
// lists show it as failing.
func (r deviceRow) givenUpOutcome(now time.Time, why string) sendOutcome {
	if r.consecutiveFailures == 0 {
		r.consecutiveFailures, r.undeliveredSince = 1, now
	}
	return sendOutcome{deviceRow: r, deadAt: now, err: why, failed: true}
}

// recordOutcomes writes the outcomes of messages. After an error of SQL they stay in unrecorded, and are tried again. If this node
// has lost the lease, they are dropped, and the next node repeats the messages.
func (c *deviceSender) recordOutcomes(ctx context.Context) error {
	c.mu.Lock()
	ended := slices.Clone(c.unrecorded)
	c.mu.Unlock()
	// Most steps have nothing to record, and write nothing.
	if len(ended) == 0 {
		return nil
	}
	// The outcomes are sorted by key, because every writer of these rows locks them in this order.
	slices.SortFunc(ended, func(a, b sendOutcome) int { return strings.Compare(a.hash, b.hash) })
	var changed, removed sql.RowsParameter
	delivered, failed, last := 0, 0, ""
	for _, o := range ended {
		switch {
		case o.removed:
			removed = append(removed, []any{o.hash, o.registeredAt})
			continue
		case o.failed:
			failed++
			last = o.err
		case !o.deliveredAt.IsZero():
			delivered++
		}
		changed = append(changed, []any{o.hash, o.registeredAt, int64(o.wantedVersion), int64(o.deliveredVersion), int64(o.alertedUpTo), int64(o.consecutiveFailures), sql.MicrosOrZero(o.undeliveredSince),
			sql.MicrosOrZero(o.dueAt), sql.MicrosOrZero(o.deadAt), sql.MicrosOrZero(o.deliveredAt), o.err})
	}
	err := c.devices.db.Write(ctx, func(tx *sql.Tx) error {
		// The row of the counters has the token of the lease. A node without the lease finds no such row, and records nothing.
		n, err := tx.Run(ctx, countSent, c.lease.Token(), delivered, failed, len(removed), last)
		if err == nil && n == 0 {
			err = leases.ErrLeaseLost
		}
		if err == nil && len(changed) > 0 {
			_, err = tx.Run(ctx, recordDeviceOutcomes, changed, tx.Now)
		}
		if err == nil && len(removed) > 0 {
			_, err = tx.Run(ctx, removeDevices, removed)
		}
		return err
	})
	if err != nil && err != leases.ErrLeaseLost {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range ended {
		delete(c.underwayByHash, o.hash)
	}
	// Outcomes that came during the write are not recorded yet. Their devices are still in underwayByHash, so these outcomes stay
	// in the list.
	c.unrecorded = slices.DeleteFunc(c.unrecorded, func(o sendOutcome) bool { return !c.underwayByHash[o.hash] })
	if err == nil {
		c.devices.deliveredMessages.Add(uint64(delivered))
		c.devices.failedRequests.Add(uint64(failed))
		c.devices.removedDevices.Add(uint64(len(removed)))
	}
	return err
}
