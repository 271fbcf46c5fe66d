package audit_test

import (
	"context"
	"errors"
	"testing"

	"tidings/services/audit"
)

// Each turn runs the other audits. A turn in which one of them fails is not passed on: its lease ends, and a node takes it again.
func TestATurnRunsTheOtherAudits(t *testing.T) {
	w := newFastNode(t, nil)
	w.MakeUsers(1)
	failure := errors.New("a failure of the test")
	calls, result := 0, error(nil)
	a := audit.New(audit.Config{
		DB: w.DB, Redis: w.Redis, Projector: w.Projector, Clock: w.Clock, Log: w.Log, Settings: audit.Settings{LapTime: auditLapTime},
		Others: []func(context.Context) error{func(context.Context) error { calls++; return result }},
	})
	for i, want := range []error{failure, nil} {
		result = want
		w.Clock.Advance(auditLapTime)
		took, err := a.RunOnce(t.Context())
		if !errors.Is(err, want) || took != (want == nil) || calls != i+1 {
			t.Errorf("turn %d: took %v, %d calls, %v; want the error %v", i, took, calls, err, want)
		}
	}
}
