package contract

import (
	"fmt"
	"strings"
	"testing"

	"tidings/web/browsertest"
)

// openDemoWithScript opens the page with a script that runs before the page's own scripts. The script makes a call of the browser
// fail; it may stop that once window.mended is true, which stopRefusingRequests sets.
func openDemoWithScript(t *testing.T, script string) *demoPage {
	t.Helper()
	p := &demoPage{t, browsertest.NewProfileTab(t), startDemo(t).URL, []bool{false, true}}
	browsertest.SetPageSize(p.tab, t, 390, 844)
	browsertest.InjectScript(p.tab, t, script)
	browsertest.Navigate(p.tab, t, p.url+"/?lang=en")
	return p
}

// stopRefusingRequests sets window.mended, so that the script of openDemoWithScript lets the browser's calls succeed again.
func (p *demoPage) stopRefusingRequests() {
	p.t.Helper()
	browsertest.Evaluate[bool](p.tab, p.t, `(window.mended = true)`)
}

// If a gateway refuses a list, the page says so in place of the list. The list appears by itself once the gateway passes it. A board
// that was shown before stays, and follows by itself too.
func TestTheDemoPageSaysWhyAListIsMissing(t *testing.T) {
	p := openDemoWithScript(t, `{
		const real = fetch;
		const refuses = (url, {body} = {}) => window.mended ? window.noBoard && String(body).includes('liveBoard(') : String(url).endsWith('/graphql');
		window.fetch = (url, options) => refuses(url, options) ? Promise.resolve(new Response('<html>', {status: 502})) : real(url, options);
	}`)
	for _, list := range []string{"#left-home", "#right-live"} {
		p.waitUntilTrue(list+" says what is wrong", `document.querySelector('`+list+` .failed')?.innerText.startsWith('This could not be read: ')`)
	}
	p.wantNoPageFaults("refused lists")
	p.stopRefusingRequests()
	p.waitUntilTrue("the feed is there", `document.querySelectorAll('.left .post').length >= 10`)
	p.waitUntilTrue("the board is there", `document.querySelector('.right .show.live') && !document.querySelector('.failed')`)
	p.setBoardRequestsRefused(true)
	p.clickLeverButton("live")
	p.waitUntilTrue("the phone says that the board was not read", `document.querySelector('.right .trouble')`)
	p.setBoardRequestsRefused(false)
	p.waitUntilTrue("the new show is on the board", `[...document.querySelectorAll('.right .show.live h3')].some(({innerText}) => innerText === 'Ben, live and unprepared')`)
}

// What a phone says is not taken away by the timer of what it said before: that timer may end in the moment between a new text and
// the page's next frame.
func TestTheDemoPageKeepsANewMessageOfAPhone(t *testing.T) {
	p := openDemoWithScript(t, `{
		const [later, forget, real] = [setTimeout, clearTimeout, fetch];
		const ends = window.ends = new Map(); // of what phones say: the timers of five seconds, which only the test ends
		let sent = 0, timers = 0;
		window.setTimeout = (run, wait, ...more) => wait === 5000 ? (ends.set(--timers, run), timers) : later(run, wait, ...more);
		window.clearTimeout = (timer) => ends.delete(timer) || forget(timer);
		window.fetch = (url, options) => String(options?.body).includes('sendMessage') ? Promise.reject(new TypeError('no answer to ' + ++sent)) : real(url, options);
		window.says = (text) => Boolean(document.querySelector('.left .trouble')?.innerText.includes(text));
		window.endFormer = (text) => new MutationObserver((_, seen) => {
			if (!says(text)) return;
			seen.disconnect();
			window.ended = ends.size;
			for (const end of [...ends.values()]) end();
			requestAnimationFrame(() => requestAnimationFrame(() => (window.keeps = says(text))));
		}).observe(document.querySelector('.left'), {subtree: true, childList: true, characterData: true});
	}`)
	p.click("#left-chat-tab")
	p.click("#left-chat .row")
	p.waitUntilTrue("the messages are there", `document.querySelector('.left .bubble')`)
	p.writeMessage("I am in")
	p.click(".left .say button")
	p.waitUntilTrue("the phone says what is wrong", `says('no answer to 1')`)
	browsertest.Evaluate[bool](p.tab, p.t, `(endFormer('no answer to 2'), true)`)
	p.click(".left .say button")
	p.waitUntilTrue("the former timer has ended", `window.keeps !== undefined`)
	if ended := browsertest.Evaluate[int](p.tab, p.t, `window.ended`); ended == 0 {
		t.Error("no timer was ended: the page has none of five seconds")
	}
	if !browsertest.Evaluate[bool](p.tab, p.t, `window.keeps`) {
		t.Error("the timer of a former text took away the present one")
	}
	// The page sets the timer of the present text after the frame that shows it.
	p.waitUntilTrue("it goes by itself", `([...ends.values()].forEach((end) => end()), !document.querySelector('.left .trouble'))`)
}

// setBoardRequestsRefused sets whether the script of the page refuses requests for the live board. It works after stopRefusingRequests.
func (p *demoPage) setBoardRequestsRefused(refused bool) {
	p.t.Helper()
	browsertest.Evaluate[bool](p.tab, p.t, fmt.Sprintf(`(window.noBoard = %t, true)`, refused))
}

// Behind a proxy that passes no WebSocket the page has its lists. It says that pushes are missing, and not that the server is
// missing.
func TestTheDemoPageSaysThatPushesAreMissing(t *testing.T) {
	p := openDemoWithScript(t, `window.WebSocket = class extends WebSocket {
		constructor(url, protocols) { super(window.mended ? url : String(url).replace('/graphql', '/no-upgrade'), protocols); }
	}`)
	p.waitUntilTrue("the feed is there", `document.querySelectorAll('.left .post').length >= 10`)
	p.waitUntilTrue("the page says what is missing", `document.querySelector('.gone').innerText.startsWith('The connection for pushes is lost.')`)
	if found := browsertest.AccessibilityFaults(p.tab, t); len(found) > 0 {
		t.Errorf("axe finds %s", strings.Join(found, "\n"))
	}
	p.savePicture("no pushes")
	p.stopRefusingRequests()
	p.waitUntilTrue("both phones are connected", `[...document.querySelectorAll('.device')].every((device) => device.dataset.state === 'online')`)
	p.waitUntilTrue("the words are gone", `document.querySelector('.gone').innerText === ''`)
}
