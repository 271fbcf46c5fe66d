package projector_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/people"
	"tidings/services/projector"
	"tidings/services/sql"
)

const oneDay = 24 * time.Hour

// setActivityThresholds sets the thresholds from which users are idle and dormant, and lets the world's node read them.
func setActivityThresholds(w *fanouttest.World, idle, dormant time.Duration) {
	w.TB.Helper()
	w.Must(w.Projector.SetActivityThresholds(w.TB.Context(), services.ActivityThresholds{IdleAfter: idle, DormantAfter: dormant}))
	_, err := w.Caches.Changelog.RunOnce(w.TB.Context())
	w.Must(err)
}

// rebuildIfMissingOrIdle does what a read does for a returning user: a missing document, or that of an idle user, is rebuilt before
// it is shown.
func rebuildIfMissingOrIdle(w *fanouttest.World, user services.UserID) {
	w.TB.Helper()
	if document := w.Document(user); !document.Ready || w.Projector.IsOfIdleUser(document) {
		w.Must(w.Projector.Rebuild(w.TB.Context(), user))
	}
}

func TestActivityThresholdsHoldOnAllNodes(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		other := w.AnotherNode()
		if got := other.Projector.ActivityThresholds(); got.IdleAfter != 7*oneDay || got.DormantAfter != 30*oneDay {
			t.Fatalf("before anything is set: %+v", got)
		}
		setActivityThresholds(w, 2*oneDay, 5*oneDay)
		_, err := other.Caches.Changelog.RunOnce(t.Context())
		w.Must(err)
		for name, node := range map[string]*projector.Projector{"this": w.Projector, "another": other.Projector} {
			if got := node.ActivityThresholds(); got.IdleAfter != 2*oneDay || got.DormantAfter != 5*oneDay {
				t.Errorf("%s node goes by %+v: want 2 and 5 days", name, got)
			}
		}
		err = w.Projector.SetActivityThresholds(t.Context(), services.ActivityThresholds{IdleAfter: 6 * oneDay, DormantAfter: 5 * oneDay})
		if services.CodeOf(err) != services.Invalid {
			t.Errorf("idle after dormant: %v: want INVALID", err)
		}
	})
}

// A node's configured thresholds hold until an admin sets others, and a changed configuration counts as a change.
func TestConfiguredActivityThresholdsYieldToAnAdmins(t *testing.T) {
	start := func(w *fanouttest.World, idle time.Duration) services.ActivityThresholds {
		node := w.AnotherNodeWith(w.Redis, func(cfg *projector.Config) { cfg.IdleAfter = idle })
		w.Must(node.Projector.RecordConfiguredThresholds(t.Context()))
		_, err := node.Caches.Changelog.RunOnce(t.Context())
		w.Must(err)
		return node.Projector.ActivityThresholds()
	}
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		if got := start(w, 3*oneDay); got.IdleAfter != 3*oneDay {
			t.Errorf("configured with 3 days: %+v", got)
		}
		w.Clock.Advance(oneDay)
		now := w.Clock.Now()
		if got := start(w, 9*oneDay); got.IdleAfter != 9*oneDay || !got.FormerIdleCutoff.Equal(now.Add(-3*oneDay)) {
			t.Errorf("configured anew with 9 days: %+v: want users not seen for 3 days to be away", got)
		}
		setActivityThresholds(w, 4*oneDay, 30*oneDay)
		if got := start(w, 9*oneDay); got.IdleAfter != 4*oneDay {
			t.Errorf("an admin has set 4 days: %+v", got)
		}
	})
}

// For any thresholds and any times of their changes, a returning user sees the feed of the facts: no post is missing because
// of the thresholds that held when it was published.
func TestChangedActivityThresholdsLoseNoPost(t *testing.T) {
	w := newEmbeddedWorld(t)
	users := w.MakeUsers(5)
	small, big, readers := users[0], users[1], users[2:]
	w.Follow(small, readers...)
	w.Follow(big, readers...)
	w.SetMode(big, services.AuthorBig)
	w.RunAllJobs(w.Fanout)
	rapid.Check(t, func(rt *rapid.T) {
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0:
				idle := time.Duration(rapid.IntRange(1, 12*24).Draw(rt, "idle")) * time.Hour
				setActivityThresholds(w, idle, idle+time.Duration(rapid.IntRange(0, 12*24).Draw(rt, "dormant"))*time.Hour)
			case 1:
				w.Clock.Advance(time.Duration(rapid.IntRange(1, 8*24).Draw(rt, "hours")) * time.Hour)
			case 2:
				w.Post(big)
				w.Post(small)
				w.RunDueJobs(w.Fanout)
			default:
				user := rapid.SampledFrom(readers).Draw(rt, "reader")
				w.Write(func(ctx context.Context, tx *sql.Tx) error {
					return people.MarkActive(ctx, tx, []services.UserID{user})
				})
				rebuildIfMissingOrIdle(w, user)
				w.CheckAgainstFacts(user)
			}
		}
		w.RunDueJobs(w.Fanout)
		for _, user := range readers {
			rebuildIfMissingOrIdle(w, user)
		}
		w.CheckAgainstFacts(readers...)
	})
}

// A document has the day of the last visit, and the thresholds count hours. Keys outlive lowered thresholds. So posts are
// pushed until the document's user counts as idle, because until then a read shows the document without a rebuild.
func TestUsersArePushedToUntilTheyAreAway(t *testing.T) {
	for _, dormant := range []time.Duration{oneDay, oneDay + 6*time.Hour, 3 * oneDay} {
		t.Run(dormant.String(), func(t *testing.T) {
			w := newEmbeddedWorld(t)
			users := w.MakeUsers(3)
			small, big, reader := users[0], users[1], users[2]
			w.Follow(small, reader)
			w.Follow(big, reader)
			w.SetMode(big, services.AuthorBig)
			w.RunAllJobs(w.Fanout)
			now := w.Clock.Now()
			w.Clock.Advance(now.Truncate(oneDay).Add(oneDay + 10*time.Hour).Sub(now))
			w.Must(w.Projector.Rebuild(t.Context(), reader))
			setActivityThresholds(w, oneDay, dormant)
			posts := 0
			for ; !w.Projector.IsOfIdleUser(w.Document(reader)); posts++ {
				w.Clock.Advance(5 * time.Hour)
				w.Post(small)
				w.Post(big)
				w.RunDueJobs(w.Fanout)
				if !w.Projector.IsOfIdleUser(w.Document(reader)) {
					w.CheckAgainstFacts(reader)
				}
			}
			if posts < 6 {
				t.Errorf("the reader was away after %d posts: no post came between the thresholds and the end of their day", posts)
			}
		})
	}
}
