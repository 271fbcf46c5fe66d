package projector_test

import (
	"context"
	"strings"
	"testing"

	"tidings/services"
	"tidings/services/projector"
	"tidings/tests/eventually"
)

// A rebuild that panics fails only the job that asked for it: that job is tried again later, and the refills of other users are done.
func TestARefillThatPanicsFailsItsJobAlone(t *testing.T) {
	w := newEmbeddedWorld(t)
	panicFor := w.RegisterFaultyRebuild()
	users := w.MakeUsers(4)
	quiet, loud, reader, other := users[0], users[1], users[2], users[3]
	w.InsertPosts(quiet, services.FeedRetention+100)
	w.InsertPosts(loud, services.FeedRetention+100)
	w.Follow(quiet, reader, other)
	w.Follow(loud, reader, other)
	w.RunAllJobs(w.Fanout)

	panicFor(reader)
	w.Unfollow(loud, reader, other)
	w.RunDueJobs(w.Fanout)
	w.CheckAgainstFacts(other)
	if waiting, dead := w.CountJobs(); waiting != 1 || dead != 0 {
		t.Errorf("%d jobs wait and %d are dead", waiting, dead)
	}
	panicFor()
	w.RunAllJobs(w.Fanout)
	w.Must(w.Projector.Rebuild(t.Context(), reader)) // the projection that the panic left half made is made by the next visit
	w.CheckAgainstFacts(reader)
	if waiting, dead := w.CountJobs(); waiting != 0 || dead != 0 || len(w.Inbox(reader)) != services.FeedRetention {
		t.Errorf("%d jobs wait, %d are dead, %d posts are listed", waiting, dead, len(w.Inbox(reader)))
	}
}

// All callers who share a rebuild that panics get its error, with the stack; the rebuild gives its slot back, and the next one begins
// anew.
func TestCallersShareAPanic(t *testing.T) {
	w := newEmbeddedWorld(t)
	panicFor := w.RegisterFaultyRebuild()
	user := w.MakeUsers(1)[0]
	panicFor(user)
	const callers = 3
	errs := make(chan error, callers)
	running, release := make(chan struct{}), make(chan struct{})
	for range callers {
		go func() {
			errs <- w.Projector.RunSharedRebuild(t.Context(), "shared", "the test's data", func(context.Context) error {
				close(running) // panics if this is a second run
				<-release
				panic("while it is shared")
			})
		}()
	}
	<-running
	close(release)
	for range callers {
		// A caller that came after the end of the first run has begun a second one. That run panics too, because running is closed
		// already.
		if err := <-errs; !services.IsPanic(err) || services.CodeOf(err) != services.Internal || !strings.Contains(err.Error(), "TestCallersShareAPanic") {
			t.Errorf("a caller got %v", err)
		}
	}
	if err := w.Projector.Rebuild(t.Context(), user); !services.IsPanic(err) {
		t.Errorf("the rebuild ended with %v", err)
	}
	eventually.Holds(t, "the slots are free", func() bool { return w.Projector.RebuildStats().Running == 0 })
	panicFor()
	w.Must(w.Projector.Rebuild(t.Context(), user))
	w.CheckAgainstFacts(user)
}

// Rows whose deletion panics fail like those whose deletion fails: the other rows are dropped in the same turn, and the error has the
// name and the stack.
func TestAPanicOfOneDeletionEndsNoTurn(t *testing.T) {
	w := newEmbeddedWorld(t)
	for i, name := range []string{"first", "faulty", "last"} {
		w.Projector.RegisterExpiringRows(name, func(context.Context) (int, error) {
			if name == "faulty" {
				panic("while it deletes")
			}
			return 1 + i, nil
		})
	}
	dropped, err := projector.NewJanitor(w.Projector).RunOnce(t.Context())
	if dropped != 4 || !services.IsPanic(err) || !strings.HasPrefix(err.Error(), "faulty: panic: while it deletes\n") {
		t.Errorf("%d rows were dropped, %v", dropped, err)
	}
}
