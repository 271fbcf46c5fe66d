package contract

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"tidings/tests/world"
	"tidings/web/browsertest"
)

// consoleTab is the console in a browser.
type consoleTab struct {
	t         *testing.T
	tab       context.Context
	serverURL string
}

// wantNoPageFaults checks a page of the console at this width: it has no accessibility fault and no script or style of its own,
// nothing is wider than the window, and the keyboard reaches every form and link. Wide pages are checked in the light theme, narrow
// pages in the dark theme.
func (c consoleTab) wantNoPageFaults(name string, width int64) {
	c.t.Helper()
	dark := width < 1000
	browsertest.SetDarkTheme(c.tab, c.t, dark)
	if found := browsertest.AccessibilityFaults(c.tab, c.t); len(found) > 0 {
		c.t.Errorf("%s, dark %t: axe finds %s", name, dark, strings.Join(found, "\n"))
	}
	if folder := os.Getenv("TIDINGS_TEST_PICTURES"); folder != "" {
		browsertest.Screenshot(c.tab, c.t, filepath.Join(folder, fmt.Sprintf("console-%s-%d-%t.png", name, width, dark)))
	}
	if wide := browsertest.Evaluate[int](c.tab, c.t, `document.documentElement.scrollWidth`); int64(wide) > width {
		c.t.Errorf("%s is %d wide, its window %d", name, wide, width)
	}
	if scripts := browsertest.Evaluate[int](c.tab, c.t, `document.scripts.length + [...document.querySelectorAll('*')].filter((one) => [...one.attributes].some(({name}) => name.startsWith('on') || name === 'style')).length`); scripts > 0 {
		c.t.Errorf("%s has %d scripts or styles of its own", name, scripts)
	}
	if lost := browsertest.Evaluate[[]string](c.tab, c.t, `[...document.querySelectorAll('a[href], button, input:not([type=hidden]), summary, .scroll')].filter((one) => one.checkVisibility()).filter((one) => {
		one.focus();
		return document.activeElement !== one;
	}).map((one) => one.outerHTML.slice(0, 80))`); len(lost) > 0 {
		c.t.Errorf("%s: no keyboard reaches %q", name, lost)
	}
}

// waitForPage waits until the browser shows a page with this heading and this text.
func (c consoleTab) waitForPage(heading, text string) {
	c.t.Helper()
	browsertest.WaitFor(c.tab, c.t, heading+" with "+text, fmt.Sprintf(`document.querySelector('h1')?.innerText === %q && document.body.innerText.includes(%q)`, heading, text))
}

// An operator signs in with a browser, on a desk and on a phone, visits each page, looks a user up, recounts them, finds the
// recount among the acts, and signs out. The page contacts only its own server, and no script can read its cookie.
func TestTheConsoleInABrowser(t *testing.T) {
	t.Parallel()
	n, o := startProductionNode(t)
	ann, bob := signToken(t, jwt.MapClaims{"sub": "ann"}), signToken(t, jwt.MapClaims{"sub": "bob"})
	as := func(token, query string) {
		t.Helper()
		if got := n.PostGraphQL("Bearer "+token, []byte(`{"query":`+world.QuoteJSON(query)+`}`)); len(got.Errors) > 0 {
			t.Fatalf("%s: %s", query, got.Errors[0].Message)
		}
	}
	as(bob, `{viewer{id}}`)
	as(ann, `mutation{follow(input:{userId:"user:bob"}){user{id}}}`)
	for i := range 12 {
		as(bob, fmt.Sprintf(`mutation{publishPost(input:{body:"post %d, with a-long-word-that-does-not-fit-into-the-width-of-a-phone-and-has-to-be-broken-somewhere"}){post{id}}}`, i))
	}
	as(bob, `mutation{createConversation(input:{kind:GROUP,memberIds:["user:ann"],title:"The crew"}){conversation{id}} follow(input:{userId:"user:ann"}){user{id}}}`)
	as(ann, `mutation{mute(input:{userId:"user:bob"}){user{id}} unmute(input:{userId:"user:bob"}){user{id}}}`)
	admin := signToken(t, jwt.MapClaims{"sub": "root@example.com", "scope": "admin"})
	for _, size := range [][2]int64{{1280, 900}, {390, 844}} {
		t.Run(fmt.Sprint(size[0]), func(t *testing.T) {
			c := consoleTab{t, browsertest.NewProfileTab(t), o.serverURL}
			browsertest.SetPageSize(c.tab, t, size[0], size[1])
			browsertest.Navigate(c.tab, t, o.serverURL+"/admin")
			c.waitForPage("Sign in", "A token with the scope admin is needed.")
			c.wantNoPageFaults("sign-in", size[0])
			c.submitToken(ann)
			c.waitForPage("Sign in", "lacks the scope admin")
			c.submitToken(admin)
			c.waitForPage("Overview", "root@example.com")
			if cookie := browsertest.Evaluate[string](c.tab, t, `document.cookie`); cookie != "" {
				t.Errorf("a script reads %q", cookie)
			}
			browsertest.WaitFor(c.tab, t, "the style is there", `getComputedStyle(document.querySelector('header')).display === 'flex'`)
			c.wantNoPageFaults("overview", size[0])
			c.clickAndLeave(`a[href="/admin/webhooks"]`)
			c.waitForPage("Webhooks", "There are no webhooks.")
			c.wantNoPageFaults("webhooks", size[0])
			c.clickAndLeave(`a[href="/admin/users"]`)
			c.waitForPage("Users", "Look up")
			c.wantNoPageFaults("users", size[0])
			browsertest.EvaluateAndWaitNewPage(c.tab, t, `document.querySelector('#user').value = 'ann', document.querySelector('[role=search]').requestSubmit()`)
			c.waitForPage("User ann", "The crew")
			c.wantNoPageFaults("user", size[0])
			c.clickAndLeave(`form[action="/admin/users/recount"] button`)
			c.waitForPage("User ann", "rebuilt from the facts")
			c.clickAndLeave(`a[href="/admin/acts"]`)
			c.waitForPage("Acts", "recountBadges")
			c.wantNoPageFaults("acts", size[0])
			c.clickAndLeave(`form[action="/admin/sign-out"] button`)
			c.waitForPage("Sign in", "You are signed out.")
			if foreign := browsertest.ForeignAddresses(c.tab, o.serverURL); len(foreign) > 0 {
				t.Errorf("asked elsewhere: %q", foreign)
			}
			for _, complaint := range browsertest.PageErrors(c.tab) {
				if !strings.Contains(complaint, "401") && !strings.Contains(complaint, "403") { // pages that were requested without a valid token
					t.Errorf("the browser complains: %q", complaint)
				}
			}
		})
	}
}

// submitToken types a token into the sign-in form and sends the form.
func (c consoleTab) submitToken(token string) {
	c.t.Helper()
	browsertest.EvaluateAndWaitNewPage(c.tab, c.t, fmt.Sprintf(`document.querySelector('#token').value = %q, document.querySelector('form.stack').requestSubmit()`, token))
}

// clickAndLeave clicks an element that leads to another page.
func (c consoleTab) clickAndLeave(selector string) {
	c.t.Helper()
	browsertest.EvaluateAndWaitNewPage(c.tab, c.t, fmt.Sprintf(`document.querySelector(%q).click()`, selector))
}
