package contract

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"tidings/docs"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
	"tidings/web/browsertest"
)

// Every page of the books fits a phone and a desk, has its pictures and no accessibility fault in the light and the dark theme, and
// requests nothing from another server. If TIDINGS_TEST_PICTURES names a folder, screenshots are written into it.
func TestDocsPagesAreAccessibleOnPhoneAndDesktop(t *testing.T) {
	t.Parallel()
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: redistest.Redis(t)})
	tab := browsertest.NewProfileTab(t)
	for _, look := range []struct {
		width int64
		dark  bool
	}{{1280, false}, {390, true}, {1280, true}, {390, false}} {
		browsertest.SetPageSize(tab, t, look.width, 900)
		browsertest.SetDarkTheme(tab, t, look.dark)
		for i, page := range docs.Pages() {
			if i > 1 && look.dark == (look.width == 1280) {
				continue // each later page is checked once in each theme
			}
			name := fmt.Sprintf("%s-%d-%t", page.Name, look.width, look.dark)
			browsertest.Navigate(tab, t, n.URL+"/docs/"+page.Path())
			browsertest.WaitFor(tab, t, page.Title+" is shown", `document.querySelector('h1')?.innerText && document.querySelector('[aria-current=page]')`)
			if found := browsertest.AccessibilityFaults(tab, t); len(found) > 0 {
				t.Errorf("%s: %q", name, found)
			}
			if wide := browsertest.Evaluate[int](tab, t, `document.documentElement.scrollWidth`); int64(wide) > look.width {
				t.Errorf("%s is %d wide", name, wide)
			}
			if broken := browsertest.Evaluate[[]string](tab, t, `[...document.images].filter((image) => !image.naturalWidth).map((image) => image.src)`); len(broken) > 0 {
				t.Errorf("%s: pictures that are not there: %q", name, broken)
			}
			if folder := os.Getenv("TIDINGS_TEST_PICTURES"); folder != "" {
				browsertest.Screenshot(tab, t, filepath.Join(folder, "docs-"+name+".png"))
			}
		}
	}
	if foreign, complaints := browsertest.ForeignAddresses(tab, n.URL), browsertest.PageErrors(tab); len(foreign)+len(complaints) > 0 {
		t.Errorf("asked elsewhere: %q; complaints: %q", foreign, complaints)
	}
}
