package contract

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"tidings/tests/world"
	"tidings/web/browsertest"
)

// preferenceRowJS returns an expression for the row of a category in the preferences of a phone.
func preferenceRowJS(side, category string) string {
	return fmt.Sprintf(`document.querySelector('#%s-you .preferences [data-category=%s]')`, side, category)
}

// waitCategoryChoice waits until both phones show that a category counts in this mode, and whether it alerts.
func (p *demoPage) waitCategoryChoice(category, mode string, push bool) {
	p.t.Helper()
	for _, side := range []string{"left", "right"} {
		p.waitUntilTrue(fmt.Sprintf("the %s phone shows %s as %s, alerts %t", side, category, mode, push),
			fmt.Sprintf(`%[1]s?.querySelector('input:checked')?.value === %[2]q && %[1]s.querySelector('[type=checkbox]').checked === %[3]t && %[1]s.querySelector('[type=checkbox]').disabled === %[4]t`,
				preferenceRowJS(side, category), mode, push, mode != "COUNT"))
	}
}

// clickCategoryChoice clicks a choice in a category's preferences on one phone.
func (p *demoPage) clickCategoryChoice(side, category, choice string) {
	p.t.Helper()
	browsertest.Evaluate[bool](p.tab, p.t, fmt.Sprintf(`(%s.querySelector(%q).click(), true)`, preferenceRowJS(side, category), choice))
}

// likeNewPostOfMia publishes a post of Mia, the user of the page, and lets another user like it: Mia then has a new notification.
func (p *demoPage) likeNewPostOfMia(by string) {
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

// waitIconTotalWithBell waits until the icon of each phone shows a sum: ofBell plus the numbers of all tabs but the bell, which may
// still rise.
func (p *demoPage) waitIconTotalWithBell(ofBell int) {
	p.t.Helper()
	for _, side := range []string{"left", "right"} {
		sum := fmt.Sprint(ofBell)
		for _, tab := range []string{"home", "live", "chat", "you"} {
			sum += ` + Number(` + badgeNumberJS(side, tab) + `)`
		}
		p.waitUntilTrue(fmt.Sprintf("the %s phone's icon has %d of the bell", side, ofBell), `Number(`+badgeNumberJS(side, "icon")+`) === `+sum)
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
			p.waitUntilTrue("the feed is there", `document.querySelectorAll('.left .post').length >= 10`)
			p.click("#left-bell-tab") // so that nothing is new in the bell
			p.waitBadgeShows("bell", "")
			for _, side := range []string{"left", "right"} {
				p.click("#" + side + "-you-tab")
				p.waitUntilTrue("the preferences have every category", fmt.Sprintf(`[...document.querySelectorAll('#%s-you .preferences tbody th')].map((name) => name.innerText).join() === 'Likes,Answers,Mentions,Followers,Reminders,orders'`, side))
			}
			p.likeNewPostOfMia("ben")
			p.waitBadgeShows("bell", "1")
			p.waitIconTotalWithBell(1)
			p.checkCategoryModes()
			p.checkCategoryAlerts()
			p.checkHostCategoryChoices()
			p.checkPreferencesByKeyboard()
			browsertest.Evaluate[bool](p.tab, t, `(document.querySelectorAll('.preferences').forEach((table) => table.scrollIntoView({block: 'center'})), document.querySelector('.left').scrollIntoView({inline: 'center'}), true)`)
			p.wantNoPageFaults("preferences")
			p.checkPreferencesInChinese()
		})
	}
}

// checkCategoryModes makes a category count as a dot, not at all, and as a number, on either phone. The numbers and the choices of
// both phones follow.
func (p *demoPage) checkCategoryModes() {
	p.t.Helper()
	for _, step := range []struct {
		side, mode, bell string
		counts           int
	}{{"left", "DOT", "dot", 0}, {"right", "OFF", "", 0}, {"left", "COUNT", "1", 1}, {"right", "DOT", "dot", 0}, {"right", "COUNT", "1", 1}} {
		p.clickCategoryChoice(step.side, "LIKE", `[value=`+step.mode+`]`)
		p.waitCategoryChoice("LIKE", step.mode, step.mode == "COUNT")
		p.waitBadgeShows("bell", step.bell)
		p.waitIconTotalWithBell(step.counts)
	}
}

// checkCategoryAlerts switches the alerts of a category on either phone, and checks that both phones show the change and that the
// server has it.
func (p *demoPage) checkCategoryAlerts() {
	p.t.Helper()
	for i, side := range []string{"left", "right"} {
		p.clickCategoryChoice(side, "LIKE", "[type=checkbox]")
		p.waitCategoryChoice("LIKE", "COUNT", i == 1)
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

// checkHostCategoryChoices checks that a category of the host application offers the choices COUNT, DOT and OFF, as a built-in one does.
func (p *demoPage) checkHostCategoryChoices() {
	p.t.Helper()
	p.clickCategoryChoice("right", "orders", "[value=OFF]")
	p.waitCategoryChoice("orders", "OFF", false)
	p.clickCategoryChoice("left", "orders", "[value=COUNT]")
	p.waitCategoryChoice("orders", "COUNT", true)
}

// checkPreferencesByKeyboard checks that the arrow keys step through the modes of a category.
func (p *demoPage) checkPreferencesByKeyboard() {
	p.t.Helper()
	browsertest.Evaluate[bool](p.tab, p.t, fmt.Sprintf(`(%s.querySelector('input:checked').focus(), true)`, preferenceRowJS("left", "FOLLOW")))
	browsertest.PressKey(p.tab, p.t, kb.ArrowRight)
	p.waitCategoryChoice("FOLLOW", "DOT", false)
	browsertest.PressKey(p.tab, p.t, kb.ArrowRight)
	p.waitCategoryChoice("FOLLOW", "OFF", false)
	browsertest.PressKey(p.tab, p.t, kb.ArrowLeft)
	browsertest.PressKey(p.tab, p.t, kb.ArrowLeft)
	p.waitCategoryChoice("FOLLOW", "COUNT", true)
	browsertest.PressKey(p.tab, p.t, kb.Tab)
	p.waitUntilTrue("the next stop is whether it alerts", preferenceRowJS("left", "FOLLOW")+`.querySelector('[type=checkbox]') === document.activeElement`)
	// The first key switches the box in the browser too, so the box does not show whether the page knows the answer.
	pressSpace := func() {
		p.waitMutationAnswered("setCategoryPreference", func() { browsertest.PressKey(p.tab, p.t, " ") })
	}
	pressSpace()
	p.waitCategoryChoice("FOLLOW", "COUNT", false)
	pressSpace()
	p.waitCategoryChoice("FOLLOW", "COUNT", true)
}

// checkPreferencesInChinese checks that the table of preferences has no word in Latin letters.
func (p *demoPage) checkPreferencesInChinese() {
	p.t.Helper()
	p.click(".top nav button")
	p.waitUntilTrue("the page is in Chinese", `document.documentElement.lang === 'zh'`)
	for _, column := range []string{"thead th", "tbody [data-category=LIKE] th", "tbody [data-category=REMINDER] th", "tbody [data-category=LIKE] .choice"} {
		if text := browsertest.Evaluate[string](p.tab, p.t, fmt.Sprintf(`[...document.querySelectorAll('#left-you .preferences %s')].map((one) => one.innerText).join()`, column)); text == "" || latinLetter.MatchString(text) {
			p.t.Errorf("in Chinese %s is %q", column, text)
		}
	}
	p.wantNoPageFaults("preferences in Chinese")
}
