// Package docs contains the books: the Markdown pages of this folder, which any host of git repositories shows, and their HTML
// for the site at /docs.
//
// It guarantees one order of the pages, headings with the same anchors as on those hosts, and links that lead to the same page in
// both places. Links to other files of the repository become plain text in the HTML.
//
// On failure: a page of the list that is not in this folder, or has no title, is a fault of the build, so that Pages panics.
package docs

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"strings"
	"sync"
)

// files has the pages and their pictures.
//
//go:embed *.md *.png *.svg
var files embed.FS

// Files returns the pages and their pictures.
func Files() fs.FS { return files }

// PageGroups are the headings of the list of pages, each with the files below it in their order. A page in another language is not
// listed: quick-start.zh.md belongs to quick-start.md.
var PageGroups = []struct {
	Title, Chinese string   // the heading in English and in Chinese
	Names          []string // the names of the English files without .md
}{
	{"Start", "开始", []string{"README", "quick-start", "tour"}},
	{"Build", "构建", []string{"embed", "front-end", "mobile", "schema", "limits"}},
	{"Operate", "运维", []string{"operate"}},
	{"Understand", "理解", []string{"how-it-works", "compare", "architecture", "glossary"}},
}

// Languages are the languages of pages, English first.
var Languages = []Language{{"en", "English", ""}, {"zh", "中文", ".zh"}}

// Language is a language of pages.
type Language struct {
	Code       string // as in HTML
	Name       string // the language's name for itself
	fileSuffix string // what a page's file name has before ".md"; "" for English
}

// Page is a page of the site.
type Page struct {
	Name            string // the file's name without .md
	Language        string // its code: "en" or "zh"
	Title           string // the first heading, as text
	Group           int    // the index in PageGroups
	Headings        []Heading
	HTML            template.HTML
	TranslationName string // the name of the page in the other language; "" if there is none
}

// Heading is a heading of a page.
type Heading struct {
	Level    int    // 1 is the title
	Text, ID string // ID is the anchor
}

// Path returns the page's address relative to the address of the site, which ends with a slash.
func (p Page) Path() string { return path(p.Name) }

// path returns the address of a page by its name. README has the address of the site itself.
func path(name string) string {
	if name == "README" {
		return "./"
	}
	return name
}

// Pages returns all pages: the English pages in their order, and then the others.
var Pages = sync.OnceValue(func() []Page {
	// English comes first: the address of an English page names no language.
	var pages []Page
	for _, language := range Languages {
		for i, group := range PageGroups {
			for _, name := range group.Names {
				source, err := files.ReadFile(name + language.fileSuffix + ".md")
				if err != nil && language.fileSuffix != "" {
					continue // not translated
				}
				if err != nil {
					// This is a fault of the build. Any test that calls Pages finds it.
					panic(fmt.Errorf("docs: a page of the list is missing: %w", err))
				}
				html, outline := render(source)
				if len(outline.Headings) == 0 || outline.Headings[0].Level != 1 {
					panic(fmt.Errorf("docs: %s.md does not begin with its title", name))
				}
				pages = append(pages, Page{
					Name: name + language.fileSuffix, Language: language.Code, Title: outline.Headings[0].Text, Group: i,
					Headings: outline.Headings, HTML: html,
				})
			}
		}
	}
	for i := range pages {
		for j := range pages {
			// There are two languages, so a page has at most one translation.
			if i != j && englishName(pages[i].Name) == englishName(pages[j].Name) {
				pages[i].TranslationName = pages[j].Name
			}
		}
	}
	return pages
})

// englishName returns the name of a page in English.
func englishName(name string) string {
	name, _, _ = strings.Cut(name, ".")
	return name
}
