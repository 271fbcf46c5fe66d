package contract

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"tidings/tests/world"
	"tidings/web/browsertest"
)

// preferenceRow returns an expression for the row of a category in the preferences of a phone.
func preferenceRow(side, category string) string {
	return fmt.Sprintf(`document.querySelector('#%s-you .preferences [data-category=%s]')`, side, category)
}

// waitChoice waits until both phones show that a category counts in this mode, and whether it alerts.
func (p *demoPage) waitChoice(category, mode string, push bool) {
	p.t.Helper()
	for _, side := range []string{"left", "right"} {
		p.wait(fmt.Sprintf("the %s phone shows %s as %s, alerts %t", side, category, mode, push),
			fmt.Sprintf(`%[1]s?.querySelector('input:checked')?.value === %[2]q && %[1]s.querySelector('[type=checkbox]').checked === %[3]t && %[1]s.querySelector('[type=checkbox]').disabled === %[4]t`,
				preferenceRow(side, category), mode, push, mode != "COUNT"))
	}
}

// clickChoice clicks a choice in a category's preferences on one phone.
func (p *demoPage) clickChoice(side, category, choice string) {
	p.t.Helper()
	browsertest.Evaluate[bool](p.tab, p.t, fmt.Sprintf(`(%s.querySelector(%q).click(), true)`, preferenceRow(side, category), choice))
}

// likeMia lets somebody like a new post of Mia, so that a notification is new.
func (p *demoPage) likeMia(by string) {
	p.t.Helper()
	var data struct {
		PublishPost struct{ Post struct{ ID string } }
	}
	if err := world.Ask(p.url, "mia", `mutation { publishPost(input: {body: "My garden"}) { post { id } } }`, nil, &data); err != nil {
		p.t.Fatal(err)
	}
	if err := world.Ask(p.url, by, `mutation($p: ID!) { likePost(input: {postId: $p}) { post { id } } }`, map[string]any{"p": data.PublishPost.Post.ID}, nil); err != nil {
		p.t.Fatal(err)
	}
}

// waitIconShows waits until the icon of each phone shows a sum: ofBell plus the numbers of all tabs but the bell, which may still rise.
func (p *demoPage) waitIconShows(ofBell int) {
	p.t.Helper()
	for _, side := range []string{"left", "right"} {
		sum := fmt.Sprint(ofBell)
		for _, tab := range []string{"home", "live", "chat", "you"} {
			sum += ` + Number(` + number(side, tab) + `)`
		}
		p.wait(fmt.Sprintf("the %s phone's icon has %d of the bell", side, ofBell), `Number(`+number(side, "icon")+`) === `+sum)
	}
}

// A preference for a category can be changed and changed back on either phone, and applies at once on both.
func TestTheDemoPageHasPreferences(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int64{{1280, 720}, {390, 844}} {
		t.Run(fmt.Sprint(size[0]), func(t *testing.T) {
			t.Parallel()
			server := startDemo(t)
			if err := world.Ask(server.URL, "host:admin", `mutation { defineCategory(input: {name: "orders", style: NUMBER, inTotal: true}) { created } }`, nil, nil); err != nil {
				t.Fatal(err)
			}
			p := openDemoInSize(t, server.URL, size)
			p.wait("the feed is there", `document.querySelectorAll('.left .post').length >= 10`)
			p.click("#left-bell-tab") // so that nothing is new in the bell
			p.waitShows("bell", "")
			for _, side := range []string{"left", "right"} {
				p.click("#" + side + "-you-tab")
				p.wait("the preferences have every category", fmt.Sprintf(`[...document.querySelectorAll('#%s-you .preferences tbody th')].map((name) => name.innerText).join() === 'Likes,Answers,Mentions,Followers,Reminders,orders'`, side))
			}
			p.likeMia("ben")
			p.waitShows("bell", "1")
			p.waitIconShows(1)
			p.checkModes()
			p.checkAlerts()
			p.checkOrdersChoices()
			p.checkPreferencesByKeys()
			browsertest.Evaluate[bool](p.tab, t, `(document.querySelectorAll('.preferences').forEach((table) => table.scrollIntoView({block: 'center'})), document.querySelector('.left').scrollIntoView({inline: 'center'}), true)`)
			p.wantClean("preferences")
			p.checkPreferencesInChinese()
		})
	}
}

// checkModes makes a category count as a dot, not at all, and as a number, on either phone. The numbers and the choices of both
// phones follow.
func (p *demoPage) checkModes() {
	p.t.Helper()
	for _, step := range []struct {
		side, mode, bell string
		counts           int
	}{{"left", "DOT", "dot", 0}, {"right", "OFF", "", 0}, {"left", "COUNT", "1", 1}, {"right", "DOT", "dot", 0}, {"right", "COUNT", "1", 1}} {
		p.clickChoice(step.side, "LIKE", `[value=`+step.mode+`]`)
		p.waitChoice("LIKE", step.mode, step.mode == "COUNT")
		p.waitShows("bell", step.bell)
		p.waitIconShows(step.counts)
	}
}

// checkAlerts switches the alerts of a category on either phone, and checks that both phones show the change and that the server has
// it.
func (p *demoPage) checkAlerts() {
	p.t.Helper()
	for i, side := range []string{"left", "right"} {
		p.clickChoice(side, "LIKE", "[type=checkbox]")
		p.waitChoice("LIKE", "COUNT", i == 1)
		var data struct {
			Viewer struct {
				Preferences struct {
					Categories []struct {
						Category string
						Push     bool
					}
				}
			}
		}
		if err := world.Ask(p.url, "mia", `{ viewer { preferences { categories { category push } } } }`, nil, &data); err != nil {
			p.t.Fatal(err)
		}
		if first := data.Viewer.Preferences.Categories[0]; first.Category != "LIKE" || first.Push != (i == 1) {
			p.t.Errorf("after a click on the %s phone the server has %+v", side, first)
		}
	}
}

// checkOrdersChoices checks that a category of the host application has the same choices.
func (p *demoPage) checkOrdersChoices() {
	p.t.Helper()
	p.clickChoice("right", "orders", "[value=OFF]")
	p.waitChoice("orders", "OFF", false)
	p.clickChoice("left", "orders", "[value=COUNT]")
	p.waitChoice("orders", "COUNT", true)
}

// checkPreferencesByKeys checks that the arrow keys step through the modes of a category.
func (p *demoPage) checkPreferencesByKeys() {
	p.t.Helper()
	browsertest.Evaluate[bool](p.tab, p.t, fmt.Sprintf(`(%s.querySelector('input:checked').focus(), true)`, preferenceRow("left", "FOLLOW")))
	browsertest.PressKey(p.tab, p.t, kb.ArrowRight)
	p.waitChoice("FOLLOW", "DOT", false)
	browsertest.PressKey(p.tab, p.t, kb.ArrowRight)
	p.waitChoice("FOLLOW", "OFF", false)
	browsertest.PressKey(p.tab, p.t, kb.ArrowLeft)
	browsertest.PressKey(p.tab, p.t, kb.ArrowLeft)
	p.waitChoice("FOLLOW", "COUNT", true)
	browsertest.PressKey(p.tab, p.t, kb.Tab)
	p.wait("the next stop is whether it alerts", preferenceRow("left", "FOLLOW")+`.querySelector('[type=checkbox]') === document.activeElement`)
	// The first key switches the box in the browser too, so the box does not show whether the page knows the answer.
	pressSpace := func() {
		p.waitAnswered("setCategoryPreference", func() { browsertest.PressKey(p.tab, p.t, " ") })
	}
	pressSpace()
	p.waitChoice("FOLLOW", "COUNT", false)
	pressSpace()
	p.waitChoice("FOLLOW", "COUNT", true)
}

// checkPreferencesInChinese checks that the table of preferences has no word in Latin letters.
func (p *demoPage) checkPreferencesInChinese() {
	p.t.Helper()
	p.click(".top nav button")
	p.wait("the page is in Chinese", `document.documentElement.lang === 'zh'`)
	for _, column := range []string{"thead th", "tbody [data-category=LIKE] th", "tbody [data-category=REMINDER] th", "tbody [data-category=LIKE] .choice"} {
		if text := browsertest.Evaluate[string](p.tab, p.t, fmt.Sprintf(`[...document.querySelectorAll('#left-you .preferences %s')].map((one) => one.innerText).join()`, column)); text == "" || latin.MatchString(text) {
			p.t.Errorf("in Chinese %s is %q", column, text)
		}
	}
	p.wantClean("preferences in Chinese")
}
