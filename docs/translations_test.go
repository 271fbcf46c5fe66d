package docs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark/ast"
	extension "github.com/yuin/goldmark/extension/ast"
)

// A translated page has every heading, command, sample, list and table row of the English page: nothing is left out, and later
// additions are in both.
func TestTranslationsHaveEveryPartOfTheirPage(t *testing.T) {
	for _, page := range Pages() {
		if page.Language == "en" {
			continue
		}
		translated, err := files.ReadFile(page.Name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		english, err := files.ReadFile(page.TranslationName + ".md")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(pageStructure(english), pageStructure(translated)); diff != "" {
			t.Errorf("%s differs from %s (-English +translated):\n%s", page.Name, page.TranslationName, diff)
		}
	}
}

// pageStructure returns the parts of a page that do not depend on its language: headings by their levels, blocks of code as they are,
// lists and tables by their sizes.
func pageStructure(source []byte) (parts []string) {
	_ = ast.Walk(Parse(source), func(node ast.Node, entering bool) (ast.WalkStatus, error) { // the function never fails
		if !entering {
			return ast.WalkContinue, nil
		}
		switch one := node.(type) {
		case *ast.Heading:
			parts = append(parts, strings.Repeat("#", one.Level))
		case *ast.FencedCodeBlock:
			info := ""
			if one.Info != nil {
				info = string(one.Info.Value(source))
			}
			parts = append(parts, info+"\n"+string(one.Lines().Value(source)))
		case *ast.List:
			parts = append(parts, fmt.Sprintf("a list of %d", one.ChildCount()))
		case *extension.Table:
			parts = append(parts, fmt.Sprintf("a table of %d rows", one.ChildCount()))
		}
		return ast.WalkContinue, nil
	})
	return parts
}
