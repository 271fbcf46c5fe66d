package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// pollInterval is how often a condition of a page is looked at.
// Short against what a person notices, and long against what a look costs the browser.
const pollInterval = 25 * time.Millisecond

// The editors of GraphiQL, as expressions that give their CodeMirror.
const (
	queryEditor    = `document.querySelector('.graphiql-query-editor .CodeMirror')?.CodeMirror`
	variableEditor = `document.querySelectorAll('.graphiql-editor-tool .CodeMirror')[0]?.CodeMirror`
	headerEditor   = `document.querySelectorAll('.graphiql-editor-tool .CodeMirror')[1]?.CodeMirror`
	responseEditor = `document.querySelector('.graphiql-response .result-window .CodeMirror')?.CodeMirror`
)

// executeButton is the execute button.
const executeButton = `.graphiql-execute-button`

// Open opens GraphiQL of the server at an origin ("http://127.0.0.1:8080") as a person of development mode: a key,
// "alice", or a key with scopes, "alice:admin". With "" nobody is named: the person is the one that the tab has, and in
// production mode nobody. Open waits until GraphiQL can be used.
func Open(ctx context.Context, tb testing.TB, origin, person string) {
	tb.Helper()
	address := origin + "/graphiql"
	if person != "" {
		address += "?as=" + url.QueryEscape(person)
	}
	Navigate(ctx, tb, address)
	waitReady(ctx, tb)
}

// Reload loads the page again, as the reader's button does, and waits until GraphiQL can be used.
func Reload(ctx context.Context, tb testing.TB) {
	tb.Helper()
	do(ctx, tb, "reload", chromedp.Reload())
	waitReady(ctx, tb)
}

// waitReady waits for the four editors, the button and the first parse: before that, it would run what it saw last.
func waitReady(ctx context.Context, tb testing.TB) {
	tb.Helper()
	editors := []string{queryEditor, variableEditor, headerEditor, responseEditor}
	WaitFor(ctx, tb, "GraphiQL is ready", strings.Join(editors, " && "))
	waitForButton(ctx, tb, "Execute")
	waitParsed(ctx, tb)
}

// WaitSchema waits until GraphiQL has the schema by introspection. A server without introspection never gives it.
func WaitSchema(ctx context.Context, tb testing.TB) {
	tb.Helper()
	WaitFor(ctx, tb, "GraphiQL has the schema", queryEditor+".options.lint.schema")
}

// Navigate opens any page, and waits only until it is loaded.
func Navigate(ctx context.Context, tb testing.TB, address string) {
	tb.Helper()
	do(ctx, tb, "open "+address, chromedp.Navigate(address))
}

// Dark makes the system's theme dark or light, as far as the tab can tell.
func Dark(ctx context.Context, tb testing.TB, dark bool) {
	tb.Helper()
	theme := "light"
	if dark {
		theme = "dark"
	}
	do(ctx, tb, "make the theme "+theme, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
		})
		return err
	}))
}

// Be chooses a person in the bar of development mode, as a click on a button does, or as the field does for anybody else.
// People who have no button are typed.
func Be(ctx context.Context, tb testing.TB, person string) {
	tb.Helper()
	button := `#people [data-person=` + quote(person) + `]`
	if Evaluate[bool](ctx, tb, `document.querySelector(`+quote(button)+`) !== null`) {
		Click(ctx, tb, button)
		WaitFor(ctx, tb, "the person is "+person, `document.querySelector(`+quote(button)+`).ariaPressed === 'true'`)
		return
	}
	do(ctx, tb, "be "+person,
		chromedp.SendKeys(chromedp.CSS(`#other input`), person),
		chromedp.Click(chromedp.CSS(`#other button`)))
}

// Who is the person that the bar shows, as it is written there: "alice", "alice (admin)". It is "" where there is no
// bar, as in production mode.
func Who(ctx context.Context, tb testing.TB) string {
	tb.Helper()
	return Evaluate[string](ctx, tb, `document.getElementById('who')?.value ?? ''`)
}

// Tabs lists the titles of GraphiQL's tabs, which are the names of their operations.
func Tabs(ctx context.Context, tb testing.TB) []string {
	tb.Helper()
	return Evaluate[[]string](ctx, tb, `[...document.querySelectorAll('.graphiql-tab-button')].map((tab) => tab.textContent)`)
}

// SelectTab brings the tab of that title to the front. A title that no tab has is a failure at once, with the titles that
// there are.
func SelectTab(ctx context.Context, tb testing.TB, title string) {
	tb.Helper()
	clicked := Evaluate[bool](ctx, tb, fmt.Sprintf(`(() => {
		const tab = [...document.querySelectorAll('.graphiql-tab-button')].find((tab) => tab.textContent === %s);
		tab?.click();
		return tab !== undefined;
	})()`, quote(title)))
	if !clicked {
		tb.Fatalf("GraphiQL has no tab %q, only %q", title, Tabs(ctx, tb))
	}
	WaitFor(ctx, tb, "the tab "+title+" is in front",
		`document.querySelector('.graphiql-tab-active .graphiql-tab-button')?.textContent === `+quote(title))
	waitParsed(ctx, tb)
}

// waitParsed waits until GraphiQL knows what is in the query editor: it looks 100 ms after each change, and would run
// the operation that it saw last.
func waitParsed(ctx context.Context, tb testing.TB) {
	tb.Helper()
	WaitFor(ctx, tb, "the query is parsed", `((editor) => editor.documentAST?.loc?.source.body === editor.getValue())(`+queryEditor+`)`)
}

// Query is the text of the query editor.
func Query(ctx context.Context, tb testing.TB) string {
	tb.Helper()
	return Evaluate[string](ctx, tb, queryEditor+".getValue()")
}

// SetQuery writes the query editor anew; the query must parse.
func SetQuery(ctx context.Context, tb testing.TB, query string) {
	tb.Helper()
	setValue(ctx, tb, queryEditor, query)
	waitParsed(ctx, tb)
}

// Variables is the text of the variables editor.
func Variables(ctx context.Context, tb testing.TB) string {
	tb.Helper()
	return Evaluate[string](ctx, tb, variableEditor+".getValue()")
}

// SetVariables writes the variables editor anew; variables are JSON.
func SetVariables(ctx context.Context, tb testing.TB, variables string) {
	tb.Helper()
	setValue(ctx, tb, variableEditor, variables)
}

// SetHeaders writes the headers editor anew; headers are JSON, an object of strings.
func SetHeaders(ctx context.Context, tb testing.TB, headers string) {
	tb.Helper()
	setValue(ctx, tb, headerEditor, headers)
}

// setValue writes by the editor's own function, which is one change. Typing would open its completion.
func setValue(ctx context.Context, tb testing.TB, editor, value string) {
	tb.Helper()
	Evaluate[bool](ctx, tb, fmt.Sprintf(`(%s.setValue(%s), true)`, editor, quote(value)))
}

// Run presses the execute button, once what ran before has been answered.
func Run(ctx context.Context, tb testing.TB) {
	tb.Helper()
	waitForButton(ctx, tb, "Execute")
	do(ctx, tb, "run the operation", chromedp.Click(chromedp.CSS(executeButton)))
}

// RunWithKeys presses Ctrl-Enter in the query editor.
func RunWithKeys(ctx context.Context, tb testing.TB) {
	tb.Helper()
	waitForButton(ctx, tb, "Execute")
	Evaluate[bool](ctx, tb, `(`+queryEditor+`.focus(), true)`)
	do(ctx, tb, "press Ctrl-Enter", chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
}

// waitForButton waits for the word of the button, which is Stop while an operation runs.
func waitForButton(ctx context.Context, tb testing.TB, verb string) {
	tb.Helper()
	WaitFor(ctx, tb, "the execute button says "+verb,
		fmt.Sprintf(`document.querySelector('%s')?.getAttribute('aria-label')?.startsWith(%s)`, executeButton, quote(verb)))
}

// Response is the text of the response pane: JSON, "" until something is answered.
func Response(ctx context.Context, tb testing.TB) string {
	tb.Helper()
	return Evaluate[string](ctx, tb, responseEditor+".getValue()")
}

// WaitResponse waits until the response pane contains a text, and answers all of it.
func WaitResponse(ctx context.Context, tb testing.TB, text string) string {
	tb.Helper()
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := chromedp.Run(bounded, chromedp.Poll[string](
		fmt.Sprintf(`((text) => text.includes(%s) && text)(%s.getValue())`, quote(text), responseEditor),
		chromedp.WithPollingInterval(pollInterval), chromedp.WithPollingTimeout(0)))
	if err != nil {
		tb.Fatalf("the response pane never contained %q: %v\n%s", text, err, describe(ctx))
	}
	return found
}

// WaitFor waits until a JavaScript expression is true in the page; what says what is waited for, for the failure. Where one
// page replaces another meanwhile, it waits in the new one. The expression may be of any type; JavaScript decides what is
// true.
func WaitFor(ctx context.Context, tb testing.TB, what, expression string) {
	tb.Helper()
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		_, err := chromedp.Run(bounded, chromedp.Poll[any](`Boolean(`+expression+`)`,
			chromedp.WithPollingInterval(pollInterval), chromedp.WithPollingTimeout(0)))
		if err == nil {
			return
		}
		if bounded.Err() != nil || !leftPage(err) {
			tb.Fatalf("wait until %s: %v\n%s", what, err, describe(ctx))
		}
	}
}

// leftPage reports whether a step failed because its page was replaced by another one. The texts are Chromium's: its errors
// have no codes for these.
func leftPage(err error) bool {
	var refused *cdproto.Error
	return errors.As(err, &refused) && slices.ContainsFunc([]string{"Cannot find context", "context was destroyed", "target navigated"}, func(reason string) bool {
		return strings.Contains(refused.Message, reason)
	})
}

// Evaluate answers the value of a JavaScript expression in the page.
func Evaluate[T any](ctx context.Context, tb testing.TB, expression string) T {
	tb.Helper()
	return run(ctx, tb, "evaluate "+expression, chromedp.Evaluate[T](expression))
}

// Screenshot writes what the tab shows to a PNG file. An earlier file of the name is replaced.
func Screenshot(ctx context.Context, tb testing.TB, path string) {
	tb.Helper()
	picture := run(ctx, tb, "take a screenshot", chromedp.CaptureScreenshot())
	if err := os.WriteFile(path, picture, 0o600); err != nil {
		tb.Fatalf("write the screenshot: %v", err)
	}
}

// quote makes a JavaScript string of a text. JSON as encoding/json writes it is one.
func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can always be marshalled
	}
	return string(quoted)
}

// Leave evaluates an expression that leads to another page, as a link or a form does, and waits until that page is loaded. A
// variable of the old page tells both apart: the new one has none.
func Leave(ctx context.Context, tb testing.TB, expression string) {
	tb.Helper()
	Evaluate[bool](ctx, tb, `(window.left = false, `+expression+`, true)`)
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		// While one page replaces the other there is none to ask.
		arrived, err := chromedp.Run(bounded, chromedp.Evaluate[bool](`window.left === undefined && document.readyState === 'complete'`))
		if err == nil && arrived {
			return
		}
		select {
		case <-ticker.C:
		case <-bounded.Done():
			tb.Fatalf("no page came after %s: %v\n%s", expression, err, describe(ctx))
		}
	}
}
