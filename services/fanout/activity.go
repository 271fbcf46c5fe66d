package fanout

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/mirror"
	"tidings/services/rdb"
	"tidings/services/store"
)

// activity is the thresholds after which users count as idle and dormant now, on all nodes.
func (f *Fanout) activity() services.ActivityThresholds {
	if thresholds, known := f.activityMemory.Thresholds(); known {
		return thresholds
	}
	return services.ActivityThresholds{IdleAfter: f.cfg.IdleAfter, DormantAfter: f.cfg.ActiveFor}
}

// Activity is the thresholds after which users count as idle and dormant now.
func (f *Fanout) Activity() services.ActivityThresholds { return f.activity() }

// BeginActivity notes the configured thresholds, unless an admin has set others. A node calls it when it starts: a changed
// configuration counts as a change of thresholds like any other.
func (f *Fanout) BeginActivity(ctx context.Context) error {
	configured := services.ActivityThresholds{IdleAfter: f.cfg.IdleAfter, DormantAfter: f.cfg.ActiveFor}
	return f.putActivity(ctx, configured, false)
}

// SetActivity sets the thresholds after which users count as idle and dormant, for all nodes, until they are set again.
// INVALID unless both are 1 to 8,760 hours and the idle threshold is not above the dormant one.
func (f *Fanout) SetActivity(ctx context.Context, thresholds services.ActivityThresholds) error {
	if err := thresholds.Check(); err != nil {
		return err
	}
	return f.putActivity(ctx, thresholds, true)
}

func (f *Fanout) putActivity(ctx context.Context, next services.ActivityThresholds, byAdmin bool) error {
	err := f.store.Write(ctx, func(tx *store.Tx) error {
		held, set, heldByAdmin, err := tx.ActivityThresholdsForUpdate(ctx)
		same := set && held.IdleAfter == next.IdleAfter && held.DormantAfter == next.DormantAfter
		switch {
		case err != nil, same && byAdmin == heldByAdmin, heldByAdmin && !byAdmin:
			return err
		case !set:
			held = services.ActivityThresholds{IdleAfter: f.cfg.IdleAfter, DormantAfter: f.cfg.ActiveFor}
		}
		if err := tx.SetActivityThresholds(ctx, held.Then(next, tx.Now), byAdmin); err != nil {
			return err
		}
		return mirror.AppendActivityChange(ctx, tx)
	})
	f.activityMemory.Wake()
	return err
}

// ActiveSince is the cutoff of dormancy: users last seen before it are dormant. It is never later than idleSince, because a
// document that does not count as away is shown without a rebuild, so every post that it lists must have been pushed to it.
// The exact dormancy threshold alone could pass hours before the end of the whole day after which the document counts as
// away, if both thresholds are close.
func (f *Fanout) ActiveSince() time.Time {
	dormant, idle := f.activity().DormantSince(f.clock.Now()), f.idleSince()
	if idle.Before(dormant) {
		return idle
	}
	return dormant
}

// idleDay is the first day that is not idle: users last seen before it are idle. It counts whole days, because documents do.
func (f *Fanout) idleDay() int64 { return services.DayOf(f.activity().IdleSince(f.clock.Now())) }

// idleSince is the cutoff for a big author's fan-out: followers last seen before it get no post pushed. It is earlier than
// the idle threshold, because SQL may record a visit before the document does, and because other nodes learn of new
// thresholds a moment later.
func (f *Fanout) idleSince() time.Time {
	const slack = 25 * time.Hour
	now := f.clock.Now()
	return time.Unix(services.DayOf(now.Add(-f.activity().IdleAfter))*int64(24*time.Hour/time.Second), 0).Add(-slack)
}

// Away says whether a document belongs to a user who was idle. Such a document is rebuilt, and the user becomes active,
// before it is shown.
func (f *Fanout) Away(document rdb.Document) bool { return document.Ready && f.AwaySince(document.Day) }

// AwaySince says whether a user who was last active on a day, counted since 1970, was idle: big authors' posts were not
// pushed to them.
func (f *Fanout) AwaySince(day int64) bool { return day < f.idleDay() }

// Lifetime is how long a user's keys live without a visit. It is less than the dormancy threshold, so that every user who
// has keys is pushed to. Keys outlive thresholds that were lowered; their users count as away and are rebuilt when they
// return.
func (f *Fanout) Lifetime() time.Duration {
	after := f.activity().DormantAfter
	return after - after/30
}
