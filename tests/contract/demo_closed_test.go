package contract

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"tidings/tests/world"
	"tidings/web/browsertest"
)

// closedNumber is an expression for the number on the phone whose app is closed.
const closedNumber = `(document.querySelector('.locked .badge')?.dataset.value ?? '')`

// waitClosedShows waits until the phone whose app is closed shows this number, set with an alert or, if silent, without one.
func (p *demoPage) waitClosedShows(want string, silent bool) {
	p.t.Helper()
	p.wait(fmt.Sprintf("the closed phone shows %q, silent %t", want, silent), fmt.Sprintf(`%s === %q && document.querySelector('.locked').dataset.silent === '%t'`, closedNumber, want, silent))
}

// waitClosedShowsDelay waits until the closed phone says how long the change took, followed by words.
func (p *demoPage) waitClosedShowsDelay(words string) {
	p.t.Helper()
	p.wait("it says how long it took", fmt.Sprintf(`/^\d+ after [1-9]\d* ms, %s$/.test(document.querySelector('.locked [role=status]').innerText)`, words))
}

// waitSettledTotal waits until all three phones have the same number, which it returns.
func (p *demoPage) waitSettledTotal() (total int) {
	p.t.Helper()
	p.waitHomeSeen()
	p.wait("the bell has what happened", number("left", "bell")+` !== ''`)
	p.wait("three phones agree", fmt.Sprintf(`%[1]s !== '' && %[1]s === %[2]s && %[1]s === %[3]s`, closedNumber, number("left", "icon"), number("right", "icon")))
	return p.waitNumber("icon")
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
			p.wantClean("closed, at the start")
			p.checkAlertAndFall(total)
			p.checkClosedPreferences()
			p.checkClosedWithoutSockets()
			p.checkClosedAfterFlush()
			p.checkClosedInChinese()
		})
	}
}

// checkAlertAndFall checks that a post raises the number with an alert that has its words, and that the number falls in silence once
// the post is seen on the left phone.
func (p *demoPage) checkAlertAndFall(total int) {
	p.t.Helper()
	p.pull("post")
	p.waitClosedShows(fmt.Sprint(total+1), false)
	p.waitClosedShowsDelay("with an alert")
	p.wait("it has the words of the post", `/Ben: Who wants the last slice/.test(document.querySelector('.locked .alert').innerText)`)
	p.wantClean("closed, after an alert")
	p.click(".left .pill")
	p.waitShows("home", "")
	p.waitClosedShows(fmt.Sprint(total), true)
	p.waitClosedShowsDelay("silently")
}

// checkClosedPreferences checks that a category without alerts changes the number in silence, and that a category with alerts shows the
// words of its alert.
func (p *demoPage) checkClosedPreferences() {
	p.t.Helper()
	p.click("#left-bell-tab")
	p.waitShows("bell", "")
	total := p.waitNumber("icon")
	p.waitClosedShows(fmt.Sprint(total), true)
	set := func(push bool) {
		p.t.Helper()
		if err := world.Ask(p.url, "mia", fmt.Sprintf(`mutation { setCategoryPreference(input: {category: "LIKE", push: %t}) { changed } }`, push), nil, nil); err != nil {
			p.t.Fatal(err)
		}
	}
	set(false)
	p.likeMia("ben")
	p.waitClosedShows(fmt.Sprint(total+1), true)
	if text := browsertest.Evaluate[string](p.tab, p.t, `document.querySelector('.locked .alert').innerText`); strings.Contains(text, "liked") {
		p.t.Errorf("a like without alerts alerted: %q", text)
	}
	set(true)
	p.likeMia("ben")
	p.waitClosedShows(fmt.Sprint(total+2), false)
	p.wait("it has the words of the like", `document.querySelector('.locked .alert').innerText.includes('liked your post')`)
	p.click("#left-home-tab")
	p.click("#left-bell-tab")
	p.waitShows("bell", "")
	p.waitClosedShows(fmt.Sprint(total), true)
	p.click("#left-home-tab")
}

// checkClosedWithoutSockets checks that a right phone without a network keeps its number, while the closed phone gets the new
// number.
func (p *demoPage) checkClosedWithoutSockets() {
	p.t.Helper()
	total := p.waitNumber("icon")
	p.pull("cut")
	p.wait("the right phone is cut", `document.querySelector('.device.right').dataset.state === 'cut'`)
	p.pull("post")
	p.waitClosedShows(fmt.Sprint(total+1), false)
	if right := browsertest.Evaluate[string](p.tab, p.t, number("right", "icon")); right != fmt.Sprint(total) {
		p.t.Errorf("the phone without a network shows %q, want %d", right, total)
	}
	p.pull("cut")
	p.waitShows("icon", fmt.Sprint(total+1))
}

// checkClosedAfterFlush checks that the closed phone keeps its number when Redis loses everything, and follows afterwards.
func (p *demoPage) checkClosedAfterFlush() {
	p.t.Helper()
	total := p.waitNumber("icon")
	p.pull("flush")
	p.wait("the total is back", `document.querySelector('.said').innerText.includes('equal')`)
	p.wait("the closed phone has it", fmt.Sprintf(`%s === '%d'`, closedNumber, total))
	p.pull("post")
	p.waitClosedShows(fmt.Sprint(total+1), false)
	p.click(".left .pill")
	p.waitShows("home", "")
	p.waitClosedShows(fmt.Sprint(p.waitNumber("icon")), true)
}

// checkClosedInChinese checks the words of the closed phone in Chinese.
func (p *demoPage) checkClosedInChinese() {
	p.t.Helper()
	p.click(".top nav button")
	p.pull("post")
	p.wait("it is told in Chinese", `/^\d+，用时 \d+ 毫秒，有提醒$/.test(document.querySelector('.locked [role=status]').innerText)`)
	browsertest.Evaluate[bool](p.tab, p.t, `(document.querySelector('.locked').scrollIntoView({block: 'center'}), true)`)
	p.wantClean("closed, in Chinese")
}

// When the server restarts under the page, the closed phone keeps its number and then follows again, without a reload.
func TestTheClosedPhoneOutlivesItsServer(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "world")
	server := startDemo(t, "--data", folder)
	p := openDemo(t, server.URL, 390, 844)
	total := p.waitSettledTotal()
	p.click("#left-chat-tab") // a home on the screen is read again with the connection, and a post that it then shows counts no more
	server.Kill()
	p.wait("it says that it is out of reach", `document.querySelector('.locked').dataset.here === 'false' && document.querySelector('.locked [role=status]').innerText.includes('keeps its number')`)
	if got := browsertest.Evaluate[string](p.tab, t, closedNumber); got != fmt.Sprint(total) {
		t.Errorf("without its server it shows %q, want %d", got, total)
	}
	startDemo(t, "--data", folder, "--listen", strings.TrimPrefix(server.URL, "http://"))
	p.wait("it is in reach", `document.querySelector('.locked').dataset.here === 'true'`)
	p.waitShows("icon", fmt.Sprint(total))
	// The new server reads the stream from its start without alerts, and nothing on the page shows when it has. So the first post may be
	// silent, and once it is there, the second must alert.
	p.pull("post")
	p.waitShows("icon", fmt.Sprint(total+1))
	p.wait("the closed phone follows again", fmt.Sprintf(`%s === '%d'`, closedNumber, total+1))
	p.pull("post")
	p.waitShows("icon", fmt.Sprint(total+2))
	p.waitClosedShows(fmt.Sprint(total+2), false)
	p.wantOnlyServerMissing()
}
