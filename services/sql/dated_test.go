package sql

import (
	"testing"
	"time"

	"tidings/services"
)

// A job is due at its planned time. For a late event it is due later, so that other late events come before it.
func TestJobsOfLateEventsAreDueLater(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		late time.Duration // how late the event is; -1: it is of now and has a time
		plan time.Duration // the planned time of the job, from now
		want time.Duration // when the job is due, from now
	}{
		"an event of now":                       {0, time.Minute, time.Minute},
		"an event of now with a time":           {-1, time.Minute, time.Minute},
		"a plan that is over":                   {time.Hour, -time.Minute, maxEventReplayPause},
		"a plan of this moment":                 {time.Hour, 0, maxEventReplayPause},
		"an event that was sent at once":        {5 * time.Millisecond, time.Minute, time.Minute + 5*time.Millisecond},
		"an event two minutes late":             {2 * time.Minute, time.Minute, 3 * time.Minute},
		"an event an hour late":                 {time.Hour, time.Minute, maxEventReplayPause},
		"a plan after the end of the pause":     {time.Hour, maxEventReplayPause, maxEventReplayPause},
		"a plan long after the late event":      {time.Hour, time.Hour, time.Hour},
		"an event that is nearly as late as it": {maxEventReplayPause, time.Minute, maxEventReplayPause},
	} {
		t.Run(name, func(t *testing.T) {
			tx := Tx{Now: now}
			switch {
			case test.late > 0:
				tx.SetEventMoment(services.SortableIDAt(now.Add(-test.late)))
			case test.late < 0:
				tx.SetMomentOfNewIDs(services.SortableIDAt(now))
			}
			if got := tx.JobDueAt(now.Add(test.plan)); !got.Equal(now.Add(test.want)) {
				t.Errorf("due %v from now, want %v", got.Sub(now), test.want)
			}
		})
	}
}

// SetMomentOfNewIDs does not make an event dated: the event has the time of the transaction, and only the IDs made for it are of the
// given moment.
func TestSetMomentOfNewIDsDoesNotDateAnEvent(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	ids := services.NewIDClock(services.SystemClock{}, 1)
	came := services.SortableIDAt(now.Add(-time.Second))
	tx := Tx{Now: now}
	tx.SetMomentOfNewIDs(came)
	if tx.EventMoment() != 0 || !tx.EventTime().Equal(now) {
		t.Errorf("it is dated %v and happened at %v, want 0 and %v", tx.EventMoment(), tx.EventTime(), now)
	}
	if id := tx.NewID(ids); id != came || tx.MomentOfNewIDs() != came {
		t.Errorf("its ID is %v, placed at %v, want %v", id, tx.MomentOfNewIDs(), came)
	}
	tx.SetMomentOfNewIDs(0)
	if id := tx.NewID(ids); id == came {
		t.Error("the next event has its moment too")
	}
	tx.SetEventMoment(came)
	if tx.MomentOfNewIDs() != came || tx.NewID(ids) != came {
		t.Error("the IDs of a past event are not of its moment")
	}
}
