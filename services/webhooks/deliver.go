package webhooks

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tidings/services"
	"tidings/services/leases"
	"tidings/services/outbound"
	"tidings/services/stream"
)

const (
	// A round begins requests for maxSendTime at most; the items that are left are planned again in the next round.
	changesPerRound          = 500                        // how many changes of the stream a round reads at most
	lettersPerRound          = 100                        // how many letters a round tries at most
	maxSendTime              = 3 * time.Second            // after which a round begins no further request
	failuresUntilDown        = outbound.FailuresUntilDown // after how many failures in a row an endpoint is down
	maxSentVersions          = 200_000                    // users in deliverer.sentVersions: beyond that an alert may come twice
	minOnlineRecheckInterval = 30 * time.Second           // the shortest time until a user's open socket is checked again
	maxOnlineRecheckInterval = 10 * time.Minute           // the longest time until a user's open socket is checked again
)

// deliverer delivers one endpoint, as long as this node has its lease. Only one goroutine uses it. Everything that the next
// node needs is in SQL: the position and the letters.
type deliverer struct {
	s              *Service
	lease          *leases.Lease // of the endpoint
	name           string        // of the endpoint
	unsavedOutcome *roundOutcome // the outcome of a round that SQL did not store; nothing is sent before it is stored
	// sentVersions has the last version that was delivered, by user, since the endpoint last had every change. It is lost with the
	// node, and then an alert may come twice.
	sentVersions map[services.UserID]uint64
}

// newDeliverer makes the deliverer of the endpoint that a lease is for. Step takes the lease.
func (s *Service) newDeliverer(lease *leases.Lease) *deliverer {
	return &deliverer{s: s, lease: lease, name: lease.Name, sentVersions: map[services.UserID]uint64{}}
}

// itemResult is the result of one item of a round. outcomeOfRound turns it into a letter, the removal of one, or nothing.
type itemResult int

const (
	resultNotTried      itemResult = iota // no request was made yet
	resultDelivered                       // the receiver accepted it
	resultRequestFailed                   // the request failed
	resultFilteredOut                     // the filter does not choose it
	resultUserOnline                      // its user has an open socket
	resultUserErased                      // its user has no change any more
)

// roundItem is one user in a round: a letter, or a change of the stream with the letter that the user has. A user is in a round
// once: two requests at once could arrive in the wrong order.
type roundItem struct {
	user          services.UserID
	change        stream.Change // the user's newest change, to be sent
	deliveredUpTo uint64        // the version up to which the endpoint has the user's changes
	alertedUpTo   uint64        // the version up to which open sockets alerted the user
	letter        *Letter       // the letter that the endpoint has for the user; nil: none
	fromStream    bool          // the item is a change of the stream, and not a letter
	// result and answer are written by the one worker that has the item, and read after all have ended.
	result itemResult
	answer answer
}

// failedBefore reports whether the item's user has a letter that failed, and not one that only waited for the user to be away.
func (i *roundItem) failedBefore() bool { return i.letter != nil && i.letter.Attempts > 0 }

// Step does one round: due letters, then changes of the stream. It returns how long to wait before the next. Errors are of SQL or
// Redis, and the round is tried again; errors of receivers are in the items. ErrLeaseLost if the endpoint is gone or another node
// delivers it.
func (d *deliverer) Step(ctx context.Context) (wait time.Duration, err error) {
	if err := d.lease.Hold(ctx); err != nil {
		return 0, err
	}
	// A round that is not on disk would be sent again by the next node. So nothing new is sent until the round is on disk, however
	// long SQL does not answer.
	if d.unsavedOutcome != nil {
		return 0, d.save(ctx)
	}
	// Read the row anew for each round: it shows a rotation, a removal, and a replay that has ended a pause.
	e, found, err := readEndpoint(ctx, d.s.db, readWebhook, d.name)
	if err != nil {
		return 0, err
	}
	// Hold asks SQL only at intervals, and the lease may have gone to another node since.
	if !found || e.leaseToken != d.lease.Token() {
		return 0, leases.ErrLeaseLost
	}
	if e.receiverGone || d.s.db.Now().Before(e.retryAt) {
		return pollInterval, nil
	}
	items, all, err := d.planRound(ctx, e)
	if err != nil || len(items) == 0 {
		return pollInterval, err
	}
	recent := d.send(ctx, e, items)
	d.unsavedOutcome = d.outcomeOfRound(e, items, all, recent)
	return 0, d.save(ctx)
}

// Resign lets another node deliver at once, after the last round was recorded.
func (d *deliverer) Resign(ctx context.Context) {
	if d.unsavedOutcome != nil {
		saving, cancel := context.WithTimeout(ctx, leases.UnavailablePause)
		_ = d.save(saving) // otherwise the next node repeats the round
		cancel()
	}
	d.lease.Resign(ctx)
}

// planRound lists the items of the next round, a user at most once. all says that nothing else is in the stream. While the endpoint is
// down one item is enough, as send tries one: a letter and a change of the stream take turns.
func (d *deliverer) planRound(ctx context.Context, e endpoint) (items []roundItem, all bool, err error) {
	down := e.failuresInRow >= failuresUntilDown
	if down && e.failuresInRow%2 == 0 { // every second trial is a change: a letter that always fails must not be the only trial
		if items, all, err = d.planChanges(ctx, e, nil); err != nil || len(items) > 0 {
			return items, all, d.setUnsentResults(ctx, e, items, err)
		}
	}
	items, seen, err := d.planLetters(ctx, e, down)
	if err != nil {
		return nil, false, err
	}
	// Letters come first: they are older, and a stream that is always full would hold them up.
	if !down || len(items) == 0 {
		fresh, whole, err := d.planChanges(ctx, e, seen)
		if err != nil {
			return nil, false, err
		}
		items, all = append(items, fresh...), whole
	}
	return items, all, d.setUnsentResults(ctx, e, items, nil)
}

// planLetters lists letters to try again, with the newest changes of their users; seen has these users. One letter is enough while
// the endpoint is down.
func (d *deliverer) planLetters(ctx context.Context, e endpoint, down bool) (items []roundItem, seen map[services.UserID]bool, err error) {
	var waiting []Letter
	if down { // a letter that failed is as good a trial as a new change, due or not
		waiting, err = listLetters(ctx, d.s.db, failedLetters, e.Name, int64(e.readTo), 1)
	} else {
		waiting, err = listLetters(ctx, d.s.db, dueLetters, e.Name, d.s.db.Now(), int64(e.readTo), lettersPerRound)
	}
	if err != nil || len(waiting) == 0 {
		return nil, nil, err
	}
	users := services.Map(waiting, func(letter Letter) services.UserID { return letter.User })
	// A letter has no text: the user's newest change is sent, which replaces the failed one.
	newest, err := d.s.cfg.Stream.ChangesOf(ctx, users)
	if err != nil {
		return nil, nil, err
	}
	seen = map[services.UserID]bool{}
	for i, letter := range waiting {
		change, some := newest[letter.User]
		if change.Seq > e.readTo {
			continue // the user changed meanwhile: the change comes from the stream
		}
		one := roundItem{user: letter.User, change: change, deliveredUpTo: letter.DeliveredUpTo, alertedUpTo: letter.AlertedUpTo, letter: &waiting[i]}
		if !some {
			one.result = resultUserErased
		}
		seen[letter.User] = true
		items = append(items, one)
	}
	return items, seen, nil
}

// planChanges lists the next changes of the stream, up to the first whose user is in seen. all says that no further changes are left.
func (d *deliverer) planChanges(ctx context.Context, e endpoint, seen map[services.UserID]bool) (items []roundItem, all bool, err error) {
	changes, err := d.s.cfg.Stream.ChangesAfter(ctx, e.readTo, d.s.changesPerRound)
	if err != nil || len(changes) == 0 {
		return nil, err == nil, err
	}
	users := services.Map(changes, func(change stream.Change) services.UserID { return change.User })
	// A change does not wait for the letter of its user, due or dead: it is newer, and replaces the letter.
	kept, err := listLetters(ctx, d.s.db, lettersOf, e.Name, users)
	if err != nil {
		return nil, false, err
	}
	of := map[services.UserID]*Letter{}
	for i := range kept {
		of[kept[i].User] = &kept[i]
	}
	for _, change := range changes {
		if seen[change.User] {
			return items, false, nil // the user changed since the letters were read: the next round has the rest
		}
		one := roundItem{user: change.User, change: change, deliveredUpTo: max(e.drainedTo, d.sentVersions[change.User]), letter: of[change.User], fromStream: true}
		// The letter knows the endpoint's version better than the position does: changes before the position may have failed.
		if one.letter != nil {
			one.deliveredUpTo, one.alertedUpTo = one.letter.DeliveredUpTo, one.letter.AlertedUpTo
		}
		items = append(items, one)
	}
	return items, len(changes) < d.s.changesPerRound, nil
}

// setUnsentResults sets the results of the items that are not sent now; the others stay resultNotTried until send. err is the caller's
// error so far: if it is not nil, setUnsentResults only returns it.
func (d *deliverer) setUnsentResults(ctx context.Context, e endpoint, items []roundItem, err error) error {
	if err != nil {
		return err
	}
	online := map[services.UserID]bool{}
	// Sockets are checked once for the whole round: a user who comes online during it gets the event all the same.
	if e.Filter.OnlyAway && len(items) > 0 {
		if online, err = d.s.cfg.Online(ctx, services.Map(items, func(one roundItem) services.UserID { return one.user })); err != nil {
			return err
		}
	}
	for i := range items {
		one := &items[i]
		switch {
		case one.result != resultNotTried:
		// The filter comes before the sockets: a change that the filter does not choose needs no letter.
		case !e.Filter.wants(one.change, one.deliveredUpTo):
			one.result = resultFilteredOut
		case online[one.user]:
			one.result = resultUserOnline
		}
	}
	return nil
}

// send makes the requests of a round, several at a time. It begins none after maxSendTime, or once the endpoint is down; the remaining
// items stay resultNotTried. Letters take half of the workers at most while there are changes of the stream: a receiver that never
// answers for some users must not hold the others up. It returns the failures since the last success, including earlier rounds.
func (d *deliverer) send(ctx context.Context, e endpoint, items []roundItem) (failures int) {
	// A receiver that is down gets one request, which is a trial and not a load.
	workers, down := d.s.cfg.ParallelRequests, e.failuresInRow >= failuresUntilDown
	if down {
		workers = 1
	}
	// A request must not outlast the lease: another node might send a newer change of the user before the request arrives.
	ctx, cancel := context.WithDeadline(ctx, d.lease.Until())
	defer cancel()
	// The lease and the rounds go by the machine's time, whatever clock the service has.
	ends := time.Now().Add(maxSendTime)
	secrets := signingSecrets(e.secrets, d.s.db.Now())
	var recent atomic.Int64
	// Failures are counted over several rounds: five in a row may come in five rounds.
	recent.Store(int64(e.failuresInRow))
	q := newQueue(items, max(1, workers/2))
	// take gives a worker the next item to send, nil when the round is over.
	take := func(done *roundItem) *roundItem {
		return q.next(done, func(trials int) bool {
			return ctx.Err() != nil || time.Now().After(ends) || down && trials > 0 || !down && recent.Load() >= failuresUntilDown
		})
	}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for one := take(nil); one != nil; one = take(one) {
				a := d.post(ctx, e, one, secrets)
				if ctx.Err() != nil {
					continue // this node stops, or its lease ends: the request is repeated later
				}
				one.answer = a
				switch {
				case a.err == "":
					one.result = resultDelivered
					recent.Store(0)
				case down || !one.failedBefore(): // a failed retry of a letter does not count against an endpoint that is up
					one.result = resultRequestFailed
					recent.Add(1)
				default:
					one.result = resultRequestFailed
				}
			}
		})
	}
	// Once all requests have ended, no worker writes results and answers any more, and they can be read.
	group.Wait()
	failures = int(recent.Load())
	if !down { // failures of requests that were under way when the endpoint went down do not make the first pause longer
		failures = min(failures, failuresUntilDown)
	}
	return failures
}

// post sends the change of an item. A panic is a failure of the request, which is tried again.
func (d *deliverer) post(ctx context.Context, e endpoint, one *roundItem, secrets []string) (a answer) {
	defer func() {
		if cause := recover(); cause != nil {
			d.s.cfg.Log.Error("a webhook panicked", "webhook", e.Name, "error", services.NewPanicError(cause))
			a = answer{err: "an error on our side: see the log of the server"}
		}
	}()
	now := d.s.cfg.Clock.Now()
	// Two kinds of changes do not alert: those from before the endpoint was added, and those that an open socket showed to the user.
	text := e.Filter.changeBody(one.change, one.deliveredUpTo, max(one.alertedUpTo, e.alertsAfter))
	return d.s.sender.post(ctx, e.URL, eventID(e.Name, one.change.Seq), now, text, secrets)
}
