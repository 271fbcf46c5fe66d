package projector_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"tidings/services/changelog"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/projector"
	"tidings/services/sql"
)

// The janitor deletes old rows, and no others.
func TestTheJanitorDeletesOldRows(t *testing.T) {
	const keepLog, keepIdempotencyFor = time.Hour, 24 * time.Hour
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		user := w.MakeUsers(1)[0]
		janitor := projector.NewJanitor(w.Projector)
		remember := func(key string) {
			errs := w.Fanout.Commit(t.Context(), &jobs.Command{Name: "append", Actor: user, IdempotencyKey: key, Input: key,
				Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
					_, err := changelog.AppendLog(ctx, tx, "post", key, nil)
					return nil, err
				}})
			w.Must(errs[0])
		}
		remember("first")
		remember("second")
		for _, turn := range []struct {
			after   time.Duration
			dropped int
		}{{0, 0}, {keepLog, 0}, {time.Second, 1}, {0, 0}, {keepIdempotencyFor - keepLog, 2}, {0, 0}} {
			w.Clock.Advance(turn.after)
			if dropped, err := janitor.RunOnce(t.Context()); dropped != turn.dropped || err != nil {
				t.Errorf("at %s: %d went, %v; want %d", w.Clock.Now().Sub(fanouttest.StartTime), dropped, err, turn.dropped)
			}
		}
		if last, oldest, err := changelog.LastSequence(t.Context(), w.DB, "post"); last != 2 || oldest != 2 || err != nil {
			t.Errorf("the log goes from %d to %d, %v: the newest entry stays", oldest, last, err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := janitor.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
		w.CheckAgainstFacts(user)
	})
}
