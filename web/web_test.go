package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const (
	// wantSecurityPolicy is the content security policy of the GraphiQL page.
	wantSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
		"font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	// wantImmutableCaching is the Cache-Control of a file whose address has its hash.
	wantImmutableCaching = "public, max-age=31536000, immutable"
)

// sendRequest sends a request to a handler; headers are pairs of a name and a value.
func sendRequest(t *testing.T, handler http.Handler, method, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Result()
}

// readBody returns the whole body of a response.
func readBody(t *testing.T, response *http.Response) []byte {
	t.Helper()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// The GraphiQL page has its headers and its settings, and all files that it names are served.
func TestPage(t *testing.T) {
	handler := GraphiQL(GraphiQLConfig{Development: true, Introspection: true, Version: "v1.2.3"})
	response := sendRequest(t, handler, http.MethodGet, "/graphiql?as=bob")
	page := string(readBody(t, response))
	if response.StatusCode != http.StatusOK {
		t.Fatalf("the page answers %d", response.StatusCode)
	}
	for name, want := range map[string]string{
		"Cache-Control":           "no-cache",
		"Content-Length":          strconv.Itoa(len(page)),
		"Content-Security-Policy": wantSecurityPolicy,
		"Content-Type":            "text/html; charset=utf-8",
		"Referrer-Policy":         "no-referrer",
		"Vary":                    "Accept-Encoding",
		"X-Content-Type-Options":  "nosniff",
	} {
		if got := response.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, want := range []string{"<title>Tidings GraphiQL</title>", `data-mode="development"`, "dev:alice", `data-introspection="true"`, `data-endpoint="/graphql"`, `data-version="v1.2.3"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for _, tag := range regexp.MustCompile(`<script[^>]*>|<style| on[a-z]+=`).FindAllString(page, -1) {
		if !strings.HasPrefix(tag, "<script defer ") || !strings.Contains(tag, ` src="/graphiql/assets/`) {
			t.Errorf("the page holds %s, which its policy refuses", tag)
		}
	}
	addresses := regexp.MustCompile(`(?:src|href|data-operations)="(/graphiql/[^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(addresses) != 9 {
		t.Errorf("the page names %d files, want 9: %q", len(addresses), addresses)
	}
	for _, address := range addresses {
		got := sendRequest(t, handler, http.MethodGet, address[1])
		if got.StatusCode != http.StatusOK || got.Header.Get("Cache-Control") != wantImmutableCaching {
			t.Errorf("%s answers %d, %q", address[1], got.StatusCode, got.Header.Get("Cache-Control"))
		}
	}
}

func TestPageOfProductionOffersNoDevelopmentUsers(t *testing.T) {
	page := string(readBody(t, sendRequest(t, GraphiQL(GraphiQLConfig{}), http.MethodGet, "/graphiql")))
	for _, absent := range []string{"development", "alice", "dev:", `introspection="true"`} {
		if strings.Contains(page, absent) {
			t.Errorf("the page of production mode holds %q", absent)
		}
	}
}

func TestPageEscapesItsConfiguration(t *testing.T) {
	handler := GraphiQL(GraphiQLConfig{Endpoint: `/q"><script>`, Version: `"><script>`})
	page := string(readBody(t, sendRequest(t, handler, http.MethodGet, "/graphiql")))
	if strings.Contains(page, "<script>") {
		t.Errorf("the configuration became markup:\n%s", page)
	}
	if !strings.Contains(page, `data-endpoint="/q&#34;&gt;&lt;script&gt;"`) {
		t.Errorf("the endpoint is not in the page:\n%s", page)
	}
}

// Each file of the pages is served plain and compressed, with its hash in its address.
func TestAssets(t *testing.T) {
	handler := GraphiQL(GraphiQLConfig{})
	names := []string{"LICENSES.txt", "demo.css", "demo.js", "docs.css", "favicon.svg", "graphiql-page.css", "graphiql-page.js",
		"graphiql.min.css", "graphiql.min.js", "operations.json", "react-dom.production.min.js", "react.production.min.js"}
	if len(embeddedAssets()) != len(names) {
		t.Errorf("%d files are embedded, the test knows %d", len(embeddedAssets()), len(names))
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			asset := embeddedAssets()[name]
			if asset == nil {
				t.Fatal("it is not embedded")
			}
			plain := sendRequest(t, handler, http.MethodGet, asset.path())
			content := readBody(t, plain)
			digest := sha256.Sum256(content)
			if hash := hex.EncodeToString(digest[:]); !strings.HasPrefix(hash, asset.hash) || !strings.Contains(asset.path(), asset.hash) {
				t.Errorf("the address %s does not hold the hash %s of the content", asset.path(), hash)
			}
			packed := sendRequest(t, handler, http.MethodGet, asset.path(), "Accept-Encoding", "gzip, deflate, br")
			if packed.Header.Get("Content-Encoding") != "gzip" || plain.Header.Get("Content-Encoding") != "" {
				t.Errorf("encoded as %q for a browser and %q for one who did not ask",
					packed.Header.Get("Content-Encoding"), plain.Header.Get("Content-Encoding"))
			}
			checkPlainAndCompressedAsset(t, plain, content, packed, readBody(t, packed))
			checkConditionalRequests(t, handler, asset.path(), plain.Header.Get("ETag"), packed.Header.Get("ETag"))
		})
	}
}

// checkPlainAndCompressedAsset compares the plain and the compressed form of an asset.
func checkPlainAndCompressedAsset(t *testing.T, plain *http.Response, content []byte, packed *http.Response, compressed []byte) {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	inflated, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(content) == 0 || !bytes.Equal(inflated, content) {
		t.Errorf("the two forms differ: %d and %d bytes", len(inflated), len(content))
	}
	if plain.Header.Get("ETag") == packed.Header.Get("ETag") {
		t.Errorf("both forms have the tag %s", plain.Header.Get("ETag"))
	}
	for response, size := range map[*http.Response]int{plain: len(content), packed: len(compressed)} {
		if got := response.Header.Get("Content-Length"); got != strconv.Itoa(size) {
			t.Errorf("Content-Length is %s, want %d", got, size)
		}
		if got := response.Header.Get("Vary"); got != "Accept-Encoding" {
			t.Errorf("Vary is %q", got)
		}
		if got := response.Header.Get("Cache-Control"); got != wantImmutableCaching {
			t.Errorf("Cache-Control is %q", got)
		}
	}
}

// checkConditionalRequests checks which tags of an If-None-Match lead to 304, and that a HEAD has no body.
func checkConditionalRequests(t *testing.T, handler http.Handler, path, plainTag, packedTag string) {
	t.Helper()
	for _, test := range []struct {
		encoding, condition string
		want                int
	}{
		{"identity", plainTag, http.StatusNotModified},
		{"gzip", packedTag, http.StatusNotModified},
		{"gzip", "W/" + packedTag, http.StatusNotModified},
		{"gzip", `"old", ` + packedTag, http.StatusNotModified},
		{"gzip", "*", http.StatusNotModified},
		{"gzip", plainTag, http.StatusOK},
		{"gzip", `"old"`, http.StatusOK},
	} {
		got := sendRequest(t, handler, http.MethodGet, path, "Accept-Encoding", test.encoding, "If-None-Match", test.condition)
		if got.StatusCode != test.want {
			t.Errorf("If-None-Match %s with %s answers %d, want %d", test.condition, test.encoding, got.StatusCode, test.want)
		}
		if sent := len(readBody(t, got)); test.want == http.StatusNotModified && sent > 0 {
			t.Errorf("304 came with %d bytes", sent)
		}
	}
	head := sendRequest(t, handler, http.MethodHead, path)
	if sent := len(readBody(t, head)); sent > 0 || head.Header.Get("ETag") != plainTag || head.StatusCode != http.StatusOK {
		t.Errorf("HEAD answers %d with %d bytes and the tag %s", head.StatusCode, sent, head.Header.Get("ETag"))
	}
}

// TestGraphiQLAnswersOnlyItsAddresses checks the status of the handler for addresses that it serves and for others.
func TestGraphiQLAnswersOnlyItsAddresses(t *testing.T) {
	handler := GraphiQL(GraphiQLConfig{})
	known := embeddedAssets()["favicon.svg"].path()
	for _, test := range []struct {
		method, path string
		want         int
	}{
		{http.MethodHead, "/graphiql", http.StatusOK},
		{http.MethodGet, "/graphiql/", http.StatusMovedPermanently},
		{http.MethodGet, "/graphiql/assets", http.StatusNotFound},
		{http.MethodGet, "/graphiql/assets/", http.StatusNotFound},
		{http.MethodGet, "/graphiql/assets/favicon.svg", http.StatusNotFound},
		{http.MethodGet, "/graphiql/assets/0123456789abcdef/favicon.svg", http.StatusNotFound},
		{http.MethodGet, known + "/", http.StatusNotFound},
		{http.MethodGet, known + ".gz", http.StatusNotFound},
		{http.MethodGet, "/graphiql/assets/../web.go", http.StatusNotFound},
		{http.MethodGet, "/elsewhere", http.StatusNotFound},
		{http.MethodPost, "/graphiql", http.StatusMethodNotAllowed},
		{http.MethodDelete, known, http.StatusMethodNotAllowed},
	} {
		response := sendRequest(t, handler, test.method, test.path)
		if response.StatusCode != test.want {
			t.Errorf("%s %s answers %d, want %d", test.method, test.path, response.StatusCode, test.want)
		}
		if allow := response.Header.Get("Allow"); (test.want == http.StatusMethodNotAllowed) != (allow == "GET, HEAD") {
			t.Errorf("%s %s allows %q", test.method, test.path, allow)
		}
	}
	moved := sendRequest(t, handler, http.MethodGet, "/graphiql/?as=bob")
	if got := moved.Header.Get("Location"); got != "/graphiql?as=bob" {
		t.Errorf("/graphiql/?as=bob leads to %q", got)
	}
}

func TestLoadAssetsNamesWhatItCannotRead(t *testing.T) {
	for name, test := range map[string]struct {
		files fstest.MapFS
		want  string
	}{
		"an unknown type":   {fstest.MapFS{"assets/a.wasm": {}}, `a.wasm: no content type is known for ".wasm"`},
		"no gzip":           {fstest.MapFS{"assets/vendor/a.js.gz": {Data: []byte("a file that is not compressed")}}, "read a.js: gzip: invalid header"},
		"a broken gzip":     {fstest.MapFS{"assets/a.js.gz": {Data: truncatedGzip(t)}}, "read a.js: unexpected EOF"},
		"no assets":         {fstest.MapFS{}, "assets"},
		"broken operations": {fstest.MapFS{"assets/a.js": {}, "operations/1.graphql": {}, "operations/1.json": {Data: []byte("{")}}, "operations/1.graphql"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := loadAssets(test.files); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want one with %q", err, test.want)
			}
		})
	}
}

// truncatedGzip returns a compressed file without its end.
func truncatedGzip(t *testing.T) []byte {
	t.Helper()
	whole, err := newAsset("a.js", []byte(strings.Repeat("some text ", 100)))
	if err != nil {
		t.Fatal(err)
	}
	return whole.compressed[:len(whole.compressed)-9]
}

func TestNewPageRefusesAFileThatIsNotThere(t *testing.T) {
	if _, err := newPage("graphiql.html", GraphiQLConfig{}, map[string]*asset{}); err == nil || !strings.Contains(err.Error(), `"favicon.svg", which is not embedded`) {
		t.Errorf("the error is %v", err)
	}
}

// The embedded files of other projects load nothing from elsewhere, and LICENSES.txt covers their projects.
func TestVendoredFiles(t *testing.T) {
	handler := GraphiQL(GraphiQLConfig{})
	content := func(name string) string {
		return string(readBody(t, sendRequest(t, handler, http.MethodGet, embeddedAssets()[name].path())))
	}
	for _, name := range []string{"graphiql.min.js", "graphiql.min.css", "react.production.min.js", "react-dom.production.min.js"} {
		if strings.Contains(content(name), "sourceMappingURL") {
			t.Errorf("%s names a source map, which is not served", name)
		}
	}
	if !strings.Contains(content("graphiql.min.js"), `"graphql-transport-ws"`) {
		t.Error("the bundle of GraphiQL has no WebSocket client")
	}
	if remote := regexp.MustCompile(`url\(["']?(https?:)?//[^)]*`).FindString(content("graphiql.min.css")); remote != "" {
		t.Errorf("the style sheet loads %s", remote)
	}
	licences := content("LICENSES.txt")
	for _, name := range []string{"graphiql", "react", "react-dom", "graphql-ws", "codemirror", "@fontsource/roboto", "preact"} {
		if !strings.Contains(licences, "\n"+name+"\n") {
			t.Errorf("LICENSES.txt does not cover %s", name)
		}
	}
}

// The npm packages of the pages are locked at exact versions.
func TestPackagesArePinned(t *testing.T) {
	for _, folder := range []string{".", "demo"} {
		checkPackagesPinned(t, folder)
	}
}

// checkPackagesPinned checks that a folder's packages are locked at the versions of its package.json, each with its digest.
func checkPackagesPinned(t *testing.T, folder string) {
	t.Helper()
	type packages struct{ Dependencies, DevDependencies map[string]string }
	var wanted packages
	var locked struct {
		Packages map[string]struct {
			packages
			Version, Resolved, Integrity string
		}
	}
	for name, into := range map[string]any{"package.json": &wanted, "package-lock.json": &locked} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%s/%s: %v", folder, name, err)
		}
	}
	if diff := cmp.Diff(wanted, locked.Packages[""].packages); diff != "" {
		t.Errorf("the lock of %s is not of its package.json (-package.json +lock):\n%s", folder, diff)
	}
	for _, group := range []map[string]string{wanted.Dependencies, wanted.DevDependencies} {
		for name, version := range group {
			if got := locked.Packages["node_modules/"+name].Version; got != version {
				t.Errorf("%s: %s is locked at %q, package.json says %q", folder, name, got, version)
			}
		}
	}
	for name, pkg := range locked.Packages {
		if name != "" && (pkg.Integrity == "" || pkg.Resolved != "") {
			t.Errorf("%s: %s: integrity %q, resolved %q; want a digest and no address", folder, name, pkg.Integrity, pkg.Resolved)
		}
	}
}

// The page offers first the users that the server creates for the tour.
func TestGraphiQLOffersThePeopleOfTheTour(t *testing.T) {
	script, err := os.ReadFile("assets/graphiql-page.js")
	if err != nil {
		t.Fatal(err)
	}
	if offered := `["` + strings.Join(People, `","`) + `",`; !strings.Contains(string(script), offered) {
		t.Errorf("the script has no %s", offered)
	}
}
