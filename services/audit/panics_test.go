package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/audit"
	"tidings/services/fanout/fanouttest"
	"tidings/services/rdb"
)

// injectedPanics makes the comparison or the rebuild of chosen users panic.
type injectedPanics struct {
	comparePanicsFor services.UserID                // the user whose comparison panics; 0: none
	setRebuildPanics func(users ...services.UserID) // sets the users whose rebuild panics
}

// newFaultyNode returns a node, what makes its comparisons and rebuilds panic, its audit, and the log of the audit.
func newFaultyNode(t *testing.T) (w node, f *injectedPanics, a *audit.Audit, log *bytes.Buffer) {
	t.Helper()
	f, log = &injectedPanics{}, &bytes.Buffer{}
	lower := fanouttest.New(t, fanouttest.Options{})
	lower.Projector.RegisterAuditPart("a part with a fault", func(_ context.Context, user services.UserID, _ rdb.UserSnapshot) (any, []string, error) {
		if user == f.comparePanicsFor {
			panic("while it compares")
		}
		return nil, nil, nil
	})
	f.setRebuildPanics = lower.RegisterFaultyRebuild()
	w = newNode(lower)
	w.Log = slog.New(slog.NewTextHandler(log, nil))
	return w, f, newAudit(w, auditLapTime), log
}

// corruptFeedCounts makes the counts of users' feeds wrong.
func corruptFeedCounts(w node, users ...services.UserID) {
	for _, user := range users {
		w.RedisServer.Do("HSET", fmt.Sprintf("{u%d}:b", user), "fc", "77")
	}
}

// runAuditThreeTimes runs an audit three times. The first time it visits all users of a small world, and the next two times it also
// checks the suspects again.
func runAuditThreeTimes(w node, a *audit.Audit) {
	w.TB.Helper()
	w.Clock.Advance(auditLapTime)
	for range 3 {
		_, err := a.RunOnce(w.TB.Context())
		w.Must(err)
		w.Clock.Advance(3 * time.Second)
	}
}

// A user whose comparison panics is not compared: the log has the panic, the turn goes on with the others and is passed
// on. A later lap compares the user again.
func TestAPanicOfOneComparisonEndsNoTurn(t *testing.T) {
	w, f, a, log := newFaultyNode(t)
	users := w.MakeUsers(3)
	corruptFeedCounts(w, users...)
	f.comparePanicsFor = users[1]
	runAuditThreeTimes(w, a)
	if got := a.Stats(); got.VisitedUsers != 2 || got.DriftedUsers != 2 {
		t.Errorf("%+v", got)
	}
	if text := log.String(); strings.Count(text, "while it compares") != 1 {
		t.Errorf("the log is %s", text)
	}
	f.comparePanicsFor = 0
	runAuditThreeTimes(w, a)
	if got := a.Stats(); got.VisitedUsers != 5 || got.DriftedUsers != 3 {
		t.Errorf("when the fault was mended: %+v", got)
	}
	w.CheckAgainstFacts(users...)
}

// A suspect whose second comparison panics, or whose repair does, is left to the next lap. The other suspects are repaired, and the
// turns go on.
func TestAPanicOfOneSuspectEndsNoTurn(t *testing.T) {
	for what, breaks := range map[string]func(f *injectedPanics, user services.UserID){
		"compared again": func(f *injectedPanics, user services.UserID) { f.comparePanicsFor = user },
		"repaired":       func(f *injectedPanics, user services.UserID) { f.setRebuildPanics(user) },
	} {
		t.Run(what, func(t *testing.T) {
			w, f, a, log := newFaultyNode(t)
			users := w.MakeUsers(3)
			corruptFeedCounts(w, users...)
			w.Clock.Advance(auditLapTime)
			_, err := a.RunOnce(t.Context())
			w.Must(err)
			breaks(f, users[0])
			w.Clock.Advance(3 * time.Second)
			runAuditThreeTimes(w, a)
			if text := log.String(); !strings.Contains(text, "panic: while it") {
				t.Errorf("the log is %s", text)
			}
			w.CheckAgainstFacts(users[1:]...)
			f.comparePanicsFor = 0
			f.setRebuildPanics()
			runAuditThreeTimes(w, a)
			w.CheckAgainstFacts(users...)
			if got := a.Stats(); got.DriftedUsers+got.RestoredUsers < 3 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A projection that has lost something, and whose rebuild panics, ends no turn either.
func TestAPanicOfOneRestorationEndsNoTurn(t *testing.T) {
	w, f, a, _ := newFaultyNode(t)
	users := w.MakeUsers(2)
	for _, user := range users {
		w.RedisServer.Do("HSET", fmt.Sprintf("{u%d}:b", user), "e", "7")
	}
	f.setRebuildPanics(users[0])
	runAuditThreeTimes(w, a)
	if got := a.Stats(); got.VisitedUsers != 1 || got.RestoredUsers != 1 {
		t.Errorf("%+v", got)
	}
	f.setRebuildPanics()
	runAuditThreeTimes(w, a)
	if got := a.Stats(); got.VisitedUsers != 3 || got.RestoredUsers != 2 {
		t.Errorf("when the fault was mended: %+v", got)
	}
	w.CheckAgainstFacts(users...)
}
