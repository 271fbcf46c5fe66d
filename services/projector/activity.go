package projector

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// ActivityThresholds returns the thresholds after which users count as idle and dormant now, on all nodes. Until this node has read
// them, at its very start, it returns the configured thresholds.
func (p *Projector) ActivityThresholds() services.ActivityThresholds {
	if thresholds, known := p.activityMemory.Thresholds(); known {
		return thresholds
	}
	return services.ActivityThresholds{IdleAfter: p.cfg.IdleAfter, DormantAfter: p.cfg.DormantAfter}
}

// RecordConfiguredThresholds records the configured thresholds, unless an admin has set others. A node calls it at its start, so
// that a changed configuration is a change of thresholds like any other.
func (p *Projector) RecordConfiguredThresholds(ctx context.Context) error {
	configured := services.ActivityThresholds{IdleAfter: p.cfg.IdleAfter, DormantAfter: p.cfg.DormantAfter}
	return p.putThresholds(ctx, configured, false)
}

// SetActivityThresholds sets the thresholds after which users count as idle and dormant, for all nodes, until they are set again. It
// returns INVALID unless both are 1 to 8,760 hours and the idle threshold is not above the dormant one.
func (p *Projector) SetActivityThresholds(ctx context.Context, thresholds services.ActivityThresholds) error {
	if err := thresholds.Check(); err != nil {
		return err
	}
	return p.putThresholds(ctx, thresholds, true)
}

// putThresholds stores thresholds. The configuration of a node never replaces an admin's thresholds. Equal thresholds change
// nothing, because each change moves FormerIdleCutoff, and users last seen before that count as idle.
func (p *Projector) putThresholds(ctx context.Context, next services.ActivityThresholds, byAdmin bool) error {
	err := p.db.Write(ctx, func(tx *sql.Tx) error {
		held, set, heldByAdmin, err := people.ActivityThresholdsForUpdate(ctx, tx)
		same := set && held.IdleAfter == next.IdleAfter && held.DormantAfter == next.DormantAfter
		switch {
		// Nothing changes for equal thresholds, or if a configuration would replace an admin's. But if an admin sets what a
		// configuration has set, the thresholds are stored again, so that a configuration no longer replaces them.
		case err != nil, same && byAdmin == heldByAdmin, heldByAdmin && !byAdmin:
			return err
		case !set:
			held = services.ActivityThresholds{IdleAfter: p.cfg.IdleAfter, DormantAfter: p.cfg.DormantAfter}
		}
		// ReplacedBy keeps the moment before which users counted as idle by the old thresholds: these users missed pushes, however
		// long the new thresholds are.
		if err := people.SetActivityThresholds(ctx, tx, held.ReplacedBy(next, tx.Now), byAdmin); err != nil {
			return err
		}
		return people.AppendActivityChange(ctx, tx)
	})
	p.activityMemory.Wake()
	return err
}

// DormantBefore is the cutoff of dormancy: users last seen before it are dormant. It is never later than IdleBefore: the document of
// a user who is not idle is shown without a rebuild, so every post that it should list must have been pushed to it. If both
// thresholds are close, the exact dormancy threshold alone could exclude a user hours before IsOfIdleUser is true of their document,
// because documents count whole days.
func (p *Projector) DormantBefore() time.Time {
	dormant, idle := p.ActivityThresholds().DormantCutoff(p.clock.Now()), p.IdleBefore()
	if idle.Before(dormant) {
		return idle
	}
	return dormant
}

// firstNonIdleDay is the first day that is not idle: users last seen before it are idle. It counts whole days, because documents do.
func (p *Projector) firstNonIdleDay() int64 {
	return services.DayOf(p.ActivityThresholds().IdleCutoff(p.clock.Now()))
}

// IdleBefore is the cutoff for a big author's fan-out: followers last seen before it get no post pushed. It is earlier than
// the idle threshold, because SQL may record a visit before the document does, and because other nodes learn of new
// thresholds a moment later.
func (p *Projector) IdleBefore() time.Time {
	const slack = 25 * time.Hour
	now := p.clock.Now()
	return time.Unix(services.DayOf(now.Add(-p.ActivityThresholds().IdleAfter))*int64(24*time.Hour/time.Second), 0).Add(-slack)
}

// IsOfIdleUser says whether a document belongs to a user who was idle. Such a document is rebuilt, and the user becomes active,
// before it is shown.
func (p *Projector) IsOfIdleUser(document rdb.Document) bool {
	return document.Ready && p.IsIdleIfSeenOn(document.LastActiveDay)
}

// IsIdleIfSeenOn says whether a user who was last active on a day, counted since 1970, was idle: big authors' posts were not
// pushed to them.
func (p *Projector) IsIdleIfSeenOn(day int64) bool { return day < p.firstNonIdleDay() }

// RedisKeyLifetime is how long a user's keys live without a visit. It is less than the dormancy threshold, so that every user who
// has keys is pushed to. Keys outlive thresholds that were lowered: their users count as idle, and their documents are rebuilt when
// they return.
func (p *Projector) RedisKeyLifetime() time.Duration {
	after := p.ActivityThresholds().DormantAfter
	return after - after/30
}
