package contract

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"tidings/tests/world"
	"tidings/web/browsertest"
)

// closedPhoneNumberJS is an expression for the number on the phone whose app is closed.
const closedPhoneNumberJS = `(document.querySelector('.locked .badge')?.dataset.value ?? '')`

// waitClosedPhoneShows waits until the phone whose app is closed shows this number, set with an alert or, if silent, without one.
func (p *demoPage) waitClosedPhoneShows(want string, silent bool) {
	p.t.Helper()
	p.waitUntilTrue(fmt.Sprintf("the closed phone shows %q, silent %t", want, silent), fmt.Sprintf(`%s === %q && document.querySelector('.locked').dataset.silent === '%t'`, closedPhoneNumberJS, want, silent))
}

// waitClosedPhoneShowsDelay waits until the phone whose app is closed says how long its new number took to arrive, followed by words.
func (p *demoPage) waitClosedPhoneShowsDelay(words string) {
	p.t.Helper()
	p.waitUntilTrue("it says how long it took", fmt.Sprintf(`/^\d+ after [1-9]\d* ms, %s$/.test(document.querySelector('.locked [role=status]').innerText)`, words))
}

// waitSettledTotal waits until the icons of all three phones show the same number, which it returns.
func (p *demoPage) waitSettledTotal() (total int) {
	p.t.Helper()
	p.waitHomeFeedSeen()
	p.waitUntilTrue("the bell has what happened", badgeNumberJS("left", "bell")+` !== ''`)
	p.waitUntilTrue("three phones agree", fmt.Sprintf(`%[1]s !== '' && %[1]s === %[2]s && %[1]s === %[3]s`, closedPhoneNumberJS, badgeNumberJS("left", "icon"), badgeNumberJS("right", "icon")))
	return p.waitBadgeNumber("icon")
}

// The application sets the icon of a third phone, whose app is closed, from the change stream. The number rises with an alert and
// falls in silence, as the person's preferences say, also when Redis loses everything. The page's own sockets have no part in it.
func TestTheDemoPageHasAClosedPhone(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int64{{1280, 720}, {390, 844}} {
		t.Run(fmt.Sprint(size[0]), func(t *testing.T) {
			t.Parallel()
			p := openDemoInSize(t, startDemo(t).URL, size)
			total := p.waitSettledTotal()
			p.wantNoPageFaults("closed, at the start")
			p.checkClosedPhoneAlert(total)
			p.checkClosedPhonePreferences()
			p.checkClosedPhoneWithoutSockets()
			p.checkClosedPhoneAfterFlush()
			p.checkClosedPhoneInChinese()
		})
	}
}

// checkClosedPhoneAlert checks that a post raises the number with an alert that has its words, and that the number falls in silence
// once the post is seen on the left phone.
func (p *demoPage) checkClosedPhoneAlert(total int) {
	p.t.Helper()
	p.clickLeverButton("post")
	p.waitClosedPhoneShows(fmt.Sprint(total+1), false)
	p.waitClosedPhoneShowsDelay("with an alert")
	p.waitUntilTrue("it has the words of the post", `/Ben: Who wants the last slice/.test(document.querySelector('.locked .alert').innerText)`)
	p.wantNoPageFaults("closed, after an alert")
	p.click(".left .pill")
	p.waitBadgeShows("home", "")
	p.waitClosedPhoneShows(fmt.Sprint(total), true)
	p.waitClosedPhoneShowsDelay("silently")
}

// checkClosedPhonePreferences checks that a category without alerts changes the number in silence, and that a category with alerts
// shows the words of its alert.
func (p *demoPage) checkClosedPhonePreferences() {
	p.t.Helper()
	p.click("#left-bell-tab")
	p.waitBadgeShows("bell", "")
	total := p.waitBadgeNumber("icon")
	p.waitClosedPhoneShows(fmt.Sprint(total), true)
	set := func(push bool) {
		p.t.Helper()
		if err := world.Ask(p.url, "mia", fmt.Sprintf(`mutation { setCategoryPreference(input: {category: "LIKE", push: %t}) { changed } }`, push), nil, nil); err != nil {
			p.t.Fatal(err)
		}
	}
	set(false)
	p.likeNewPostOfMia("ben")
	p.waitClosedPhoneShows(fmt.Sprint(total+1), true)
	if text := browsertest.Evaluate[string](p.tab, p.t, `document.querySelector('.locked .alert').innerText`); strings.Contains(text, "liked") {
		p.t.Errorf("a like without alerts alerted: %q", text)
	}
	set(true)
	p.likeNewPostOfMia("ben")
	p.waitClosedPhoneShows(fmt.Sprint(total+2), false)
	p.waitUntilTrue("it has the words of the like", `document.querySelector('.locked .alert').innerText.includes('liked your post')`)
	p.click("#left-home-tab")
	p.click("#left-bell-tab")
	p.waitBadgeShows("bell", "")
	p.waitClosedPhoneShows(fmt.Sprint(total), true)
	p.click("#left-home-tab")
}

// checkClosedPhoneWithoutSockets checks that the right phone keeps its number while it has no network, and that the closed phone gets the
// new number.
func (p *demoPage) checkClosedPhoneWithoutSockets() {
	p.t.Helper()
	total := p.waitBadgeNumber("icon")
	p.clickLeverButton("cut")
	p.waitUntilTrue("the right phone is cut", `document.querySelector('.device.right').dataset.state === 'cut'`)
	p.clickLeverButton("post")
	p.waitClosedPhoneShows(fmt.Sprint(total+1), false)
	if right := browsertest.Evaluate[string](p.tab, p.t, badgeNumberJS("right", "icon")); right != fmt.Sprint(total) {
		p.t.Errorf("the phone without a network shows %q, want %d", right, total)
	}
	p.clickLeverButton("cut")
	p.waitBadgeShows("icon", fmt.Sprint(total+1))
}

// checkClosedPhoneAfterFlush checks that the closed phone keeps its number when Redis loses everything, and follows afterwards.
func (p *demoPage) checkClosedPhoneAfterFlush() {
	p.t.Helper()
	total := p.waitBadgeNumber("icon")
	p.clickLeverButton("flush")
	p.waitUntilTrue("the total is back", `document.querySelector('.said').innerText.includes('equal')`)
	p.waitUntilTrue("the closed phone has it", fmt.Sprintf(`%s === '%d'`, closedPhoneNumberJS, total))
	p.clickLeverButton("post")
	p.waitClosedPhoneShows(fmt.Sprint(total+1), false)
	p.click(".left .pill")
	p.waitBadgeShows("home", "")
	p.waitClosedPhoneShows(fmt.Sprint(p.waitBadgeNumber("icon")), true)
}

// checkClosedPhoneInChinese checks the words of the closed phone in Chinese.
func (p *demoPage) checkClosedPhoneInChinese() {
	p.t.Helper()
	p.click(".top nav button")
	p.clickLeverButton("post")
	p.waitUntilTrue("it is announced in Chinese", `/^\d+，用时 \d+ 毫秒，有提醒$/.test(document.querySelector('.locked [role=status]').innerText)`)
	browsertest.Evaluate[bool](p.tab, p.t, `(document.querySelector('.locked').scrollIntoView({block: 'center'}), true)`)
	p.wantNoPageFaults("closed, in Chinese")
}

// When the server restarts under the page, the closed phone keeps its number and then follows again, without a reload.
func TestTheClosedPhoneFollowsAgainAfterAServerRestart(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "world")
	server := startDemo(t, "--data", folder)
	p := openDemo(t, server.URL, 390, 844)
	total := p.waitSettledTotal()
	// Otherwise the left phone shows the home feed, which is read anew after a reconnection, and posts that are shown do not count.
	p.click("#left-chat-tab")
	server.Kill()
	p.waitUntilTrue("it says that it is out of reach", `document.querySelector('.locked').dataset.here === 'false' && document.querySelector('.locked [role=status]').innerText.includes('keeps its number')`)
	if got := browsertest.Evaluate[string](p.tab, t, closedPhoneNumberJS); got != fmt.Sprint(total) {
		t.Errorf("without its server it shows %q, want %d", got, total)
	}
	startDemo(t, "--data", folder, "--listen", strings.TrimPrefix(server.URL, "http://"))
	p.waitUntilTrue("it is in reach", `document.querySelector('.locked').dataset.here === 'true'`)
	p.waitBadgeShows("icon", fmt.Sprint(total))
	// The new server reads the change stream from its start without alerts, and nothing on the page shows when it has. So the first post
	// may be silent, and once it is there, the second must alert.
	p.clickLeverButton("post")
	p.waitBadgeShows("icon", fmt.Sprint(total+1))
	p.waitUntilTrue("the closed phone follows again", fmt.Sprintf(`%s === '%d'`, closedPhoneNumberJS, total+1))
	p.clickLeverButton("post")
	p.waitBadgeShows("icon", fmt.Sprint(total+2))
	p.waitClosedPhoneShows(fmt.Sprint(total+2), false)
	p.wantOnlyMissingServerComplaints()
}
