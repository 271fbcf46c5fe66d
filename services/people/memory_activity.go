package people

import (
	"context"
	"sync/atomic"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/sql"
)

// ActivityChangelogKind is the kind of log entry for a change of the activity thresholds. Its entries have no payload: each node
// reloads the thresholds.
const ActivityChangelogKind = "activity"

// ActivityFacts reads the activity thresholds from SQL.
type ActivityFacts interface {
	ActivityThresholds(ctx context.Context) (thresholds services.ActivityThresholds, set bool, err error)
}

// ActivityThresholdCache is this node's cache of the activity thresholds. It is safe for concurrent use. There are no thresholds
// until the first node of an installation has set them.
type ActivityThresholdCache struct {
	facts      ActivityFacts
	log        *changelog.Follower
	thresholds atomic.Pointer[services.ActivityThresholds] // nil before they were read
}

// NewActivityThresholdCache makes an empty cache that follows the log.
func NewActivityThresholdCache(log *changelog.Follower, facts ActivityFacts) *ActivityThresholdCache {
	a := &ActivityThresholdCache{facts: facts, log: log}
	log.Register(changelog.Kind{Name: ActivityChangelogKind, Load: a.load})
	return a
}

// Wake makes this node read the log soon, after a change of the thresholds.
func (a *ActivityThresholdCache) Wake() { a.log.Wake() }

// Thresholds are the times after which users count as idle and dormant. known is false before this node has read them.
func (a *ActivityThresholdCache) Thresholds() (thresholds services.ActivityThresholds, known bool) {
	held := a.thresholds.Load()
	if held == nil {
		return thresholds, false
	}
	return *held, true
}

// load reads the thresholds. The log calls it at the start and after each change.
func (a *ActivityThresholdCache) load(ctx context.Context) error {
	thresholds, set, err := a.facts.ActivityThresholds(ctx)
	if err == nil && set {
		a.thresholds.Store(&thresholds)
	}
	return err
}

// AppendActivityChange logs a change of the thresholds, in the transaction that makes it.
func AppendActivityChange(ctx context.Context, tx *sql.Tx) error {
	_, err := changelog.Append(ctx, tx, ActivityChangelogKind, "", struct{}{})
	return err
}
