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

// pollInterval is the interval at which a condition of a page is checked. It is shorter than a person notices, and long compared
// with the browser's work for one check.
const pollInterval = 25 * time.Millisecond

// The editors of GraphiQL: JavaScript expressions, each of which gives the CodeMirror object of an editor.
const (
	queryEditor    = `document.querySelector('.graphiql-query-editor .CodeMirror')?.CodeMirror`
	variableEditor = `document.querySelectorAll('.graphiql-editor-tool .CodeMirror')[0]?.CodeMirror`
	headerEditor   = `document.querySelectorAll('.graphiql-editor-tool .CodeMirror')[1]?.CodeMirror`
	responseEditor = `document.querySelector('.graphiql-response .result-window .CodeMirror')?.CodeMirror`
)

// executeButton is the CSS selector of GraphiQL's execute button.
const executeButton = `.graphiql-execute-button`

// OpenGraphiQL opens GraphiQL of the server at an origin ("http://127.0.0.1:8080") as a person of development mode: a key,
// "alice", or a key with scopes, "alice:admin". With "" the tab keeps the person that it has; in production mode it has none.
// OpenGraphiQL waits until GraphiQL can be used.
func OpenGraphiQL(ctx context.Context, tb testing.TB, origin, person string) {
	tb.Helper()
	address := origin + "/graphiql"
	if person != "" {
		address += "?as=" + url.QueryEscape(person)
	}
	Navigate(ctx, tb, address)
	waitGraphiQLReady(ctx, tb)
}

// Reload loads the page again, as the browser's button does, and waits until GraphiQL can be used.
func Reload(ctx context.Context, tb testing.TB) {
	tb.Helper()
	runSteps(ctx, tb, "reload", chromedp.Reload())
	waitGraphiQLReady(ctx, tb)
}

// waitGraphiQLReady waits for the four editors, the execute button and the first parse of the query: before that, GraphiQL would run the
// operation that it parsed last.
func waitGraphiQLReady(ctx context.Context, tb testing.TB) {
	tb.Helper()
	editors := []string{queryEditor, variableEditor, headerEditor, responseEditor}
	WaitFor(ctx, tb, "GraphiQL is ready", strings.Join(editors, " && "))
	waitForExecuteButton(ctx, tb, "Execute")
	waitQueryParsed(ctx, tb)
}

// WaitSchema waits until GraphiQL has the schema by introspection. A server without introspection never gives it.
func WaitSchema(ctx context.Context, tb testing.TB) {
	tb.Helper()
	WaitFor(ctx, tb, "GraphiQL has the schema", queryEditor+".options.lint.schema")
}

// Navigate opens any page, and waits only until it is loaded.
func Navigate(ctx context.Context, tb testing.TB, address string) {
	tb.Helper()
	runSteps(ctx, tb, "open "+address, chromedp.Navigate(address))
}

// SetDarkTheme makes the tab see a dark or a light theme of the system.
func SetDarkTheme(ctx context.Context, tb testing.TB, dark bool) {
	tb.Helper()
	theme := "light"
	if dark {
		theme = "dark"
	}
	runSteps(ctx, tb, "make the theme "+theme, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
		})
		return err
	}))
}

// ChoosePerson chooses a person in the bar of development mode: it clicks the person's button, or types the person into the field
// if they have no button.
func ChoosePerson(ctx context.Context, tb testing.TB, person string) {
	tb.Helper()
	button := `#people [data-person=` + quoteJS(person) + `]`
	if Evaluate[bool](ctx, tb, `document.querySelector(`+quoteJS(button)+`) !== null`) {
		Click(ctx, tb, button)
		WaitFor(ctx, tb, "the person is "+person, `document.querySelector(`+quoteJS(button)+`).ariaPressed === 'true'`)
		return
	}
	runSteps(ctx, tb, "be "+person,
		chromedp.SendKeys(chromedp.CSS(`#other input`), person),
		chromedp.Click(chromedp.CSS(`#other button`)))
}

// CurrentPerson returns the person whose token the page uses, as its bar shows them: "alice", "alice (admin)". It is "" if the bar shows
// nobody, as in production mode without a token.
func CurrentPerson(ctx context.Context, tb testing.TB) string {
	tb.Helper()
	return Evaluate[string](ctx, tb, `document.getElementById('who')?.value ?? ''`)
}

// TabTitles lists the titles of GraphiQL's tabs, which are the names of their operations.
func TabTitles(ctx context.Context, tb testing.TB) []string {
	tb.Helper()
	return Evaluate[[]string](ctx, tb, `[...document.querySelectorAll('.graphiql-tab-button')].map((tab) => tab.textContent)`)
}

// SelectTab brings the tab of that title to the front. If no tab has the title, it fails at once and lists the titles.
func SelectTab(ctx context.Context, tb testing.TB, title string) {
	tb.Helper()
	clicked := Evaluate[bool](ctx, tb, fmt.Sprintf(`(() => {
		const tab = [...document.querySelectorAll('.graphiql-tab-button')].find((tab) => tab.textContent === %s);
		tab?.click();
		return tab !== undefined;
	})()`, quoteJS(title)))
	if !clicked {
		tb.Fatalf("GraphiQL has no tab %q, only %q", title, TabTitles(ctx, tb))
	}
	WaitFor(ctx, tb, "the tab "+title+" is in front",
		`document.querySelector('.graphiql-tab-active .graphiql-tab-button')?.textContent === `+quoteJS(title))
	waitQueryParsed(ctx, tb)
}

// waitQueryParsed waits until GraphiQL has parsed the text of the query editor. GraphiQL parses 100 ms after each change, and until
// then would run the operation that it parsed last.
func waitQueryParsed(ctx context.Context, tb testing.TB) {
	tb.Helper()
	WaitFor(ctx, tb, "the query is parsed", `((editor) => editor.documentAST?.loc?.source.body === editor.getValue())(`+queryEditor+`)`)
}

// QueryText returns the text of the query editor.
func QueryText(ctx context.Context, tb testing.TB) string {
	tb.Helper()
	return Evaluate[string](ctx, tb, queryEditor+".getValue()")
}

// SetQuery replaces the text of the query editor; the query must parse.
func SetQuery(ctx context.Context, tb testing.TB, query string) {
	tb.Helper()
	setEditorText(ctx, tb, queryEditor, query)
	waitQueryParsed(ctx, tb)
}

// VariablesText returns the text of the variables editor.
func VariablesText(ctx context.Context, tb testing.TB) string {
	tb.Helper()
	return Evaluate[string](ctx, tb, variableEditor+".getValue()")
}

// SetVariables replaces the text of the variables editor; variables are JSON.
func SetVariables(ctx context.Context, tb testing.TB, variables string) {
	tb.Helper()
	setEditorText(ctx, tb, variableEditor, variables)
}

// SetHeaders replaces the text of the headers editor; headers are JSON, an object of strings.
func SetHeaders(ctx context.Context, tb testing.TB, headers string) {
	tb.Helper()
	setEditorText(ctx, tb, headerEditor, headers)
}

// setEditorText sets the text with the editor's own function, as one change. Typing would open the editor's completion.
func setEditorText(ctx context.Context, tb testing.TB, editor, value string) {
	tb.Helper()
	Evaluate[bool](ctx, tb, fmt.Sprintf(`(%s.setValue(%s), true)`, editor, quoteJS(value)))
}

// RunOperation presses the execute button, once the previous operation has been answered.
func RunOperation(ctx context.Context, tb testing.TB) {
	tb.Helper()
	waitForExecuteButton(ctx, tb, "Execute")
	runSteps(ctx, tb, "run the operation", chromedp.Click(chromedp.CSS(executeButton)))
}

// RunOperationWithKeys presses Ctrl-Enter in the query editor.
func RunOperationWithKeys(ctx context.Context, tb testing.TB) {
	tb.Helper()
	waitForExecuteButton(ctx, tb, "Execute")
	Evaluate[bool](ctx, tb, `(`+queryEditor+`.focus(), true)`)
	runSteps(ctx, tb, "press Ctrl-Enter", chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
}

// waitForExecuteButton waits until the label of the execute button begins with verb: Execute, or Stop while an operation runs.
func waitForExecuteButton(ctx context.Context, tb testing.TB, verb string) {
	tb.Helper()
	WaitFor(ctx, tb, "the execute button says "+verb,
		fmt.Sprintf(`document.querySelector('%s')?.getAttribute('aria-label')?.startsWith(%s)`, executeButton, quoteJS(verb)))
}

// ResponseText returns the text of the response pane: JSON, or "" until there is an answer.
func ResponseText(ctx context.Context, tb testing.TB) string {
	tb.Helper()
	return Evaluate[string](ctx, tb, responseEditor+".getValue()")
}

// WaitResponse waits until the response pane contains a text, and returns the whole response.
func WaitResponse(ctx context.Context, tb testing.TB, text string) string {
	tb.Helper()
	bounded, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	found, err := chromedp.Run(bounded, chromedp.Poll[string](
		fmt.Sprintf(`((text) => text.includes(%s) && text)(%s.getValue())`, quoteJS(text), responseEditor),
		chromedp.WithPollingInterval(pollInterval), chromedp.WithPollingTimeout(0)))
	if err != nil {
		tb.Fatalf("the response pane never contained %q: %v\n%s", text, err, describePage(ctx))
	}
	return found
}

// WaitFor waits until a JavaScript expression is true in the page; what describes the condition, for the message of a failure. If
// another page replaces the page meanwhile, WaitFor goes on in the new page. The expression may be of any type: it is true if
// JavaScript counts its value as true.
func WaitFor(ctx context.Context, tb testing.TB, what, expression string) {
	tb.Helper()
	bounded, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	for {
		_, err := chromedp.Run(bounded, chromedp.Poll[any](`Boolean(`+expression+`)`,
			chromedp.WithPollingInterval(pollInterval), chromedp.WithPollingTimeout(0)))
		if err == nil {
			return
		}
		if bounded.Err() != nil || !pageWasReplaced(err) {
			tb.Fatalf("wait until %s: %v\n%s", what, err, describePage(ctx))
		}
	}
}

// pageWasReplaced reports whether a step failed because another page replaced its page. It compares Chromium's messages, because these
// errors have no codes of their own.
func pageWasReplaced(err error) bool {
	var refused *cdproto.Error
	return errors.As(err, &refused) && slices.ContainsFunc([]string{"Cannot find context", "context was destroyed", "target navigated"}, func(reason string) bool {
		return strings.Contains(refused.Message, reason)
	})
}

// Evaluate returns the value of a JavaScript expression in the page.
func Evaluate[T any](ctx context.Context, tb testing.TB, expression string) T {
	tb.Helper()
	return runStep(ctx, tb, "evaluate "+expression, chromedp.Evaluate[T](expression))
}

// Screenshot writes what the tab shows to a PNG file. An earlier file of the name is replaced.
func Screenshot(ctx context.Context, tb testing.TB, path string) {
	tb.Helper()
	picture := runStep(ctx, tb, "take a screenshot", chromedp.CaptureScreenshot())
	if err := os.WriteFile(path, picture, 0o600); err != nil {
		tb.Fatalf("write the screenshot: %v", err)
	}
}

// quoteJS makes a JavaScript string literal of a text. A JSON string of encoding/json is such a literal.
func quoteJS(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can always be marshalled
	}
	return string(quoted)
}

// EvaluateAndWaitNewPage evaluates an expression that leads to another page, as a link or a form does, and waits until that page is
// loaded. It sets a variable in the old page, which the new page does not have.
func EvaluateAndWaitNewPage(ctx context.Context, tb testing.TB, expression string) {
	tb.Helper()
	Evaluate[bool](ctx, tb, `(window.left = false, `+expression+`, true)`)
	bounded, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		// While one page replaces the other, there is no page that can evaluate.
		arrived, err := chromedp.Run(bounded, chromedp.Evaluate[bool](`window.left === undefined && document.readyState === 'complete'`))
		if err == nil && arrived {
			return
		}
		select {
		case <-ticker.C:
		case <-bounded.Done():
			tb.Fatalf("no page came after %s: %v\n%s", expression, err, describePage(ctx))
		}
	}
}
