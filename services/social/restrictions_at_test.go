package social

import (
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/jobs"
)

// Restrictions of one millisecond in the past are listed in the order in which they were reported, even if each is reported by another
// process of the node: a new process does not know the IDs that a former process made.
func TestRestrictionsOfOnePastMillisecondKeepTheirOrder(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		users := n.MakeUsers(maxPeoplePerList + 1)
		owner, others := users[0], users[1:]
		n.Clock.Advance(time.Hour)
		at := n.Clock.Now().Add(-time.Minute)
		for kind, restrict := range map[services.RestrictionKind]func(owner, other services.UserID) *jobs.Command{
			services.Mute:  func(owner, other services.UserID) *jobs.Command { return n.service.Mute(owner, other, muteForever) },
			services.Block: n.service.Block, services.Hide: n.service.HideFrom,
		} {
			for _, other := range others {
				cmd := restrict(owner, other)
				cmd.HappenedAt = services.NewIDClock(n.Clock, 1).NextAt(at) // as a process that has just started
				if err := n.commitCommand(cmd); err != nil {
					t.Errorf("%s of %d: %v", restrictionVerbs[kind].done, other, err)
				}
			}
			list, _, err := n.service.Restrictions(t.Context(), kind, owner, services.MaxSortableID, 10)
			n.Must(err)
			var listed []services.UserID
			for _, r := range list {
				listed = append(listed, r.Other)
				if !r.MadeAt.Time().Equal(at) {
					t.Errorf("%s: %d is listed at %s, want %s", restrictionVerbs[kind].done, r.Other, r.MadeAt.Time(), at)
				}
			}
			slices.Reverse(listed)
			if !slices.Equal(listed, others) {
				t.Errorf("%s: %v, want %v", restrictionVerbs[kind].done, listed, others)
			}
		}
		n.RunAllJobs(n.Fanout)
		n.CheckAgainstFacts(users...)
	})
}
