package jobs_test

import (
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/erase"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// paintPayload is the payload of a kind of the tests.
type paintPayload struct {
	Painters []services.UserID
	Color    services.UserID // not a user
}

func (p paintPayload) users() []services.UserID { return p.Painters }

// A job names a user by its key or in its payload, as its kind says, and by nothing that only looks like the user's ID.
func TestAJobNamesTheUsersThatItsKindSays(t *testing.T) {
	inPayload := jobs.UserInPayload(paintPayload.users)
	for _, c := range []struct {
		in           jobs.NamesUser
		key, payload string
		want         bool
	}{
		{jobs.NoUser, "17", `{"Painters":[17]}`, false},
		{jobs.UserInKey, "17", "", true}, {jobs.UserInKey, "17/4", "", true}, {jobs.UserInKey, "4/17", "", true},
		{jobs.UserInKey, "4/117", "", false}, {jobs.UserInKey, "170/4", "", false}, {jobs.UserInKey, "", `{"Painters":[17]}`, false},
		{jobs.SecondUserInKey, "17/4", "", false}, {jobs.SecondUserInKey, "4/17", "", true}, {jobs.SecondUserInKey, "17", "", false},
		{inPayload, "", `{"Painters":[3,17]}`, true}, {inPayload, "17", `{"Painters":[3,170],"Color":17}`, false},
		{inPayload, "", "{\"Painters\":[3]}\n{\"Painters\":[17]}", true}, {inPayload, "17", "", false},
		{inPayload, "", "not JSON 17", false}, {inPayload, "", `{"Painters":"all","Color":4}`, false}, {inPayload, "", `{"Painters":"all","Of":[17]}`, true}, {inPayload, "", `{"Painters":[3],"Of":17}`, true},
	} {
		if got := c.in(jobs.Job{Key: c.key, Payload: []byte(c.payload)}, 17); got != c.want {
			t.Errorf("the key %q and the payload %q: %t, want %t", c.key, c.payload, got, c.want)
		}
	}
}

// An erasure removes the planned jobs that name the user, as their kinds say. For jobs of a kind that this node does not know, and that may
// name the user, it waits for a day, and then removes them.
func TestAnErasureRemovesTheJobsThatNameItsUser(t *testing.T) {
	eachDatabase(t, func(t *testing.T, n *node) {
		paint := shortJobKind("paint", doNothing)
		paint.NamesUser = jobs.UserInKey
		n.Register(paint, shortJobKind("dry", doNothing))
		for _, job := range []jobs.NewJob{
			{Kind: "paint", Key: "17"}, {Kind: "paint", Key: "4", Payload: []byte("17")}, {Kind: "dry", Key: "17"},
			{Kind: "new", Key: "17"}, {Kind: "new", Key: "4/17"}, {Kind: "new", Key: "a", Payload: []byte(`{"of":{"who":[4,17]}}`)},
			{Kind: "new", Key: "b", Payload: []byte(`{"of":"17","who":170}`)}, {Kind: "new", Key: "c", Payload: []byte("not JSON")},
		} {
			job.NotBefore = n.clock.Now().Add(time.Hour)
			n.enqueue(job)
		}
		began := n.clock.Now()
		erasesAll := func(user services.UserID) (all bool) {
			all = true
			for _, step := range n.EraseSteps() {
				n.must(n.db.Write(t.Context(), func(tx *sql.Tx) error {
					result, err := step.Run(t.Context(), tx, erase.StepPosition{User: user, UserKey: "leaver", Began: began})
					all = all && !result.NeedsLaterPass
					return err
				}))
			}
			return all
		}
		if erasesAll(17) {
			t.Error("the erasure does not wait for jobs of an unknown kind that may name its user")
		}
		if !erasesAll(99) {
			t.Error("the erasure of a user whom no job names waits")
		}
		wantLeft := func(want ...string) {
			left, err := sqltest.QueryLines(t.Context(), n.db, "SELECT kind || ' ' || key FROM jobs ORDER BY kind, key")
			n.must(err)
			if !slices.Equal(left, want) {
				t.Errorf("left are %v, want %v", left, want)
			}
		}
		wantLeft("dry 17", "new 17", "new 4/17", "new a", "new b", "new c", "paint 4")
		n.clock.advance(24 * time.Hour)
		if !erasesAll(17) {
			t.Error("the erasure waits for more than a day")
		}
		wantLeft("dry 17", "new b", "new c", "paint 4")
	})
}
