package jobs_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"tidings/services/jobs"
)

// The jobs of each kind are counted: the waiting jobs, those of them that run or failed before, and the dead jobs.
func TestCountsByKind(t *testing.T) {
	eachDatabase(t, func(t *testing.T, n *node) {
		counts := func() string {
			t.Helper()
			list, err := jobs.CountsByKind(t.Context(), n.db)
			n.must(err)
			text := ""
			for _, one := range list {
				lag := time.Duration(0)
				if !one.OldestWaitingSince.IsZero() {
					lag = n.clock.Now().Sub(one.OldestWaitingSince)
				}
				text += fmt.Sprintf("%s %d %d %d %d %v; ", one.Kind, one.Waiting, one.Running, one.Failed, one.Dead, lag)
			}
			return text
		}
		wants := func(want string) {
			t.Helper()
			if got := counts(); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
		wants("")
		n.enqueue(jobs.NewJob{Kind: "paint"}, jobs.NewJob{Kind: "paint"}, jobs.NewJob{Kind: "dry", NotBefore: n.clock.Now().Add(time.Hour)})
		n.clock.advance(time.Minute)
		n.enqueue(jobs.NewJob{Kind: "paint"})
		wants("dry 1 0 0 0 -59m0s; paint 3 0 0 0 1m0s; ")
		held := n.claimOf("paint")
		wants("dry 1 0 0 0 -59m0s; paint 3 3 0 0 1m0s; ")
		n.must(jobs.Release(t.Context(), n.db, held[2:], n.clock.Now()))
		wants("dry 1 0 0 0 -59m0s; paint 3 2 0 0 1m0s; ")
		if dead, err := jobs.Fail(t.Context(), n.db, held[0], errors.New("no paint"), n.clock.Now(), 2); err != nil || dead {
			t.Errorf("dead %v, %v", dead, err)
		}
		wants("dry 1 0 0 0 -59m0s; paint 3 1 1 0 1m0s; ")
		if dead, err := jobs.Fail(t.Context(), n.db, held[1], errors.New("no paint"), n.clock.Now(), 1); err != nil || !dead {
			t.Errorf("dead %v, %v", dead, err)
		}
		wants("dry 1 0 0 0 -59m0s; paint 2 0 1 1 1m0s; ")
		finished, err := jobs.FinishIfHeld(t.Context(), n.db, n.claimOf("paint", "dry"))
		if err != nil || finished != 2 {
			t.Errorf("finished %d, %v", finished, err)
		}
		wants("dry 1 0 0 0 -59m0s; paint 0 0 0 1 0s; ")
	})
}
