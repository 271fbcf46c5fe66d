package contract

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
	"tidings/web/browsertest"
)

// wantNoComplaints checks that a page contacted only its own server, and complained about nothing except a server that was gone.
func wantNoComplaints(t *testing.T, tab context.Context, origin string) {
	t.Helper()
	if foreign := browsertest.ForeignAddresses(tab, origin); len(foreign) > 0 {
		t.Errorf("the page asked elsewhere: %v", foreign)
	}
	complaints := slices.DeleteFunc(browsertest.PageErrors(tab), func(one string) bool {
		return strings.Contains(one, "ERR_CONNECTION") || strings.Contains(one, "ERR_EMPTY_RESPONSE") || strings.Contains(one, "WebSocket connection to") ||
			strings.Contains(one, "/readyz") // 503 while the server starts
	})
	if len(complaints) > 0 {
		t.Errorf("the page complained: %q", complaints)
	}
}

// savePicture writes a screenshot into the folder TIDINGS_TEST_PICTURES, if it is set, for a person to look at.
func savePicture(t *testing.T, tab context.Context, name string) {
	t.Helper()
	if folder := os.Getenv("TIDINGS_TEST_PICTURES"); folder != "" {
		browsertest.Screenshot(tab, t, filepath.Join(folder, name+".png"))
	}
}

// wantAccessible checks that axe finds no barrier, and that nothing is wider than the page.
func wantAccessible(t *testing.T, tab context.Context, what string) {
	t.Helper()
	if found := browsertest.SeriousAccessibilityFaults(tab, t); len(found) > 0 {
		t.Errorf("%s: axe finds %s", what, strings.Join(found, "\n"))
	}
	if browsertest.Evaluate[bool](tab, t, `document.documentElement.scrollWidth > innerWidth`) {
		t.Errorf("%s: the page is wider than its window", what)
	}
}

// A person's first tour in a browser: alice watches their badges in one tab and follows bob. When bob publishes in another tab, the
// badge in the first tab changes by itself, whatever they do meanwhile. No request leaves the machine.
func TestFirstTourInGraphiQL(t *testing.T) {
	t.Parallel()
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: redistest.Redis(t)})
	alice := browsertest.NewProfileTab(t)
	browsertest.OpenGraphiQL(alice, t, n.URL, "alice")
	browsertest.WaitSchema(alice, t)
	run := func(tab context.Context, operation, answer string) {
		t.Helper()
		browsertest.OpenOperation(tab, t, operation)
		browsertest.RunOperation(tab, t)
		browsertest.WaitResponse(tab, t, answer)
	}
	run(alice, "FollowSomebody", `"user:bob"`)
	run(alice, "WatchMyBadges", `"watching"`)
	browsertest.WaitSubscriptionEvent(alice, t, "WatchMyBadges", "as it is now")

	bob := browsertest.NewTab(alice, t)
	browsertest.OpenGraphiQL(bob, t, n.URL, "bob")
	browsertest.WaitSchema(bob, t)
	run(bob, "Publish", `"post:`)
	browsertest.WaitSubscriptionEvent(alice, t, "WatchMyBadges", "homeFeed.value 0 → 1")
	n.Publish("bob", "a second one") // not through a browser
	browsertest.WaitSubscriptionEvent(alice, t, "WatchMyBadges", "homeFeed.value 1 → 2")

	run(alice, "MyHomeFeed", "a second one")
	run(alice, "Like", `"viewerHasLiked": true`) // of the newest post, whose ID the page fills in
	run(alice, "MarkSeen", `"value": 0`)
	browsertest.WaitSubscriptionEvent(alice, t, "WatchMyBadges", "homeFeed.value 2 → 0")
	run(alice, "StartAConversation", `"conversation:`)
	run(alice, "SaySomething", `"message:`)
	run(alice, "WhyMyBadge", `"badgeExplained"`)
	browsertest.ChoosePerson(alice, t, "host:ingest")
	run(alice, "Ingest", `"results"`)
	run(alice, "AddViewItem", `"article-1"`)
	run(alice, "PublishAnnouncement", `"announcement:`)
	browsertest.WaitSubscriptionEvent(alice, t, "WatchMyBadges", "announcements.value 0 → 1")
	run(bob, "ScheduleAShow", `"UPCOMING"`)
	run(bob, "StartAShow", `"LIVE"`)
	run(bob, "EndAShow", `"show:`)
	wantNoComplaints(t, alice, n.URL)
	wantNoComplaints(t, bob, n.URL)
}

// The server is killed while the page is open, and comes back. The page says so, and is right again without a reload.
func TestGraphiQLOutlivesItsServer(t *testing.T) {
	for _, size := range [][2]int64{{1280, 800}, {390, 844}} {
		t.Run(fmt.Sprint(size[0]), func(t *testing.T) {
			folder := t.TempDir()
			server := world.StartServingProcess(t, "", "--data", folder)
			waitReady(t, server.URL)
			tab := browsertest.NewProfileTab(t)
			browsertest.SetPageSize(tab, t, size[0], size[1])
			browsertest.OpenGraphiQL(tab, t, server.URL, "alice")
			browsertest.WaitSchema(tab, t)
			browsertest.OpenOperation(tab, t, "FollowSomebody")
			browsertest.RunOperation(tab, t)
			browsertest.WaitResponse(tab, t, `"user:bob"`)
			for _, watch := range []string{"WatchMyBadges", "WatchMyNotifications"} {
				browsertest.OpenOperation(tab, t, watch)
				browsertest.RunOperation(tab, t)
				browsertest.WaitSubscriptionEvent(tab, t, watch, "as it is now")
			}
			wantAccessible(t, tab, "two watches")
			savePicture(t, tab, fmt.Sprintf("graphiql-watches-%d", size[0]))

			server.Kill()
			browsertest.WaitNotice(tab, t, "gone", "does not answer")
			browsertest.WaitSubscriptionState(tab, t, "WatchMyBadges", "lost")
			browsertest.WaitSubscriptionEvent(tab, t, "WatchMyBadges", "Connection lost")
			browsertest.SelectTab(tab, t, "MyBadges")
			browsertest.RunOperation(tab, t)
			browsertest.WaitResponse(tab, t, "does not answer. Run this again when it is back.")
			wantAccessible(t, tab, "without its server")
			savePicture(t, tab, fmt.Sprintf("graphiql-gone-%d", size[0]))

			again := world.StartServingProcess(t, "", "--data", folder, "--listen", strings.TrimPrefix(server.URL, "http://"))
			browsertest.WaitNotice(tab, t, "gone", "")
			browsertest.WaitSubscriptionState(tab, t, "WatchMyBadges", "live")
			browsertest.WaitSubscriptionState(tab, t, "WatchMyNotifications", "live")
			browsertest.WaitSubscriptionEvent(tab, t, "WatchMyBadges", "Connected again")
			if err := world.Ask(again.URL, "bob", `mutation { publishPost(input: {body: "Back again"}) { post { id } } }`, nil, nil); err != nil {
				t.Fatal(err)
			}
			browsertest.WaitSubscriptionEvent(tab, t, "WatchMyBadges", "homeFeed.value 0 → 1")
			browsertest.RunOperation(tab, t)
			browsertest.WaitResponse(tab, t, `"badges:alice"`)
			wantNoComplaints(t, tab, server.URL)
		})
	}
}

// In production the page has a field for a token, says why it needs one and why there is no schema, and keeps the token only in
// the browser tab.
func TestGraphiQLInProduction(t *testing.T) {
	t.Parallel()
	server := world.StartServingProcess(t, "", "--data", t.TempDir(), "--jwt-secret", world.TestSecret, "--operations-listen", "127.0.0.1:0")
	operations := operationsAddressOf(t, server)
	waitReady(t, operations)
	signed := func(user string) string {
		t.Helper()
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": user, "exp": time.Now().Add(time.Hour).Unix()}).SignedString([]byte(world.TestSecret))
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	for _, size := range [][2]int64{{1280, 800}, {390, 844}} {
		t.Run(fmt.Sprint(size[0]), func(t *testing.T) {
			t.Parallel()
			tab := browsertest.NewProfileTab(t)
			browsertest.SetPageSize(tab, t, size[0], size[1])
			browsertest.OpenGraphiQL(tab, t, operations, "alice")
			browsertest.WaitNotice(tab, t, "token", "tidings token alice")
			browsertest.WaitNotice(tab, t, "schema", "--introspection always")
			wantAccessible(t, tab, "without a token")
			savePicture(t, tab, fmt.Sprintf("graphiql-production-%d", size[0]))
			browsertest.RunOperation(tab, t)
			browsertest.WaitResponse(tab, t, "a token is needed")

			give := func(token string) {
				t.Helper()
				browsertest.Evaluate[bool](tab, t, `(document.querySelector('#token').value = '`+token+`', document.querySelector('#token').form.requestSubmit(), true)`)
			}
			give("no words")
			browsertest.WaitFor(tab, t, "what is no token is refused", `document.querySelector('#token-wrong').innerText.includes('not a token')`)
			wantNoComplaints(t, tab, operations)
			give("dev:alice")
			browsertest.WaitFor(tab, t, "the refusal is shown", `document.querySelector('#token-wrong').innerText.startsWith('The server refuses it.')`)
			token := signed("alice")
			give(token)
			browsertest.WaitNotice(tab, t, "token", "")
			if who := browsertest.CurrentPerson(tab, t); who != "alice" {
				t.Errorf("the token is for %q", who)
			}
			browsertest.RunOperation(tab, t)
			browsertest.WaitResponse(tab, t, `"badges:alice"`)
			browsertest.OpenOperation(tab, t, "WatchMyBadges")
			browsertest.RunOperation(tab, t)
			browsertest.WaitSubscriptionEvent(tab, t, "WatchMyBadges", "as it is now")
			wantAccessible(t, tab, "with a token")

			browsertest.Reload(tab, t) // the tab keeps the token and the subscription
			browsertest.WaitSubscriptionState(tab, t, "WatchMyBadges", "live")
			if shared := browsertest.Evaluate[string](tab, t, `JSON.stringify({...localStorage})`); strings.Contains(shared, token) {
				t.Errorf("the token is kept for all tabs: %s", shared)
			}
			browsertest.Click(tab, t, "#forget")
			browsertest.WaitSubscriptionState(tab, t, "WatchMyBadges", "stopped")
			browsertest.WaitNotice(tab, t, "token", "acts for nobody")
			if kept := browsertest.Evaluate[string](tab, t, `JSON.stringify({...sessionStorage})`); strings.Contains(kept, token) {
				t.Errorf("the forgotten token is kept: %s", kept)
			}
		})
	}
}
