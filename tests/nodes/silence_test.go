package nodes

import (
	"testing"
	"time"

	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// Posts that count again after the end of a mode, a mute or a hide raise the number but alert nobody. This holds for posts that
// counted before and for posts that were published meanwhile. Later posts alert.
func TestPostsThatCountAgainAlertNobody(t *testing.T) {
	for name, one := range map[string]struct{ who, off, on string }{
		"mode": {"ann", `setFollowMode(input:{userId:"user:bob",mode:NONE})`, `setFollowMode(input:{userId:"user:bob",mode:ALL})`},
		"mute": {"ann", `mute(input:{userId:"user:bob"})`, `unmute(input:{userId:"user:bob"})`},
		"hide": {"bob", `hideFrom(input:{userId:"user:ann"})`, `unhideFrom(input:{userId:"user:ann"})`},
	} {
		t.Run(name, func(t *testing.T) {
			n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ChangeConfig: withChangeStream(24 * time.Hour)})
			world.Eventually(t, 30*time.Second, "the first lap is over", func() bool { return n.Metric("tidings_changes_laps_total") > 0 })
			n.Follow("ann", "bob")
			n.Badges("ann")
			watch := &world.ChangesReader{}
			shows := func(what string, total int, silent bool) {
				t.Helper()
				world.Eventually(t, 30*time.Second, what, func() bool {
					if err := watch.ReadToEnd(n.URL); err != nil {
						t.Fatal(err)
					}
					return watch.LastByKey["ann"].Total == total
				})
				if got := watch.LastByKey["ann"]; got.Silent != silent {
					t.Errorf("%s: %+v, want silent %v", what, got, silent)
				}
			}
			turn := func(act string) { t.Helper(); n.MustAsk(one.who, "mutation{"+act+"{changed}}", nil, nil) }
			n.Publish("bob", "one")
			shows("a post", 1, false)
			turn(one.off)
			shows("nothing counts", 0, true)
			turn(one.on)
			shows("the post counts again", 1, true)
			turn(one.off)
			shows("nothing counts once more", 0, true)
			n.Publish("bob", "two")
			turn(one.on)
			shows("both posts count", 2, true)
			n.Publish("bob", "three")
			shows("a third post", 3, false)
		})
	}
}
