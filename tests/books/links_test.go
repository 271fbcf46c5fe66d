package books

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tidings/docs"
	"tidings/tests/world"
)

// outlineOf returns the outline of Markdown.
func outlineOf(source []byte) docs.Outline { return docs.ReadOutline(docs.Parse(source), source) }

// outlinesByPath returns the outlines of all Markdown files of the repository, by path.
func outlinesByPath(t *testing.T) map[string]docs.Outline {
	t.Helper()
	found := map[string]docs.Outline{}
	err := filepath.WalkDir(world.RepositoryRoot(), func(file string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && slices.Contains([]string{".git", "node_modules", "testdata"}, entry.Name()) {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".md" {
			return err
		}
		source, err := os.ReadFile(file)
		name, _ := filepath.Rel(world.RepositoryRoot(), file)
		found[filepath.ToSlash(name)] = outlineOf(source)
		return err
	})
	if err != nil || len(found) < 12 {
		t.Fatalf("%d documents: %v", len(found), err)
	}
	return found
}

// deadLinks lists the relative links of a document whose file or heading does not exist.
func deadLinks(name string, all map[string]docs.Outline, exists func(file string) bool) (dead []string) {
	for _, link := range all[name].Links {
		if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
			continue
		}
		file, anchor, hasAnchor := strings.Cut(link, "#")
		target := path.Join(path.Dir(name), file)
		if file == "" {
			target = name
		}
		outline, isDocument := all[target]
		switch {
		case !isDocument && !exists(target):
			dead = append(dead, link)
		case hasAnchor && !slices.ContainsFunc(outline.Headings, func(heading docs.Heading) bool { return heading.ID == anchor }):
			dead = append(dead, link)
		}
	}
	return dead
}

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	all := outlinesByPath(t)
	exists := func(file string) bool {
		_, err := os.Stat(filepath.Join(world.RepositoryRoot(), file))
		return err == nil
	}
	for name := range all {
		for _, link := range deadLinks(name, all, exists) {
			t.Errorf("%s: the link %s is dead", name, link)
		}
	}
}

func TestDeadLinksAreFound(t *testing.T) {
	all := map[string]docs.Outline{
		"docs/a.md": outlineOf([]byte("# A\n## A part: `x`, 第二\n[1](#a-part-x-第二) [2](#a-part) [3](b.md) [4](b.md#b) [5](b.md#c) [6](c.md) <img src=\"no.png\"> ![](yes.png) [7](../README.md)\n")),
		"docs/b.md": outlineOf([]byte("# B\n")),
		"README.md": outlineOf(nil),
	}
	dead := deadLinks("docs/a.md", all, func(file string) bool { return file == "docs/yes.png" })
	slices.Sort(dead)
	if want := []string{"#a-part", "b.md#c", "c.md", "no.png"}; !slices.Equal(dead, want) {
		t.Errorf("dead are %q, not %q", dead, want)
	}
}

// Every page of the folder is in the list of pages and has exactly one title, and the two languages of a page link to each other.
func TestEveryPageIsInTheList(t *testing.T) {
	listed := map[string]docs.Page{}
	for _, page := range docs.Pages() {
		listed[page.Name+".md"] = page
	}
	files, err := fs.Glob(docs.Files(), "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		page, found := listed[file]
		if !found {
			t.Errorf("docs/%s is not in docs.PageGroups", file)
			continue
		}
		titles := slices.DeleteFunc(slices.Clone(page.Headings), func(heading docs.Heading) bool { return heading.Level > 1 })
		if other := listed[page.TranslationName+".md"]; len(titles) != 1 || page.TranslationName != "" && other.TranslationName != page.Name {
			t.Errorf("docs/%s: %d titles; in the other language: %q", file, len(titles), page.TranslationName)
		}
	}
}
