package web

import (
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"tidings/docs"
)

// docsPath is the address of the books' first page. The books are the documentation: see package docs. The path ends with a slash, so
// that links between pages are relative as in their files.
const docsPath = "/docs/"

// docsContentSecurityPolicy allows the books their style and their pictures. They have no scripts. The texts of the books are
// trusted, and the policy protects the reader even if a text is wrong.
const docsContentSecurityPolicy = "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// docsWords are the words of the template, such as the name of a link, by the language of a page.
var docsWords = map[string]struct{ Pages, Skip, Demo, Previous, Next, Contents string }{
	"en": {"Pages", "Skip to the text", "Demo", "Previous", "Next", "On this page"},
	"zh": {"目录", "跳到正文", "演示", "上一页", "下一页", "本页内容"},
}

// docsView is the input of the template for one page of the books. The pointers point into lists of pages that do not change.
type docsView struct {
	docs.Page
	Words         any         // the entry of docsWords for the page's language
	Groups        []docsGroup // the list of all pages
	Translation   *docs.Page  // this page in the other language
	OtherLanguage string      // the other language's name for itself
	// Previous and Next are the neighbours of this page in the list; nil at the ends of the list.
	Previous, Next *docs.Page
	Version        string // the version of the server; "" shows none
}

// docsGroup is a heading of the list of pages, with its pages in their order.
type docsGroup struct {
	Title string
	Pages []docs.Page
}

// Docs serves the books under /docs/: every page, with a list of all pages beside it, and their pictures. Register it for "/docs"
// and for "/docs/". It answers GET and HEAD, and is safe for concurrent use. version is shown at the foot; empty shows none.
func Docs(version string) http.Handler {
	served := sync.OnceValue(func() map[string]*asset { // made on first use, because few processes are asked for the books
		files, err := loadDocs(version)
		if err != nil {
			panic(fmt.Errorf("web: the books: %w", err))
		}
		return files
	})
	return readOnly(func(w http.ResponseWriter, r *http.Request) {
		// Without the slash, every relative link of the page would lead out of /docs/.
		if r.URL.Path+"/" == docsPath {
			http.Redirect(w, r, docsPath, http.StatusMovedPermanently)
			return
		}
		file := served()[strings.TrimPrefix(r.URL.Path, docsPath)]
		if file == nil {
			http.NotFound(w, r)
			return
		}
		servePage(w, r, file, docsContentSecurityPolicy)
	})
}

// loadDocs makes the pages and pictures, by their addresses below docsPath. Pages are rendered once and not for each request:
// they depend on the version only. Other files keep their names, because the pages link to them by name.
func loadDocs(version string) (map[string]*asset, error) {
	served := map[string]*asset{}
	for _, view := range docsViews(version) {
		page, err := newPage("docs.html", view, embeddedAssets())
		if err != nil {
			return nil, err
		}
		served[strings.TrimPrefix(view.Path(), "./")] = page
	}
	return served, fs.WalkDir(docs.Files(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) == ".md" {
			return err
		}
		content, err := fs.ReadFile(docs.Files(), name)
		if err == nil {
			served[name], err = newAsset(name, content)
		}
		return err
	})
}

// docsViews returns the pages with their navigation. Each page lists the pages of its own language, and the English pages
// that are not translated. The whole navigation is made here, so the template has no logic beyond loops.
func docsViews(version string) (views []docsView) {
	pages := docs.Pages()
	for i := range pages {
		view := docsView{Page: pages[i], Words: docsWords[pages[i].Language], Version: version}
		var listed []*docs.Page
		// All groups, in the order of the books, including a group that has no page in this language.
		view.Groups = make([]docsGroup, len(docs.PageGroups))
		for g, group := range docs.PageGroups {
			if view.Groups[g].Title = group.Title; view.Language == "zh" {
				view.Groups[g].Title = group.Chinese
			}
		}
		// Collect the pages that this page lists. Its translation is linked at the top and is not listed.
		for j := range pages {
			page := &pages[j]
			// A page and its translation name each other.
			if page.Name == view.Page.TranslationName {
				view.Translation = page
				continue
			}
			// An untranslated English page is better than a gap.
			if page.Language != view.Language && (page.Language != "en" || page.TranslationName != "") {
				continue
			}
			view.Groups[page.Group].Pages = append(view.Groups[page.Group].Pages, *page)
		}
		// The reader goes on in the order of the list, across its groups.
		for g := range view.Groups {
			for p := range view.Groups[g].Pages {
				listed = append(listed, &view.Groups[g].Pages[p])
			}
		}
		for _, language := range docs.Languages {
			if view.Translation != nil && view.Translation.Language == language.Code {
				view.OtherLanguage = language.Name
			}
		}
		// A page is in its own list once.
		for at, page := range listed {
			if page.Name != view.Name {
				continue
			}
			if at > 0 {
				view.Previous = listed[at-1]
			}
			if at+1 < len(listed) {
				view.Next = listed[at+1]
			}
		}
		views = append(views, view)
	}
	return views
}
