package contract

import (
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"tidings/web/browsertest"
)

// checkDrawerSamples checks the drawer, the part of the page that shows the operation of the last click or push: its samples for curl,
// GraphiQL and React can be used as they are.
func (p *demoPage) checkDrawerSamples() {
	p.t.Helper()
	p.clickLeverButton("post")
	p.waitUntilTrue("the operation is shown", `document.querySelector('.drawer pre')?.innerText.startsWith('mutation Ingest(')`)
	form := func(name string) string {
		browsertest.Evaluate[bool](p.tab, p.t, fmt.Sprintf(`([...document.querySelectorAll('.drawer .forms button')].find((button) => button.textContent === %q).click(), true)`, name))
		p.waitUntilTrue("the form is shown", fmt.Sprintf(`document.querySelector('.drawer pre').dataset.form === %q`, name))
		return browsertest.Evaluate[string](p.tab, p.t, `document.querySelector('.drawer pre').textContent`)
	}
	// All samples are read before curl publishes a post: some seconds after the click, a push replaces the operation in the drawer.
	command := form("curl")
	form("GraphQL")
	link := browsertest.Evaluate[string](p.tab, p.t, `document.querySelector('#open-in-graphiql').href`)
	if text := form("React"); !strings.Contains(text, "from '@tidings/client/react'") || !strings.Contains(text, "ingest(") {
		p.t.Errorf("the form for React is %s", text)
	}
	p.wantNoPageFaults("drawer")
	if answer := runCurl(p.t, command); !strings.Contains(answer, `"id":"post:`) {
		p.t.Errorf("curl answers %s", answer)
	}
	graphiql := browsertest.NewTab(p.tab, p.t)
	browsertest.Navigate(graphiql, p.t, link)
	browsertest.WaitSchema(graphiql, p.t)
	if tabs := browsertest.TabTitles(graphiql, p.t); len(tabs) == 0 || tabs[0] != "Ingest" {
		p.t.Errorf("GraphiQL's first tab is not the operation: %v", tabs)
	}
	if who := browsertest.CurrentPerson(graphiql, p.t); who != "host (ingest)" {
		p.t.Errorf("in GraphiQL one is %q", who)
	}
	browsertest.RunOperation(graphiql, p.t)
	browsertest.WaitResponse(graphiql, p.t, `"id": "post:`)
}

// runCurl lets sh parse a curl command of the page, and sends the request that curl would send.
func runCurl(t *testing.T, command string) string {
	t.Helper()
	words, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "curl() { printf '%s\\0' \"$@\"; }\n"+command).Output()
	if err != nil {
		t.Fatalf("sh: %v for %s", err, command)
	}
	arguments := strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00")
	after := func(flag string) (values []string) {
		for i, argument := range arguments[:len(arguments)-1] {
			if argument == flag {
				values = append(values, arguments[i+1])
			}
		}
		return values
	}
	at := slices.IndexFunc(arguments, func(argument string) bool { return strings.HasPrefix(argument, "http") })
	body := after("-d")
	if at < 0 || len(body) != 1 {
		t.Fatalf("curl gets the arguments %q", arguments)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, arguments[at], strings.NewReader(body[0]))
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range after("-H") {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	return sendForBody(t, request)
}

// checkLanguages checks that the page can be switched to Chinese and back.
func (p *demoPage) checkLanguages() {
	p.t.Helper()
	p.click(".top nav button")
	p.waitUntilTrue("the page is in Chinese", `document.documentElement.lang === 'zh' && document.querySelector('h1').innerText.includes('未读') && document.querySelector('[data-lever=post]').innerText === '让 Ben 发帖'`)
	p.checkBadgeExplanationInChinese()
	p.wantNoPageFaults("Chinese")
	p.click(".top nav button")
	p.waitUntilTrue("the page is in English", `document.documentElement.lang === 'en'`)
}
