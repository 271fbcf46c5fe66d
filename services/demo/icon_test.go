package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tidings/services"
)

// changeStreamServer is a server whose change stream is a list of pages, and whose items have a body.
type changeStreamServer struct {
	pages             []string        // the changes that are read after the cursors "", 1, 2, and so on
	requestedCursors  []string        // the cursors of all requests for changes, in order; 0 for ""
	authHeaders       map[string]bool // the Authorization headers of all requests
	failsEveryRequest bool            // every request fails
}

func (s *changeStreamServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Query     string
		Variables struct{ After, ID *string }
	}
	text, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(text, &body)
	s.authHeaders[r.Header.Get("Authorization")] = true
	switch {
	case s.failsEveryRequest:
		http.Error(w, "gone", http.StatusBadGateway)
	case strings.Contains(body.Query, "node("):
		fmt.Fprintf(w, `{"data":{"node":{"body":"of %s"}}}`, *body.Variables.ID)
	default:
		at := 0
		if body.Variables.After != nil {
			_, _ = fmt.Sscan(*body.Variables.After, &at)
		}
		s.requestedCursors = append(s.requestedCursors, fmt.Sprint(at))
		if at >= len(s.pages) {
			fmt.Fprintf(w, `{"data":{"admin":{"changes":{"cursor":"%d","hasMore":false,"list":[]}}}}`, at)
			return
		}
		fmt.Fprintf(w, `{"data":{"admin":{"changes":{"cursor":"%d","hasMore":%t,"list":[%s]}}}}`, at+1, at+1 < len(s.pages), s.pages[at])
	}
}

// changeJSON is a change of the stream in JSON. cause is the ID of the item that alerts; with "" the change is silent.
func changeJSON(key, version string, total int, cause string) string {
	silent, text := true, "null"
	if cause != "" {
		silent, text = false, fmt.Sprintf(`{"source":"HOME_FEED","itemId":%q,"at":"2026-01-02T03:04:05Z"}`, cause)
	}
	return fmt.Sprintf(`{"key":%q,"version":%q,"at":"2026-01-02T03:04:05Z","total":%d,"display":"%d","silent":%t,"cause":%s}`, key, version, total, total, silent, text)
}

// newStreamAndWorld starts a server with a change stream, and makes a world whose host reads it.
func newStreamAndWorld(t *testing.T, pages ...string) (*changeStreamServer, *World) {
	s := &changeStreamServer{pages: pages, authHeaders: map[string]bool{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	w := New(Config{URL: server.URL, Seed: Seed, Clock: services.SystemClock{}, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(w.host.close)
	return s, w
}

// wantIcon lets the application read the stream, and then compares the icon with want: "VERSION TOTAL silent BOOL", and the alert's
// item.
func wantIcon(t *testing.T, w *World, want string) {
	t.Helper()
	w.iconUpdater.followChanges(context.Background())
	icon, _ := w.Icon()
	got := fmt.Sprintf("%s %d silent %t", icon.Version, icon.Total, icon.Silent)
	if icon.Alert != nil {
		got += " " + string(icon.Alert.Item)
	}
	if got != want {
		t.Errorf("the icon is %q, want %q", got, want)
	}
}

// The icon follows the viewer's changes alone. Changes from before somebody looked cause no alert; later changes do, unless they
// are silent.
func TestTheIconFollowsTheStream(t *testing.T) {
	s, w := newStreamAndWorld(t, changeJSON("ann", "1", 5, "post:1")+","+changeJSON(viewerKey, "2", 3, "post:2"), changeJSON("ann", "3", 6, ""))
	wantIcon(t, w, " 0 silent false")
	if len(s.requestedCursors) > 0 {
		t.Errorf("nobody looks, and it asked for %v", s.requestedCursors)
	}
	end := w.WatchIcon()
	_, changed := w.Icon()
	wantIcon(t, w, "2 3 silent true")
	select {
	case <-changed:
	default:
		t.Error("nobody was notified that the icon changed")
	}
	s.pages = append(s.pages, changeJSON(viewerKey, "4", 4, "post:4"))
	wantIcon(t, w, `4 4 silent false {"body":"of post:4"}`)
	s.pages = append(s.pages, changeJSON("ann", "5", 4, "post:5"))
	wantIcon(t, w, `4 4 silent false {"body":"of post:4"}`)
	s.pages = append(s.pages, changeJSON(viewerKey, "6", 0, ""))
	wantIcon(t, w, "6 0 silent true")
	end()
	end()
	s.pages = append(s.pages, changeJSON(viewerKey, "7", 1, "post:7"))
	wantIcon(t, w, "6 0 silent true")
	defer w.WatchIcon()()
	wantIcon(t, w, "7 1 silent true")
	if got := strings.Join(s.requestedCursors, ""); got != "012345" {
		t.Errorf("it asked from %s, want each page once", got)
	}
	for token := range s.authHeaders {
		if token != "Bearer dev:host:ingest,admin" && token != "Bearer dev:"+viewerKey {
			t.Errorf("it asked by %s", token)
		}
	}
}

// While the server does not answer, the icon stays unchanged. Afterwards no change is lost or repeated.
func TestTheIconOutlivesFailures(t *testing.T) {
	s, w := newStreamAndWorld(t, changeJSON(viewerKey, "1", 1, ""))
	defer w.WatchIcon()()
	wantIcon(t, w, "1 1 silent true")
	s.failsEveryRequest = true
	s.pages = append(s.pages, changeJSON(viewerKey, "2", 2, "post:2"))
	wantIcon(t, w, "1 1 silent true")
	s.failsEveryRequest = false
	_, changed := w.Icon()
	wantIcon(t, w, `2 2 silent false {"body":"of post:2"}`)
	<-changed
	_, changed = w.Icon()
	wantIcon(t, w, `2 2 silent false {"body":"of post:2"}`)
	select {
	case <-changed:
		t.Error("the same change came twice")
	default:
	}
}

// A silent change causes no alert even if it has a cause. A change that is not newer than the icon leaves the icon unchanged.
func TestTheIconIgnoresOldChangesAndSilentAlerts(t *testing.T) {
	s, w := newStreamAndWorld(t, changeJSON(viewerKey, "5", 5, ""))
	defer w.WatchIcon()()
	wantIcon(t, w, "5 5 silent true")
	s.pages = append(s.pages, changeJSON(viewerKey, "4", 4, "post:4"))
	wantIcon(t, w, "5 5 silent true")
	s.pages = append(s.pages, changeJSON(viewerKey, "5", 6, "post:5"))
	wantIcon(t, w, "5 5 silent true")
	s.pages = append(s.pages, strings.Replace(changeJSON(viewerKey, "6", 6, "post:6"), `"silent":false`, `"silent":true`, 1))
	wantIcon(t, w, "6 6 silent true")
	s.pages = append(s.pages, changeJSON(viewerKey, "7", 7, "post:7"))
	wantIcon(t, w, `7 7 silent false {"body":"of post:7"}`)
}
