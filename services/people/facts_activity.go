package people

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

var (
	readActivity = sql.NewStatement("read the activity thresholds",
		`SELECT idle_us, dormant_us, away_before, by_admin FROM activity_thresholds WHERE name = $1`)

	lockActivity = sql.NewStatement("lock the activity thresholds",
		`SELECT idle_us, dormant_us, away_before, by_admin FROM activity_thresholds WHERE name = $1 {for update}`)

	setActivity = sql.NewStatement("set the activity thresholds", `INSERT INTO activity_thresholds (name, idle_us, dormant_us, away_before, by_admin)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (name) DO UPDATE SET idle_us = excluded.idle_us, dormant_us = excluded.dormant_us,
			away_before = excluded.away_before, by_admin = excluded.by_admin`)
)

// activityRowName is the name of the one row in activity_thresholds, which all nodes use: a node with other thresholds would drop data
// of users that another node keeps.
const activityRowName = "users"

// activityRow is the row of activity_thresholds as it is stored.
type activityRow struct {
	idleMicros, dormantMicros, formerIdleCutoffMicros int64 // services.ActivityThresholds in microseconds
	byAdmin                                           bool  // an admin has set the row, and not the settings of a node
}

// scanTargets are the pointers to the fields for scanning the row, in the order of the statements' columns.
func (r *activityRow) scanTargets() []any {
	return []any{&r.idleMicros, &r.dormantMicros, &r.formerIdleCutoffMicros, &r.byAdmin}
}

// thresholds is the row as services.ActivityThresholds.
func (r *activityRow) thresholds() services.ActivityThresholds {
	return services.ActivityThresholds{
		IdleAfter: time.Duration(r.idleMicros) * time.Microsecond, DormantAfter: time.Duration(r.dormantMicros) * time.Microsecond, FormerIdleCutoff: sql.FromMicros(r.formerIdleCutoffMicros),
	}
}

// ActivityThresholds are the thresholds that hold for all nodes. set is false before the first node has started.
func ActivityThresholds(ctx context.Context, db *sql.DB) (thresholds services.ActivityThresholds, set bool, err error) {
	var row activityRow
	set, err = db.One(ctx, readActivity, []any{activityRowName}, row.scanTargets()...)
	return row.thresholds(), set, err
}

// ActivityThresholdsForUpdate reads the thresholds and keeps others from setting them until the transaction ends. byAdmin says
// that an admin has set them: then the settings of a node that starts do not change them.
func ActivityThresholdsForUpdate(ctx context.Context, tx *sql.Tx) (thresholds services.ActivityThresholds, set, byAdmin bool, err error) {
	var row activityRow
	set, err = tx.One(ctx, lockActivity, []any{activityRowName}, row.scanTargets()...)
	return row.thresholds(), set, row.byAdmin, err
}

// SetActivityThresholds sets the thresholds for all nodes.
func SetActivityThresholds(ctx context.Context, tx *sql.Tx, thresholds services.ActivityThresholds, byAdmin bool) error {
	_, err := tx.Run(ctx, setActivity, activityRowName, thresholds.IdleAfter.Microseconds(), thresholds.DormantAfter.Microseconds(),
		sql.Micros(thresholds.FormerIdleCutoff), byAdmin)
	return err
}
