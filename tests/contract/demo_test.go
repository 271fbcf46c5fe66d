package contract

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidings/tests/world"
	"tidings/web/browsertest"
)

// demoPage is the demo page in a browser.
type demoPage struct {
	t                *testing.T
	tab              context.Context // the browser's tab
	url              string          // the server's address
	darkModesChecked []bool          // the themes that wantNoPageFaults checks: true is dark
}

// openDemo opens the page of a server. It waits until the page is loaded, and not for the first badges.
func openDemo(t *testing.T, url string, width, height int64) *demoPage {
	t.Helper()
	p := &demoPage{t, browsertest.NewProfileTab(t), url, []bool{false, true}}
	browsertest.SetPageSize(p.tab, t, width, height)
	browsertest.Navigate(p.tab, t, url+"/?lang=en")
	return p
}

// openDemoInSize opens the page of a server in a window of this size, for a test that runs in a wide and in a narrow window. One window
// is light and the other dark, so that the test sees each state once in each theme.
func openDemoInSize(t *testing.T, url string, size [2]int64) *demoPage {
	t.Helper()
	p := openDemo(t, url, size[0], size[1])
	p.darkModesChecked = []bool{size[0] < 1000}
	return p
}

// waitUntilTrue waits until an expression of JavaScript is true. what describes it in the message of a failure.
func (p *demoPage) waitUntilTrue(what, expression string) {
	p.t.Helper()
	browsertest.WaitFor(p.tab, p.t, what, expression)
}

func (p *demoPage) click(selector string) {
	p.t.Helper()
	browsertest.Click(p.tab, p.t, selector)
}

// clickLeverButton clicks a lever: a button of the page that makes something happen in the demo. A lever takes no click before the
// answer to the click before it, which may come after the push, so clickLeverButton waits until no lever is busy.
func (p *demoPage) clickLeverButton(lever string) {
	p.t.Helper()
	p.click(`#levers:not(:has([aria-busy=true])) [data-lever=` + lever + `]`)
}

// waitMutationAnswered calls send, which makes the page send a mutation, and waits until the page has taken the answer. The page computes
// what the next click sends from what the server has answered, and the numbers come by the sockets, maybe before the answer. The answer
// to an older request must not come between either, so waitMutationAnswered begins and ends when the page waits for no answer.
func (p *demoPage) waitMutationAnswered(mutation string, send func()) {
	p.t.Helper()
	browsertest.Evaluate[bool](p.tab, p.t, fmt.Sprintf(`(() => {
		Object.assign(window, {awaited: %q, answers: 0});
		if (window.out !== undefined) return true;
		window.out = 0;
		const real = window.fetch;
		window.fetch = async (url, options) => {
			if (!options?.body) return real(url, options);
			window.out++;
			const end = () => setTimeout(() => { // the page takes the answer first
				window.out--;
				if (String(options.body).includes(window.awaited)) window.answers++;
			});
			try {
				const answer = await real(url, options);
				void answer.clone().text().then(end, end);
				return answer;
			} catch (reason) {
				end();
				throw reason;
			}
		};
		return true;
	})()`, mutation))
	p.waitUntilTrue("no request is out", `window.out === 0`)
	send()
	p.waitUntilTrue(mutation+" is answered", `window.answers > 0 && window.out === 0`)
}

// badgeJS returns an expression for the badge on a tab of a phone, or on its icon, if there is one.
func badgeJS(side, tab string) string {
	where := "#" + side + "-" + tab + "-tab"
	if tab == "icon" {
		where = "." + side + " .app"
	}
	return fmt.Sprintf(`document.querySelector(%q)?.querySelector('.badge')`, where)
}

// badgeNumberJS returns an expression for the number of a badge: "" if there is none.
func badgeNumberJS(side, tab string) string {
	return `(` + badgeJS(side, tab) + `?.dataset.value ?? '')`
}

// waitBadgeShows waits until both phones have badges and show the number want on a tab. Without badges they show "" on every tab.
func (p *demoPage) waitBadgeShows(tab, want string) {
	p.t.Helper()
	for _, side := range []string{"left", "right"} {
		p.waitUntilTrue(fmt.Sprintf("the %s phone shows %q on %s", side, want, tab),
			fmt.Sprintf(`document.querySelector('.device.%s[data-version]') && %s === %q`, side, badgeNumberJS(side, tab), want))
	}
}

// waitBadgeNumber waits until both phones show the same number of a tab and neither marks it as uncertain, and returns the
// number. The server of a new demo counts some items only after a while.
func (p *demoPage) waitBadgeNumber(tab string) int {
	p.t.Helper()
	p.waitUntilTrue("both phones have badges", `document.querySelectorAll('.device[data-version]').length === 2`) // without them the phones agree on no number
	p.waitUntilTrue("the phones agree on "+tab, badgeNumberJS("left", tab)+" === "+badgeNumberJS("right", tab))
	for _, side := range []string{"left", "right"} {
		p.waitUntilTrue("the "+side+" phone is sure of "+tab, `!`+badgeJS(side, tab)+`?.classList.contains('unsure')`)
	}
	p.waitUntilTrue("the phones still agree on "+tab, badgeNumberJS("left", tab)+" === "+badgeNumberJS("right", tab))
	return browsertest.Evaluate[int](p.tab, p.t, `Number(`+badgeNumberJS("left", tab)+`)`)
}

// wantNoPageFaults checks that the page has no accessibility fault in its themes, fits into its window, and caused no complaint of the
// browser and no request to another server.
func (p *demoPage) wantNoPageFaults(state string) {
	p.t.Helper()
	for _, dark := range p.darkModesChecked {
		browsertest.SetDarkTheme(p.tab, p.t, dark)
		if found := browsertest.AccessibilityFaults(p.tab, p.t); len(found) > 0 {
			p.t.Errorf("%s, dark %t: axe finds %s", state, dark, strings.Join(found, "\n"))
		}
	}
	if found := browsertest.ForeignAddresses(p.tab, p.url); len(found) > 0 {
		p.t.Errorf("%s: the page asked elsewhere: %v", state, found)
	}
	if found := browsertest.PageErrors(p.tab); len(found) > 0 {
		p.t.Errorf("%s: the browser complained: %q", state, found)
	}
	if wide := browsertest.Evaluate[bool](p.tab, p.t, `document.documentElement.scrollWidth > innerWidth`); wide {
		p.t.Errorf("%s: the page is wider than its window", state)
	}
	p.savePicture(state)
}

// savePicture writes a screenshot into the folder TIDINGS_TEST_PICTURES, if it is set.
func (p *demoPage) savePicture(name string) {
	if folder := os.Getenv("TIDINGS_TEST_PICTURES"); folder != "" {
		width := browsertest.Evaluate[int](p.tab, p.t, `innerWidth`)
		browsertest.Screenshot(p.tab, p.t, filepath.Join(folder, fmt.Sprintf("%d %s.png", width, name)))
	}
}

// demoShowStartJobCount is the number of jobs of a new demo that wait for the start of a show.
const demoShowStartJobCount = 14

// startDemo starts a demo whose people do nothing, and waits until the jobs of what they did before are done. So only the page changes
// numbers.
func startDemo(t *testing.T, arguments ...string) *world.Process {
	t.Helper()
	// The test's end kills the demo, so a temporary folder that the demo makes itself would stay behind.
	server := world.StartServingProcess(t, "", append([]string{"--demo", "--demo-pace", "0", "--data", t.TempDir()}, arguments...)...)
	server.WaitForJobsExceptPlanned(2*time.Minute, demoShowStartJobCount)
	return server
}

// waitHomeFeedSeen waits until the posts that the left phone shows at its start are seen: they do not count, and no pill, the
// button that tells of new posts, is above them.
func (p *demoPage) waitHomeFeedSeen() {
	p.t.Helper()
	p.waitUntilTrue("the feed is there", `document.querySelectorAll('.left .post').length >= 10`)
	p.waitBadgeShows("home", "")
	if browsertest.Evaluate[bool](p.tab, p.t, `document.querySelector('#left-home .pill') !== null`) {
		p.t.Error("a pill is above the posts that it counts")
	}
}

// waitLikesGrouped waits until the newest notification has all its actors, because jobs fold the likes into it later.
func (p *demoPage) waitLikesGrouped(all int) {
	p.t.Helper()
	world.EventuallySucceeds(p.t, 2*time.Minute, func() error {
		var data struct {
			Viewer struct {
				Notifications struct{ Nodes []struct{ ActorCount int } }
			}
		}
		if err := world.Ask(p.url, "mia:viewer", `{viewer{notifications(first:1){nodes{actorCount}}}}`, nil, &data); err != nil {
			return err
		}
		if nodes := data.Viewer.Notifications.Nodes; len(nodes) != 1 || nodes[0].ActorCount != all {
			return fmt.Errorf("the newest notification is %v, not of %d likes", nodes, all)
		}
		return nil
	})
}
