package people_test

import (
	"testing"

	"tidings/services"
	"tidings/services/people"
)

// Relations distinguish each restriction and each direction of a follow. They do not contain restrictions that others have set
// against the viewer.
func TestRelationsSayWhatTheViewerHasSet(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeUsers("viewer", "a", "b", "c", "d", "e")
		now := b.Now()
		b.MakeFollows(services.FollowEdge{Follower: 1, Followee: 2}, services.FollowEdge{Follower: 3, Followee: 1})
		for i, r := range []services.Restriction{
			{Kind: services.Mute, Owner: 1, Other: 2}, {Kind: services.Mute, Owner: 1, Other: 3, Until: now.Add(-1)}, {Kind: services.Hide, Owner: 1, Other: 3},
			{Kind: services.Block, Owner: 1, Other: 4}, {Kind: services.Block, Owner: 5, Other: 1}, {Kind: services.Hide, Owner: 5, Other: 1}, {Kind: services.Mute, Owner: 5, Other: 1},
		} {
			r.MadeAt = services.SortableID(100 + i)
			b.Restrict(r)
		}
		wantEqual(b.T, must(people.Relations(b.Ctx, b.TestDB.DB, 1, []services.UserID{1, 2, 3, 4, 5, 6}, now))(b.T), map[services.UserID]services.Relation{
			2: {Follows: true, Mutes: true}, 3: {FollowsViewer: true, Hides: true}, 4: {Blocks: true},
		})
		wantEqual(b.T, len(must(people.Relations(b.Ctx, b.TestDB.DB, 1, []services.UserID{6}, now))(b.T)), 0)
	})
}
