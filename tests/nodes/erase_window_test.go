package nodes

import (
	"fmt"
	"testing"
	"time"

	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// On SQLite an erased user's key is refused until the database's file is scrubbed, which is after the last pass of the erasure. Requests
// may name the user until then, and what is recorded of these requests is removed too.
func TestErasureForgetsRequestsAfterTheLastPass(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true})
	n.CreateUsers("ann", leaverKey)
	n.Badges(leaverKey)
	erasure := eraseLeaver(n)
	at := func() string {
		steps, err := sqltest.QueryLines(t.Context(), n.DB, `SELECT step FROM erasures`)
		if err != nil || len(steps) != 1 {
			t.Fatal(steps, err)
		}
		return steps[0]
	}
	for tries := 0; at() != "scrub the file"; tries++ {
		if tries > 1000 {
			t.Fatalf("the erasure is at %q", at())
		}
		n.RunJobs()
		n.Clock.Advance(time.Second)
	}
	if again := eraseLeaver(n); again.Name != erasure.Name {
		t.Fatalf("asked again it is %+v", again)
	}
	n.MustAsk(leaverKey+":admin", `mutation{raiseDot(input:{name:"operators"}){name}}`, nil, nil)
	follow := fmt.Sprintf(`mutation{ingest(events:[{as:"user:ann",key:"window",do:{follow:{userId:"user:%s"}}}]){results{error{code}}}}`, leaverKey)
	var refused struct {
		Ingest struct {
			Results []struct{ Error struct{ Code string } }
		}
	}
	n.MustAsk("host:ingest", follow, nil, &refused)
	if code := refused.Ingest.Results[0].Error.Code; code != "CONFLICT" {
		t.Fatalf("the follow is answered %q", code)
	}
	if found := findLeaverData(n, nil); len(found) < 4 { // the erasure, two acts and the refusal
		t.Fatalf("before the end: %q", found)
	}
	n.SettleJobsAndCaches()
	if shown := readErasure(n, erasure.Name); shown.State != "DONE" {
		t.Errorf("%+v", shown)
	}
	for _, found := range findLeaverData(n, nil) {
		t.Errorf("left: %s", found)
	}
	n.MustAsk("host:ingest", follow, nil, &refused)
	if code := refused.Ingest.Results[0].Error.Code; code != "CONFLICT" {
		t.Errorf("the repetition is answered %q", code)
	}
}
