package books

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"

	"tidings/docs"
	"tidings/tests/world"
)

// codeBlock is a fenced block of a page.
type codeBlock struct {
	pageAndLine      string // the page and the line, for errors
	language         string
	fileName         string // the name after the language; "" if there is none
	text             string
	comment          string // the text of the HTML comment directly before it
	previousLanguage string // the language of the block directly before it; "" if there is other text between
}

var commentPattern = regexp.MustCompile(`(?s)^<!--\s*(.*?)\s*-->`) // an HTML comment and its text

// directive returns whether the block's comment begins with a word, and the rest of the comment.
func (b codeBlock) directive(word string) (rest string, found bool) {
	if rest, found = strings.CutPrefix(b.comment, word); !found {
		return "", false
	}
	return strings.TrimSpace(strings.TrimPrefix(rest, ":")), true
}

// codeBlocksOf lists the blocks of a page in their order.
func codeBlocksOf(name string, source []byte) (blocks []codeBlock) {
	_ = ast.Walk(docs.Parse(source), func(node ast.Node, entering bool) (ast.WalkStatus, error) { // the function never fails
		fence, ok := node.(*ast.FencedCodeBlock)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		b := codeBlock{text: string(fence.Lines().Value(source))}
		if fence.Lines().Len() > 0 {
			b.pageAndLine = fmt.Sprintf("%s:%d", name, 1+bytes.Count(source[:fence.Lines().At(0).Start], []byte("\n")))
		}
		if fence.Info != nil {
			b.language, b.fileName, _ = strings.Cut(string(fence.Info.Value(source)), " ")
		}
		before := node.PreviousSibling()
		if html, ok := before.(*ast.HTMLBlock); ok {
			if match := commentPattern.FindSubmatch(html.Lines().Value(source)); match != nil {
				b.comment, before = string(match[1]), before.PreviousSibling()
			}
		}
		if former, ok := before.(*ast.FencedCodeBlock); ok && former.Info != nil {
			b.previousLanguage = string(former.Language(source))
		}
		blocks = append(blocks, b)
		return ast.WalkContinue, nil
	})
	return blocks
}

// readPages returns the texts of all pages whose samples must work, by path: the books and the README.
func readPages() (map[string][]byte, error) {
	files, err := filepath.Glob(filepath.Join(world.RepositoryRoot(), "docs", "*.md"))
	found := map[string][]byte{}
	for _, file := range append(files, filepath.Join(world.RepositoryRoot(), "README.md")) {
		if err == nil {
			found[strings.TrimPrefix(file, world.RepositoryRoot()+"/")], err = os.ReadFile(file)
		}
	}
	return found, err
}
