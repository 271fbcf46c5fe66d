package docs

import (
	"bytes"
	"fmt"
	"html/template"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// markdown is GitHub's dialect. The pages are trusted, so they may contain HTML.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(html.WithUnsafe()))

// Outline has the headings and the links of a page.
type Outline struct {
	Headings []Heading
	Links    []string // destinations of links and pictures, as they are written
}

// Parse reads Markdown, with the IDs of headings as hosts of git repositories make them.
func Parse(source []byte) ast.Node {
	return markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(&headingIDs{}))))
}

// addresses matches the addresses in the HTML of a page.
var addresses = regexp.MustCompile(`(?:src|srcset|href)="([^"\s]+)`)

// ReadOutline walks a page once and collects its headings and links. document is what Parse made of source.
func ReadOutline(document ast.Node, source []byte) (found Outline) {
	inHTML := func(lines *text.Segments) {
		for _, match := range addresses.FindAllSubmatch(lines.Value(source), -1) {
			found.Links = append(found.Links, string(match[1]))
		}
	}
	_ = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) { // the function never fails
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Heading:
			id, _ := node.AttributeString("id")
			found.Headings = append(found.Headings, Heading{node.Level, plainText(node, source), string(id.([]byte))})
		case *ast.Link:
			found.Links = append(found.Links, string(node.Destination))
		case *ast.Image:
			found.Links = append(found.Links, string(node.Destination))
		// Some pages have HTML, for a picture that needs a size or for a centred head. Its links count too.
		case *ast.HTMLBlock:
			inHTML(node.Lines())
		case *ast.RawHTML:
			inHTML(node.Segments)
		}
		return ast.WalkContinue, nil
	})
	return found
}

// plainText returns the text of a node without markup.
func plainText(node ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(node, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if leaf, ok := node.(*ast.Text); ok && entering {
			out.Write(leaf.Segment.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// wideElementReplacer changes the HTML of elements that can be wider than a phone. The keyboard can focus them then, so that a
// reader with only a keyboard can scroll them. A header cell without text becomes an ordinary cell.
var wideElementReplacer = strings.NewReplacer("<th></th>", "<td></td>", "<pre>", `<pre tabindex="0">`, "<table>", `<div class="wide" tabindex="0"><table>`, "</table>", "</table></div>")

// render makes HTML of a page, and returns its outline.
func render(source []byte) (template.HTML, Outline) {
	document := Parse(source)
	found := ReadOutline(document, source)
	for _, link := range linksOf(document) {
		destination := string(link.Destination)
		switch {
		// The site does not have this file of the repository.
		case strings.HasPrefix(destination, "../"):
			unlink(link)
		case strings.Contains(destination, "://"):
			// The other site must not learn which page the reader came from.
			link.SetAttributeString("rel", "noreferrer")
		default:
			link.Destination = []byte(siteAddress(destination))
		}
	}
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, source, document); err != nil {
		panic(fmt.Errorf("docs: render: %w", err)) // a write into a buffer never fails
	}
	return template.HTML(wideElementReplacer.Replace(out.String())), found
}

// linksOf returns the links of a page. They are collected before any of them is changed, because unlink must not change the tree
// during the walk.
func linksOf(document ast.Node) (links []*ast.Link) {
	_ = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := node.(*ast.Link); ok && entering {
			links = append(links, link)
		}
		return ast.WalkContinue, nil
	})
	return links
}

// unlink replaces a link by its text.
func unlink(link *ast.Link) {
	// InsertBefore takes the child out of the link, so the next child becomes the first.
	for child := link.FirstChild(); child != nil; child = link.FirstChild() {
		link.Parent().InsertBefore(link.Parent(), link, child)
	}
	link.Parent().RemoveChild(link.Parent(), link)
}

// siteAddress returns the address on the site for the destination of a link.
func siteAddress(destination string) string {
	file, fragment, found := strings.Cut(destination, "#")
	if name, isPage := strings.CutSuffix(file, ".md"); isPage {
		file = path(name)
	}
	if found {
		file += "#" + fragment
	}
	return file
}

// headingIDs make the IDs of headings: lower case, letters, digits, '-' and '_', a hyphen for each space, and a number where an ID is
// taken. taken has how often each ID was made.
type headingIDs struct{ taken map[string]int }

// Generate makes the ID of a heading.
func (a *headingIDs) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		default:
			return -1
		}
	}, string(value))
	if a.taken == nil {
		a.taken = map[string]int{}
	}
	times := a.taken[id]
	a.taken[id]++
	if times > 0 {
		id = fmt.Sprintf("%s-%d", id, times)
	}
	return []byte(id)
}

// Put does nothing. It is for IDs that a page sets itself, and no page does so.
func (a *headingIDs) Put([]byte) {}
