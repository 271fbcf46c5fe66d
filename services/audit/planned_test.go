package audit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/positions"
	"tidings/services/sql"
)

// Jobs that are planned for later explain no difference, even if one of them comes due every 30 seconds: a wrong projection is
// repaired within a few minutes.
func TestAuditDoesNotWaitForPlannedJobs(t *testing.T) {
	const kind, every = "planned of the test", 30 * time.Second
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, world *fanouttest.World) {
		w := newNode(world)
		user, _ := newUserWithFullDocument(w)
		a := newAudit(w, auditLapTime)
		runLap(w, a)
		begin := w.Clock.Now()
		for i := range 100 {
			enqueue(w, jobs.NewJob{Kind: kind, Key: fmt.Sprint(i), NotBefore: begin.Add(time.Duration(i) * every)})
		}
		w.Write(func(ctx context.Context, tx *sql.Tx) error {
			_, err := positions.Advance(ctx, tx, user, positions.HomeFeedView, services.MaxPostID-1)
			return err
		})
		w.Clock.Advance(auditLapTime) // the lap in which the user is visited again
		for range 60 {
			done, err := jobs.Claim(t.Context(), w.DB, []string{kind}, 100, every, 0)
			w.Must(err)
			_, err = jobs.FinishIfHeld(t.Context(), w.DB, done)
			w.Must(err)
			_, err = a.RunOnce(t.Context())
			w.Must(err)
			w.Clock.Advance(5 * time.Second)
		}
		if got := a.Stats(); got.DriftedUsers != 1 {
			t.Errorf("after five minutes: %+v", got)
		}
		w.CheckAgainstFacts(user)
	})
}
