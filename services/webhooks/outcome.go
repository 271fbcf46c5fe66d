package webhooks

import (
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/leases"
	"tidings/services/outbound"
	"tidings/services/sql"
)

// roundOutcome is what a round changes in SQL. It is kept until it is stored, and saving it may be tried again: its values are
// absolute, except deliveredEvents, which the same transaction adds.
type roundOutcome struct {
	// readTo and drainedTo only rise. Every change up to readTo is settled or in a letter. drainedTo is readTo after the last round
	// that left nothing in the change stream.
	readTo          uint64
	drainedTo       uint64
	deliveredEvents int               // requests that were accepted
	failedRequests  int               // requests that failed
	failuresInRow   int               // requests that failed since the last success, over all rounds
	retryAt         time.Time         // until then the endpoint rests; zero: it does not
	err             string            // the error of the last failed request; "" for none
	receiverGone    bool              // the receiver answered 410
	recovered       bool              // the endpoint was down and is not any more
	keptLetters     []Letter          // letters to store
	droppedLetters  []services.UserID // users whose letters are removed
}

// outcomeOfRound returns what a round changes in SQL. all says that nothing else is left in the stream.
//
// The position moves up to the first change that was not tried. Changes behind it that were delivered are read again and sent
// again under the same id, as at-least-once allows. Changes behind it that failed get a letter at once, which keeps their
// attempts.
func (d *deliverer) outcomeOfRound(e endpoint, items []roundItem, all bool, failures int) *roundOutcome {
	now := d.s.db.Now()
	o := &roundOutcome{readTo: e.readTo, drainedTo: e.drainedTo, failuresInRow: failures}
	// whole says that no change of the stream so far was left untried. An untried letter does not matter: it stays in SQL.
	whole := true
	for _, one := range items {
		if one.result == resultNotTried {
			whole = whole && !one.fromStream
			continue
		}
		if one.fromStream && !whole {
			// An earlier change was not tried yet: this one is read again with it, and sent again with the same id.
			if one.result != resultRequestFailed {
				continue
			}
		} else if one.fromStream {
			o.readTo = one.change.Seq
		}
		switch one.result {
		case resultRequestFailed:
			o.fail(one, now)
		// The position moves past the change, and a letter waits instead, so that a user who stays online does not hold the others up.
		case resultUserOnline:
			o.keptLetters = append(o.keptLetters, waitingLetter(one, now))
		// Delivered, not chosen or erased: the user's letter, if there was one, is settled.
		default:
			if one.letter != nil {
				o.droppedLetters = append(o.droppedLetters, one.user)
			}
		}
		if one.result == resultDelivered {
			o.deliveredEvents++
			// Beyond maxSentVersions a user gets no entry: then only drainedTo says what the endpoint has, and an alert may come
			// twice.
			if len(d.sentVersions) < maxSentVersions {
				d.sentVersions[one.user] = one.change.Seq
			}
		}
	}
	// The endpoint has everything: drainedTo alone says so for all users.
	if all && whole {
		o.drainedTo = o.readTo
		clear(d.sentVersions)
	}
	// Letters that failed while the receiver was down need not wait for the end of pauses that grew meanwhile.
	o.recovered = e.failuresInRow >= failuresUntilDown && failures < failuresUntilDown
	// A round that tried nothing is no reason for a pause.
	if o.failuresInRow >= failuresUntilDown && o.deliveredEvents+o.failedRequests > 0 {
		// The endpoint rests for its pause, or for the time that the receiver asked for if that is longer.
		o.retryAt = later(o.retryAt, now.Add(outbound.RetryPause(o.failuresInRow-failuresUntilDown, outbound.LongestDownPause)))
	}
	return o
}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// fail adds to the outcome the letter of an item whose request failed.
func (o *roundOutcome) fail(one roundItem, now time.Time) {
	letter := Letter{
		User: one.user, DeliveredUpTo: one.deliveredUpTo, AlertedUpTo: one.alertedUpTo, LastTriedSeq: one.change.Seq, Attempts: 1, StartedAt: now, Status: one.answer.status, Error: one.answer.err,
	}
	// Attempts and their first time carry over to newer changes: after a day of refusals the user's letter is dead, whatever changed
	// during that day. A letter that was dead, or only waited, begins anew.
	if before := one.letter; before != nil && before.DeadAt.IsZero() && before.Attempts > 0 {
		letter.Attempts, letter.StartedAt = before.Attempts+1, before.StartedAt
	}
	// The last attempt is at the end of the day, and not up to an hour after it.
	end := letter.StartedAt.Add(outbound.RetryFor)
	letter.DueAt = now.Add(outbound.RetryPause(letter.Attempts-1, outbound.LongestRetryPause))
	if end.Before(letter.DueAt) {
		letter.DueAt = end
	}
	if !now.Before(end) {
		letter.DeadAt = now
	}
	o.keptLetters = append(o.keptLetters, letter)
	o.failedRequests++
	o.err = one.answer.err
	o.receiverGone = o.receiverGone || one.answer.receiverGone
	// Retry-After stops the endpoint and not one user: the receiver says that it has too much to do.
	if one.answer.retryAfter > 0 {
		o.retryAt = later(o.retryAt, now.Add(one.answer.retryAfter))
	}
}

// waitingLetter makes the letter that keeps an item until its user is away. The longer the letter has waited, the less often the
// socket is checked. AlertedUpTo covers the items that the open socket has shown meanwhile: they do not alert afterwards.
func waitingLetter(one roundItem, now time.Time) Letter {
	letter := Letter{User: one.user, DeliveredUpTo: one.deliveredUpTo, AlertedUpTo: one.change.Seq, LastTriedSeq: one.change.Seq, StartedAt: now}
	if before := one.letter; before != nil && before.Attempts == 0 {
		letter.StartedAt = before.StartedAt
	}
	letter.DueAt = now.Add(min(max(now.Sub(letter.StartedAt), minOnlineRecheckInterval), maxOnlineRecheckInterval))
	return letter
}

// save records a round, if this node still delivers the endpoint. It is not cut short by the end of ctx: a round that was sent
// and not recorded is sent again. After any error but leases.ErrLeaseLost, unsavedOutcome stays and Step tries again.
func (d *deliverer) save(ctx context.Context) error {
	o := d.unsavedOutcome
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.s.cfg.Timeout)
	defer cancel()
	rows := make([][]any, len(o.keptLetters))
	// The letters are in the order of users, in which every writer locks these rows.
	slices.SortFunc(o.keptLetters, func(a, b Letter) int { return int(int64(a.User) - int64(b.User)) })
	for i, letter := range o.keptLetters {
		rows[i] = letter.row(d.name)
	}
	err := d.s.db.Write(ctx, func(tx *sql.Tx) error {
		// The position comes first, because its row locks all the rest: a node without the token writes nothing.
		n, err := tx.Run(ctx, recordRound, d.name, d.lease.Token(), int64(o.readTo), o.deliveredEvents, o.failuresInRow, sql.MicrosOrZero(o.retryAt), tx.Now, o.err, o.receiverGone, int64(o.drainedTo))
		if err == nil && n == 0 {
			err = leases.ErrLeaseLost
		}
		if err == nil && o.recovered {
			_, err = tx.Run(ctx, wakeLetters, d.name, tx.Now)
		}
		if err == nil && len(o.droppedLetters) > 0 {
			_, err = tx.Run(ctx, dropLetters, d.name, o.droppedLetters)
		}
		if err == nil {
			_, err = tx.Insert(ctx, putLetters, rows)
		}
		return err
	})
	if err == nil || err == leases.ErrLeaseLost {
		d.unsavedOutcome = nil
	}
	if err == nil {
		// This comes after the commit, so that a round that is repeated counts once.
		d.s.deliveredEvents.Add(uint64(o.deliveredEvents))
		d.s.failedRequests.Add(uint64(o.failedRequests))
	}
	return err
}
