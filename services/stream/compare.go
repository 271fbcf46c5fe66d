package stream

import (
	"context"
	"encoding/json"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

const (
	compareBatchSize     = 500             // users compared at once
	maxParallelItemReads = 8               // users whose newest items are read at once
	compareRetryDelay    = 2 * time.Second // until a user whose badges could not be read is compared again
	maxAlertAge          = time.Hour       // older items alert nobody: imports, replayed queues, a stream that was off
)

// comparison is a due user with what comparing the badges found. If the comparison failed, the user's mark stays and the user is tried
// again.
type comparison struct {
	dueUser
	lastChange   Change          // the last change of the user; its Seq is 0 if there is none
	state        State           // the badges now
	items        explainingItems // the items that explain the difference
	differs      bool            // a change is to be written
	nextChangeAt time.Time       // when time alone changes the badges; the zero time for never
	failed       error           // why the user could not be compared
}

// compareDueUsers compares the badges of due users with their last changes, and writes a change for each user whose badges differ. It
// returns how many users it compared. Only the writer calls it.
func (s *Service) compareDueUsers(ctx context.Context) (int, error) {
	due, err := dueUsers(ctx, s.db, compareBatchSize)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	found, err := s.compare(ctx, due)
	if err != nil {
		return 0, err
	}
	err = s.writeChanges(ctx, found)
	// Another node writes, and compares the same users: their marks are still there. Ask for the lease at once.
	if err == errLeaseLost {
		s.isWriterUntil = time.Time{}
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	s.stats.comparedUsers.Add(uint64(len(due)))
	return len(due), nil
}

// compare compares the badges of due users with their last changes. It reads the badges after the caller has read the marks: a user
// who is marked later is compared again. An error means that nobody's badges can be read, and nothing is written.
func (s *Service) compare(ctx context.Context, due []dueUser) ([]comparison, error) {
	users := services.Map(due, func(one dueUser) services.UserID { return one.user })
	badges, errs := s.peek(ctx, users)
	// The last changes can be read outside of the writing transaction: nobody else writes them while this node has the lease.
	before, err := s.ChangesOf(ctx, users)
	if err != nil {
		return nil, err
	}
	_, began, err := s.LastPosition(ctx)
	if err != nil {
		return nil, err
	}
	from, err := people.ReadAlertStarts(ctx, s.db, users)
	if err != nil {
		return nil, err
	}
	found := make([]comparison, len(due))
	failures := 0
	var group errgroup.Group
	group.SetLimit(maxParallelItemReads)
	for i := range due {
		one := &found[i]
		one.dueUser, one.lastChange = due[i], before[users[i]]
		if one.failed = errs[i]; one.failed != nil {
			failures++
			err = errs[i]
			continue
		}
		one.state, one.nextChangeAt = stateOf(badges[i]), badges[i].NextAt
		// Both hashes are computed now: an earlier version of the program may have computed the stored hash in another way.
		one.differs = one.state.shownHash() != one.lastChange.State.shownHash()
		// A user without a change so far, and with nothing to show, needs no change.
		if one.lastChange.Seq == 0 && one.state.empty() {
			one.differs = false
		}
		if !one.differs && (one.lastChange.Seq == 0 || len(one.state.partsWithChangedItems(one.lastChange.State)) == 0) {
			continue
		}
		group.Go(func() error {
			defer func() {
				// The user fails as if an engine did not answer; the others' changes go on.
				if cause := recover(); cause != nil {
					one.failed = services.NewPanicError(cause)
					s.cfg.Log.Error("a change could not be made because of a panic", "error", one.failed)
				}
			}()
			one.items, one.failed = s.explainDifference(ctx, users[i], badges[i], one.state, one.lastChange.State, alertStart{began, from[users[i]]})
			one.differs = one.differs || len(one.items.newItems) > 0 // the numbers may be the same, but there is a new item
			return nil
		})
	}
	_ = group.Wait() // each function keeps its error
	// If Redis or SQL is away, stop here: otherwise every user would be delayed, one after the other.
	if failures == len(due) && !s.canReadBadges(ctx) {
		return nil, err
	}
	return found, nil
}

// peek reads the badges of users. A panic does not say whose badges are at fault. So after a panic peek reads each half of the list
// apart, and so on, down to one user, who gets the panic as an error. The others get their badges.
func (s *Service) peek(ctx context.Context, users []services.UserID) (badges []*services.Badges, errs []error) {
	badges, errs, err := s.tryPeek(ctx, users)
	if err == nil {
		return badges, errs
	}
	if len(users) == 1 {
		s.cfg.Log.Error("badges could not be compared because of a panic", "error", err)
		return []*services.Badges{nil}, []error{err}
	}
	half := len(users) / 2
	badges, errs = s.peek(ctx, users[:half])
	more, failed := s.peek(ctx, users[half:])
	return append(badges, more...), append(errs, failed...)
}

// tryPeek calls Config.Peek. err is a panic of that call.
func (s *Service) tryPeek(ctx context.Context, users []services.UserID) (badges []*services.Badges, errs []error, err error) {
	defer services.Recover(&err)
	badges, errs = s.cfg.Peek(ctx, users)
	return badges, errs, nil
}

// alertStart is the time from which on items alert a user. The moments of people.AlertStarts are later where a mute ended or a mode
// changed: older items count again there, and are no news.
type alertStart struct {
	streamBegan time.Time // when the stream was first written
	people.AlertStarts
}

// forSource is the time from which on items of one source alert.
func (h alertStart) forSource(source services.Source) time.Time {
	from := h.streamBegan
	switch source {
	case services.SourceHomeFeed, services.SourceLiveBoard:
		from = h.PostsAndShows
	case services.SourceConversations:
		from = h.Messages
	}
	if from.Before(h.streamBegan) {
		return h.streamBegan
	}
	return from
}

// writeChanges writes the changes, and removes or delays the marks of the compared users, in one transaction of the writer. A user who
// was marked again meanwhile waits for the interval like everybody: otherwise a user who is marked all the time would be compared all the
// time.
func (s *Service) writeChanges(ctx context.Context, found []comparison) error {
	written := 0
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		written = 0
		for _, one := range found {
			if one.differs && one.failed == nil {
				written++
			}
		}
		// The last position is raised first (see raiseLastPosition), because its row is the lock: a node that is not the writer any
		// more gets an error before it writes anything.
		last, err := takePositions(ctx, tx, s.leaseToken, written)
		if err != nil {
			return err
		}
		// The changes of this batch have the positions up to last, in the order of found.
		seq := last - uint64(written)
		var changes [][]any
		var settled, delayed sql.RowsParameter
		users := make([]services.UserID, len(found))
		for i, one := range found {
			users[i] = one.user
			switch {
			case one.failed != nil:
				delayed = append(delayed, []any{one.user, one.marks, tx.Now.Add(compareRetryDelay).UnixMicro()})
				continue
			case one.nextChangeAt.IsZero():
				settled = append(settled, []any{one.user, one.marks})
			default:
				// Time alone will change the badges: the mark stays until then.
				delayed = append(delayed, []any{one.user, one.marks, one.nextChangeAt.UnixMicro()})
			}
			if !one.differs {
				continue
			}
			seq++
			state := one.state.withVersions(one.lastChange.State, seq, one.items)
			text, err := json.Marshal(state)
			if err != nil {
				return err
			}
			changes = append(changes, []any{one.user, int64(seq), tx.Now, state.shownHash(), text})
		}
		if err := storeChangesAndMarks(ctx, tx, changes, settled, delayed); err != nil {
			return err
		}
		// Users who were marked again are still due, because storeChangesAndMarks left their marks alone. They become due after the
		// interval.
		_, err = tx.Run(ctx, postponeDue, users, tx.Now.Add(s.cfg.ChangeInterval))
		return err
	})
	if err == nil {
		s.stats.changes.Add(uint64(written))
	}
	return err
}

// storeChangesAndMarks writes the changes, removes the settled marks, and moves the delayed ones to later times. A mark that rose
// since it was read is left alone.
func storeChangesAndMarks(ctx context.Context, tx *sql.Tx, changes [][]any, settled, delayed sql.RowsParameter) error {
	if _, err := tx.Insert(ctx, putChanges, changes); err != nil {
		return err
	}
	if len(settled) > 0 {
		if _, err := tx.Run(ctx, settleDue, settled); err != nil {
			return err
		}
	}
	if len(delayed) > 0 {
		if _, err := tx.Run(ctx, delayDue, delayed); err != nil {
			return err
		}
	}
	return nil
}
