package console

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tidings/services"
)

// formatAge shows a duration as a whole number of one unit, rounded down.
func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 ms", 0: "0 ms", 999 * time.Millisecond: "999 ms", time.Second: "1 s", 119 * time.Second: "119 s", 2 * time.Minute: "2 min",
		119 * time.Minute: "119 min", 2 * time.Hour: "2 h", 47 * time.Hour: "47 h", 48 * time.Hour: "2 days", 400 * 24 * time.Hour: "400 days",
	} {
		if got := formatAge(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// formatNumber shows whole numbers below 1e15 without a decimal point.
func TestNumber(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 12: "12", -3: "-3", 0.25: "0.250", 1e20: "100000000000000000000.000"} {
		if got := formatNumber(value); got != want {
			t.Errorf("%v is %q, want %q", value, got, want)
		}
	}
}

// Only the parts of an address that cannot be a secret are shown.
func TestShownURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://example.com": "https://example.com", "https://example.com/": "https://example.com", "http://127.0.0.1:80/a/hush": "http://127.0.0.1:80/…",
		"https://ann:hush@example.com/": "https://example.com", "https://example.com?token=hush": "https://example.com/…", "https://example.com/#hush": "https://example.com",
		"hush": "–", "": "–", "https://%zz": "–", "javascript:hush": "–",
	} {
		if got := redactedURL(text); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

// userKeyOf accepts a user's key or ID, and refuses what can be neither.
func TestKeyOf(t *testing.T) {
	for named, want := range map[string]string{"ann": "ann", "user:ann": "ann", "user:a%20b": "a b", "a b": "a b", "user:%zz": "user:%zz", "did:plc:x": "did:plc:x"} {
		if got, err := userKeyOf(named); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", named, got, err, want)
		}
	}
	for _, named := range []string{strings.Repeat("x", 129), "a\x00b", "a\nb"} {
		if _, err := userKeyOf(named); services.CodeOf(err) != services.Invalid {
			t.Errorf("%q: %v", named, err)
		}
	}
}

// A page does not show the text of an internal error, which is for the log. It shows the text of other errors.
func TestErrorsOnPages(t *testing.T) {
	if got := errorText(errors.New("postgres://ann:hush@host failed")); strings.Contains(got, "hush") {
		t.Errorf("the page says %q", got)
	}
	if got := errorText(fmt.Errorf("user: %w", services.Wrapf(services.NotFound, errors.New("hush"), "there is no user"))); got != "there is no user" {
		t.Errorf("the page says %q", got)
	}
	for code, want := range map[services.Code]int{
		services.Invalid: 400, services.Unauthenticated: 401, services.Forbidden: 403, services.NotFound: 404, services.Conflict: 409, services.Unavailable: 503, services.Internal: 500, services.RateLimited: 500,
	} {
		if got := statusOf(services.Errorf(code, "x")); got != want {
			t.Errorf("%s is %d, want %d", code, got, want)
		}
	}
	if statusOf(nil) != http.StatusOK {
		t.Error("no error is no fault")
	}
}

// A page that cannot be made is answered with an error, never with half a page.
func TestAPageThatCannotBeRenderedIsAnError(t *testing.T) {
	made := &Console{cfg: Config{Log: slog.New(slog.DiscardHandler)}, pages: parseTemplates(&Console{})}
	w := httptest.NewRecorder()
	made.write(w, http.StatusOK, "acts", page{Title: "<b>", Body: 1})
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "<") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	made.write(w, http.StatusTeapot, "refused", page{Title: "<b>", Error: "<i>", Faults: []string{"<u>"}})
	if text := w.Body.String(); w.Code != http.StatusTeapot || strings.Contains(text, "<b>") || strings.Contains(text, "<i>") || strings.Contains(text, "<u>") || !strings.Contains(text, "&lt;u&gt;") {
		t.Errorf("%d %s", w.Code, text)
	}
}

// The pages have no script, no style and no address of their own, so that the strict policy holds.
func TestConsolePagesHaveNoScriptsOrStyles(t *testing.T) {
	entries, err := files.ReadDir("pages")
	if err != nil || len(entries) < 6 {
		t.Fatal(err, len(entries))
	}
	for _, entry := range entries {
		text, err := files.ReadFile("pages/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, forbidden := range []string{"<script", "<style", " style=", " onclick", "http://", "https://", "javascript:"} {
			if strings.Contains(string(text), forbidden) {
				t.Errorf("%s has %s", entry.Name(), forbidden)
			}
		}
		for _, form := range strings.SplitAfter(string(text), "<form")[1:] {
			tag, _, _ := strings.Cut(form, ">")
			if !strings.Contains(tag, `action="/admin/`) || !strings.Contains(tag, `method="`) {
				t.Errorf("%s: a form goes to %s", entry.Name(), tag)
			}
		}
	}
}
