package people

import (
	"context"
	"sync/atomic"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/sql"
)

// LogActivity is the kind of log entry for a change of the activity thresholds. Its entries have no payload: each node
// reloads the thresholds.
const LogActivity = "activity"

// ActivityFacts reads the activity thresholds from SQL.
type ActivityFacts interface {
	ActivityThresholds(ctx context.Context) (thresholds services.ActivityThresholds, set bool, err error)
}

// Activity is this node's cache of the activity thresholds. It is safe for concurrent use. There are no thresholds until the
// first node of an installation has set them.
type Activity struct {
	facts      ActivityFacts
	log        *changelog.Follower
	thresholds atomic.Pointer[services.ActivityThresholds] // nil before they were read
}

// NewActivity makes an empty cache that follows the log.
func NewActivity(log *changelog.Follower, facts ActivityFacts) *Activity {
	a := &Activity{facts: facts, log: log}
	log.Register(changelog.Kind{Name: LogActivity, Load: a.load})
	return a
}

// Wake makes this node read the log soon, after a change of the thresholds.
func (a *Activity) Wake() { a.log.Wake() }

// Thresholds are the times after which users count as idle and dormant. known is false before this node has read them.
func (a *Activity) Thresholds() (thresholds services.ActivityThresholds, known bool) {
	held := a.thresholds.Load()
	if held == nil {
		return thresholds, false
	}
	return *held, true
}

// load reads the thresholds. The log calls it at the start and after each change.
func (a *Activity) load(ctx context.Context) error {
	thresholds, set, err := a.facts.ActivityThresholds(ctx)
	if err == nil && set {
		a.thresholds.Store(&thresholds)
	}
	return err
}

// AppendActivityChange logs a change of the thresholds, in the transaction that makes it.
func AppendActivityChange(ctx context.Context, tx *sql.Tx) error {
	_, err := changelog.Append(ctx, tx, LogActivity, "", struct{}{})
	return err
}
