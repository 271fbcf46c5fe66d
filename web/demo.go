package web

import (
	"net/http"
	"strings"
)

// DemoMode says what the demo page may do on its server.
type DemoMode string

// The modes of the demo page.
const (
	// Production asks the visitor for a token, and acts for nobody else.
	Production DemoMode = "production"
	// Development acts for anybody with development tokens.
	Development DemoMode = "development"
	// DemoWorld is Development on a server with the demo world: made-up people who post and talk. The page can empty its Redis.
	DemoWorld DemoMode = "demo"
)

// DemoConfig says what the demo page talks to.
type DemoConfig struct {
	// Endpoint is the path of GraphQL on the same origin. Empty is /graphql.
	Endpoint string
	Mode     DemoMode // what the page may do
	// Version of the server, shown at the foot. Empty shows none.
	Version string
}

// demoContentSecurityPolicy allows the demo page its own files and its own server, and pictures that it draws itself. So no text of
// a user can become a script or send anything elsewhere.
var demoContentSecurityPolicy = strings.Join([]string{
	"default-src 'none'",
	"script-src 'self'",
	"style-src 'self'",
	"img-src 'self' data:",
	"connect-src 'self'",
	"base-uri 'none'",
	"form-action 'none'",
	"frame-ancestors 'none'",
}, "; ")

// Demo serves the demo page at "/": two phones of one person, and controls that make their badges change. With the demo world
// there is a third phone, whose app is closed. GraphiQL's handler serves the page's files. Demo answers GET and HEAD, and is safe
// for concurrent use.
func Demo(cfg DemoConfig) http.Handler {
	if cfg.Endpoint == "" {
		cfg.Endpoint = "/graphql"
	}
	page := mustPage("demo.html", cfg)
	return readOnly(func(w http.ResponseWriter, r *http.Request) {
		// A mux may pass this handler every path that no other handler takes.
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		servePage(w, r, page, demoContentSecurityPolicy)
	})
}
