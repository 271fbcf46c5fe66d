// Package books follows the pages of docs and the README to the letter: it runs every command and sample as a reader would, each
// page in a folder of its own.
//
// Blocks of sh run one after the other in one bash that ends at the first failure. 127.0.0.1:8080 and other ports are replaced by
// free ones, and "go run ." by the program. A page that starts no server gets one in development mode. An HTML comment directly
// before a block gives it another meaning:
//
//	<!-- server -->            sh: keeps running in a terminal of its own; the next block waits until it serves
//	<!-- server: NAME -->      the same, for another server; a name that is used again first ends the former one with Ctrl-C
//	<!-- terminal: NAME -->    sh: keeps running in a terminal of its own; text: what that terminal prints next
//	<!-- browser: NAME URL --> text: what a tab of Chromium shows next; NAME URL BUTTON clicks a button of the page first
//	<!-- prints -->            text: what the last block printed, if there is other text between the two
//	<!-- from: FILE -->        its lines are in this file of the repository; a line ... stands for left-out lines
//	<!-- not run: REASON -->   is not run
//
// Blocks of graphql are checked against the schema and run as the user in their first line, "# as alice" or "# as host:ingest for
// alice", with the variables of a block of json directly after them. A subscription runs up to its first event. A block that has
// only fragments is checked, and the blocks after it can use them. node runs blocks of js. A block with a name after the language
// ("js outbox.mjs") becomes a file instead, which a later command must name. PostgreSQL runs blocks of sql. web/client/tests
// compiles ts and tsx. yaml, ini and json must parse. Text directly after a block is the block's output: white space does not
// count, "..." stands for any text, and an ID such as post:38G2TZ0C0N800 stands for the real ID at its place, in later blocks
// too.
package books

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"tidings/tests/world"
	"tidings/web/browsertest"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Main(func() int { return world.Main(m) })) }

func TestEveryPageReproducesItsOutput(t *testing.T) {
	found, err := readPages()
	if err != nil || len(found) < 5 {
		t.Fatalf("%d pages: %v", len(found), err)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		blocks := codeBlocksOf(name, found[name])
		if len(blocks) == 0 {
			continue
		}
		t.Run(strings.TrimSuffix(name, ".md"), func(t *testing.T) {
			t.Parallel()
			r, err := newPageRunner(t)
			if err == nil {
				err = r.runBlocks(blocks)
			}
			for _, skipped := range r.skippedBlocks {
				t.Log("not run: " + skipped)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// Every kind of error on a page is found: a command that fails, a field that is not in the schema, an output that differs, and so
// on.
func TestWrongPagesAreFound(t *testing.T) {
	for name, page := range map[string]struct{ text, fault string }{
		"a command":              {"```sh\ntrue\ntidings --no-such-flag\necho after\n```\n", "unknown flag --no-such-flag"},
		"a server that does not": {"<!-- server -->\n```sh\ntidings --listen nowhere\n```\n", "it ended before it printed that it serves"},
		"a field":                {"```graphql\n# as alice\n{ viewer { badges { totals { value } } } }\n```\n", `Cannot query field "totals"`},
		"a fragment's field":     {"```graphql\nfragment Icon on Badges { sum { value } }\n```\n", `Cannot query field "sum"`},
		"a refused operation":    {"```graphql\n# as alice\n{ admin { jobs { waiting } } }\n```\n", "FORBIDDEN"},
		"a refused event":        {"```graphql\n# as host:ingest\nmutation { ingest(events: [{as: \"user:a\", do: {follow: {userId: \"user:a\"}}}]) { results { error { code } } } }\n```\n", "an event has an error"},
		"an output":              {"```sh\necho 12 3\n```\n```text\n1...4\n```\n", "it printed:\n12 3"},
		"an output elsewhere":    {"<!-- terminal: two -->\n```sh\necho 1\n```\n\n<!-- terminal: two -->\n```text\n2\n```\n", "it ended before it printed"},
		"an ID":                  {"```sh\necho post:38G7K574T00XN post:38G7K574T00XP\n```\n```text\npost:38G2TZ0C0N800 post:38G2TZ0C0N800\n```\n", "stands for two IDs"},
		"a program":              {"```js\nthrow new Error('no')\n```\n", "Error: no"},
		"a file without use":     {"```js unused.mjs\n1\n```\n", "no command after it names unused.mjs"},
		"a statement":            {"```sql\nSELECT nothing;\n```\n", `column "nothing" does not exist`},
		"another file's lines":   {"<!-- from: deploy/compose/nginx.conf -->\n```nginx\nlisten 12345;\n```\n", "does not have"},
		"no YAML":                {"```yaml\na: [\n```\n", "no YAML"},
		"no reason":              {"<!-- not run -->\n```sh\nfalse\n```\n", "without a reason"},
		"no language":            {"```\nls\n```\n", "no rule"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := newPageRunner(t)
			if err != nil {
				t.Fatal(err)
			}
			err = r.runBlocks(codeBlocksOf("page.md", []byte("# A page\n\n"+page.text)))
			if err == nil || !strings.Contains(err.Error(), page.fault) || !strings.HasPrefix(err.Error(), "page.md:") {
				t.Errorf("the fault is %v, not %q", err, page.fault)
			}
		})
	}
}

// What a terminal prints is compared once, block by block, however much it has printed when the first block is compared.
func TestATerminalIsComparedBlockByBlock(t *testing.T) {
	const terminal = "\n<!-- terminal: both -->\n"
	printed := terminal + "```sh\necho one é; echo two\ntouch printed\n```\n" + "```sh\nuntil [ -e printed ]; do sleep 0.01; done\n```\n"
	first, second := terminal+"```text\none...é\n```\n", terminal+"```text\ntwo\n```\n"
	for page, fault := range map[string]string{first + second: "", first + first: "it ended before it printed", second + first: "it ended before it printed"} {
		r, err := newPageRunner(t)
		if err != nil {
			t.Fatal(err)
		}
		err = r.runBlocks(codeBlocksOf("page.md", []byte(printed+page)))
		if (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: the fault is %v, not %q", page, err, fault)
		}
	}
}

// Blocks of sh, graphql, js and sql are run, and their outputs are compared with those on the page.
func TestEveryKindOfCodeBlockIsRun(t *testing.T) {
	r, err := newPageRunner(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.runBlocks(codeBlocksOf("page.md", []byte(pageWithEveryBlockKind))); err != nil {
		t.Error(err)
	}
	if len(r.skippedBlocks) != 1 || r.skippedBlocks[0] != "page.md:3: needs another machine" {
		t.Errorf("not run: %q", r.skippedBlocks)
	}
}

// pageWithEveryBlockKind is a page with every kind of block that runs, with a server, a terminal, and a block that is not run.
// Blocks that are only parsed or compared with a file, and browsers, are in the pages of docs.
const pageWithEveryBlockKind = `<!-- not run: needs another machine -->
` + "```sh\nfalse\n```\n" + `

<!-- server -->
` + "```sh\ngo run . --log-level error\n```\n" + `

` + "```graphql\n# as bob\nmutation Say($body: String!) { publishPost(input: {body: $body}) { post { id } } }\n```\n" + `
` + "```json\n{\"body\": \"hello\"}\n```\n" + `

It answers:

<!-- prints -->
` + "```text\n{\"data\": {\"publishPost\": {\"post\": {\"id\": \"post:38G2TZ0C0N800\"}}}}\n```\n" + `

` + "```graphql\nfragment Body on Post { body }\n```\n" + `

` + "```graphql\n# as host:ingest for alice\nquery { node(id: \"post:38G2TZ0C0N800\") { ...Body } viewer { user { key } } }\n```\n" + `
` + "```text\n...\"hello\"... \"alice\"...\n```\n" + `

<!-- terminal: watch -->
` + "```sh\ncurl -sN http://127.0.0.1:8080/graphql -H 'Authorization: Bearer dev:carol' -H 'Accept: text/event-stream' -H 'Content-Type: application/json' -d '{\"query\": \"subscription { badgesChanged { total { display } } }\"}'\n```\n" + `
<!-- terminal: watch -->
` + "```text\n\"display\": \"0\"\n```\n" + `

` + "```js follow.mjs\nawait fetch('http://127.0.0.1:8080/healthz').then((r) => r.text()).then((text) => console.log(text));\n```\n" + `

` + "```sh\nkept=yes\nnode follow.mjs\n```\n" + `
` + "```text\nok\n```\n" + `

` + "```sh\necho $kept\n```\n" + `
` + "```text\nyes\n```\n" + `

` + "```sql\nSELECT 40 + 2;\n```\n" + `
` + "```text\n42\n```\n"
