package nodecache

import (
	"context"
	"errors"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/people"
)

func (e *fakeStores) ActivityThresholds(context.Context) (thresholds services.ActivityThresholds, set bool, err error) {
	return e.activity, e.activity.IdleAfter > 0, e.sqlErr
}

func TestActivityThresholdsFollowTheLog(t *testing.T) {
	e := newFakeStores()
	m := newCaches(e)
	catchUp := func() { _, _ = m.Changelog.RunOnce(t.Context()) } // an error of SQL is tried again
	if _, known := m.Activity.Thresholds(); known {
		t.Error("thresholds are known before they were read")
	}
	catchUp()
	if _, known := m.Activity.Thresholds(); known {
		t.Error("thresholds are known that nobody has set")
	}
	set := func(idle time.Duration) {
		e.activity = services.ActivityThresholds{IdleAfter: idle, DormantAfter: 2 * idle}
		e.logEntries = append(e.logEntries, changelog.Entry{Kind: people.ActivityChangelogKind, Version: uint64(len(e.logEntries) + 1), Payload: []byte("{}")})
	}
	for _, idle := range []time.Duration{time.Hour, 3 * time.Hour} {
		set(idle)
		catchUp()
		if got, known := m.Activity.Thresholds(); !known || got != e.activity {
			t.Errorf("%+v, %v: want %+v", got, known, e.activity)
		}
	}
	held, _ := m.Activity.Thresholds()
	set(5 * time.Hour)
	e.sqlErr = errors.New("away")
	catchUp()
	if got, known := m.Activity.Thresholds(); !known || got != held {
		t.Errorf("without SQL: %+v, %v: want what was known, %+v", got, known, held)
	}
	e.sqlErr = nil
	catchUp()
	if got, _ := m.Activity.Thresholds(); got != e.activity {
		t.Errorf("SQL is back: %+v: want %+v", got, e.activity)
	}
}
