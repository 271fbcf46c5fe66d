package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"tidings/web/browsertest"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"
)

// startProxyWithMissingFile starts a proxy in front of a stubServer. Until mend is called, the proxy answers 410 to paths that end in
// suffix.
func startProxyWithMissingFile(t *testing.T, server *stubServer, suffix string) (origin string, mend func()) {
	t.Helper()
	return startProxyWithBrokenFiles(t, server, func(w http.ResponseWriter) { http.Error(w, "gone", http.StatusGone) }, suffix)
}

// startProxyWithBrokenFiles starts a proxy in front of a stubServer. Until mend is called, breaks answers requests for the paths that end
// in one of the suffixes.
func startProxyWithBrokenFiles(t *testing.T, server *stubServer, breaks func(http.ResponseWriter), suffixes ...string) (origin string, mend func()) {
	t.Helper()
	target, err := url.Parse(server.origin)
	if err != nil {
		t.Fatal(err)
	}
	var mended atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(target)
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		broken := slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(r.URL.Path, suffix) })
		if broken && !mended.Load() {
			breaks(w)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(broken.Close)
	return broken.URL, func() { mended.Store(true) }
}

// The page names each file that did not arrive. Once the file is there, the page works without a reload.
func TestPageNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	for file, words := range map[string]string{
		"/graphiql.min.js":         "graphiql.min.js is missing",
		"/react.production.min.js": "react.production.min.js",
		"/graphiql.min.css":        "graphiql.min.css is missing",
		"/operations.json":         "The ready-made operations did not arrive: the server answered 410",
	} {
		t.Run(file, func(t *testing.T) {
			server := newStubServer(t, GraphiQLConfig{Development: true, Introspection: true})
			origin, mend := startProxyWithMissingFile(t, server, file)
			tab := browsertest.NewProfileTab(t)
			browsertest.Navigate(tab, t, origin+"/graphiql")
			browsertest.WaitFor(tab, t, "the page says what is missing", `[...document.querySelectorAll('.notice')].some((one) => one.innerText.includes(`+"`"+words+"`"+`))`)
			if found := browsertest.SeriousAccessibilityFaults(tab, t); len(found) > 0 {
				t.Errorf("axe finds %s", strings.Join(found, "\n"))
			}
			mend()
			if file == "/operations.json" {
				browsertest.Click(tab, t, ".notice button")
			}
			browsertest.WaitFor(tab, t, "the words are gone", `!document.querySelector('.notice')`)
			browsertest.WaitSchema(tab, t)
			browsertest.OpenOperation(tab, t, "WhyMyBadge")
			browsertest.RunOperation(tab, t)
			browsertest.WaitResponse(tab, t, `"what": "WhyMyBadge"`)
		})
	}
}

// The server goes away while the page loads: the page's files arrive, but neither the ready-made operations nor any answer of
// GraphQL. The page says so, and starts by itself once the server is back.
func TestPageWhoseServerGoesWhileItLoads(t *testing.T) {
	t.Parallel()
	server := newStubServer(t, GraphiQLConfig{Development: true, Introspection: true})
	hangUp := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	for _, width := range []int64{1280, 390} {
		origin, mend := startProxyWithBrokenFiles(t, server, hangUp, "/operations.json", "/readyz", "/graphql")
		tab := browsertest.NewProfileTab(t)
		browsertest.SetPageSize(tab, t, width, 844)
		browsertest.Navigate(tab, t, origin+"/graphiql")
		browsertest.WaitFor(tab, t, "the page says what it waits for", `document.querySelector('.loading')?.innerText.includes('The server does not answer. GraphiQL starts when it is back.')`)
		browsertest.WaitNotice(tab, t, "gone", "does not answer, since")
		if found := browsertest.SeriousAccessibilityFaults(tab, t); len(found) > 0 {
			t.Errorf("axe finds %s", strings.Join(found, "\n"))
		}
		mend()
		browsertest.WaitNotice(tab, t, "gone", "")
		browsertest.WaitSchema(tab, t)
		browsertest.OpenOperation(tab, t, "WhyMyBadge")
		browsertest.RunOperation(tab, t)
		browsertest.WaitResponse(tab, t, `"what": "WhyMyBadge"`)
		checkNoErrorsOrForeignRequests(t, tab, origin, "ERR_EMPTY_RESPONSE")
	}
}

// Without its own script the page says that it needs JavaScript, and shows a command that works without it.
func TestPageWithoutItsScript(t *testing.T) {
	t.Parallel()
	server := newStubServer(t, GraphiQLConfig{Development: true})
	origin, _ := startProxyWithMissingFile(t, server, "/graphiql-page.js")
	blind := browsertest.NewProfileTab(t)
	browsertest.PermitScripts(blind, t, false)
	for name, tab := range map[string]context.Context{origin: browsertest.NewTab(blind, t), server.origin: blind} {
		browsertest.Navigate(tab, t, name+"/graphiql")
		browsertest.PermitScripts(tab, t, true) // the test's own scripts need JavaScript
		browsertest.WaitFor(tab, t, "the words are seen", `getComputedStyle(document.querySelector('.late')).opacity === '1'`)
		text := browsertest.Evaluate[string](tab, t, `document.body.innerText`)
		if !strings.Contains(text, "needs JavaScript") || !strings.Contains(text, "Bearer dev:alice") {
			t.Errorf("the page says %s", text)
		}
		if found := browsertest.SeriousAccessibilityFaults(tab, t); len(found) > 0 {
			t.Errorf("axe finds %s", strings.Join(found, "\n"))
		}
	}
}

// In a browser that forbids storage the page works, and says that it keeps nothing.
func TestPageWithoutStorage(t *testing.T) {
	t.Parallel()
	server := newStubServer(t, GraphiQLConfig{Development: true, Introspection: true})
	tab := browsertest.NewProfileTab(t)
	browsertest.InjectScript(tab, t, `for (const name of ['localStorage', 'sessionStorage']) {
		Object.defineProperty(window, name, {get() { throw new DOMException('Access is denied', 'SecurityError'); }});
	}`)
	browsertest.OpenGraphiQL(tab, t, server.origin, "bob")
	browsertest.WaitNotice(tab, t, "storage", "keeps nothing")
	browsertest.WaitSchema(tab, t)
	browsertest.SelectTab(tab, t, "Publish")
	browsertest.RunOperation(tab, t)
	browsertest.WaitResponse(tab, t, `"authorization": "Bearer dev:bob"`)
	browsertest.SelectTab(tab, t, "WatchMyBadges")
	browsertest.RunOperation(tab, t)
	browsertest.WaitSubscriptionEvent(tab, t, "WatchMyBadges", "Bearer dev:bob")
	checkNoErrorsOrForeignRequests(t, tab, server.origin)
}

// TestLinksOpenTheirOperationAndPerson checks which operation and which person an address of the page leads to.
func TestLinksOpenTheirOperationAndPerson(t *testing.T) { runAtEachPageSize(t, checkLinksToOperations) }

// checkLinksToOperations opens addresses that lead to an operation, to somebody or to nothing, and an address that the page made
// itself.
func checkLinksToOperations(t *testing.T, server *stubServer, tab context.Context) {
	visit := func(query string) {
		t.Helper()
		browsertest.Navigate(tab, t, server.origin+"/graphiql?"+query)
		browsertest.WaitSchema(tab, t)
		if address := browsertest.Evaluate[string](tab, t, "location.href"); address != server.origin+"/graphiql" {
			t.Errorf("the address is %s", address)
		}
	}
	front := func() string {
		return browsertest.Evaluate[string](tab, t, `document.querySelector('.graphiql-tab-active .graphiql-tab-button').textContent`)
	}
	t.Run("a query with variables, as somebody", func(t *testing.T) {
		visit(url.Values{"query": {"query Linked($id: ID!) { node(id: $id) { id } }"}, "variables": {`{"id": "user:carol"}`}, "as": {"carol"}}.Encode())
		if got := front(); got != "Linked" {
			t.Errorf("%s is in front", got)
		}
		browsertest.RunOperation(tab, t)
		browsertest.WaitResponse(tab, t, `"authorization": "Bearer dev:carol"`)
		if diff := cmp.Diff(map[string]any{"id": "user:carol"}, server.lastOperation(t).variables); diff != "" {
			t.Errorf("the variables differ (-want +got):\n%s", diff)
		}
	})
	t.Run("a ready-made operation by its name", func(t *testing.T) {
		for name, want := range map[string]string{"why-my-badge": "WhyMyBadge", "MySiteMessages": "MySiteMessages", "my-badges": "MyBadges"} {
			visit("operation=" + name)
			if got := front(); got != want {
				t.Errorf("%s leads to %s", name, got)
			}
		}
	})
	t.Run("the books", func(t *testing.T) {
		if text := browsertest.Evaluate[string](tab, t, `document.querySelector('.bar a[href="`+docsPath+`"]')?.textContent ?? ''`); text != "Docs" {
			t.Errorf("the link to the books says %q", text)
		}
	})
	t.Run("a name of nothing", func(t *testing.T) {
		visit("operation=no-such-thing")
		browsertest.WaitNotice(tab, t, "link", "There is no ready-made operation no-such-thing.")
	})
	t.Run("a link that the page made", func(t *testing.T) {
		browsertest.SelectTab(tab, t, "Publish")
		browsertest.Click(tab, t, `[aria-label="Copy a link to this operation"]`)
		browsertest.WaitFor(tab, t, "the address has the link", `new URLSearchParams(location.search).get('query')?.includes('mutation Publish(')`)
		link := browsertest.Evaluate[string](tab, t, "location.href")
		other := browsertest.NewTab(tab, t)
		browsertest.Navigate(other, t, link)
		browsertest.WaitSchema(other, t)
		if tabs := browsertest.TabTitles(other, t); tabs[0] != "Publish" || browsertest.CurrentPerson(other, t) != "carol" {
			t.Errorf("the link leads to %s as %s", tabs[0], browsertest.CurrentPerson(other, t))
		}
	})
	checkNoErrorsOrForeignRequests(t, tab, server.origin)
}

// TestPageWorksWithTheKeyboardAlone checks that a person can find an operation, write, run, watch and stop it with the keyboard alone.
func TestPageWorksWithTheKeyboardAlone(t *testing.T) { runAtEachPageSize(t, checkKeyboardOnlyUse) }

// checkKeyboardOnlyUse opens the menu, runs and watches a subscription and stops it by keys alone, on a page of one size.
func checkKeyboardOnlyUse(t *testing.T, server *stubServer, tab context.Context) {
	reach := func(what, selector string) {
		t.Helper()
		for range 60 {
			if browsertest.Evaluate[bool](tab, t, `Boolean(document.activeElement?.matches(`+"`"+selector+"`"+`))`) {
				return
			}
			browsertest.PressKey(tab, t, kb.Tab)
		}
		t.Fatalf("the Tab key never reaches %s", what)
	}
	browsertest.Evaluate[bool](tab, t, `(document.activeElement.blur(), true)`)
	reach("the link to the editors", ".skip")
	reach("the menu's button", "#operations")
	browsertest.PressKey(tab, t, kb.Enter)
	browsertest.WaitFor(tab, t, "the menu is open", `document.activeElement?.matches('#menu input')`)
	browsertest.PressKey(tab, t, kb.Escape)
	browsertest.WaitFor(tab, t, "the menu is closed, and its button has the focus", `!document.querySelector('#menu').open && document.activeElement.id === 'operations'`)
	browsertest.OpenOperation(tab, t, "WatchMyHomeFeed")
	browsertest.WaitFor(tab, t, "the editor has the focus", `document.activeElement.closest('.graphiql-query-editor')`)
	browsertest.RunOperationWithKeys(tab, t)
	browsertest.WaitSubscriptionEvent(tab, t, "WatchMyHomeFeed", "as it is")
	reach("the variables", `.graphiql-editor-tool textarea`) // the Tab key leaves the editor of the query
	reach("the response", `.result-window textarea`)
	reach("the button that stops the watch", `[aria-label="Stop WatchMyHomeFeed"]`)
	browsertest.PressKey(tab, t, kb.Enter)
	browsertest.WaitSubscriptionState(tab, t, "WatchMyHomeFeed", "stopped")
	checkNoErrorsOrForeignRequests(t, tab, server.origin)
}

// On a phone the page fits the screen, in both themes and with each of its panes, and has no serious accessibility faults.
func TestPageOnAPhone(t *testing.T) {
	t.Parallel()
	server := newStubServer(t, GraphiQLConfig{Development: true, Introspection: true})
	for _, dark := range []bool{false, true} {
		tab := browsertest.NewProfileTab(t)
		browsertest.SetDarkTheme(tab, t, dark)
		browsertest.SetPageSize(tab, t, 390, 844)
		browsertest.OpenGraphiQL(tab, t, server.origin, "alice")
		browsertest.WaitSchema(tab, t)
		clean := func(what string) {
			t.Helper()
			if found := browsertest.SeriousAccessibilityFaults(tab, t); len(found) > 0 {
				t.Errorf("%s: axe finds %s", what, strings.Join(found, "\n"))
			}
			if width := browsertest.Evaluate[int](tab, t, `document.documentElement.scrollWidth`); width > 390 {
				t.Errorf("%s: the page is %d wide", what, width)
			}
		}
		clean("at first")
		browsertest.SelectTab(tab, t, "MyBadges")
		browsertest.RunOperation(tab, t)
		browsertest.WaitResponse(tab, t, `"what": "MyBadges"`)
		browsertest.WaitFor(tab, t, "the response is seen", `document.querySelector('.graphiql-response').getBoundingClientRect().bottom <= innerHeight + 1`)
		browsertest.OpenOperation(tab, t, "WatchMyBadges")
		browsertest.RunOperation(tab, t)
		browsertest.WaitSubscriptionEvent(tab, t, "WatchMyBadges", "as it is")
		clean("with a watch")
		browsertest.PressKey(tab, t, "o", chromedp.ModifierAlt)
		browsertest.WaitFor(tab, t, "the menu is open", `document.querySelector('#menu').open`)
		clean("with the menu")
		browsertest.PressKey(tab, t, kb.Escape)
		browsertest.Click(tab, t, `[aria-label="Show Documentation Explorer"]`)
		browsertest.WaitFor(tab, t, "the docs are there", `document.querySelector('.graphiql-doc-explorer')`)
		clean("with the docs")
		checkNoErrorsOrForeignRequests(t, tab, server.origin)
	}
}
