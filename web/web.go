// Package web serves GraphiQL, a demo page and the books (the documentation, see package docs), which are embedded in the binary.
//
// It guarantees that all pages need no network beyond the connection to this server: every file that they need is
// in the binary, and their content security policies allow no other server. The address of a file contains its
// hash, so the file may be cached for ever; a page itself is requested again each time. In development mode the pages offer "dev:"
// tokens. Elsewhere the visitor enters a token, which stays in the browser tab: it is sent to this server and nowhere else.
//
// The embedded files are read once: those of GraphiQL and the demo page when the first of these handlers is made, the books at the
// first request for them. A file that cannot be read is a fault of the build, so GraphiQL and Demo panic, and so does each request
// for the books. A request for a file that does not exist gets 404.
package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
)

// People are the keys of the users in the tour (docs/tour.md). GraphiQL offers them in development mode, where they exist from the start.
var People = []string{"alice", "bob", "carol"}

// GraphiQLConfig says what the GraphiQL page talks to.
type GraphiQLConfig struct {
	// Endpoint is the path of GraphQL on the same origin, for requests and for sockets. Empty is /graphql.
	Endpoint string
	// Development shows a bar with tokens for anybody, which only a server in development mode accepts.
	Development bool
	// Introspection says that the endpoint answers questions about its schema. Without it the page does not ask, and says why.
	Introspection bool
	// Version of the server, shown beside its name. Empty shows none.
	Version string
}

// The addresses that GraphiQL's handler serves.
const (
	graphiqlPath = "/graphiql"
	assetsPath   = graphiqlPath + "/assets/"
)

// files has the files of the pages, and the ready-made operations.
//
//go:embed assets operations
var files embed.FS

// embeddedAssets returns the files as they are served, by name. All handlers share them; they are compressed and hashed once.
var embeddedAssets = sync.OnceValue(func() map[string]*asset {
	assets, err := loadAssets(files)
	if err != nil {
		panic(fmt.Errorf("web: %w", err))
	}
	return assets
})

// contentSecurityPolicy lets the GraphiQL page load its own files and call its own server. GraphiQL sets styles from its script, and
// brings its fonts and pictures as data. Its worker is made of a blob.
var contentSecurityPolicy = strings.Join([]string{
	"default-src 'none'",
	"script-src 'self'",
	"style-src 'self' 'unsafe-inline'",
	"img-src 'self' data:",
	"font-src 'self' data:",
	"connect-src 'self'",
	"worker-src 'self' blob:",
	"base-uri 'none'",
	"form-action 'none'",
	"frame-ancestors 'none'",
}, "; ")

// GraphiQL serves the GraphiQL page at /graphiql, and under /graphiql/assets/ its files and those of the demo page and the books.
// Register it for "/graphiql" and for "/graphiql/". It answers GET and HEAD, and is safe for concurrent use.
func GraphiQL(cfg GraphiQLConfig) http.Handler {
	if cfg.Endpoint == "" {
		cfg.Endpoint = "/graphql"
	}
	assets := embeddedAssets()
	page := mustPage("graphiql.html", cfg)
	// An address contains the hash of its file: the address of another version is not found, and never gets a different file.
	byPath := make(map[string]*asset, len(assets))
	for _, a := range assets {
		byPath[a.path()] = a
	}
	return readOnly(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == graphiqlPath:
			servePage(w, r, page, contentSecurityPolicy)
		case r.URL.Path == graphiqlPath+"/":
			http.Redirect(w, r, graphiqlPath+querySuffix(r), http.StatusMovedPermanently)
		case byPath[r.URL.Path] != nil:
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			byPath[r.URL.Path].serve(w, r)
		default:
			http.NotFound(w, r)
		}
	})
}

// readOnly answers GET and HEAD, for pages and their files. It sets the headers that all of them need.
func readOnly(serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		// The address of a page may contain a GraphQL query, which no other site may learn.
		header.Set("Referrer-Policy", "no-referrer")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			header.Set("Allow", "GET, HEAD")
			http.Error(w, "this page answers GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		serve(w, r)
	})
}

// servePage serves a page. Browsers revalidate it each time and mostly get a 304: the hash is its ETag.
func servePage(w http.ResponseWriter, r *http.Request, page *asset, policy string) {
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Cache-Control", "no-cache")
	page.serve(w, r)
}

// querySuffix returns the query of a request, with its question mark, for a redirect that keeps it.
func querySuffix(r *http.Request) string {
	if r.URL.RawQuery == "" {
		return ""
	}
	return "?" + r.URL.RawQuery
}

// mustPage renders a template with its settings to a page, which is the same for everybody. It panics if that fails, because that is a
// fault of the build.
func mustPage(name string, cfg any) *asset {
	page, err := newPage(name, cfg, embeddedAssets())
	if err != nil {
		panic(fmt.Errorf("web: the page %s: %w", name, err))
	}
	return page
}

// newPage renders a template with the addresses of the assets that it names. html/template escapes the values of the settings.
func newPage(name string, cfg any, assets map[string]*asset) (*asset, error) {
	source, err := files.ReadFile("assets/" + name)
	if err != nil {
		return nil, err
	}
	address := func(name string) (string, error) {
		if assets[name] == nil {
			return "", fmt.Errorf("the page names %q, which is not embedded", name)
		}
		return assets[name].path(), nil
	}
	tmpl, err := template.New(name).Funcs(template.FuncMap{"asset": address}).Parse(string(source))
	if err != nil {
		return nil, err
	}
	var html bytes.Buffer
	if err := tmpl.Execute(&html, cfg); err != nil {
		return nil, err
	}
	return newAsset(name, html.Bytes())
}
