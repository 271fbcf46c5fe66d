package docs

import (
	"strings"
	"testing"
)

func TestMarkdownBecomesAPageOfTheSite(t *testing.T) {
	const source = "# A `title`\n\n## A title\n\n## 每个 *记录*：一次\n\n[a](embed.md) [b](embed.md#claims) [c](README.md) [d](#a-title) [the file](../deploy/README.md) [e](https://example.com) " +
		"![f](demo.png)\n\n| a | |\n|---|---|\n| b | c |\n\n```sh\necho '<b>'\n```\n"
	html, outline := render([]byte(source))
	for _, want := range []string{
		`<h1 id="a-title">`, `<h2 id="a-title-1">`, `<h2 id="每个-记录一次">`, `<a href="embed">a</a>`, `<a href="embed#claims">b</a>`, `<a href="./">c</a>`,
		`<a href="#a-title">d</a> the file <a href="https://example.com" rel="noreferrer">e</a>`, `<img src="demo.png" alt="f">`,
		`<div class="wide" tabindex="0"><table>`, "<th>a</th>\n<td></td>", `<pre tabindex="0"><code class="language-sh">echo '&lt;b&gt;'`,
	} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the page does not have %s:\n%s", want, html)
		}
	}
	if len(outline.Headings) != 3 || outline.Headings[0] != (Heading{1, "A title", "a-title"}) || outline.Headings[2].Text != "每个 记录：一次" || len(outline.Links) != 7 {
		t.Errorf("the outline is %+v", outline)
	}
}

// Pages begins with README, which has the address of the site itself. A page in Chinese names its English page.
func TestTranslatedPagesNameTheirOriginal(t *testing.T) {
	pages := Pages()
	if len(pages) < 5 || pages[0].Name != "README" || pages[0].Path() != "./" || pages[1].Path() != pages[1].Name {
		t.Errorf("%d pages, which begin with %s and %s", len(pages), pages[0].Path(), pages[1].Path())
	}
	for _, page := range pages {
		if page.Language == "zh" && (page.TranslationName == "" || !strings.HasSuffix(page.Name, ".zh")) {
			t.Errorf("%s: the page in the other language is %q", page.Name, page.TranslationName)
		}
	}
}
