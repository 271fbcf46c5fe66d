// Package browsertest drives the pages of a server in a real browser, above all GraphiQL, for tests.
//
// It guarantees each test a separate profile, which is removed when the test ends, in one browser for all tests of a package; a
// record of the requests and the page errors of each browser tab; and steps that wait for a condition, up to a deadline, and never
// for a fixed time.
//
// A package that uses it calls Main in its TestMain.
//
// A step that fails ends the test, and reports the condition that it waited for and the errors of the page. A missing browser
// is a failure too, and the message says what to install: no test is skipped.
package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// stepTimeout bounds each step. It is long because a machine may be busy. A step returns as soon as it succeeds.
const stepTimeout = 60 * time.Second

// pageStateTimeout bounds the reading of pageStateScript after a step has failed.
const pageStateTimeout = 10 * time.Second

// pageStateScript is an expression for a page's address, the element with the focus, and the first 4,000 characters of its text.
const pageStateScript = `(() => {
	const focused = document.activeElement;
	const tag = focused ? focused.cloneNode(false).outerHTML.slice(0, 200) : 'nothing';
	return 'address: ' + location.href + '\nfocus: ' + tag + (document.hasFocus() ? '' : ' (the window has no focus)') +
		'\nthe page shows:\n' + (document.body?.innerText ?? '').slice(0, 4000);
})()`

// ChromiumEnvVariable names the environment variable that holds the path of the browser. It is needed where startBrowser does not find
// one.
const ChromiumEnvVariable = "CHROMIUM"

// headlessShells are the names of the browser that is always headless. It needs about a third less processor time than a full
// browser: its profiles have none of the services of a user's profile, and its tabs have no window frame to draw.
var headlessShells = []string{"/usr/bin/chromium-headless-shell", "chromium-headless-shell", "chrome-headless-shell"}

// fullBrowsers are the names of a full browser: the path on Debian, then names of programs, then the path on macOS.
var fullBrowsers = []string{
	"/usr/bin/chromium",
	"chromium",
	"chromium-browser",
	"google-chrome",
	"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
	"/Applications/Chromium.app/Contents/MacOS/Chromium",
}

// sharedBrowser is the browser of all tests: starting a browser costs as much as many tests do.
var sharedBrowser struct {
	sync.Mutex
	tab  context.Context // its first tab, which stays empty; nil while no test has asked for the browser
	stop func() error    // ends the browser
}

// Main calls run, which runs the tests of a package. Main then stops the browser, and returns the exit code.
func Main(run func() int) (code int) {
	code = run()
	sharedBrowser.Lock()
	defer sharedBrowser.Unlock()
	if sharedBrowser.tab == nil {
		return code
	}
	if err := sharedBrowser.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "close the browser:", err)
	}
	return code
}

// NewProfileTab returns the first tab of a fresh profile in the headless browser of all tests, which the first call starts. The
// profile is removed when the test ends.
func NewProfileTab(tb testing.TB) context.Context {
	tb.Helper()
	sharedBrowser.Lock()
	defer sharedBrowser.Unlock()
	if sharedBrowser.tab == nil {
		var err error
		if sharedBrowser.tab, sharedBrowser.stop, err = startBrowser(slices.Concat(headlessShells, fullBrowsers)); err != nil {
			tb.Fatal(err)
		}
	}
	return openTab(sharedBrowser.tab, tb, chromedp.WithNewBrowserContext())
}

// NewFullBrowserTab starts a full browser for this test alone, and returns a tab of it. The browser is stopped when the test ends. It is
// for push messages: neither the headless shell nor a second profile receives them.
func NewFullBrowserTab(tb testing.TB) context.Context {
	tb.Helper()
	tab, stop, err := startBrowser(fullBrowsers)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := stop(); err != nil {
			tb.Logf("close the browser: %v", err)
		}
	})
	return openTab(tab, tb)
}

// startBrowser starts the browser that ChromiumEnvVariable names, or, if it names none, the first of the candidates that is installed. It
// returns the first tab, and a function that stops the browser.
func startBrowser(candidates []string) (tab context.Context, stop func() error, err error) {
	path, err := findBrowser(os.Getenv(ChromiumEnvVariable), candidates, exec.LookPath)
	if err != nil {
		return nil, nil, err
	}
	allocator, release := chromedp.NewExecAllocator(context.Background(), browserOptions(path)...)
	tab, cancel := chromedp.NewContext(allocator)
	// The first call starts the browser, which lives as long as the call's context. So the context has no deadline.
	if err := chromedp.Do(tab); err != nil {
		cancel()
		release()
		return nil, nil, fmt.Errorf("start the browser: %w", err)
	}
	return tab, func() error {
		defer release() // ends the browser if it did not close when asked
		return closeTab(tab, cancel)
	}, nil
}

// NewTab opens another tab in the browser of a tab. The two tabs share localStorage, but not sessionStorage. The new tab is
// closed when the test ends.
func NewTab(ctx context.Context, tb testing.TB) context.Context {
	tb.Helper()
	return openTab(ctx, tb)
}

// openTab opens a tab with a tabRecord of its own, in the profile of its parent if the options make no new one.
func openTab(parent context.Context, tb testing.TB, options ...chromedp.ContextOption) context.Context {
	tb.Helper()
	// A window of its own keeps each tab in front: a tab behind another is not drawn, and takes no clicks.
	ctx, cancel := chromedp.NewContext(parent, append(options, chromedp.WithNewWindow(true))...)
	tb.Cleanup(func() {
		if err := closeTab(ctx, cancel); err != nil {
			tb.Logf("close a tab: %v", err)
		}
	})
	seen := newTabRecord()
	// The first call opens the tab, which lives as long as the context of that call: the context must have no deadline.
	if err := chromedp.Listen(ctx, seen.addEvent); err != nil {
		tb.Fatalf("open a tab: %v", err)
	}
	return context.WithValue(ctx, tabRecordContextKey{}, seen)
}

// closeTab closes a tab, within stepTimeout, and the profile or the browser that was opened with it.
func closeTab(tab context.Context, cancel context.CancelFunc) error {
	defer cancel()
	closing, stop := context.WithTimeout(tab, stepTimeout)
	defer stop()
	if err := chromedp.Cancel(closing); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// browserOptions returns the options of a browser for tests: it makes no requests of its own, which ForeignAddresses would find,
// and its window is large enough for desktop pages. It draws in one process and optimizes no script: a test opens a page for a few
// seconds, in which both cost more than they gain. Tests of pages take a quarter to a half less processor time with these two.
func browserOptions(path string) []chromedp.ExecAllocatorOption {
	return append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.Headless,
		// Tests may run as root in a container, where the sandbox does not start.
		chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.Flag("in-process-gpu", true),
		chromedp.Flag("js-flags", "--no-opt --no-maglev"),
		chromedp.NoFirstRun,
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-sync", true),
		chromedp.WSURLReadTimeout(stepTimeout),
		chromedp.WindowSize(1400, 900),
	)
}

// findBrowser returns the path of the configured browser, or, if none is configured, of the first candidate that look finds.
func findBrowser(configured string, candidates []string, look func(string) (string, error)) (string, error) {
	if configured != "" {
		path, err := look(configured)
		if err != nil {
			return "", fmt.Errorf("the browser that %s=%q names cannot be run: %w", ChromiumEnvVariable, configured, err)
		}
		return path, nil
	}
	for _, candidate := range candidates {
		if path, err := look(candidate); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no browser to test with: apt-get install chromium, or set %s to the path of one", ChromiumEnvVariable)
}

// runSteps runs steps in a tab, within stepTimeout.
func runSteps(ctx context.Context, tb testing.TB, what string, steps ...chromedp.Action[chromedp.Void]) {
	tb.Helper()
	bounded, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if err := chromedp.Do(bounded, steps...); err != nil {
		tb.Fatalf("%s: %v\n%s", what, err, describePage(ctx))
	}
}

// runStep runs a step that has a result in a tab, within stepTimeout.
func runStep[T any](ctx context.Context, tb testing.TB, what string, step chromedp.Action[T]) T {
	tb.Helper()
	bounded, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	result, err := chromedp.Run(bounded, step)
	if err != nil {
		tb.Fatalf("%s: %v\n%s", what, err, describePage(ctx))
	}
	return result
}

// describePage returns the state of a tab, for the failure of a step: the errors of its page, and its pageStateScript.
func describePage(ctx context.Context) string {
	bounded, cancel := context.WithTimeout(ctx, pageStateTimeout)
	defer cancel()
	shows, err := chromedp.Run(bounded, chromedp.Evaluate[string](pageStateScript))
	if err != nil {
		shows = "the page does not say what it shows: " + err.Error()
	}
	return fmt.Sprintf("the page complained: %q\n%s", PageErrors(ctx), shows)
}
