package contract

import (
	"strings"
	"testing"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
	"tidings/web/browsertest"
)

// The first tour, by a person in a browser: alice watches her badges in one tab, follows bob, and when bob publishes
// in another tab the badge in the first changes by itself. No request leaves the machine.
func TestFirstTourInGraphiQL(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: redistest.Redis(t)})
	alice := browsertest.New(t)
	browsertest.Open(alice, t, n.URL, "alice")
	browsertest.WaitSchema(alice, t)

	browsertest.SelectTab(alice, t, "MyBadges")
	browsertest.Run(alice, t)
	browsertest.WaitResponse(alice, t, `"value": 0`)

	browsertest.SelectTab(alice, t, "FollowSomebody")
	browsertest.Run(alice, t)
	browsertest.WaitResponse(alice, t, `"user:bob"`)

	browsertest.SelectTab(alice, t, "WatchMyBadges")
	browsertest.Run(alice, t)
	browsertest.WaitResponse(alice, t, `"value": 0`)

	bob := browsertest.NewTab(alice, t)
	browsertest.Open(bob, t, n.URL, "bob")
	browsertest.WaitSchema(bob, t)
	browsertest.SelectTab(bob, t, "Publish")
	browsertest.Run(bob, t)
	browsertest.WaitResponse(bob, t, `"post:`)

	if text := browsertest.WaitResponse(alice, t, `"value": 1`); !strings.Contains(text, "version") {
		t.Errorf("the event has no version: %s", text)
	}
	// From elsewhere, by no browser at all.
	n.Publish("bob", "a second one")
	browsertest.WaitResponse(alice, t, `"value": 2`)

	for name, tab := range map[string]func() []string{
		"alice asked elsewhere":  func() []string { return browsertest.Foreign(alice, n.URL) },
		"bob asked elsewhere":    func() []string { return browsertest.Foreign(bob, n.URL) },
		"alice's page complains": func() []string { return browsertest.Complaints(alice) },
		"bob's page complains":   func() []string { return browsertest.Complaints(bob) },
	} {
		if found := tab(); len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}
