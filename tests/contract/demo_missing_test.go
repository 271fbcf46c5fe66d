package contract

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/golang-jwt/jwt/v5"

	"tidings/tests/world"
	"tidings/web/browsertest"
)

// sendForBody sends a request and returns the body of its answer.
func sendForBody(t *testing.T, request *http.Request) string {
	t.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The server is killed while the page is open, and restarts. The page is right again without a reload.
func TestTheDemoPageOutlivesItsServer(t *testing.T) {
	for _, size := range [][2]int64{{1280, 720}, {390, 844}} {
		t.Run(fmt.Sprint(size[0]), func(t *testing.T) { testDemoPageOutlivesServer(t, size[0], size[1]) })
	}
}

// testDemoPageOutlivesServer runs TestTheDemoPageOutlivesItsServer in a window of this size.
func testDemoPageOutlivesServer(t *testing.T, width, height int64) {
	folder := filepath.Join(t.TempDir(), "world")
	server := startDemo(t, "--data", folder)
	p := openDemo(t, server.URL, width, height)
	p.waitHomeFeedSeen()
	p.clickLeverButton("post")
	p.waitBadgeShows("home", "1")
	before := p.waitBadgeNumber("home")
	server.Kill()
	p.waitUntilTrue("the page says that the server is gone", `document.querySelector('.gone').innerText.includes('does not answer')`)
	if number := p.waitBadgeNumber("home"); number != before {
		t.Errorf("without its server the page shows %d, before it was %d", number, before)
	}
	p.clickLeverButton("post")
	p.waitUntilTrue("the lever says that nothing was sent", `document.querySelector('.said').innerText === 'Not sent: the server does not answer.'`)
	p.savePicture("gone")
	if found := browsertest.AccessibilityFaults(p.tab, t); len(found) > 0 {
		t.Errorf("axe finds %s", strings.Join(found, "\n"))
	}
	// Ben posts through a server whose address the page does not know. The post must be there once the page's own server is back.
	elsewhere := startDemo(t, "--data", folder)
	if err := world.Ask(elsewhere.URL, "ben", `mutation { publishPost(input: {body: "Back again"}) { post { id } } }`, nil, nil); err != nil {
		t.Fatal(err)
	}
	elsewhere.Kill()
	startDemo(t, "--data", folder, "--listen", strings.TrimPrefix(server.URL, "http://"))
	p.waitUntilTrue("the words are gone", `document.querySelector('.gone').innerText === '' && document.querySelector('.said').innerText === ''`)
	p.waitUntilTrue("the feed has the post", `document.querySelector('.left .post p')?.innerText === 'Back again'`)
	p.waitBadgeShows("home", "") // the feed that is read again is on the left phone's screen
	p.wantOnlyMissingServerComplaints()
}

// wantOnlyMissingServerComplaints fails if the browser complained about anything but the missing server.
func (p *demoPage) wantOnlyMissingServerComplaints() {
	p.t.Helper()
	complaints := slices.DeleteFunc(browsertest.PageErrors(p.tab), func(one string) bool {
		return strings.Contains(one, "ERR_CONNECTION") || strings.Contains(one, "ERR_EMPTY_RESPONSE") || strings.Contains(one, "ERR_INCOMPLETE_CHUNKED_ENCODING") || strings.Contains(one, "WebSocket connection to")
	})
	if len(complaints) > 0 {
		p.t.Errorf("the browser complained: %q", complaints)
	}
}

// A demo that starts again in a new folder has a new world. The page shows the new world without a reload.
func TestTheDemoPageFollowsIntoANewWorld(t *testing.T) {
	server := startDemo(t)
	p := openDemo(t, server.URL, 1280, 720)
	p.waitHomeFeedSeen()
	total := p.waitBadgeNumber("icon")
	for i := range 3 {
		p.clickLeverButton("live")
		p.waitUntilTrue("Ben is live", fmt.Sprintf(`document.querySelectorAll('.right .show.replay').length >= %d`, i))
		p.waitUntilTrue("Ben is on top", `document.querySelector('.right .show.live p')?.innerText.startsWith('Ben')`)
	}
	server.Kill()
	p.waitUntilTrue("the page says that the server is gone", `document.querySelector('.gone').innerText.includes('does not answer')`)
	startDemo(t, "--listen", strings.TrimPrefix(server.URL, "http://"))
	// If the home feed was read while the new world was being made, its later posts wait under the pill, the button that shows new posts.
	p.waitUntilTrue("the new home is seen", `(document.querySelector('#left-home .pill')?.click(), `+badgeNumberJS("left", "icon")+` === '`+fmt.Sprint(total)+`')`)
	p.waitBadgeShows("icon", fmt.Sprint(total))
	p.waitUntilTrue("the old shows of Ben are gone", `![...document.querySelectorAll('.right .show p')].some((host) => host.innerText.startsWith('Ben'))`)
	p.clickLeverButton("live")
	p.waitBadgeShows("icon", fmt.Sprint(total+1))
	p.waitUntilTrue("nothing is refused", `document.querySelector('.said').innerText === ''`)
	p.waitUntilTrue("the board is watched", `document.querySelector('.right .show')?.dataset.status === 'LIVE' && document.querySelector('.right .show p').innerText.startsWith('Ben')`)
	p.wantOnlyMissingServerComplaints()
}

// The page can be used by the keyboard alone: the buttons that make something happen, the button that shows new posts, the tabs of a
// phone, the rows that explain a number, and the buttons that choose how the last operation is shown.
func TestTheDemoPageByTheKeysAlone(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int64{{1280, 720}, {390, 844}} {
		t.Run(fmt.Sprint(size[0]), func(t *testing.T) {
			t.Parallel()
			server := startDemo(t)
			checkPageByKeyboardAlone(t, openDemoInSize(t, server.URL, size))
		})
	}
}

// checkPageByKeyboardAlone uses the page by the keyboard, and checks what each key does.
func checkPageByKeyboardAlone(t *testing.T, p *demoPage) {
	p.waitHomeFeedSeen()
	focused := func(selector string) string {
		return `Boolean(document.activeElement?.matches(` + "`" + selector + "`" + `))`
	}
	reach := func(selector string) {
		t.Helper()
		for range 300 {
			if browsertest.Evaluate[bool](p.tab, t, focused(selector)) {
				return
			}
			browsertest.PressKey(p.tab, t, kb.Tab)
		}
		t.Fatalf("the Tab key never reaches %s", selector)
	}
	reach("[data-lever=post]")
	browsertest.PressKey(p.tab, t, kb.Enter)
	p.waitBadgeShows("home", "1")
	reach(".left .pill")
	browsertest.PressKey(p.tab, t, kb.Enter)
	p.waitBadgeShows("home", "")
	reach("#left-home-tab")
	for range 2 {
		browsertest.PressKey(p.tab, t, kb.ArrowRight)
	}
	p.waitUntilTrue("the arrows walk through the tabs", focused("#left-bell-tab"))
	browsertest.PressKey(p.tab, t, kb.Enter)
	p.waitUntilTrue("the tab is open", `!document.querySelector('#left-bell').hidden && document.querySelector('#left-bell-tab').ariaSelected === 'true'`)
	browsertest.PressKey(p.tab, t, "?")
	p.waitUntilTrue("the rows behind the number have the focus", `document.querySelector('.left .why')?.contains(document.activeElement)`)
	browsertest.PressKey(p.tab, t, kb.Escape)
	p.waitUntilTrue("Escape closes them", `!document.querySelector('.left .why')`)
	reach(".drawer .forms button:nth-of-type(2)")
	browsertest.PressKey(p.tab, t, " ")
	p.waitUntilTrue("the form changes", `document.querySelector('.drawer pre').dataset.form === document.querySelector('.drawer .forms button:nth-of-type(2)').textContent`)
	p.wantNoPageFaults("by the keys")
}

// Without the demo world the page offers to make the first post, and cannot empty Redis.
func TestTheDemoPageBeginsWithAnEmptyServer(t *testing.T) {
	server := world.StartServingProcess(t, "", "--data", t.TempDir())
	p := openDemo(t, server.URL, 390, 844)
	p.waitUntilTrue("the empty feed offers a first post", `document.querySelector('.left .empty button')`)
	p.wantNoPageFaults("empty")
	if !browsertest.Evaluate[bool](p.tab, t, `document.querySelector('[data-lever=flush]').disabled`) {
		t.Error("the page offers to empty a Redis that is not a demo's")
	}
	p.click(".left .empty button")
	// The page shows the first post by itself, and so it is seen. A post after it waits to be shown.
	p.waitUntilTrue("the first post is in the feed", `document.querySelectorAll('.left .post').length === 1`)
	p.waitBadgeShows("home", "")
	p.clickLeverButton("post")
	p.waitBadgeShows("home", "1")
	for lever, tab := range map[string]string{"live": "live", "say": "chat", "likes": "bell", "announce": "you"} {
		p.clickLeverButton(lever)
		p.waitBadgeShows(tab, "1")
	}
	p.wantNoPageFaults("no longer empty")
}

// In production the page asks for a token. It says why a token is refused, and shows the user's phones with a valid one.
func TestTheDemoPageInProduction(t *testing.T) {
	t.Parallel()
	const secret = "a secret of a test, 32 bytes long"
	server := world.StartServingProcess(t, "", "--data", t.TempDir(), "--jwt-secret", secret, "--operations-listen", "127.0.0.1:0")
	_, rest, _ := strings.Cut(server.Output.String(), "operations: ")
	operations, _, _ := strings.Cut(rest, ",")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if text := sendForBody(t, request); strings.Contains(text, "<html") {
		t.Error("the public address serves the page in production")
	}
	p := openDemo(t, operations, 1280, 720)
	p.waitUntilTrue("the page asks for a token", `document.querySelector('.door input')`)
	p.wantNoPageFaults("door")
	give := func(token string) {
		browsertest.Evaluate[bool](p.tab, t, `(() => { const field = document.querySelector('.door input'); field.value = '`+token+`'; field.dispatchEvent(new Event('input', {bubbles: true})); return true; })()`)
		p.waitUntilTrue("the token is taken", `document.querySelector('.door input').value !== ''`)
		p.click(".door button")
	}
	give("dev:mia")
	p.waitUntilTrue("the refusal is shown", `document.querySelector('.door [role=alert]')?.innerText`)
	sign := func(user string) string {
		signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": user, "exp": time.Now().Add(time.Hour).Unix()}).SignedString([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	signed := sign("zoe")
	sendMessageToAdam(t, server.URL, signed, sign("adam"))
	give(signed)
	p.waitUntilTrue("the phones are connected", `[...document.querySelectorAll('.device')].every((device) => device.dataset.state === 'online')`)
	p.waitUntilTrue("the chat has the visitor's message as their own", `document.querySelector('#left-chat .row .line')?.textContent === 'You: hello'`)
	if name := browsertest.Evaluate[string](p.tab, t, `document.querySelector('#left-chat .row b').textContent`); name != "adam" {
		t.Errorf("the chat with adam is named %q", name)
	}
	if levers := browsertest.Evaluate[int](p.tab, t, `document.querySelectorAll('.lever').length`); levers != 1 {
		t.Errorf("in production the page has %d levers, and only the network is the page's own", levers)
	}
	if stored := browsertest.Evaluate[string](p.tab, t, `JSON.stringify({...localStorage}) + JSON.stringify({...sessionStorage})`); strings.Contains(stored, signed) {
		t.Errorf("the token is in storage: %s", stored)
	}
}

// sendMessageToAdam sends adam a message. author and adam are the tokens of the two users.
func sendMessageToAdam(t *testing.T, url, author, adam string) {
	t.Helper()
	ask := func(token, query string) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/graphql", strings.NewReader(`{"query":`+world.QuoteJSON(query)+`}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token}}
		text := sendForBody(t, request)
		if strings.Contains(text, `"errors"`) {
			t.Fatal(text)
		}
		return text
	}
	ask(adam, `{ viewer { id } }`)
	created := ask(author, `mutation { createConversation(input: {kind: DIRECT, memberIds: ["user:adam"]}) { conversation { id } } }`)
	id := regexp.MustCompile(`conversation:\w+`).FindString(created)
	ask(author, `mutation { sendMessage(input: {conversationId: "`+id+`", body: "hello", idempotencyKey: "1"}) { message { id } } }`)
}

// Without JavaScript the page says that it needs JavaScript, and what to do instead.
func TestTheDemoPageWithoutJavaScript(t *testing.T) {
	t.Parallel()
	server := startDemo(t)
	tab := browsertest.NewProfileTab(t)
	browsertest.PermitScripts(tab, t, false)
	browsertest.Navigate(tab, t, server.URL+"/")
	browsertest.PermitScripts(tab, t, true) // for the test's own questions
	text := browsertest.Evaluate[string](tab, t, `document.body.innerText`)
	for _, words := range []string{"need JavaScript", "curl -N", "Open GraphiQL"} {
		if !strings.Contains(text, words) {
			t.Errorf("the page does not say %q: %s", words, text)
		}
	}
	if found := browsertest.AccessibilityFaults(tab, t); len(found) > 0 {
		t.Errorf("axe finds %s", strings.Join(found, "\n"))
	}
}
