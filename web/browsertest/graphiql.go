package browsertest

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// InjectScript runs a script in every page that the tab loads from now on, before the page's own scripts.
func InjectScript(ctx context.Context, tb testing.TB, script string) {
	tb.Helper()
	runSteps(ctx, tb, "add a script", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
}

// PressKey presses a key as the keyboard does, on the element that has the focus: "\r", "\t", "a", or the name of a key in
// package kb. The modifiers are held meanwhile.
func PressKey(ctx context.Context, tb testing.TB, key string, modifiers ...chromedp.Modifier) {
	tb.Helper()
	runSteps(ctx, tb, "press "+quoteJS(key), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		for _, r := range key {
			// The key goes down and then up. Each event is answered before the next is sent.
			for _, event := range keyEvents(r, modifiers) {
				if _, err := cdp.Call(ctx, target, input.DispatchKeyEvent, event); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

// keyEvents returns the events of one key. The character is part of the keydown event, as with a keyboard: if the page prevents the
// event, nothing is written. chromedp would send the character as a separate event, which would still arrive, at the element that
// has the focus by then.
func keyEvents(r rune, modifiers []chromedp.Modifier) (events []input.DispatchKeyEventParams) {
	for _, event := range kb.Encode(r) {
		chromedp.KeyModifiers(modifiers...)(event)
		if event.Type != kb.KeyChar {
			events = append(events, *event)
		} else if event.Modifiers&^int64(chromedp.ModifierShift) == 0 {
			events[0].Text, events[0].UnmodifiedText = event.Text, event.UnmodifiedText
		}
	}
	return events
}

// OpenOperation opens a ready-made operation by its name, as a person does with the keyboard: it opens the menu, searches and
// presses Enter. If the operation has a tab already, that tab comes to the front.
func OpenOperation(ctx context.Context, tb testing.TB, name string) {
	tb.Helper()
	searchOperation(ctx, tb, name)
	PressKey(ctx, tb, "\r")
	waitTabInFront(ctx, tb, name)
}

// OpenOperationFromScript opens a ready-made operation at a moment that the script chooses. script is a JavaScript function. Its
// argument is a function that opens the operation; script calls it once.
func OpenOperationFromScript(ctx context.Context, tb testing.TB, name, script string) {
	tb.Helper()
	searchOperation(ctx, tb, name)
	Evaluate[bool](ctx, tb, `((`+script+`)(() => document.querySelector('#menu .chosen').click()), true)`)
	waitTabInFront(ctx, tb, name)
}

// searchOperation opens the menu of operations, and finds one by its name.
func searchOperation(ctx context.Context, tb testing.TB, name string) {
	tb.Helper()
	// The keyboard opens the menu, because people use its shortcut.
	PressKey(ctx, tb, "o", chromedp.ModifierAlt)
	WaitFor(ctx, tb, "the menu is open", `document.activeElement?.matches('#menu[open] input')`)
	runSteps(ctx, tb, "search "+name, chromedp.SendKeys(chromedp.CSS(`#menu input`), name))
	WaitFor(ctx, tb, "the menu offers "+name, `document.querySelector('#menu .chosen .name')?.textContent === `+quoteJS(name))
}

// waitTabInFront waits until the tab with a title is in front and its query is parsed: the editor gets the text after the tab is in
// front.
func waitTabInFront(ctx context.Context, tb testing.TB, name string) {
	tb.Helper()
	WaitFor(ctx, tb, name+" is in front", `document.querySelector('.graphiql-tab-active .graphiql-tab-button')?.textContent === `+quoteJS(name))
	waitQueryParsed(ctx, tb)
}

// SubscriptionState returns the state of a subscription that was run in GraphiQL: connecting, live, lost, stopped, refused or ended. It
// is "" if the page shows no subscription of that name. The page calls it a watch: its events arrive in a pane of their own, also while
// other tabs are used.
func SubscriptionState(ctx context.Context, tb testing.TB, name string) string {
	tb.Helper()
	return Evaluate[string](ctx, tb, fmt.Sprintf(`document.querySelector('[data-watch=%s]')?.dataset.state ?? ''`, quoteJS(name)))
}

// WaitSubscriptionState waits until a subscription that was run in GraphiQL has a state, such as live (see SubscriptionState).
func WaitSubscriptionState(ctx context.Context, tb testing.TB, name, state string) {
	tb.Helper()
	WaitFor(ctx, tb, name+" is "+state, fmt.Sprintf(`document.querySelector('[data-watch=%s]')?.dataset.state === %s`, quoteJS(name), quoteJS(state)))
}

// WaitSubscriptionEvent waits until a line in the pane of a subscription contains a text. A line is an event, shortened or complete, or a
// message of the page about the connection.
func WaitSubscriptionEvent(ctx context.Context, tb testing.TB, name, text string) {
	tb.Helper()
	WaitFor(ctx, tb, name+" shows "+text, fmt.Sprintf(`[...document.querySelectorAll('[data-watch=%s] li')].some((line) => line.textContent.includes(%s))`, quoteJS(name), quoteJS(text)))
}

// CountSubscriptionEvents counts the events that the pane of a subscription shows. Lines about the connection are not counted.
func CountSubscriptionEvents(ctx context.Context, tb testing.TB, name string) int {
	tb.Helper()
	return Evaluate[int](ctx, tb, fmt.Sprintf(`document.querySelectorAll('[data-watch=%s] li details').length`, quoteJS(name)))
}

// PressSubscriptionButton presses a button in the pane of a subscription: Stop, Start, Clear or Close.
func PressSubscriptionButton(ctx context.Context, tb testing.TB, name, button string) {
	tb.Helper()
	Click(ctx, tb, fmt.Sprintf(`[data-watch=%s] button[aria-label^=%s]`, quoteJS(name), quoteJS(button)))
}

// NoticeText returns the text of the notice with an id, such as "gone" or "storage"; "" if the page does not show it.
func NoticeText(ctx context.Context, tb testing.TB, id string) string {
	tb.Helper()
	return Evaluate[string](ctx, tb, fmt.Sprintf(`document.querySelector('[data-notice=%s] p')?.innerText ?? ''`, quoteJS(id)))
}

// WaitNotice waits until a notice contains a text, or, if text is "", until the notice is gone.
func WaitNotice(ctx context.Context, tb testing.TB, id, text string) {
	tb.Helper()
	notice := fmt.Sprintf(`document.querySelector('[data-notice=%s] p')`, quoteJS(id))
	if text == "" {
		WaitFor(ctx, tb, "the notice "+id+" is gone", `!`+notice)
		return
	}
	WaitFor(ctx, tb, "the page says "+text, notice+`?.innerText.includes(`+quoteJS(text)+`)`)
}
