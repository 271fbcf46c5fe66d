package fanout

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/mirror"
	"tidings/services/rdb"
	"tidings/services/store"
)

// activity is when users count as idle and dormant now, for all nodes.
func (f *Fanout) activity() services.ActivityThresholds {
	if thresholds, known := f.activityMemory.Thresholds(); known {
		return thresholds
	}
	return services.ActivityThresholds{IdleAfter: f.cfg.IdleAfter, DormantAfter: f.cfg.ActiveFor}
}

// Activity is when users count as idle and dormant now.
func (f *Fanout) Activity() services.ActivityThresholds { return f.activity() }

// BeginActivity notes the configured thresholds, unless an admin has set others. A node calls it when it starts: a change
// of the configuration is a change of thresholds like any other.
func (f *Fanout) BeginActivity(ctx context.Context) error {
	configured := services.ActivityThresholds{IdleAfter: f.cfg.IdleAfter, DormantAfter: f.cfg.ActiveFor}
	return f.putActivity(ctx, configured, false)
}

// SetActivity sets when users count as idle and dormant, for all nodes, until it is set again. INVALID unless both are
// 1 to 8,760 hours and idle comes first.
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

// activeSince is the moment before which a user who was not seen since is dormant. It is not later than idleSince: a document
// that is not away is shown without a rebuild, so nothing that it lists may be withheld from it. Where both thresholds are
// close, the exact one alone would begin hours before the whole day does after which the document is away.
func (f *Fanout) activeSince() time.Time {
	dormant, idle := f.activity().DormantSince(f.clock.Now()), f.idleSince()
	if idle.Before(dormant) {
		return idle
	}
	return dormant
}

// idleDay is the day before which a user who was not seen since is idle. It goes by whole days, as documents do.
func (f *Fanout) idleDay() int64 { return services.DayOf(f.activity().IdleSince(f.clock.Now())) }

// idleSince is the moment since which a follower of a big author was seen who is served. It is earlier than idle begins:
// a visit may be noted in SQL before the document says so, and other nodes hear of new thresholds a moment later.
func (f *Fanout) idleSince() time.Time {
	const slack = 25 * time.Hour
	now := f.clock.Now()
	return time.Unix(services.DayOf(now.Add(-f.activity().IdleAfter))*int64(24*time.Hour/time.Second), 0).Add(-slack)
}

// Away says whether a document is that of a user who was idle. It is rebuilt, and the user with it active, before it is
// shown.
func (f *Fanout) Away(document rdb.Document) bool { return document.Ready && f.AwaySince(document.Day) }

// AwaySince says whether a user who was last active on a day, since 1970, was idle: big authors' posts were not pushed to
// them.
func (f *Fanout) AwaySince(day int64) bool { return day < f.idleDay() }

// Lifetime is how long a user's keys live without a visit: less than it takes to be dormant, so that whoever has keys is
// pushed to. Where thresholds were lowered, keys outlive it; their users are away, and rebuilt when they return.
func (f *Fanout) Lifetime() time.Duration {
	after := f.activity().DormantAfter
	return after - after/30
}
