package web

import (
	"context"
	"strings"
	"testing"

	"tidings/tests/eventually"
	"tidings/web/browsertest"

	"github.com/google/go-cmp/cmp"
)

// TestWatchesContinueOverTabsPersonsAndReloads tests watches: subscriptions that were run in GraphiQL, each of
// which shows its events in a pane.
func TestWatchesContinueOverTabsPersonsAndReloads(t *testing.T) {
	runAtEachPageSize(t, checkSubscriptionsContinue)
}

// checkSubscriptionsContinue runs subscriptions. It checks that their events go on arriving while tabs and persons change, and after a
// reload.
func checkSubscriptionsContinue(t *testing.T, server *stubServer, tab context.Context) {
	browsertest.SelectTab(tab, t, "WatchMyBadges")
	browsertest.RunOperation(tab, t)
	browsertest.WaitSubscriptionEvent(tab, t, "WatchMyBadges", "as it is")
	browsertest.WaitResponse(tab, t, `"watching": "WatchMyBadges"`)
	sockets := browsertest.Sockets(tab)
	if len(sockets) != 1 || sockets[0].URL != strings.Replace(server.origin, "http", "ws", 1)+"/graphql" {
		t.Fatalf("the sockets are %+v", sockets)
	}
	if want := `{"type":"connection_init","payload":{"authorization":"Bearer dev:alice"}}`; sockets[0].Sent[0] != want {
		t.Errorf("the first message is %s, want %s", sockets[0].Sent[0], want)
	}

	t.Run("while tabs change and others run", func(t *testing.T) {
		browsertest.SelectTab(tab, t, "MyBadges")
		browsertest.RunOperation(tab, t)
		browsertest.WaitResponse(tab, t, `"what": "MyBadges"`)
		server.pushEvent("another badge")
		browsertest.WaitSubscriptionEvent(tab, t, "WatchMyBadges", `what "as it is" → "another badge"`)
		if events := browsertest.CountSubscriptionEvents(tab, t, "WatchMyBadges"); events != 2 {
			t.Errorf("%d events are shown, not 2", events)
		}
	})
	t.Run("while the person changes, several at once, each as who began it", func(t *testing.T) {
		browsertest.ChoosePerson(tab, t, "bob")
		browsertest.SetHeaders(tab, t, `{"Tidings-Device": "phone"}`)
		browsertest.OpenOperation(tab, t, "WatchMyNotifications")
		browsertest.SetHeaders(tab, t, `{"Tidings-Device": "phone"}`)
		browsertest.RunOperation(tab, t)
		browsertest.WaitSubscriptionEvent(tab, t, "WatchMyNotifications", "Bearer dev:bob")
		server.pushEvent("to both")
		browsertest.WaitSubscriptionEvent(tab, t, "WatchMyNotifications", "to both")
		browsertest.WaitSubscriptionEvent(tab, t, "WatchMyBadges", "to both")
		if diff := cmp.Diff([]string{"Bearer dev:alice", "Bearer dev:bob"}, server.subscriptionAuthorizations()); diff != "" {
			t.Errorf("the subscriptions differ (-want +got):\n%s", diff)
		}
		if label := browsertest.Evaluate[string](tab, t, `document.querySelector('[data-watch=WatchMyBadges]').ariaLabel`); label != "WatchMyBadges as alice" {
			t.Errorf("alice's watch is %q", label)
		}
	})
	t.Run("the same is not begun twice", func(t *testing.T) {
		browsertest.RunOperation(tab, t)
		browsertest.WaitResponse(tab, t, `"watching": "WatchMyNotifications"`)
		if count := browsertest.Evaluate[int](tab, t, `document.querySelectorAll('.watch').length`); count != 2 {
			t.Errorf("there are %d watches", count)
		}
	})
	t.Run("stop, clear, start and close", func(t *testing.T) {
		browsertest.PressSubscriptionButton(tab, t, "WatchMyBadges", "Stop")
		browsertest.WaitSubscriptionState(tab, t, "WatchMyBadges", "stopped")
		eventually.Holds(t, "alice's subscription ends", func() bool { return cmp.Equal(server.subscriptionAuthorizations(), []string{"Bearer dev:bob"}) })
		eventually.Holds(t, "alice's socket is closed", func() bool { return browsertest.Sockets(tab)[0].Closed })
		browsertest.PressSubscriptionButton(tab, t, "WatchMyBadges", "Clear")
		browsertest.WaitSubscriptionEvent(tab, t, "WatchMyBadges", "No events yet.")
		browsertest.PressSubscriptionButton(tab, t, "WatchMyBadges", "Start")
		browsertest.WaitSubscriptionEvent(tab, t, "WatchMyBadges", "as it is")
		browsertest.PressSubscriptionButton(tab, t, "WatchMyNotifications", "Close")
		eventually.Holds(t, "bob's subscription ends", func() bool { return cmp.Equal(server.subscriptionAuthorizations(), []string{"Bearer dev:alice"}) })
	})
	t.Run("after a reload too", func(t *testing.T) {
		browsertest.Reload(tab, t)
		browsertest.WaitSubscriptionEvent(tab, t, "WatchMyBadges", "as it is")
		eventually.Holds(t, "alice's alone runs", func() bool { return cmp.Equal(server.subscriptionAuthorizations(), []string{"Bearer dev:alice"}) })
	})
	checkNoErrorsOrForeignRequests(t, tab, server.origin)
	server.mu.Lock()
	defer server.mu.Unlock()
	for _, protocol := range server.offeredProtocols {
		if protocol != "graphql-transport-ws" {
			t.Errorf("a socket speaks %q", protocol)
		}
	}
	if diff := cmp.Diff(map[string]any{"authorization": "Bearer dev:bob", "device": "phone"}, map[string]any(server.initPayloads[1])); diff != "" {
		t.Errorf("the second init payload differs (-want +got):\n%s", diff)
	}
}

// A token of the Headers editor is in neither storage of the browser, after queries and a subscription that use it. So no reload can
// start that subscription again.
func TestTokensOfTheHeadersEditorAreNotStored(t *testing.T) {
	t.Parallel()
	server := newStubServer(t, GraphiQLConfig{})
	tab := browsertest.NewProfileTab(t)
	browsertest.OpenGraphiQL(tab, t, server.origin, "alice")
	if who := browsertest.CurrentPerson(tab, t); who != "" {
		t.Errorf("in production mode the page makes one %q", who)
	}
	browsertest.RunOperation(tab, t)
	browsertest.WaitResponse(tab, t, `"authorization": ""`)
	browsertest.SetHeaders(tab, t, `{"authorization": "Bearer `+secretToken+`"}`)
	browsertest.RunOperation(tab, t)
	browsertest.WaitResponse(tab, t, `"authorization": "Bearer `+secretToken+`"`)
	browsertest.SelectTab(tab, t, "WatchMyBadges")
	browsertest.SetHeaders(tab, t, `{"authorization": "Bearer `+secretToken+`"}`)
	browsertest.RunOperation(tab, t)
	browsertest.WaitSubscriptionEvent(tab, t, "WatchMyBadges", "Bearer "+secretToken)

	// GraphiQL stores edits with a delay, in their order: once the stored tabs have the variables, GraphiQL has the headers too, and
	// puts both into its history with the next run.
	browsertest.SelectTab(tab, t, "MyHomeFeed")
	browsertest.SetHeaders(tab, t, `{"authorization": "Bearer `+secretToken+`"}`)
	browsertest.SetVariables(tab, t, `{"after": "marker"}`)
	browsertest.WaitFor(tab, t, "the tabs are stored", `sessionStorage.getItem('graphiql:tabState')?.includes('marker')`)
	browsertest.RunOperation(tab, t)
	browsertest.WaitResponse(tab, t, `"authorization": "Bearer `+secretToken+`"`)
	browsertest.WaitFor(tab, t, "the history is stored", `localStorage.getItem('graphiql:queries')?.includes('marker')`)
	stored := browsertest.Evaluate[string](tab, t, `JSON.stringify({...localStorage}) + JSON.stringify({...sessionStorage})`)
	if strings.Contains(stored, secretToken) {
		t.Errorf("the token is in storage: %s", stored)
	}
	checkNoErrorsOrForeignRequests(t, tab, server.origin)
}
