package mirror

import (
	"context"
	"sync/atomic"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/store"
)

// LogActivity is the kind of the log that says that the activity thresholds were set. Its entries carry nothing: all is
// read anew.
const LogActivity = "activity"

// activity holds the thresholds that this node goes by; nil before they were read.
type activity struct {
	thresholds atomic.Pointer[services.ActivityThresholds]
}

// ActivityThresholds are when users count as idle and dormant. known is false before this node has read them.
func (m *Mirror) ActivityThresholds() (thresholds services.ActivityThresholds, known bool) {
	held := m.activity.thresholds.Load()
	if held == nil {
		return thresholds, false
	}
	return *held, true
}

func (m *Mirror) loadActivity(ctx context.Context) error {
	thresholds, set, err := m.facts.ActivityThresholds(ctx)
	if err == nil && set {
		m.activity.thresholds.Store(&thresholds)
	}
	return err
}

// AppendActivityChange writes into the log that the thresholds were set, in the transaction that sets them.
func AppendActivityChange(ctx context.Context, tx *store.Tx) error {
	_, err := changelog.Append(ctx, tx, LogActivity, "", struct{}{})
	return err
}
