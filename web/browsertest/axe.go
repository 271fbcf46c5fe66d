package browsertest

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// axeScriptGzip is axe-core 4.14.1 (Mozilla Public License 2.0), which finds accessibility faults.
//
//go:embed testdata/axe.min.js.gz
var axeScriptGzip []byte

// axeSource is axe's script, inflated once for all tests of a process.
var axeSource = sync.OnceValue(func() string {
	r, err := gzip.NewReader(bytes.NewReader(axeScriptGzip))
	if err != nil {
		panic(err)
	}
	source, err := io.ReadAll(r)
	if err != nil {
		panic(err)
	}
	return string(source)
})

// AccessibilityFaults lists the faults that axe finds in the page as it is now: each rule with the elements that break it. The first
// call adds the script to the page; a new page needs it again. axe sees only the current state, so a test examines a page in each
// of its states.
func AccessibilityFaults(ctx context.Context, tb testing.TB) []string {
	tb.Helper()
	// A page that replaced another does not have axe yet.
	if !Evaluate[bool](ctx, tb, `Boolean(window.axe)`) {
		Evaluate[bool](ctx, tb, `(() => { `+axeSource()+`; return true; })()`)
	}
	// Half-way through an animation a text can be too faint to read. Only the end of an animation counts, so running
	// animations are finished first. If another animation begins while axe runs, and axe finds faults, axe runs again, up to
	// 10 times.
	Evaluate[bool](ctx, tb, `(() => {
		const look = (again) => {
			let moved = false;
			const note = () => { moved = true; };
			const began = ['animationstart', 'transitionrun'];
			began.forEach((event) => addEventListener(event, note, true));
			document.getAnimations().forEach((one) => { if (one.effect.getTiming().iterations !== Infinity) one.finish(); });
			return axe.run(document, {resultTypes: ['violations']})
				.finally(() => began.forEach((event) => removeEventListener(event, note, true)))
				.then((found) => (moved && found.violations.length > 0 && again > 0 ? look(again - 1) : found));
		};
		window.axeFound = undefined;
		look(10).then((found) => {
			window.axeFound = found.violations.map(({id, impact, nodes}) => id + ' (' + impact + '): ' + nodes.slice(0, 4).map(({html, any}) => html.slice(0, 160) + ' ' + (any[0]?.message ?? '')).join(' | '));
		}, (error) => { window.axeFound = [String(error)]; });
		return true;
	})()`)
	WaitFor(ctx, tb, "axe is done", `window.axeFound`)
	return Evaluate[[]string](ctx, tb, `window.axeFound`)
}

// SeriousAccessibilityFaults lists the serious and critical faults of AccessibilityFaults: the faults that keep somebody from using
// the page.
func SeriousAccessibilityFaults(ctx context.Context, tb testing.TB) []string {
	tb.Helper()
	return slices.DeleteFunc(AccessibilityFaults(ctx, tb), func(one string) bool {
		return strings.Contains(one, " (moderate): ") || strings.Contains(one, " (minor): ")
	})
}

// SetPageSize sets the size of a tab's page, in CSS pixels. Below a width of 600 the tab is a phone, which has other rules for the
// viewport. The size stays until the next call or until the tab is closed.
func SetPageSize(ctx context.Context, tb testing.TB, width, height int64) {
	tb.Helper()
	runSteps(ctx, tb, "change the size", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
		})
		return err
	}))
}

// PermitScripts permits or forbids JavaScript to the pages that the tab loads from now on. The page that is open keeps its scripts.
func PermitScripts(ctx context.Context, tb testing.TB, permitted bool) {
	tb.Helper()
	runSteps(ctx, tb, "switch JavaScript", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !permitted})
		return err
	}))
}

// Click waits for an element that matches the selector, and clicks the first such element.
func Click(ctx context.Context, tb testing.TB, selector string) {
	tb.Helper()
	WaitFor(ctx, tb, selector+" is there", `document.querySelector(`+quoteJS(selector)+`)`)
	Evaluate[bool](ctx, tb, `(document.querySelector(`+quoteJS(selector)+`).click(), true)`)
}
