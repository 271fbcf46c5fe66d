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

// outcome is what a round changes in SQL. It is kept until it is stored, and saving it may be tried again: its values are
// absolute, except delivered, which the same transaction adds.
type outcome struct {
	// readTo and drainedTo only rise. Every change up to readTo is settled or in a letter. drainedTo is readTo after the last round that
	// left nothing in the change stream.
	readTo    uint64
	drainedTo uint64
	delivered int               // requests that were accepted
	failed    int               // requests that failed
	failures  int               // since the last success, over all rounds
	retryAt   time.Time         // until then the endpoint rests; zero: it does not
	err       string            // the last error; "" for none
	halted    bool              // the receiver answered 410
	recovered bool              // the endpoint was down and is not any more
	letters   []Letter          // to keep
	dropped   []services.UserID // whose letters are removed
}

// outcome returns the changes of a round. all says that nothing else is left in the stream.
//
// The position moves up to the first change that was not tried. Changes behind it that were delivered are read again and sent
// again under the same id, as at-least-once allows. Changes behind it that failed get a letter at once, which keeps their
// attempts.
func (d *deliverer) outcome(e endpoint, items []item, all bool, failures int) *outcome {
	now := d.s.db.Now()
	o := &outcome{readTo: e.readTo, drainedTo: e.drainedTo, failures: failures}
	// whole says that no change of the stream so far was left untouched. An untouched letter does not matter: it stays in SQL.
	whole := true
	for _, one := range items {
		if one.fate == untouched {
			whole = whole && !one.fresh
			continue
		}
		if one.fresh && !whole {
			// An earlier change was not tried yet: this one is read again with it, and sent again with the same id.
			if one.fate != requestFailed {
				continue
			}
		} else if one.fresh {
			o.readTo = one.change.Seq
		}
		switch one.fate {
		case requestFailed:
			o.fail(one, now)
		// The position moves past it; the letter waits instead, so that a user who stays online does not hold the others up.
		case deferred:
			o.letters = append(o.letters, waitingLetter(one, now))
		// Delivered, not chosen or erased: the user's letter, if there was one, is settled.
		default:
			if one.letter != nil {
				o.dropped = append(o.dropped, one.user)
			}
		}
		if one.fate == delivered {
			o.delivered++
			// Beyond maxSentUsers a user gets no entry: then only drainedTo says what the endpoint has, and an alert may come twice.
			if len(d.sent) < maxSentUsers {
				d.sent[one.user] = one.change.Seq
			}
		}
	}
	// The endpoint has everything: drainedTo alone says so for all users.
	if all && whole {
		o.drainedTo = o.readTo
		clear(d.sent)
	}
	// Letters that failed while the receiver was down need not wait for the end of pauses that grew meanwhile.
	o.recovered = e.failures >= failuresUntilDown && failures < failuresUntilDown
	// A round that tried nothing is no reason for a pause.
	if o.failures >= failuresUntilDown && o.delivered+o.failed > 0 {
		// The longer of the pause and the wait that the receiver asked for.
		o.retryAt = later(o.retryAt, now.Add(outbound.Pause(o.failures-failuresUntilDown, outbound.LongestDown)))
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

// fail keeps a letter for an item whose request failed.
func (o *outcome) fail(one item, now time.Time) {
	letter := Letter{
		User: one.user, Base: one.base, Heard: one.heard, Seq: one.change.Seq, Attempts: 1, FirstAt: now, Status: one.answer.status, Error: one.answer.err,
	}
	// Attempts and their first time carry over to newer changes: after a day of refusals the user's letter is dead, whatever changed
	// during that day. A letter that was dead, or only waited, begins anew.
	if before := one.letter; before != nil && before.DeadAt.IsZero() && before.Attempts > 0 {
		letter.Attempts, letter.FirstAt = before.Attempts+1, before.FirstAt
	}
	// The last attempt is at the end of the day, and not up to an hour after it.
	end := letter.FirstAt.Add(outbound.RetryFor)
	letter.DueAt = now.Add(outbound.Pause(letter.Attempts-1, outbound.LongestPause))
	if end.Before(letter.DueAt) {
		letter.DueAt = end
	}
	if !now.Before(end) {
		letter.DeadAt = now
	}
	o.letters = append(o.letters, letter)
	o.failed++
	o.err = one.answer.err
	o.halted = o.halted || one.answer.gone
	// Retry-After stops the endpoint and not one user: the receiver says that it has too much to do.
	if one.answer.retryAfter > 0 {
		o.retryAt = later(o.retryAt, now.Add(one.answer.retryAfter))
	}
}

// waitingLetter makes the letter that keeps an item until its user is away. The longer the letter has waited, the less often the socket is checked.
// Heard covers the items that the open socket has shown meanwhile: they do not alert afterwards.
func waitingLetter(one item, now time.Time) Letter {
	letter := Letter{User: one.user, Base: one.base, Heard: one.change.Seq, Seq: one.change.Seq, FirstAt: now}
	if before := one.letter; before != nil && before.Attempts == 0 {
		letter.FirstAt = before.FirstAt
	}
	letter.DueAt = now.Add(min(max(now.Sub(letter.FirstAt), minRecheckInterval), maxRecheckInterval))
	return letter
}

// save records a round, if this node still delivers the endpoint. It is not cut short by the end of ctx: a round that was sent
// and not recorded is sent again. After any error but leases.ErrLeaseLost, unsaved stays and Step tries again.
func (d *deliverer) save(ctx context.Context) error {
	o := d.unsaved
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.s.cfg.Timeout)
	defer cancel()
	rows := make([][]any, len(o.letters))
	// The letters are in the order of users, in which every writer locks these rows.
	slices.SortFunc(o.letters, func(a, b Letter) int { return int(int64(a.User) - int64(b.User)) })
	for i, letter := range o.letters {
		rows[i] = letter.row(d.name)
	}
	err := d.s.db.Write(ctx, func(tx *sql.Tx) error {
		// The position comes first, because its row locks all the rest: a node without the token writes nothing.
		n, err := tx.Run(ctx, moveWebhook, d.name, d.lease.Token(), int64(o.readTo), o.delivered, o.failures, micros(o.retryAt), tx.Now, o.err, o.halted, int64(o.drainedTo))
		if err == nil && n == 0 {
			err = leases.ErrLeaseLost
		}
		if err == nil && o.recovered {
			_, err = tx.Run(ctx, wakeLetters, d.name, tx.Now)
		}
		if err == nil && len(o.dropped) > 0 {
			_, err = tx.Run(ctx, dropLetters, d.name, o.dropped)
		}
		if err == nil {
			_, err = tx.Insert(ctx, putLetters, rows)
		}
		return err
	})
	if err == nil || err == leases.ErrLeaseLost {
		d.unsaved = nil
	}
	if err == nil {
		// This comes after the commit, so that a round that is repeated counts once.
		d.s.delivered.Add(uint64(o.delivered))
		d.s.failed.Add(uint64(o.failed))
	}
	return err
}
