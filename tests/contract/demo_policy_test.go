package contract

import (
	"fmt"

	"tidings/services"
	"tidings/web/browsertest"
)

// checkDisplayPolicy checks that a source can be taken out of the total, and made a dot instead of a number, on both phones.
func (p *demoPage) checkDisplayPolicy() {
	p.t.Helper()
	chats, total := p.waitBadgeNumber("chat"), p.waitBadgeNumber("icon")
	if chats == 0 {
		p.t.Fatal("there are no unread messages: this test shows nothing")
	}
	press := func(column int) { p.clickPolicyBox("Chat", column) }
	text := func(number int) string {
		if number == 0 {
			return ""
		}
		return fmt.Sprint(number)
	}
	press(0)
	p.waitBadgeShows("icon", text(total-chats))
	press(0)
	p.waitBadgeShows("icon", text(total))
	press(1)
	p.waitBadgeShows("chat", "dot")
	press(1)
	p.waitBadgeShows("chat", text(chats))
	p.checkViews(total)
	pressQuiet := func() { p.waitMutationAnswered("setDisplayPolicy", func() { p.click("#right-you .switch input") }) }
	pressQuiet()
	p.waitBadgeShows("icon", "")
	p.waitUntilTrue("the title is quiet", `document.title === 'Tidings'`)
	pressQuiet()
	p.waitBadgeShows("icon", text(total))
}

// policyRowJS returns an expression for the row of a source in the display policy of the right phone.
func policyRowJS(source string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('#right-you .policy tbody tr')].find((row) => row.innerText.startsWith(%q))`, source)
}

// clickPolicyBox clicks a box in the source's row of the display policy: column 0 takes the source into the total or out of it,
// column 1 makes it a dot or a number. It waits for the answer, because the page computes what the next click sends from the policy
// that it knows.
func (p *demoPage) clickPolicyBox(source string, column int) {
	p.t.Helper()
	p.waitUntilTrue("the policy is there", policyRowJS(source))
	p.waitMutationAnswered("setDisplayPolicy", func() {
		browsertest.Evaluate[bool](p.tab, p.t, fmt.Sprintf(`(%s.querySelectorAll('input')[%d].click(), true)`, policyRowJS(source), column))
	})
}

// checkViews checks that every source of the schema is in the policy. New items of views are not in the total until the policy
// includes them. Their rows are explained and cleared like the rows of any number.
func (p *demoPage) checkViews(total int) {
	p.t.Helper()
	if rows := browsertest.Evaluate[int](p.tab, p.t, `document.querySelectorAll('#right-you .policy tbody tr').length`); rows != len(services.Sources) {
		p.t.Errorf("the policy has %d sources of %d", rows, len(services.Sources))
	}
	p.waitUntilTrue("two items of a view are new", policyRowJS("Views")+`?.querySelector('.badge')?.dataset.value === '2'`)
	p.clickPolicyBox("Views", 0)
	p.waitBadgeShows("icon", fmt.Sprint(total+2))
	p.clickPolicyBox("Views", 0)
	p.waitBadgeShows("icon", fmt.Sprint(total))
	browsertest.Evaluate[bool](p.tab, p.t, `(`+policyRowJS("Views")+`.querySelector('.behind').click(), true)`)
	p.waitUntilTrue("their rows are listed", `document.querySelector('.right .why .sum')?.textContent === '2' && document.querySelector('.right .why .reasons li').innerText.includes('Old harbour')`)
	p.wantNoPageFaults("why views")
	p.click(".right .why .reasons button")
	p.waitUntilTrue("nothing is new in views", `!`+policyRowJS("Views")+`.querySelector('.badge')`)
	p.click(".right .why header button")
	p.waitBadgeShows("icon", fmt.Sprint(total))
}
