// Package console is the console of operators: pages at /admin, made on the server, without a script.
//
// It reads and acts through GraphQL, with the token of the operator, so that a page shows the same data as the API, and each
// act passes the same checks and is recorded. Every page except the sign-in needs the scope admin. The token is in a cookie
// that no script and no other site can use, never in an address, a page or the log; a form that acts is refused when it comes
// from another site. Looking at a user is not a visit: it moves none of their read positions. Each look is recorded as an act.
//
// On failure a page shows the parts that could be read, and names the parts that could not.
//
// A request passes withSecurityHeaders, the check of its origin, requireOperator (the token), and then the function of its page,
// which executes a GraphQL document, fills the body of its template and calls show. Every request is checked again: there are no
// sessions here, so an expired token is refused at once.
package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"tidings/services"
)

// Config has the dependencies and settings of the console. Every field but Development, Version and Log is required.
type Config struct {
	// Identify returns the bearer of a token and the token's expiry; a zero time means never.
	Identify func(ctx context.Context, token string) (services.Viewer, time.Time, error)
	// Execute executes a GraphQL document for the viewer of the context, and writes its data into the value that into points to.
	Execute func(ctx context.Context, document string, variables map[string]any, into any) []error
	// RecordAct records an act of the viewer of the context.
	RecordAct func(ctx context.Context, action, target string, work func(ctx context.Context) error) error
	// NodeState returns the part of this node's state that GraphQL does not return.
	NodeState func(ctx context.Context) NodeState
	// Now returns the current time, from which ages are computed.
	Now func() time.Time
	// Development lets operators sign in without a token, as only a server in development mode may.
	Development bool
	Version     string       // of the server, for the foot of every page; "" shows none
	Log         *slog.Logger // default slog.Default()
}

// files has the templates of the pages and the style sheet.
//
//go:embed pages/*.html style.css
var files embed.FS

const (
	rootPath  = "/admin" // the path of the first page
	stylePath = rootPath + "/style.css"
	// maxFormBytes is the most bytes of a form, which contains a token or a few names.
	maxFormBytes = 16 << 10 // bytes
)

// contentSecurityPolicy allows the pages their style sheet, pictures in data: addresses, and forms to this server, and nothing else.
var contentSecurityPolicy = strings.Join([]string{
	"default-src 'none'", "style-src 'self'", "img-src data:", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
}, "; ")

// Console serves the pages at /admin. It is safe for concurrent use: nothing in it changes after New.
type Console struct {
	cfg   Config
	pages *template.Template // a template for each page
	style []byte             // the style sheet
	mux   *http.ServeMux
}

// New makes the console. Register it for "/admin" and for "/admin/".
func New(cfg Config) http.Handler {
	style, err := files.ReadFile("style.css")
	if err != nil {
		panic("console: " + err.Error()) // a fault of the build
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	c := &Console{cfg: cfg, style: style, mux: http.NewServeMux()}
	c.pages = parseTemplates(c)
	c.mux.HandleFunc("GET "+stylePath, c.serveStyle)
	c.mux.HandleFunc("POST "+rootPath+"/sign-in", c.signIn)
	c.mux.HandleFunc("POST "+rootPath+"/sign-out", c.signOut)
	// Each page is a function of a pageRequest, which requireOperator makes, so that none can omit the check of the operator.
	for pattern, serve := range map[string]func(*pageRequest){
		"GET " + rootPath:                       c.overview,
		"GET " + rootPath + "/{$}":              c.overview,
		"GET " + rootPath + "/webhooks":         c.webhooks,
		"GET " + rootPath + "/users":            c.users,
		"GET " + rootPath + "/acts":             c.acts,
		"POST " + rootPath + "/users/recount":   c.recountBadges,
		"POST " + rootPath + "/webhooks/test":   c.testWebhook,
		"POST " + rootPath + "/webhooks/replay": c.replayWebhook,
	} {
		c.mux.HandleFunc(pattern, c.requireOperator(serve))
	}
	// Paths without a page need an operator too, so that nobody else can find out which paths exist.
	c.mux.HandleFunc(rootPath+"/", c.requireOperator(c.serveNotFound))
	// Browsers do not send the cookie from another site. This check refuses the form even if a browser did.
	sites := http.NewCrossOriginProtection()
	sites.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.write(w, http.StatusForbidden, "refused", page{Title: "Refused", Error: "This form was sent from another site. Open the page here and send it again."})
	}))
	return withSecurityHeaders(sites.Handler(c.mux))
}

// parseTemplates returns the templates, with the functions that templateFuncs returns.
func parseTemplates(c *Console) *template.Template {
	return template.Must(template.New("").Funcs(c.templateFuncs()).ParseFS(files, "pages/*.html"))
}

// withSecurityHeaders sets the headers of every answer, and bounds the body of the request. The Referrer-Policy is same-origin
// because with no-referrer a browser would send a form with "Origin: null".
func withSecurityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", contentSecurityPolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		if r.Body != nil {
			r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
		}
		next.ServeHTTP(w, r)
	})
}

// page is the input of every template.
type page struct {
	Title    string
	Here     string // the page's path in the navigation; "" if it is not there
	Actor    string // the subject of the operator who is signed in
	SignedIn bool
	Version  string   // of the server; "" shows none
	Notice   string   // the outcome of an act
	Error    string   // what went wrong; "": nothing did
	Faults   []string // errors of the parts that could not be read
	Body     any      // the data of this page's template
}

// pageRequest is one request of an operator, from the check of the token to the page that is written. Only its goroutine uses it.
// It is no visit of a user, by which the glossary calls users active, idle or dormant.
type pageRequest struct {
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context // with the operator as its viewer
	viewer services.Viewer // the operator
	page   page            // what show writes
}

// show writes the page of a request, with an HTTP status and the template of a name.
func (c *Console) show(v *pageRequest, status int, name string) {
	v.page.Actor, v.page.SignedIn = v.viewer.Subject, true
	c.write(v.w, status, name, v.page)
}

// write writes a page. The page is made in memory first, so that a fault in the middle is an error and not half a page.
func (c *Console) write(w http.ResponseWriter, status int, name string, p page) {
	p.Version = c.cfg.Version
	var html bytes.Buffer
	if err := c.pages.ExecuteTemplate(&html, name+".html", p); err != nil {
		c.cfg.Log.Error("a page of the console could not be made", "page", name, "error", err)
		// The reason is in the log alone: a template's error names fields and values.
		http.Error(w, "this page could not be made: see the log of the server", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(html.Bytes()) // a client that has left needs no page
}

// serveStyle serves the style sheet, which is no secret: the form to sign in needs it.
func (c *Console) serveStyle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(c.style) // a client that has left needs no style
}

// serveNotFound answers requests that match no other pattern.
func (c *Console) serveNotFound(v *pageRequest) {
	v.page.Title, v.page.Error = "No such page", "There is no such page."
	c.show(v, http.StatusNotFound, "refused")
}

// executeQuery executes a GraphQL document, and adds its errors to the faults of the page. It reports whether there were no errors.
func (c *Console) executeQuery(v *pageRequest, ctx context.Context, document string, variables map[string]any, into any) bool {
	errs := c.cfg.Execute(ctx, document, variables, into)
	for _, err := range errs {
		v.page.Faults = append(v.page.Faults, errorText(err))
	}
	return len(errs) == 0
}

// errorText returns the text of an error for a page, without its cause, because the cause may repeat secrets of the input.
func errorText(err error) string {
	if known, ok := errors.AsType[*services.Error](err); ok && known.Code != services.Internal {
		return known.Message
	}
	return "The server failed: its log says why."
}

// statusOf returns the HTTP status of an error. Pages are sent with it too, so that a proxy's log is right.
func statusOf(err error) int {
	switch services.CodeOf(err) {
	case "":
		return http.StatusOK
	case services.Invalid:
		return http.StatusBadRequest
	case services.Unauthenticated:
		return http.StatusUnauthorized
	case services.Forbidden:
		return http.StatusForbidden
	case services.NotFound:
		return http.StatusNotFound
	case services.Conflict:
		return http.StatusConflict
	case services.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
