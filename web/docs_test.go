package web

import (
	"net/http"
	"testing"

	"tidings/docs"
)

func TestDocsAreServed(t *testing.T) {
	handler := Docs("1.2.3")
	for path, want := range map[string]string{
		"/docs/":         "text/html; charset=utf-8",
		"/docs/schema":   "text/html; charset=utf-8",
		"/docs/demo.png": "image/png",
	} {
		response := sendRequest(t, handler, http.MethodGet, path)
		if got := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || got != want || response.Header.Get("Content-Security-Policy") != docsContentSecurityPolicy {
			t.Errorf("%s: %d, %s, %v", path, response.StatusCode, got, response.Header)
		}
	}
	for _, path := range []string{"/docs/README", "/docs/schema.md", "/docs/docs.go", "/docs/no", "/docs//"} {
		if response := sendRequest(t, handler, http.MethodGet, path); response.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, response.StatusCode)
		}
	}
	if response := sendRequest(t, handler, http.MethodGet, "/docs"); response.Header.Get("Location") != "/docs/" {
		t.Errorf("/docs: %d, %v", response.StatusCode, response.Header)
	}
	if response := sendRequest(t, handler, http.MethodPost, "/docs/"); response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", response.StatusCode)
	}
}

// Every page is once in its own list of pages. Each English page is the previous page of its next page.
func TestDocsLinkEachPageToItsNext(t *testing.T) {
	views := docsViews("")
	if len(views) != len(docs.Pages()) {
		t.Fatalf("%d pages of %d", len(views), len(docs.Pages()))
	}
	for _, view := range views {
		times := 0
		for _, group := range view.Groups {
			for _, page := range group.Pages {
				if page.Name == view.Name {
					times++
				}
				if page.Name == view.Page.TranslationName {
					t.Errorf("%s lists its other language", view.Name)
				}
			}
		}
		if times != 1 {
			t.Errorf("%s is in its list %d times", view.Name, times)
		}
		if other := view.Translation; (other != nil) != (view.Page.TranslationName != "") || other != nil && (view.OtherLanguage == "" || other.Language == view.Language) {
			t.Errorf("%s: the other language is %+v", view.Name, other)
		}
	}
	for _, view := range views {
		if view.Next != nil && view.Next.Language == view.Language && view.Language == "en" {
			for _, next := range views {
				if next.Name == view.Next.Name && (next.Previous == nil || next.Previous.Name != view.Name) {
					t.Errorf("after %s comes %s, before which comes %v", view.Name, next.Name, next.Previous)
				}
			}
		}
	}
}
