package web

import (
	"net/http"
	"strings"
	"testing"
)

func TestTheDemoPageKnowsItsMode(t *testing.T) {
	for _, mode := range []DemoMode{Production, Development, DemoWorld} {
		page := sendRequest(t, Demo(DemoConfig{Mode: mode, Version: "v1.2.3"}), http.MethodGet, "/")
		text := string(readBody(t, page))
		if !strings.Contains(text, `data-mode="`+string(mode)+`"`) || !strings.Contains(text, `data-version="v1.2.3"`) || !strings.Contains(text, `data-endpoint="/graphql"`) {
			t.Errorf("the page of the mode %s is %s", mode, text)
		}
		if mode == Production && strings.Contains(text, "dev:") {
			t.Error("the page in production speaks of development tokens")
		}
		if page.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("the page may be kept: %q", page.Header.Get("Cache-Control"))
		}
	}
}

func TestTheDemoPageMayAskOnlyItsOwnServer(t *testing.T) {
	policy := sendRequest(t, Demo(DemoConfig{Mode: DemoWorld}), http.MethodGet, "/").Header.Get("Content-Security-Policy")
	for _, source := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, source) {
			t.Errorf("the policy %q lacks %s", policy, source)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("the policy is too wide: %q", policy)
	}
	for path, status := range map[string]int{"/": http.StatusOK, "/other": http.StatusNotFound, "/index.html": http.StatusNotFound} {
		if got := sendRequest(t, Demo(DemoConfig{}), http.MethodGet, path).StatusCode; got != status {
			t.Errorf("%s answers %d, want %d", path, got, status)
		}
	}
	if got := sendRequest(t, Demo(DemoConfig{}), http.MethodPost, "/").StatusCode; got != http.StatusMethodNotAllowed {
		t.Errorf("POST answers %d", got)
	}
}

// The page must load quickly over a slow connection: with all its files it is under 150 KB.
func TestTheDemoPageIsSmall(t *testing.T) {
	size := len(mustPage("demo.html", DemoConfig{}).compressed)
	for _, name := range []string{"demo.js", "demo.css", "favicon.svg"} {
		size += len(embeddedAssets()[name].compressed)
	}
	if size > 150<<10 {
		t.Errorf("the page has %d bytes compressed", size)
	}
}
