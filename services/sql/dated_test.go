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
		plan time.Duration // from now
		want time.Duration // from now
	}{
		"an event of now":                       {0, time.Minute, time.Minute},
		"an event of now with a time":           {-1, time.Minute, time.Minute},
		"a plan that is over":                   {time.Hour, -time.Minute, replayPause},
		"a plan of this moment":                 {time.Hour, 0, replayPause},
		"an event that was sent at once":        {5 * time.Millisecond, time.Minute, time.Minute + 5*time.Millisecond},
		"an event two minutes late":             {2 * time.Minute, time.Minute, 3 * time.Minute},
		"an event an hour late":                 {time.Hour, time.Minute, replayPause},
		"a plan after the end of the pause":     {time.Hour, replayPause, replayPause},
		"a plan long after the late event":      {time.Hour, time.Hour, time.Hour},
		"an event that is nearly as late as it": {replayPause, time.Minute, replayPause},
	} {
		t.Run(name, func(t *testing.T) {
			tx := Tx{Now: now}
			switch {
			case test.late > 0:
				tx.SetDated(services.PostIDAt(now.Add(-test.late)))
			case test.late < 0:
				tx.SetPlaced(services.PostIDAt(now))
			}
			if got := tx.DueAt(now.Add(test.plan)); !got.Equal(now.Add(test.want)) {
				t.Errorf("due %v from now, want %v", got.Sub(now), test.want)
			}
		})
	}
}

// An event of now that came with a time has the transaction's time, and IDs of the moment at which it came.
func TestAPlacedEventIsOfNow(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	ids := services.NewIDClock(services.SystemClock{}, 1)
	came := services.PostIDAt(now.Add(-time.Second))
	tx := Tx{Now: now}
	tx.SetPlaced(came)
	if tx.Dated() != 0 || !tx.HappenedAt().Equal(now) {
		t.Errorf("it is dated %v and happened at %v, want 0 and %v", tx.Dated(), tx.HappenedAt(), now)
	}
	if id := tx.NewID(ids); id != came || tx.Placed() != came {
		t.Errorf("its ID is %v, placed at %v, want %v", id, tx.Placed(), came)
	}
	tx.SetPlaced(0)
	if id := tx.NewID(ids); id == came {
		t.Error("the next event has its moment too")
	}
	tx.SetDated(came)
	if tx.Placed() != came || tx.NewID(ids) != came {
		t.Error("the IDs of a past event are not of its moment")
	}
}
