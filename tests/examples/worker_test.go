package examples

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"tidings/tests/world"
	"tidings/web/browsertest"
)

// workerTestPrelude is a script that is put before that of the example's service worker. It tells the test page which number the worker
// sets on the icon and which alerts it shows, because a headless browser has no icon and no alerts.
const workerTestPrelude = `
const icon = new BroadcastChannel('icon');
Object.defineProperty(navigator, 'setAppBadge', { value: async (number) => icon.postMessage(String(number)) });
Object.defineProperty(navigator, 'clearAppBadge', { value: async () => icon.postMessage('none') });
const alerts = new Map();
const tell = () => new BroadcastChannel('alerts').postMessage([...alerts.values()].join());
ServiceWorkerRegistration.prototype.showNotification = async (title, { tag }) => { alerts.set(tag, title); tell(); };
ServiceWorkerRegistration.prototype.getNotifications = async ({ tag }) => (alerts.has(tag) ? [{ close: () => { alerts.delete(tag); tell(); } }] : []);
`

// testPage is the page that the test opens. Its script stands in for Tidings and for the browser's push service, which tests cannot
// reach.
const testPage = `<!doctype html><link rel="icon" href="data:,"><script type="module">
import { followIcon, forgetIcon } from '/page.js';
window.icons = [];
navigator.setAppBadge = async (number) => { window.icons.push('page ' + number); };
navigator.clearAppBadge = async () => { window.icons.push('page none'); };
new BroadcastChannel('icon').onmessage = (event) => window.icons.push(event.data);
window.asked = [];
const ask = async (query, variables) => {
  window.asked.push([query.match(/\w+(?=[(]input| [}] [}]$)/)?.[0] ?? '', variables]);
  return { viewer: { pushKey: 'AQID' }, registerDevice: { badges: window.badges } };
};
let subscription = null;
const of = (n, key) => ({
  endpoint: 'https://push.example/' + n, options: { applicationServerKey: Uint8Array.from(key).buffer },
  toJSON: () => ({ endpoint: 'https://push.example/' + n, keys: { p256dh: 'p' + n, auth: 'a' + n } }),
  unsubscribe: async () => { subscription = null; },
});
window.oldKey = () => { subscription = of(0, [9, 9, 9]); };
PushManager.prototype.getSubscription = async () => subscription;
PushManager.prototype.subscribe = async (options) => (subscription = of(options.applicationServerKey === 'AQID' && options.userVisibleOnly ? 1 : 2, [1, 2, 3]));
window.follow = (device) => followIcon(ask, device);
window.forget = () => forgetIcon(ask);
window.alerts = '';
new BroadcastChannel('alerts').onmessage = (event) => { window.alerts = event.data; };
ServiceWorkerRegistration.prototype.getNotifications = async ({ tag }) => (tag === 'tidings' && window.alerts ? [{ close: () => { window.alerts = ''; } }] : []);
</script>`

// serveWebPushExample serves the page and the worker of docs/examples/web-push, as an application would.
func serveWebPushExample(t *testing.T) (origin string) {
	t.Helper()
	mux := http.NewServeMux()
	for name, before := range map[string]string{"worker.js": workerTestPrelude, "page.js": ""} {
		text, err := os.ReadFile(filepath.Join(world.RepositoryRoot(), "docs/examples/web-push", name))
		if err != nil {
			t.Fatal(err)
		}
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = fmt.Fprint(w, before, string(text))
		})
	}
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, testPage)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// waitIconAndAlerts waits until the page has last seen this icon (a number, or "none") and the browser shows these alerts (their titles).
func waitIconAndAlerts(ctx context.Context, t *testing.T, what, icon, alerts string) {
	t.Helper()
	browsertest.WaitFor(ctx, t, what, fmt.Sprintf(`window.icons.at(-1) === %q && window.alerts === %q`, icon, alerts))
}

// The page of the example registers the browser, sets its icon to the user's number, subscribes again if the server has another
// key, and unregisters. Its service worker sets the icon and alerts correctly for messages that arrive late, twice, after a lost
// message, and for another user.
func TestWebPushExample(t *testing.T) {
	origin := serveWebPushExample(t)
	tab := browsertest.NewFullBrowserTab(t)
	browsertest.GrantPermission(tab, t, origin, "notifications")
	browsertest.Navigate(tab, t, origin+"/")
	browsertest.WaitFor(tab, t, "the page is ready", `window.forget`)
	browsertest.Evaluate[bool](tab, t, `(window.oldKey(), true)`)
	for _, c := range []struct{ badges, icon string }{
		{`{total: {value: 3}, quiet: false}`, "page 3"}, {`{total: {value: 3}, quiet: true}`, "page none"}, {`null`, ""}, {`{total: {value: 0}, quiet: false}`, "page none"},
	} {
		browsertest.Evaluate[bool](tab, t, `(window.badges = `+c.badges+`, window.icons = [], window.followed = false, window.follow().then((done) => { window.followed = done }), true)`)
		browsertest.WaitFor(tab, t, "the browser is registered", `window.followed`)
		if icon := browsertest.Evaluate[string](tab, t, `window.icons.join()`); icon != c.icon {
			t.Errorf("with the badges %s the icon is %q, want %q", c.badges, icon, c.icon)
		}
	}
	for device, sent := range map[string]string{``: `"silent":true`, `{name: 'phone', silent: false}`: `"name":"phone","silent":false`} {
		browsertest.Evaluate[bool](tab, t, `(window.followed = false, window.follow(`+device+`).then((done) => { window.followed = done }), true)`)
		browsertest.WaitFor(tab, t, "the browser is registered", `window.followed`)
		asked := browsertest.Evaluate[string](tab, t, `JSON.stringify(window.asked.at(-1))`)
		if want := `["registerDevice",{"input":{"endpoint":"https://push.example/1","p256dh":"p1","auth":"a1",` + sent + `}}]`; asked != want {
			t.Errorf("the page asked %s, not %s", asked, want)
		}
	}
	browsertest.Evaluate[bool](tab, t, `(window.icons = [], true)`)
	quiet := false
	deliver := func(user, version string, total int, alert string) {
		t.Helper()
		display := fmt.Sprint(total)
		if quiet {
			display = ""
		}
		message := map[string]any{"version": version, "userId": user, "total": total, "display": display, "silent": alert != version, "alert": nil, "cause": nil}
		if alert != "" {
			message["alert"], message["cause"] = alert, map[string]any{"source": "CONVERSATIONS", "part": nil, "itemId": "message:1", "at": "2026-01-31T09:29:59.000Z"}
		}
		text, err := json.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		browsertest.DeliverPush(tab, t, origin, string(text))
	}
	browsertest.WaitFor(tab, t, "the worker runs", `(navigator.serviceWorker.ready.then(({ active }) => { window.worker = active.state }), window.worker === 'activated')`)
	deliver("user:ada", "11", 2, "11")
	waitIconAndAlerts(tab, t, "it alerts", "2", "A new message, 2 in all")
	deliver("user:ada", "10", 9, "10")
	deliver("user:ada", "12", 0, "")
	waitIconAndAlerts(tab, t, "the number and the alert are gone", "none", "")
	deliver("user:ada", "14", 4, "13") // the message with version 13 was replaced before it was delivered
	waitIconAndAlerts(tab, t, "it alerts of what the lost message brought", "4", "A new message, 4 in all")
	quiet = true
	deliver("user:ada", "15", 5, "13")
	waitIconAndAlerts(tab, t, "quiet hours: no number", "none", "A new message, 4 in all")
	quiet = false
	deliver("user:ada", "16", 5, "13")
	waitIconAndAlerts(tab, t, "their end: the number is back", "5", "A new message, 4 in all")
	deliver("user:bob", "9", 1, "")
	waitIconAndAlerts(tab, t, "another user has the icon", "1", "")
	if icons := browsertest.Evaluate[string](tab, t, `window.icons.join()`); icons != "2,none,4,none,5,1" {
		t.Errorf("the icon was %s", icons)
	}
	deliver("user:bob", "91", 2, "91")
	waitIconAndAlerts(tab, t, "it alerts the other user", "2", "A new message, 2 in all")
	browsertest.Evaluate[bool](tab, t, `(window.forget().then(() => { window.forgotten = true }), true)`)
	browsertest.WaitFor(tab, t, "the browser is forgotten", `window.forgotten`)
	if asked := browsertest.Evaluate[string](tab, t, `JSON.stringify(window.asked.at(-1)[1])`); asked != `{"endpoint":"https://push.example/1"}` {
		t.Errorf("the page asked to forget %s", asked)
	}
	if alerts := browsertest.Evaluate[string](tab, t, `window.alerts`); alerts != "" {
		t.Errorf("after the user has signed out, the browser shows %q", alerts)
	}
}
