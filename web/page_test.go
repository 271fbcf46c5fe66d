package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/web/browsertest"

	"github.com/google/go-cmp/cmp"
)

const secret = "eyJhbGciOiJIUzI1NiJ9.a-real-token"

func TestPageInTheBrowser(t *testing.T) {
	server := newStub(t, GraphiQLConfig{Development: true, Version: "v1.2.3"})
	tab := browsertest.New(t)
	browsertest.Open(tab, t, server.origin, "")
	browsertest.WaitSchema(tab, t)

	t.Run("the ready-made operations are tabs", func(t *testing.T) {
		operations, err := readOperations(files)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]string, len(operations))
		for i, op := range operations {
			if want[i], err = checkOperation(loadSchema(t), op); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, browsertest.Tabs(tab, t)); diff != "" {
			t.Errorf("the tabs differ (-want +got):\n%s", diff)
		}
	})
	t.Run("each runs as it is", func(t *testing.T) {
		for _, name := range browsertest.Tabs(tab, t) {
			browsertest.SelectTab(tab, t, name)
			browsertest.Run(tab, t)
			if strings.HasPrefix(name, "Watch") { // a subscription
				browsertest.WaitResponse(tab, t, "as it is")
				browsertest.Stop(tab, t)
				continue
			}
			browsertest.WaitResponse(tab, t, `"what": "`+name+`"`)
			if got := server.last(t); got.operation != name || got.authorization != "Bearer dev:alice" {
				t.Errorf("%s arrived as %+v", name, got)
			} else if at := scheduledAt(got.variables); name == "ScheduleAShow" && (at.Before(time.Now()) || at.After(time.Now().AddDate(0, 2, 0))) {
				t.Errorf("ScheduleAShow arrived with a show at %v, not in a month", at)
			} else if name == "Ingest" && got.variables["events"] == nil {
				t.Error("Ingest arrived without its events: the variables of the tab were not sent")
			}
		}
	})
	t.Run("the keys run it too", func(t *testing.T) {
		browsertest.SelectTab(tab, t, "Publish")
		browsertest.SetVariables(tab, t, `{"input": {"body": "by the keys"}}`)
		browsertest.RunWithKeys(tab, t)
		browsertest.WaitResponse(tab, t, `"what": "Publish"`)
		want := map[string]any{"input": map[string]any{"body": "by the keys"}}
		if diff := cmp.Diff(want, server.last(t).variables); diff != "" {
			t.Errorf("the variables differ (-want +got):\n%s", diff)
		}
	})
	t.Run("what the schema forbids is shown", func(t *testing.T) {
		browsertest.SetQuery(tab, t, "query Wrong { nobody }")
		browsertest.SetVariables(tab, t, "{}")
		browsertest.Run(tab, t)
		browsertest.WaitResponse(tab, t, "Cannot query field")
	})
	t.Run("title", func(t *testing.T) {
		if got := browsertest.Evaluate[string](tab, t, "document.title"); got != "Tidings GraphiQL" {
			t.Errorf("the title is %q", got)
		}
	})
	if foreign := browsertest.Foreign(tab, server.origin); len(foreign) > 0 {
		t.Errorf("the page asked elsewhere: %q", foreign)
	}
	for _, request := range browsertest.Requests(tab) {
		if request.Error != "" || request.Status >= 400 && !strings.HasSuffix(request.URL, "/graphql") {
			t.Errorf("%s %s answered %d %s", request.Method, request.URL, request.Status, request.Error)
		}
	}
	// The operation that the schema forbids is answered 422, which the console notes.
	complaints := slices.DeleteFunc(browsertest.Complaints(tab), func(one string) bool { return strings.Contains(one, "status of 422") })
	if len(complaints) > 0 {
		t.Errorf("the page complained: %q", complaints)
	}
}

func TestPersonInTheBrowser(t *testing.T) {
	server := newStub(t, GraphiQLConfig{Development: true})
	first := browsertest.New(t)
	browsertest.Open(first, t, server.origin, "")
	runs := func(t *testing.T, tab context.Context, authorization string) {
		t.Helper()
		browsertest.Run(tab, t)
		browsertest.WaitResponse(tab, t, `"authorization": "`+authorization+`"`)
	}

	t.Run("alice at first", func(t *testing.T) {
		if who := browsertest.Who(first, t); who != "alice" {
			t.Errorf("a new tab is %q", who)
		}
		runs(t, first, "Bearer dev:alice")
	})
	t.Run("each button", func(t *testing.T) {
		for _, choice := range []struct{ person, who string }{
			{"bob", "bob"}, {"carol", "carol"}, {"alice:admin", "alice (admin)"}, {"host:ingest", "host (ingest)"},
		} {
			browsertest.Be(first, t, choice.person)
			if who := browsertest.Who(first, t); who != choice.who {
				t.Errorf("%s is shown as %q", choice.person, who)
			}
			pressed := browsertest.Evaluate[string](first, t, `document.querySelector('#people [aria-pressed=true]').textContent`)
			if pressed != choice.who {
				t.Errorf("%s is chosen but %q is pressed", choice.person, pressed)
			}
			runs(t, first, "Bearer dev:"+choice.person)
		}
	})
	t.Run("anybody else by the field", func(t *testing.T) {
		browsertest.Be(first, t, "dave:admin,ingest")
		if who := browsertest.Who(first, t); who != "dave (admin, ingest)" {
			t.Errorf("dave:admin,ingest is shown as %q", who)
		}
		runs(t, first, "Bearer dev:dave:admin,ingest")
	})
	t.Run("what is no key is refused", func(t *testing.T) {
		browsertest.Be(first, t, "no body")
		if who := browsertest.Who(first, t); who != "dave (admin, ingest)" {
			t.Errorf("a key with a space made %q", who)
		}
	})
	t.Run("the Headers editor wins", func(t *testing.T) {
		browsertest.SetHeaders(first, t, `{"Authorization": "Bearer `+secret+`"}`)
		runs(t, first, "Bearer "+secret)
		browsertest.SetHeaders(first, t, "")
		runs(t, first, "Bearer dev:dave:admin,ingest")
	})
	t.Run("another tab is another person", func(t *testing.T) {
		second := browsertest.NewTab(first, t)
		browsertest.Open(second, t, server.origin, "erin")
		browsertest.SelectTab(second, t, "Publish")
		runs(t, second, "Bearer dev:erin")
		runs(t, first, "Bearer dev:dave:admin,ingest")
	})
	t.Run("a reload keeps the person and the address is clean", func(t *testing.T) {
		browsertest.Open(first, t, server.origin, "erin")
		browsertest.Be(first, t, "bob")
		browsertest.Reload(first, t)
		if who := browsertest.Who(first, t); who != "bob" {
			t.Errorf("after a reload bob is %q", who)
		}
		if address := browsertest.Evaluate[string](first, t, "location.href"); address != server.origin+"/graphiql" {
			t.Errorf("the address is %s", address)
		}
	})
	t.Run("an address that names nobody is passed over", func(t *testing.T) {
		browsertest.Open(first, t, server.origin, "<b>")
		if who := browsertest.Who(first, t); who != "bob" {
			t.Errorf("the address made %q", who)
		}
	})
}

func TestSubscriptionInTheBrowser(t *testing.T) {
	server := newStub(t, GraphiQLConfig{Development: true})
	tab := browsertest.New(t)
	browsertest.Open(tab, t, server.origin, "alice")
	browsertest.SelectTab(tab, t, "WatchMyBadges")

	browsertest.Run(tab, t)
	browsertest.WaitResponse(tab, t, "as it is")
	server.push("a new badge")
	browsertest.WaitResponse(tab, t, "a new badge")
	if diff := cmp.Diff([]string{"Bearer dev:alice"}, server.running()); diff != "" {
		t.Errorf("the subscriptions differ (-want +got):\n%s", diff)
	}
	sockets := browsertest.Sockets(tab)
	if len(sockets) != 1 || sockets[0].URL != strings.Replace(server.origin, "http", "ws", 1)+"/graphql" {
		t.Fatalf("the sockets are %+v", sockets)
	}
	if want := `{"type":"connection_init","payload":{"authorization":"Bearer dev:alice"}}`; sockets[0].Sent[0] != want {
		t.Errorf("the first message is %s, want %s", sockets[0].Sent[0], want)
	}

	// Whoever becomes somebody else hears nothing more of what the first may see.
	browsertest.Be(tab, t, "bob")
	browsertest.WaitStopped(tab, t)
	eventually(t, "alice's subscription ends", func() bool { return len(server.running()) == 0 })
	eventually(t, "alice's socket is closed", func() bool { return browsertest.Sockets(tab)[0].Closed })

	// To be the same again closes nothing.
	browsertest.SetHeaders(tab, t, `{"Tidings-Device": "phone"}`)
	browsertest.Run(tab, t)
	browsertest.WaitResponse(tab, t, `"authorization": "Bearer dev:bob"`)
	browsertest.Be(tab, t, "bob")
	server.push("still here")
	browsertest.WaitResponse(tab, t, "still here")
	browsertest.Stop(tab, t)
	eventually(t, "bob's subscription ends", func() bool { return len(server.running()) == 0 })

	server.mu.Lock()
	defer server.mu.Unlock()
	if diff := cmp.Diff([]string{"graphql-transport-ws", "graphql-transport-ws"}, server.protocols); diff != "" {
		t.Errorf("the subprotocols differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"authorization": "Bearer dev:bob", "device": "phone"}, map[string]any(server.inits[1])); diff != "" {
		t.Errorf("the second init payload differs (-want +got):\n%s", diff)
	}
}

func TestProductionInTheBrowser(t *testing.T) {
	server := newStub(t, GraphiQLConfig{})
	tab := browsertest.New(t)
	browsertest.Open(tab, t, server.origin, "alice")
	if who := browsertest.Who(tab, t); who != "" {
		t.Errorf("in production mode the page makes one %q", who)
	}
	browsertest.Run(tab, t)
	browsertest.WaitResponse(tab, t, `"authorization": ""`)
	browsertest.SetHeaders(tab, t, `{"authorization": "Bearer `+secret+`"}`)
	browsertest.Run(tab, t)
	browsertest.WaitResponse(tab, t, `"authorization": "Bearer `+secret+`"`)
	browsertest.SelectTab(tab, t, "WatchMyBadges")
	browsertest.SetHeaders(tab, t, `{"authorization": "Bearer `+secret+`"}`)
	browsertest.Run(tab, t)
	browsertest.WaitResponse(tab, t, `"authorization": "Bearer `+secret+`"`)
	browsertest.Stop(tab, t)

	// GraphiQL takes over an edit some time after it, in the order of the edits: once the tabs that it stores have the
	// variables, it has the headers too, and puts both into its history with the next run.
	browsertest.SelectTab(tab, t, "MyHomeFeed")
	browsertest.SetHeaders(tab, t, `{"authorization": "Bearer `+secret+`"}`)
	browsertest.SetVariables(tab, t, `{"after": "marker"}`)
	browsertest.WaitFor(tab, t, "the tabs are stored", `sessionStorage.getItem('graphiql:tabState')?.includes('marker')`)
	browsertest.Run(tab, t)
	browsertest.WaitResponse(tab, t, `"authorization": "Bearer `+secret+`"`)
	browsertest.WaitFor(tab, t, "the history is stored", `localStorage.getItem('graphiql:queries')?.includes('marker')`)
	stored := browsertest.Evaluate[string](tab, t, `JSON.stringify({...localStorage}) + JSON.stringify({...sessionStorage})`)
	if strings.Contains(stored, secret) {
		t.Errorf("the token is in storage: %s", stored)
	}
	if complaints := browsertest.Complaints(tab); len(complaints) > 0 {
		t.Errorf("the page complained: %q", complaints)
	}
}

func TestPageFollowsTheTheme(t *testing.T) {
	server := newStub(t, GraphiQLConfig{Development: true})
	tab := browsertest.New(t)
	browsertest.Open(tab, t, server.origin, "alice")
	colours := map[bool][2]string{}
	for _, dark := range []bool{false, true} {
		browsertest.Dark(tab, t, dark)
		colours[dark] = [2]string{
			browsertest.Evaluate[string](tab, t, `getComputedStyle(document.getElementById('identity')).backgroundColor`),
			browsertest.Evaluate[string](tab, t, `getComputedStyle(document.querySelector('.graphiql-container')).backgroundColor`),
		}
	}
	if colours[false][0] == colours[true][0] || colours[false][1] == colours[true][1] {
		t.Errorf("light and dark look the same: %v", colours)
	}
}

func TestPageSaysWhyItCannotStart(t *testing.T) {
	server := newStub(t, GraphiQLConfig{Development: true})
	target, err := url.Parse(server.origin)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/operations.json") {
			http.Error(w, "gone", http.StatusGone)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(broken.Close)
	tab := browsertest.New(t)
	browsertest.Navigate(tab, t, broken.URL+"/graphiql")
	browsertest.WaitFor(tab, t, "the page says what is missing",
		`document.body.innerText.includes('GraphiQL cannot start: the ready-made operations answered 410')`)
}

// scheduledAt is when the show of some variables is planned; the zero time when they have none.
func scheduledAt(variables map[string]any) time.Time {
	input, _ := variables["input"].(map[string]any)
	text, _ := input["plannedAt"].(string)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}
