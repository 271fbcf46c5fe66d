package browsertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
)

// findBrowser returns the configured browser, or else the first candidate that is installed.
func TestFind(t *testing.T) {
	having := func(there ...string) func(string) (string, error) {
		return func(name string) (string, error) {
			for _, one := range there {
				if name == one {
					return "/found" + name, nil
				}
			}
			return "", fs.ErrNotExist
		}
	}
	for name, test := range map[string]struct {
		configured string
		look       func(string) (string, error)
		want       string
	}{
		"the headless shell first":    {"", having("/usr/bin/chromium", "chrome-headless-shell"), "/foundchrome-headless-shell"},
		"then Debian's":               {"", having("google-chrome", "/usr/bin/chromium"), "/found/usr/bin/chromium"},
		"any other by name":           {"", having("google-chrome"), "/foundgoogle-chrome"},
		"the configured one":          {"/opt/mine", having("/opt/mine", "chromium"), "/found/opt/mine"},
		"the configured one or none":  {"/opt/mine", having("chromium"), `CHROMIUM="/opt/mine"`},
		"none says what to install":   {"", having(), "apt-get install chromium"},
		"none says what else to name": {"", having("firefox"), "set CHROMIUM"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := findBrowser(test.configured, slices.Concat(headlessShells, fullBrowsers), test.look)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// isWithinOrigin accepts addresses of the origin, and addresses that need no network.
func TestIsWithinOrigin(t *testing.T) {
	for _, test := range []struct {
		address, origin string
		want            bool
	}{
		{"http://127.0.0.1:8080/graphiql", "http://127.0.0.1:8080", true},
		{"ws://127.0.0.1:8080/graphql", "http://127.0.0.1:8080", true},
		{"wss://example.com/graphql", "https://example.com", true},
		{"data:font/woff2;base64,AAAA", "http://127.0.0.1:8080", true},
		{"blob:http://127.0.0.1:8080/1234", "http://127.0.0.1:8080", true},
		{"about:blank", "http://127.0.0.1:8080", true},
		{"http://127.0.0.1:8081/", "http://127.0.0.1:8080", false},
		{"http://127.0.0.1:8080.example.com/", "http://127.0.0.1:8080", false},
		{"https://127.0.0.1:8080/", "http://127.0.0.1:8080", false},
		{"wss://127.0.0.1:8080/", "http://127.0.0.1:8080", false},
		{"ws://example.com/", "https://example.com", false},
		{"ftp://127.0.0.1:8080/", "http://127.0.0.1:8080", false},
		{"http://%zz/", "http://127.0.0.1:8080", false},
		{"http://127.0.0.1:8080/", "http://%zz", false},
	} {
		if got := isWithinOrigin(test.address, test.origin); got != test.want {
			t.Errorf("%s within %s: %v, want %v", test.address, test.origin, got, test.want)
		}
	}
}

// quoteJS makes a JavaScript literal of any text.
func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"MyBadges":       `"MyBadges"`,
		`a "b" \ c`:      `"a \"b\" \\ c"`,
		"line\nline":     `"line\nline"`,
		"</script>":      `"\u003c/script\u003e"`,
		"\u2028 \u2029":  `"\u2028 \u2029"`,
		"[data-person]'": `"[data-person]'"`,
	} {
		if got := quoteJS(text); got != want {
			t.Errorf("%q is quoted as %s, want %s", text, got, want)
		}
	}
}

// Requests panics for a context that is not the context of a tab.
func TestRecordOfAnotherContext(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a context that is no tab has a record")
		}
	}()
	Requests(context.Background())
}

// startPageServer starts a server of small pages that make requests, cause errors or open sockets, for the tests of tabRecord.
func startPageServer(t *testing.T) (origin string) {
	t.Helper()
	mux := http.NewServeMux()
	page := func(path, html string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Security-Policy", "img-src data:")
			_, _ = fmt.Fprintf(w, `<!doctype html><link rel="icon" href="data:,"><title>%s</title>%s`, path, html)
		})
	}
	page("/quiet", `<script>fetch('/answer?n=1', {headers: {'X-Person': 'alice'}}).then((answer) => answer.text()).then(() => { document.title = 'done' })</script>`)
	page("/noisy", `<p>all that is shown</p><input name="field"><script>
		console.error('seen', 'twice');
		console.log('not seen');
		document.querySelector('input').focus();
		setTimeout(() => { document.title = 'done' }, 0);
		throw new Error('thrown');
	</script>`)
	page("/missing", `<script>fetch('/nothing').then(() => { document.title = 'done' })</script>`)
	page("/refused", `<img src="/picture.png" onerror="document.title = 'done'">`)
	page("/abroad", `<script>
		Promise.allSettled([
			fetch('http://127.0.0.1:1/elsewhere', {mode: 'no-cors'}),
			new Promise((resolve) => { new WebSocket('ws://127.0.0.1:1/socket').onclose = resolve }),
		]).then(() => { document.title = 'done' });
	</script>`)
	page("/onward", `<script>
		const visits = Number(sessionStorage.visits ?? 0);
		sessionStorage.visits = visits + 1;
		if (visits < 40) { setTimeout(() => location.reload(), 10) } else { document.title = 'done' }
	</script>`)
	mux.HandleFunc("GET /answer", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprint(w, "answered")
	})
	mux.HandleFunc("GET /moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/quiet", http.StatusFound)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// The record of a tab has its requests, its sockets and the errors of its pages.
func TestRecord(t *testing.T) {
	origin := startPageServer(t)
	browser := NewProfileTab(t)
	visit := func(t *testing.T, path string) context.Context {
		t.Helper()
		tab := NewTab(browser, t)
		Navigate(tab, t, origin+path)
		WaitFor(tab, t, "the page is done", `document.title === 'done'`)
		return tab
	}
	complains := func(t *testing.T, tab context.Context, texts ...string) {
		t.Helper()
		all := strings.Join(PageErrors(tab), "\n")
		for _, text := range texts {
			if !strings.Contains(all, text) {
				t.Errorf("no complaint holds %q: %s", text, all)
			}
		}
	}

	t.Run("requests, with what was sent and answered", func(t *testing.T) {
		tab := visit(t, "/moved")
		var got []Request
		for _, request := range Requests(tab) {
			if !strings.HasPrefix(request.URL, "data:") {
				request.Headers = map[string]string{"X-Person": request.Headers["X-Person"]}
				got = append(got, request)
			}
		}
		none := map[string]string{"X-Person": ""}
		want := []Request{
			{URL: origin + "/moved", Method: "GET", Headers: none, Status: 302},
			{URL: origin + "/quiet", Method: "GET", Headers: none, Status: 200},
			{URL: origin + "/answer?n=1", Method: "GET", Headers: map[string]string{"X-Person": "alice"}, Status: 202},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the requests differ (-want +got):\n%s", diff)
		}
		if complaints, foreign := PageErrors(tab), ForeignAddresses(tab, origin); len(complaints)+len(foreign) > 0 {
			t.Errorf("a page in order complains %q and asks %q", complaints, foreign)
		}
	})
	t.Run("exceptions and errors on the console", func(t *testing.T) {
		tab := visit(t, "/noisy")
		complains(t, tab, "exception: Error: thrown", `console:  "seen" "twice"`)
		if all := strings.Join(PageErrors(tab), "\n"); strings.Contains(all, "not seen") {
			t.Errorf("a message that is no error is a complaint: %s", all)
		}
	})
	t.Run("an answer that is an error", func(t *testing.T) {
		complains(t, visit(t, "/missing"), "status of 404", origin+"/nothing")
	})
	t.Run("what the policy refuses", func(t *testing.T) {
		complains(t, visit(t, "/refused"), "Content Security Policy")
	})
	t.Run("another origin", func(t *testing.T) {
		tab := visit(t, "/abroad")
		want := []string{"http://127.0.0.1:1/elsewhere", "ws://127.0.0.1:1/socket"}
		if diff := cmp.Diff(want, ForeignAddresses(tab, origin)); diff != "" {
			t.Errorf("the foreign addresses differ (-want +got):\n%s", diff)
		}
		complains(t, tab, "failed: http://127.0.0.1:1/elsewhere")
	})
	t.Run("a screenshot is a picture", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "page.png")
		Screenshot(visit(t, "/quiet"), t, path)
		picture, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(picture), "\x89PNG") {
			t.Errorf("error %v, %d bytes", err, len(picture))
		}
	})
}

// Two tabs of one profile share localStorage but not sessionStorage, and each has its own record of requests.
func TestTabsOfAProfileShareOnlyLocalStorage(t *testing.T) {
	origin := startPageServer(t)
	one := NewProfileTab(t)
	other := NewTab(one, t)
	for _, tab := range []context.Context{one, other, other} {
		Navigate(tab, t, origin+"/quiet")
		WaitFor(tab, t, "the page is done", `document.title === 'done'`)
	}
	Evaluate[bool](one, t, `(localStorage.setItem('shared', 'yes'), sessionStorage.setItem('own', 'yes'), true)`)
	got := Evaluate[[]*string](other, t, `[localStorage.getItem('shared'), sessionStorage.getItem('own')]`)
	if got[0] == nil || *got[0] != "yes" || got[1] != nil {
		t.Errorf("the other tab sees %v", got)
	}
	answers := func(tab context.Context) (count int) {
		for _, request := range Requests(tab) {
			if strings.HasPrefix(request.URL, origin+"/answer") {
				count++
			}
		}
		return count
	}
	if answers(one) != 1 || answers(other) != 2 {
		t.Errorf("the tabs asked once and twice, and their records hold %d and %d", answers(one), answers(other))
	}
}

// failingTB is a testing.TB that keeps the message of its failure and panics with errTestFailed, to end the step.
type failingTB struct {
	testing.TB
	failureText string // the message of Fatalf
}

// errTestFailed is the value with which failingTB panics.
var errTestFailed = errors.New("the test failed")

func (f *failingTB) Helper() {}

func (f *failingTB) Fatalf(format string, args ...any) {
	f.failureText = fmt.Sprintf(format, args...)
	panic(errTestFailed)
}

// A page's storage and cookies are in the profile of their own test alone.
func TestProfiles(t *testing.T) {
	origin := startPageServer(t)
	tabs := []context.Context{NewProfileTab(t), NewProfileTab(t)}
	for _, tab := range tabs {
		Navigate(tab, t, origin+"/quiet")
		if found := Evaluate[string](tab, t, `(localStorage.getItem('visited') ?? '') + document.cookie`); found != "" {
			t.Errorf("a fresh profile has %q", found)
		}
		Evaluate[bool](tab, t, `(localStorage.setItem('visited', 'yes'), document.cookie = 'visited=yes', true)`)
	}
}

// WaitFor goes on waiting when another page replaces the page.
func TestAWaitSurvivesItsPage(t *testing.T) {
	origin := startPageServer(t)
	tab := NewProfileTab(t)
	Navigate(tab, t, origin+"/onward")
	WaitFor(tab, t, "the last page is there", `document.title === 'done'`)
	if visits := Evaluate[string](tab, t, `sessionStorage.visits`); visits != "41" {
		t.Errorf("%s pages were there, want 41", visits)
	}
	if said := failureMessage(t, func(tb testing.TB) { WaitFor(tab, tb, "nothing", "nobody.at.all") }); !strings.Contains(said, "nobody is not defined") {
		t.Errorf("it said %q", said)
	}
}

// A step that fails ends its test with a message that names the reason.
func TestStepsFailTheTest(t *testing.T) {
	origin := startPageServer(t)
	tab := NewProfileTab(t)
	Navigate(tab, t, origin+"/noisy")
	WaitFor(tab, t, "the page is done", `document.title === 'done'`)
	for name, test := range map[string]struct {
		step func(tb testing.TB)
		want string
	}{
		"a page that is not there": {func(tb testing.TB) { Navigate(tab, tb, "http://127.0.0.1:1/") }, "open http://127.0.0.1:1/: "},
		"a script that throws":     {func(tb testing.TB) { Evaluate[int](tab, tb, "nobody.at.all") }, "nobody is not defined"},
		"a tab that is not there":  {func(tb testing.TB) { SelectTab(tab, tb, "Nothing") }, `GraphiQL has no tab "Nothing"`},
		"with the complaints":      {func(tb testing.TB) { Evaluate[int](tab, tb, "nobody") }, "thrown"},
		"a place to write that is not there": {func(tb testing.TB) {
			Screenshot(tab, tb, filepath.Join(t.TempDir(), "no", "page.png"))
		}, "write the screenshot"},
	} {
		t.Run(name, func(t *testing.T) {
			if said := failureMessage(t, test.step); !strings.Contains(said, test.want) {
				t.Errorf("it said %q, want %q", said, test.want)
			}
		})
	}
}

// failureMessage returns the message with which a step fails.
func failureMessage(t *testing.T, step func(tb testing.TB)) (said string) {
	t.Helper()
	tb := &failingTB{TB: t}
	defer func() {
		if reason := recover(); reason != nil && reason != any(errTestFailed) {
			panic(reason)
		}
		said = tb.failureText
	}()
	step(tb)
	return ""
}

// A step that fails, with a result or without, reports the tab's address, its focus and the text of the page.
func TestFailuresDescribeThePage(t *testing.T) {
	origin := startPageServer(t)
	tab := NewProfileTab(t)
	Navigate(tab, t, origin+"/noisy")
	WaitFor(tab, t, "the page is done", `document.title === 'done'`)
	for name, step := range map[string]func(tb testing.TB){
		"without a result": func(tb testing.TB) {
			runSteps(tab, tb, "fail", chromedp.Func(func(context.Context, *chromedp.Target) error { return errTestFailed }))
		},
		"with a result": func(tb testing.TB) { Evaluate[int](tab, tb, "nobody") },
	} {
		said := failureMessage(t, step)
		for _, want := range []string{"address: " + origin + "/noisy\n", `focus: <input name="field">`, "the page shows:\nall that is shown", "Error: thrown"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: it says %q, and not %q", name, said, want)
			}
		}
	}
	Navigate(tab, t, "about:blank")
	if said := failureMessage(t, func(tb testing.TB) { Evaluate[int](tab, tb, "nobody") }); !strings.Contains(said, "address: about:blank") {
		t.Errorf("of an empty page it says %q", said)
	}
}
