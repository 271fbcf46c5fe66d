package contract

import (
	"fmt"

	"tidings/services"
	"tidings/web/browsertest"
)

// checkPolicy checks that a source can be taken out of the total, and made a dot instead of a number, on both phones.
func (p *demoPage) checkPolicy() {
	p.t.Helper()
	chats, total := p.waitNumber("chat"), p.waitNumber("icon")
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
	p.waitShows("icon", text(total-chats))
	press(0)
	p.waitShows("icon", text(total))
	press(1)
	p.waitShows("chat", "dot")
	press(1)
	p.waitShows("chat", text(chats))
	p.checkViews(total)
	pressQuiet := func() { p.waitAnswered("setDisplayPolicy", func() { p.click("#right-you .switch input") }) }
	pressQuiet()
	p.waitShows("icon", "")
	p.wait("the title is quiet", `document.title === 'Tidings'`)
	pressQuiet()
	p.waitShows("icon", text(total))
}

// policyRow returns an expression for the row of a source in the display policy of the right phone.
func policyRow(source string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('#right-you .policy tbody tr')].find((row) => row.innerText.startsWith(%q))`, source)
}

// clickPolicyBox clicks a box in the source's row of the display policy: column 0 takes the source into the total or out of it, column 1
// makes it a dot or a number. It waits for the answer, because the page computes what the next click sends from the policy that it knows.
func (p *demoPage) clickPolicyBox(source string, column int) {
	p.t.Helper()
	p.wait("the policy is there", policyRow(source))
	p.waitAnswered("setDisplayPolicy", func() {
		browsertest.Evaluate[bool](p.tab, p.t, fmt.Sprintf(`(%s.querySelectorAll('input')[%d].click(), true)`, policyRow(source), column))
	})
}

// checkViews checks that every source of the schema is in the policy. New items of views are not in the total until the policy
// includes them. Their rows are explained and cleared like the rows of any number.
func (p *demoPage) checkViews(total int) {
	p.t.Helper()
	if rows := browsertest.Evaluate[int](p.tab, p.t, `document.querySelectorAll('#right-you .policy tbody tr').length`); rows != len(services.Sources) {
		p.t.Errorf("the policy has %d sources of %d", rows, len(services.Sources))
	}
	p.wait("two items of a view are new", policyRow("Views")+`?.querySelector('.badge')?.dataset.value === '2'`)
	p.clickPolicyBox("Views", 0)
	p.waitShows("icon", fmt.Sprint(total+2))
	p.clickPolicyBox("Views", 0)
	p.waitShows("icon", fmt.Sprint(total))
	browsertest.Evaluate[bool](p.tab, p.t, `(`+policyRow("Views")+`.querySelector('.behind').click(), true)`)
	p.wait("their rows are listed", `document.querySelector('.right .why .sum')?.textContent === '2' && document.querySelector('.right .why .reasons li').innerText.includes('Old harbour')`)
	p.wantClean("why views")
	p.click(".right .why .reasons button")
	p.wait("nothing is new in views", `!`+policyRow("Views")+`.querySelector('.badge')`)
	p.click(".right .why header button")
	p.waitShows("icon", fmt.Sprint(total))
}
