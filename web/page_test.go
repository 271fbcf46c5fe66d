package web

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/web/browsertest"

	"github.com/google/go-cmp/cmp"
)

// secretToken is a token that a test puts into the page, which must store it nowhere.
const secretToken = "eyJhbGciOiJIUzI1NiJ9.a-real-token"

// initialTabs are the titles of the tabs that a new visitor gets: the names of the first ready-made operations.
var initialTabs = []string{"MyBadges", "WatchMyBadges", "FollowSomebody", "Publish", "MyHomeFeed", "Like"}

// pageSize is the size of a browser tab's page, in CSS pixels.
type pageSize struct{ width, height int64 }

var (
	laptopSize = pageSize{1280, 800}
	phoneSize  = pageSize{390, 844}
)

// openPage opens the GraphiQL page of a new stubServer in development mode, at the size of a laptop, in a fresh browser profile.
func openPage(t *testing.T) (*stubServer, context.Context) {
	t.Helper()
	return openPageAtSize(t, laptopSize)
}

// runAtEachPageSize runs a test of the GraphiQL page at the size of a laptop and at that of a phone.
func runAtEachPageSize(t *testing.T, test func(t *testing.T, server *stubServer, tab context.Context)) {
	t.Parallel()
	for name, size := range map[string]pageSize{"laptop": laptopSize, "phone": phoneSize} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, tab := openPageAtSize(t, size)
			test(t, server, tab)
		})
	}
}

// openPageAtSize opens the GraphiQL page of a new stubServer in development mode, at a size, in a fresh browser profile.
func openPageAtSize(t *testing.T, size pageSize) (*stubServer, context.Context) {
	t.Helper()
	server := newStubServer(t, GraphiQLConfig{Development: true, Introspection: true, Version: "v1.2.3"})
	tab := browsertest.NewProfileTab(t)
	browsertest.SetPageSize(tab, t, size.width, size.height)
	browsertest.OpenGraphiQL(tab, t, server.origin, "")
	browsertest.WaitSchema(tab, t)
	return server, tab
}

// checkNoErrorsOrForeignRequests checks that a page requested nothing from another origin, and that each of its errors contains
// a permitted text.
func checkNoErrorsOrForeignRequests(t *testing.T, tab context.Context, origin string, permitted ...string) {
	t.Helper()
	if foreign := browsertest.ForeignAddresses(tab, origin); len(foreign) > 0 {
		t.Errorf("the page asked elsewhere: %q", foreign)
	}
	complaints := slices.DeleteFunc(browsertest.PageErrors(tab), func(one string) bool {
		return slices.ContainsFunc(permitted, func(text string) bool { return strings.Contains(one, text) })
	})
	if len(complaints) > 0 {
		t.Errorf("the page complained: %q", complaints)
	}
}

// The page offers the ready-made operations in its menu, and runs each of them unchanged.
func TestPageInTheBrowser(t *testing.T) {
	t.Parallel()
	server, tab := openPage(t)
	t.Run("six tabs to begin with", func(t *testing.T) {
		if diff := cmp.Diff(initialTabs, browsertest.TabTitles(tab, t)); diff != "" {
			t.Errorf("the tabs differ (-want +got):\n%s", diff)
		}
	})
	t.Run("each operation is in the menu and runs as it is", func(t *testing.T) {
		operations, err := readOperations(files)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range operations {
			name, err := checkedOperationName(loadSchema(t), op)
			if err != nil {
				t.Fatal(err)
			}
			browsertest.OpenOperation(tab, t, name)
			if got := browsertest.QueryText(tab, t); got != op.Query {
				t.Errorf("%s is in the editor as %q", name, got)
			}
			browsertest.RunOperation(tab, t)
			if strings.Contains(op.Query, "\nsubscription ") {
				browsertest.WaitSubscriptionEvent(tab, t, name, "as it is")
				browsertest.PressSubscriptionButton(tab, t, name, "Close")
				continue
			}
			browsertest.WaitResponse(tab, t, `"what": "`+name+`"`)
			wantOperationArrived(t, server.lastOperation(t), name)
		}
		if got := browsertest.TabTitles(tab, t); len(got) != len(operations) {
			t.Errorf("%d operations are in %d tabs: %q", len(operations), len(got), got)
		}
	})
	t.Run("the keys run it too", func(t *testing.T) {
		browsertest.SelectTab(tab, t, "Publish")
		browsertest.SetVariables(tab, t, `{"input": {"body": "by the keys"}}`)
		browsertest.RunOperationWithKeys(tab, t)
		browsertest.WaitResponse(tab, t, `"what": "Publish"`)
		want := map[string]any{"input": map[string]any{"body": "by the keys"}}
		if diff := cmp.Diff(want, server.lastOperation(t).variables); diff != "" {
			t.Errorf("the variables differ (-want +got):\n%s", diff)
		}
		browsertest.WaitFor(tab, t, "the page says who asked", `document.querySelector('.answered').innerText.startsWith('as alice · ')`)
	})
	t.Run("what the schema forbids is shown", func(t *testing.T) {
		browsertest.SetQuery(tab, t, "query Wrong { nobody }")
		browsertest.SetVariables(tab, t, "{}")
		browsertest.RunOperation(tab, t)
		browsertest.WaitResponse(tab, t, "Cannot query field")
	})
	if got := browsertest.Evaluate[string](tab, t, "document.title"); got != "Tidings GraphiQL" {
		t.Errorf("the title is %q", got)
	}
	for _, request := range browsertest.Requests(tab) {
		// The page itself gives up a request to /readyz after five seconds, and sends another.
		gaveUp := request.Error == "net::ERR_ABORTED" && strings.HasSuffix(request.URL, "/readyz")
		if request.Error != "" && !gaveUp || request.Status >= 400 && !strings.HasSuffix(request.URL, "/graphql") {
			t.Errorf("%s %s answered %d %s", request.Method, request.URL, request.Status, request.Error)
		}
	}
	checkNoErrorsOrForeignRequests(t, tab, server.origin, "status of 422") // the answer to the operation that the schema forbids
}

// wantOperationArrived checks that a ready-made operation arrived with alice's token. Of three operations it also checks the
// variables.
func wantOperationArrived(t *testing.T, got receivedOperation, name string) {
	t.Helper()
	at := func(field string) time.Time {
		input, _ := got.variables["input"].(map[string]any)
		text, _ := input[field].(string)
		time, _ := time.Parse(time.RFC3339, text) // the zero time if the text is not a time
		return time
	}
	now := time.Now()
	switch {
	case got.operationName != name || got.authorization != "Bearer dev:alice":
		t.Errorf("%s arrived as %+v", name, got)
	case name == "Ingest" && got.variables["events"] == nil:
		t.Error("Ingest arrived without its events: the variables of the tab were not sent")
	case name == "ScheduleAShow" && (at("plannedAt").Before(now.AddDate(0, 0, 28)) || at("plannedAt").After(now.AddDate(0, 2, 0))):
		t.Errorf("ScheduleAShow arrived with a show at %v, not in a month", at("plannedAt"))
	case name == "AddViewItem" && (at("at").After(now) || at("at").Before(now.Add(-time.Hour))):
		t.Errorf("AddViewItem arrived with an item at %v, not a moment ago", at("at"))
	}
}

// A ready-made operation works on any day: its times are counted from the day of the browser. The browser's clock stands still, so
// that a slow machine does not come to the next day.
func TestOperationsWorkOnAnyDay(t *testing.T) {
	server := newStubServer(t, GraphiQLConfig{Development: true, Introspection: true})
	for today, want := range map[string]struct{ show, item string }{
		"2028-01-31T23:59:30Z": {"2028-03-01T20:00:00Z", "2028-01-31T23:58"},
		"2031-12-31T00:00:05Z": {"2032-01-30T20:00:00Z", "2031-12-30T23:59"},
	} {
		tab := browsertest.NewProfileTab(t)
		browsertest.InjectScript(tab, t, `{
			const now = Date.parse('`+today+`'), Real = Date;
			globalThis.Date = class extends Real {
				constructor(...parts) { parts.length > 0 ? super(...parts) : super(now); }
				static now() { return now; }
			};
		}`)
		browsertest.OpenGraphiQL(tab, t, server.origin, "alice")
		for name, time := range map[string][2]string{"ScheduleAShow": {"plannedAt", want.show}, "AddViewItem": {"at", want.item}} {
			browsertest.OpenOperation(tab, t, name)
			browsertest.RunOperation(tab, t)
			browsertest.WaitResponse(tab, t, `"what": "`+name+`"`)
			input, _ := server.lastOperation(t).variables["input"].(map[string]any)
			if got, _ := input[time[0]].(string); !strings.HasPrefix(strings.Replace(got, ".000Z", "Z", 1), time[1]) {
				t.Errorf("on %s %s arrived with %s %q, want %s", today, name, time[0], got, time[1])
			}
		}
		checkNoErrorsOrForeignRequests(t, tab, server.origin)
	}
}

// GraphiQL stores an edit some time after it was made. An operation that is opened at that moment arrives complete in its own
// tab, and the edit stays in the tab in which it was made.
func TestOperationOpensWhileAnEditIsTakenIn(t *testing.T) {
	t.Parallel()
	server := newStubServer(t, GraphiQLConfig{Development: true, Introspection: true})
	tab := browsertest.NewProfileTab(t)
	// The script runs afterTimer once, directly after a timer of 100 ms, which GraphiQL uses to store an edit.
	browsertest.InjectScript(tab, t, `{
		const later = globalThis.setTimeout;
		globalThis.setTimeout = (work, delay, ...rest) => later((...given) => {
			work(...given);
			const { afterTimer } = globalThis;
			if (delay !== 100 || !afterTimer) return;
			globalThis.afterTimer = undefined;
			afterTimer();
		}, delay, ...rest);
	}`)
	browsertest.OpenGraphiQL(tab, t, server.origin, "alice")
	before := browsertest.TabTitles(tab, t)[0]
	for _, name := range []string{"ScheduleAShow", "WhyMyBadge", "AddViewItem", "Ingest"} {
		browsertest.SelectTab(tab, t, before)
		before = "Before" + name
		edit := "query " + before + " { viewer { id } }"
		browsertest.OpenOperationFromScript(tab, t, name, `(open) => { globalThis.afterTimer = open; document.querySelector('.graphiql-query-editor .CodeMirror').CodeMirror.setValue('`+edit+`'); }`)
		browsertest.RunOperation(tab, t)
		browsertest.WaitResponse(tab, t, `"what": "`+name+`"`)
		wantOperationArrived(t, server.lastOperation(t), name)
		browsertest.SelectTab(tab, t, before)
		if got := browsertest.QueryText(tab, t); got != edit {
			t.Errorf("the edit before %s is %q", name, got)
		}
	}
}

// Operations run as the person that is chosen on the page, in each tab of the browser separately.
func TestOperationsRunAsTheChosenPerson(t *testing.T) {
	t.Parallel()
	server, first := openPage(t)
	runs := func(t *testing.T, tab context.Context, authorization string) {
		t.Helper()
		browsertest.RunOperation(tab, t)
		browsertest.WaitResponse(tab, t, `"authorization": "`+authorization+`"`)
	}

	t.Run("alice at first", func(t *testing.T) {
		if who := browsertest.CurrentPerson(first, t); who != "alice" {
			t.Errorf("a new tab is %q", who)
		}
		runs(t, first, "Bearer dev:alice")
	})
	t.Run("each button", func(t *testing.T) {
		for _, choice := range []struct{ person, who string }{
			{"bob", "bob"}, {"carol", "carol"}, {"alice:admin", "alice (admin)"}, {"host:ingest", "host (ingest)"},
		} {
			browsertest.ChoosePerson(first, t, choice.person)
			if who := browsertest.CurrentPerson(first, t); who != choice.who {
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
		browsertest.ChoosePerson(first, t, "dave:admin,ingest")
		if who := browsertest.CurrentPerson(first, t); who != "dave (admin, ingest)" {
			t.Errorf("dave:admin,ingest is shown as %q", who)
		}
		runs(t, first, "Bearer dev:dave:admin,ingest")
	})
	t.Run("what is no key is refused", func(t *testing.T) {
		browsertest.ChoosePerson(first, t, strings.Repeat("x", 129))
		if who := browsertest.CurrentPerson(first, t); who != "dave (admin, ingest)" {
			t.Errorf("a key of 129 characters made %q", who)
		}
	})
	t.Run("the Headers editor wins", func(t *testing.T) {
		browsertest.SetHeaders(first, t, `{"Authorization": "Bearer `+secretToken+`"}`)
		runs(t, first, "Bearer "+secretToken)
		browsertest.SetHeaders(first, t, "")
		runs(t, first, "Bearer dev:dave:admin,ingest")
	})
	t.Run("another tab is another person", func(t *testing.T) {
		second := browsertest.NewTab(first, t)
		browsertest.OpenGraphiQL(second, t, server.origin, "erin")
		browsertest.SelectTab(second, t, "Publish")
		runs(t, second, "Bearer dev:erin")
		runs(t, first, "Bearer dev:dave:admin,ingest")
	})
	t.Run("a reload keeps the person and the address is clean", func(t *testing.T) {
		browsertest.OpenGraphiQL(first, t, server.origin, "erin")
		browsertest.ChoosePerson(first, t, "bob")
		browsertest.Reload(first, t)
		if who := browsertest.CurrentPerson(first, t); who != "bob" {
			t.Errorf("after a reload bob is %q", who)
		}
		if address := browsertest.Evaluate[string](first, t, "location.href"); address != server.origin+"/graphiql" {
			t.Errorf("the address is %s", address)
		}
	})
	t.Run("an address that names nobody is passed over", func(t *testing.T) {
		browsertest.OpenGraphiQL(first, t, server.origin, "\u200b")
		if who := browsertest.CurrentPerson(first, t); who != "bob" {
			t.Errorf("the address made %q", who)
		}
	})
}

func TestPageFollowsTheTheme(t *testing.T) {
	t.Parallel()
	server := newStubServer(t, GraphiQLConfig{Development: true})
	tab := browsertest.NewProfileTab(t)
	browsertest.OpenGraphiQL(tab, t, server.origin, "alice")
	colours := map[bool][2]string{}
	for _, dark := range []bool{false, true} {
		browsertest.SetDarkTheme(tab, t, dark)
		colours[dark] = [2]string{
			browsertest.Evaluate[string](tab, t, `getComputedStyle(document.querySelector('.bar')).backgroundColor`),
			browsertest.Evaluate[string](tab, t, `getComputedStyle(document.querySelector('.graphiql-container')).backgroundColor`),
		}
	}
	if colours[false][0] == colours[true][0] || colours[false][1] == colours[true][1] {
		t.Errorf("light and dark look the same: %v", colours)
	}
}
