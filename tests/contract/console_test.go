package contract

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"tidings/services/node"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// consoleBrowser is a browser of the console: it keeps the cookie, and sends the headers that tell the origin of a form.
type consoleBrowser struct {
	t           *testing.T
	serverURL   string       // the server's address
	cookie      *http.Cookie // the cookie that signs the browser in; nil: none
	extraHeader http.Header  // the additional headers of every request
}

// consoleAnswer is one answer of the console.
type consoleAnswer struct {
	status int
	body   string
	header http.Header
}

// send sends a request with a form, or without one if form is nil, and keeps the cookie of the answer.
func (o *consoleBrowser) send(method, path string, form url.Values) consoleAnswer {
	o.t.Helper()
	request, err := http.NewRequestWithContext(o.t.Context(), method, o.serverURL+path, strings.NewReader(form.Encode()))
	if err != nil {
		o.t.Fatal(err)
	}
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, values := range o.extraHeader {
		request.Header[name] = values
	}
	if o.cookie != nil {
		request.AddCookie(o.cookie)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		o.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	for _, cookie := range response.Cookies() {
		if o.cookie = cookie; cookie.MaxAge < 0 {
			o.cookie = nil
		}
	}
	return consoleAnswer{response.StatusCode, string(body), response.Header}
}

func (o *consoleBrowser) get(path string) consoleAnswer { return o.send(http.MethodGet, path, nil) }
func (o *consoleBrowser) post(path string, form url.Values) consoleAnswer {
	return o.send(http.MethodPost, path, form)
}

// signIn sends a token with the sign-in form.
func (o *consoleBrowser) signIn(token string) consoleAnswer {
	o.t.Helper()
	return o.post("/admin/sign-in", url.Values{"token": {token}})
}

// wantAnswer checks that an answer has a status and all the texts.
func (o *consoleBrowser) wantAnswer(what string, got consoleAnswer, status int, texts ...string) {
	o.t.Helper()
	if got.status != status {
		o.t.Errorf("%s: status %d, want %d", what, got.status, status)
	}
	for _, text := range texts {
		if !strings.Contains(got.body, text) {
			o.t.Errorf("%s: %q is missing in\n%s", what, text, got.body)
		}
	}
}

// signToken makes a token of production mode. Without the claim exp it expires in an hour.
func signToken(t *testing.T, claims jwt.MapClaims) string {
	t.Helper()
	if claims["exp"] == nil {
		claims["exp"] = time.Now().Add(time.Hour).Unix()
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(world.TestSecret))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// consolePages are all requests that the console serves, except the style sheet and the requests to sign in and out.
var consolePages = []struct{ method, path string }{
	{"GET", "/admin"}, {"GET", "/admin/"}, {"GET", "/admin/webhooks"}, {"GET", "/admin/users"}, {"GET", "/admin/users?user=ann"}, {"GET", "/admin/acts"},
	{"GET", "/admin/nothing"}, {"HEAD", "/admin"}, {"HEAD", "/admin/acts"},
	{"POST", "/admin/users/recount"}, {"POST", "/admin/webhooks/test"}, {"POST", "/admin/webhooks/replay"}, {"POST", "/admin/nothing"},
}

// startProductionNode starts a node with a key for tokens, and returns a browser of its console on the operations listener.
func startProductionNode(t *testing.T) (*world.Node, *consoleBrowser) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: redistest.Redis(t), ChangeConfig: func(cfg *node.Config) { cfg.Tokens.HMACSecret = world.TestSecret }})
	operations := httptest.NewServer(n.OperationsServer.Handler)
	t.Cleanup(operations.Close)
	return n, &consoleBrowser{t: t, serverURL: operations.URL}
}

// In production every page of the console needs a cookie with a token that has the scope admin. Only the operations listener
// serves the console.
func TestTheConsoleIsForOperators(t *testing.T) {
	n, o := startProductionNode(t)
	ann := signToken(t, jwt.MapClaims{"sub": "ann"})
	if got := n.PostGraphQL("Bearer "+ann, []byte(`{"query":"{viewer{user{key}}}"}`)); len(got.Errors) > 0 {
		t.Fatal(got.Errors)
	}
	admin := signToken(t, jwt.MapClaims{"sub": "root", "scope": "admin"})
	for _, who := range []struct {
		name, token string
		status      int
		says        string
	}{
		{"a stranger", "", 401, "A token with the scope admin is needed."},
		{"a user", ann, 403, "lacks the scope admin"},
		{"the host application", signToken(t, jwt.MapClaims{"scope": "ingest"}), 403, "lacks the scope admin"},
		{"an expired operator", signToken(t, jwt.MapClaims{"sub": "root", "scope": "admin", "exp": time.Now().Add(-time.Hour).Unix()}), 401, "has expired"},
		{"a forger", admin[:len(admin)-6] + "AAAAAA", 401, "signature"},
		{"a developer", "dev:root:admin", 401, "development tokens are refused"},
		{"garbage", "%00<script>", 401, ""},
		{"an operator", admin, 200, ""},
	} {
		o.cookie = nil
		signed := o.signIn(who.token)
		if who.status == 200 {
			o.wantAnswer(who.name, signed, http.StatusSeeOther)
			if o.cookie == nil || o.cookie.Value != who.token || !o.cookie.HttpOnly || o.cookie.SameSite != http.SameSiteStrictMode || o.cookie.Path != "/admin" {
				t.Errorf("the cookie is %+v", o.cookie)
			}
		} else {
			o.wantAnswer(who.name+" signs in", signed, who.status, who.says, `action="/admin/sign-in"`, `role="alert"`)
			if o.cookie != nil {
				t.Errorf("%s has the cookie %+v", who.name, o.cookie)
			}
		}
		for _, page := range consolePages {
			if who.token != "" {
				o.cookie = &http.Cookie{Name: "tidings_console", Value: who.token} // even if the console did not set it
			}
			form := url.Values(nil)
			if page.method == "POST" {
				form = url.Values{"user": {"user:ann"}, "name": {"app"}}
			}
			got := o.send(page.method, page.path, form)
			what := who.name + ": " + page.method + " " + page.path
			if who.status == 200 {
				if got.status == 401 || got.status == 403 || page.method == "GET" && !strings.Contains(got.body, "root") {
					t.Errorf("%s: %d", what, got.status)
				}
				continue
			}
			o.wantAnswer(what, got, who.status)
			if strings.Contains(got.body, "ann") || strings.Contains(got.body, "<nav") || page.method == "GET" && !strings.Contains(got.body, who.says) {
				t.Errorf("%s: %s", what, got.body)
			}
		}
	}
	o.wantSignInOnlyByForm(admin)
	public := &consoleBrowser{t: t, serverURL: n.URL, cookie: &http.Cookie{Name: "tidings_console", Value: admin}}
	for _, page := range consolePages {
		if got := public.send(page.method, page.path, nil); got.status != http.StatusNotFound {
			t.Errorf("the public address: %s %s: %d", page.method, page.path, got.status)
		}
	}
}

// wantSignInOnlyByForm checks that a token in an address or in the Authorization header signs nobody in, and that no answer repeats a
// token.
func (o *consoleBrowser) wantSignInOnlyByForm(admin string) {
	o.t.Helper()
	o.cookie = nil
	o.wantAnswer("a token in the address", o.get("/admin?token="+admin), 401)
	o.wantAnswer("a token in the address of the form", o.post("/admin/sign-in?token="+admin, url.Values{}), 401)
	o.extraHeader = http.Header{"Authorization": {"Bearer " + admin}}
	o.wantAnswer("a token in a header", o.get("/admin"), 401)
	o.extraHeader = nil
	o.signIn(admin)
	for _, page := range consolePages {
		if got := o.send(page.method, page.path, nil); strings.Contains(got.body, admin) || strings.Contains(fmt.Sprint(got.header), admin) {
			o.t.Errorf("%s shows the token", page.path)
		}
	}
	if got := o.signIn("secret-that-is-wrong"); strings.Contains(got.body, "secret-that-is-wrong") {
		o.t.Error("a refused token is repeated")
	}
	o.wantAnswer("a token that is too long", o.signIn(strings.Repeat("a", 3801)), 401, "3800 bytes")
	o.signIn(admin)
	o.wantAnswer("sign out", o.post("/admin/sign-out", url.Values{}), 200, "You are signed out.")
	o.wantAnswer("after it", o.get("/admin"), 401)
}

// Behind a proxy with TLS the cookie is marked Secure. It expires with the token.
func TestTheCookieOfTheConsole(t *testing.T) {
	_, o := startProductionNode(t)
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	admin := signToken(t, jwt.MapClaims{"sub": "root", "scope": "admin", "exp": until.Unix()})
	o.signIn(admin)
	if o.cookie.Secure {
		t.Error("plain HTTP: a browser would not take it")
	}
	if late := o.cookie.Expires.Sub(until); late < 0 || late > time.Minute {
		t.Errorf("it ends %s after the token", late)
	}
	o.extraHeader = http.Header{"X-Forwarded-Proto": {"https"}}
	if o.signIn(admin); !o.cookie.Secure {
		t.Error("behind TLS it is sent over plain HTTP too")
	}
}

// A form from another site is refused and has no effect. A form of this site is served, even if the browser sends only its origin.
func TestTheConsoleRefusesFormsOfOtherSites(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: redistest.Redis(t)})
	n.Badges("ann")
	o := &consoleBrowser{t: t, serverURL: n.URL}
	acts := func() int {
		t.Helper()
		var data struct {
			Admin struct{ Acts struct{ List []struct{} } }
		}
		n.MustAsk("boss:admin", `{admin{acts(first:100){list{action}}}}`, nil, &data)
		return len(data.Admin.Acts.List)
	}
	for _, page := range consolePages {
		if page.method != "POST" {
			continue
		}
		for _, header := range []http.Header{
			{"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}}, {"Sec-Fetch-Site": {}, "Origin": {"https://evil.example"}}, {"Sec-Fetch-Site": {}, "Origin": {"null"}},
		} {
			o.extraHeader = header
			o.wantAnswer(fmt.Sprintf("%s by %v", page.path, header), o.post(page.path, url.Values{"user": {"user:ann"}, "name": {"app"}}), 403, "another site")
		}
	}
	o.extraHeader = http.Header{"Sec-Fetch-Site": {"cross-site"}}
	o.wantAnswer("sign in from elsewhere", o.signIn("dev:eve:admin"), 403, "another site")
	if got := acts(); got != 0 {
		t.Errorf("%d acts were done", got)
	}
	for i, header := range []http.Header{{"Sec-Fetch-Site": {"same-origin"}}, {"Sec-Fetch-Site": {}, "Origin": {n.URL}}} {
		o.extraHeader = header
		o.wantAnswer("recount", o.post("/admin/users/recount", url.Values{"user": {"user:ann"}}), 200, "rebuilt from the facts")
		if got := acts(); got != i+1 {
			t.Errorf("%d acts, want %d", got, i+1)
		}
	}
}

// Every answer forbids scripts, frames and foreign content, and lets the browser send the origin of forms. Pages forbid caches.
func TestTheHeadersOfTheConsole(t *testing.T) {
	_, o := startProductionNode(t)
	for _, path := range []string{"/admin", "/admin/style.css", "/admin/nothing"} {
		got := o.get(path)
		policy := got.header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "style-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: %s is missing in %s", path, part, policy)
			}
		}
		if strings.Contains(policy, "script-src") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %s", path, policy)
		}
		if got.header.Get("X-Content-Type-Options") != "nosniff" || got.header.Get("Referrer-Policy") != "same-origin" {
			t.Errorf("%s: %v", path, got.header)
		}
		if keep := got.header.Get("Cache-Control"); path != "/admin/style.css" && keep != "no-store" {
			t.Errorf("%s: %s", path, keep)
		}
	}
	o.wantAnswer("the style sheet", o.get("/admin/style.css"), 200, "color-scheme")
	if got := o.send(http.MethodDelete, "/admin/acts", nil); got.status < 400 {
		t.Errorf("DELETE: %d", got.status)
	}
}
