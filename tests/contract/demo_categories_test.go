package contract

import (
	"fmt"
	"regexp"

	"tidings/tests/world"
	"tidings/web/browsertest"
)

var latinLetter = regexp.MustCompile(`[A-Za-z]`) // a letter that Chinese words do not have

// checkHostCategory checks that a notification in a category of the host application is a row with its words, in the bell (the list of
// notifications) and among the rows that explain the bell's number.
func (p *demoPage) checkHostCategory() {
	p.t.Helper()
	before := p.waitBadgeNumber("bell")
	for _, one := range [][2]string{
		{"host:admin", `mutation { defineCategory(input: {name: "orders", expiryDays: 7, grouped: true, style: NUMBER, inTotal: true}) { created } }`},
		{"host:ingest", `mutation { ingest(events: [{do: {notify: {category: "orders", to: ["user:mia"], title: "Your order was sent", body: "It arrives tomorrow."}}}]) { results { id } } }`},
	} {
		if err := world.Ask(p.url, one[0], one[1], nil, nil); err != nil {
			p.t.Fatal(err)
		}
	}
	p.waitBadgeShows("bell", fmt.Sprint(before+1))
	browsertest.Evaluate[bool](p.tab, p.t, `(document.querySelector('#left-bell-tab').dispatchEvent(new MouseEvent('contextmenu', {bubbles: true, cancelable: true})), true)`)
	p.waitUntilTrue("its words are behind the number", `[...document.querySelectorAll('.left .why .reasons li')].some((row) => row.innerText.includes('Your order was sent'))`)
	p.click(".left .why header button")
	for _, side := range []string{"left", "right"} {
		p.click("#" + side + "-bell-tab")
		p.waitUntilTrue("its words are in the bell", `(() => {
			const text = document.querySelector('#`+side+`-bell .row')?.innerText;
			return text?.includes('Your order was sent') && text.includes('It arrives tomorrow.') && !text.includes('HOST');
		})()`)
	}
	p.waitBadgeShows("bell", "")
	p.wantNoPageFaults("two bells")
	p.click("#left-home-tab")
}

// checkBadgeExplanationInChinese checks that the sources and their parts have Chinese names.
func (p *demoPage) checkBadgeExplanationInChinese() {
	p.t.Helper()
	if err := world.Ask(p.url, "ben", `mutation { publishPost(input: {body: "@mia look"}) { post { id } } }`, nil, nil); err != nil {
		p.t.Fatal(err)
	}
	p.waitUntilTrue("the mention is a number", badgeNumberJS("left", "bell")+` !== ''`)
	browsertest.Evaluate[bool](p.tab, p.t, `(document.querySelector('#left-bell-tab').dispatchEvent(new MouseEvent('contextmenu', {bubbles: true, cancelable: true})), true)`)
	p.waitUntilTrue("the rows are listed", `document.querySelector('.left .why h3 small')`)
	if names := browsertest.Evaluate[string](p.tab, p.t, `[...document.querySelectorAll('.left .why h3')].map((name) => name.innerText).join()`); latinLetter.MatchString(names) {
		p.t.Errorf("in Chinese the parts are named %q", names)
	}
	p.click(".left .why header button")
	p.click("#left-bell-tab")
	p.waitBadgeShows("bell", "")
	p.click("#left-home-tab")
}
