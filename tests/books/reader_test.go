package books

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
	"tidings/web/browsertest"
)

// pageRunner runs the blocks of a page from its top to its end, in a folder of its own.
type pageRunner struct {
	tb                    testing.TB
	folder, scratchFolder string                     // the reader's folder, and one for files that the reader does not see
	environment           []string                   // the environment variables of every bash
	realPorts             map[string]string          // port in the page -> the port that is used
	realIDs               map[string]string          // ID in the page -> the real one
	shell                 *terminal                  // the bash in which blocks of sh run one after the other
	terminals             map[string]*terminal       // the terminals of servers and of commands that keep running, by name
	browser               context.Context            // the first tab of the browser; nil until a block needs one
	tabs                  map[string]context.Context // the browser's tabs, by name
	serverStarted         bool                       // a server was started
	lastOutput            string                     // the output of the last block
	graphqlFragments      map[string]string          // the text of each fragment of GraphQL, by name
	databaseURL           string                     // the URL of the database for blocks of SQL
	schema                *ast.Schema                // the server's, which blocks of graphql must fit
	unusedFileBlocks      []codeBlock                // blocks that were written to files which no command has named yet
	skippedBlocks         []string                   // the blocks that are not run, with the reasons
}

// newPageRunner makes a pageRunner with a folder and a bash.
func newPageRunner(tb testing.TB) (*pageRunner, error) {
	r := &pageRunner{
		tb: tb, folder: tb.TempDir(), scratchFolder: tb.TempDir(), realPorts: map[string]string{}, realIDs: map[string]string{}, terminals: map[string]*terminal{}, tabs: map[string]context.Context{},
		graphqlFragments: map[string]string{}, schema: graph.NewExecutableSchema(graph.Config{}).Schema(),
	}
	programs, err := makeBinFolder(tb)
	if err != nil {
		return nil, err
	}
	r.environment = append(world.EnvironmentWithoutSettings(), "PATH="+programs+":"+os.Getenv("PATH"), "TIDINGS_LISTEN="+r.withRealValues("127.0.0.1:8080"), "NO_COLOR=1")
	r.shell, err = newShell(tb, r.folder, r.environment)
	return r, err
}

// runBlocks runs all blocks of a page.
func (r *pageRunner) runBlocks(blocks []codeBlock) error {
	for _, b := range blocks {
		if strings.Contains(b.text, "127.0.0.1:8080") || b.language == "graphql" {
			if err := r.startServerIfNeeded(b); err != nil {
				return fmt.Errorf("%s: %w", b.pageAndLine, err)
			}
		}
		if err := r.runBlock(b, blocks); err != nil {
			return fmt.Errorf("%s (%s): %w", b.pageAndLine, b.language, err)
		}
	}
	for _, b := range r.unusedFileBlocks {
		return fmt.Errorf("%s: no command after it names %s", b.pageAndLine, b.fileName)
	}
	return nil
}

// runBlock runs one block by its directive or its language. all are the blocks of the page.
func (r *pageRunner) runBlock(b codeBlock, all []codeBlock) error {
	if reason, skipped := b.directive("not run"); skipped {
		if reason == "" {
			return fmt.Errorf("it is not run without a reason")
		}
		r.skippedBlocks = append(r.skippedBlocks, b.pageAndLine+": "+reason)
		return nil
	}
	if source, found := b.directive("from"); found {
		return checkLinesInFile(b.text, source)
	}
	switch b.language {
	case "sh":
		return r.runCommand(b)
	case "graphql":
		return r.runOperation(b, variablesOf(b, all))
	case "text":
		return r.compareOutput(b)
	case "js":
		return r.runJavaScript(b)
	case "sql":
		return r.runSQL(b)
	case "ts", "tsx":
		return nil // web/client/tests compiles them
	case "yaml", "ini", "json", "html", "csv", "jsonl":
		return r.checkDataBlock(b)
	default:
		return fmt.Errorf("there is no rule for blocks of this language: use sh, graphql, text, js, ts, tsx, sql, yaml, ini, json, html, csv or jsonl")
	}
}

// runCommand runs a block of sh: in the shell of the page, or, if a directive names a server or a terminal, in a terminal of its own.
func (r *pageRunner) runCommand(b codeBlock) error {
	r.markFilesUsed(b.text)
	name, serves := b.directive("server")
	other, isTerminal := b.directive("terminal")
	if !serves && !isTerminal {
		printed, err := r.shell.runBlock(r.scratchFolder, r.withRealValues(b.text))
		r.lastOutput = printed
		return err
	}
	if name += other; name == "" {
		name = "server"
	}
	if former := r.terminals[name]; former != nil {
		if err := former.interrupt(); err != nil {
			return err
		}
	}
	opened, err := openTerminal(r.tb, r.folder, r.scratchFolder, r.environment, name, r.withRealValues(b.text))
	if err != nil {
		return err
	}
	r.terminals[name], r.lastOutput = opened, ""
	if serves {
		r.serverStarted = true
		return opened.awaitOutput(r.tb, "that it serves, and became ready", isServerReady)
	}
	return nil
}

// isServerReady reports whether a server has printed that it serves, and is ready.
func isServerReady(printed string) bool {
	_, rest, found := strings.Cut(printed, "Tidings serves ")
	origin, _, whole := strings.Cut(rest, " ")
	if !found || !whole {
		return false
	}
	response, err := http.Get(origin + "/readyz")
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// markFilesUsed removes from unusedFileBlocks the blocks whose files a text names.
func (r *pageRunner) markFilesUsed(text string) {
	r.unusedFileBlocks = slices.DeleteFunc(r.unusedFileBlocks, func(b codeBlock) bool { return strings.Contains(text, b.fileName) })
}

// startServerIfNeeded starts a server in development mode for a page that starts none before it needs one.
func (r *pageRunner) startServerIfNeeded(b codeBlock) error {
	if _, own := b.directive("server"); own || r.serverStarted {
		return nil
	}
	if _, skipped := b.directive("not run"); skipped {
		return nil
	}
	return r.runCommand(codeBlock{language: "sh", text: "tidings", comment: "server"})
}

var (
	addressPattern  = regexp.MustCompile(`\b(127\.0\.0\.1|localhost):(\d{4,5})\b`) // a local address with a port
	objectIDPattern = regexp.MustCompile(`\b[a-zA-Z]+:[0-9A-HJKMNP-TV-Z]{13,}\b`)  // an ID of an object
)

// withRealValues returns a text of the page with the real addresses and IDs in place of the page's.
func (r *pageRunner) withRealValues(text string) string {
	text = addressPattern.ReplaceAllStringFunc(text, func(match string) string {
		host, port, _ := strings.Cut(match, ":")
		if r.realPorts[port] == "" {
			r.realPorts[port] = freePort(r.tb)
		}
		return host + ":" + r.realPorts[port]
	})
	return objectIDPattern.ReplaceAllStringFunc(text, func(id string) string {
		if actual := r.realIDs[id]; actual != "" {
			return actual
		}
		return id
	})
}

// freePort returns a TCP port on which nothing listens at the moment.
func freePort(tb testing.TB) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	_, port, _ := strings.Cut(listener.Addr().String(), ":")
	_ = listener.Close()
	return port
}

// compareOutput compares a block of text with the output, if the block directly follows another one or has a directive. Any other
// block of text is not an output, and is not checked.
func (r *pageRunner) compareOutput(b codeBlock) error {
	name, isTerminal := b.directive("terminal")
	_, printed := b.directive("prints")
	if view, isBrowser := b.directive("browser"); isBrowser {
		return r.waitTabShows(view, b.text)
	}
	if !isTerminal && !printed && b.previousLanguage == "" {
		return nil
	}
	if !isTerminal {
		_, err := r.matchText(b.text, r.lastOutput, true)
		return err
	}
	t := r.terminals[name]
	if t == nil {
		return fmt.Errorf("no terminal %q was opened", name)
	}
	matched := 0
	err := t.awaitOutput(r.tb, "what the page says", func(printed string) bool {
		end, err := r.matchText(b.text, printed, false)
		matched = bytesUpTo(printed, end)
		return err == nil
	})
	// The terminal may have printed more by now, which a later block of the page has.
	t.comparedBytes += matched
	return err
}

// bytesUpTo returns the number of bytes of a text up to a position that is counted without white space.
func bytesUpTo(text string, position int) (bytes int) {
	for position > 0 && bytes < len(text) {
		r, size := utf8.DecodeRuneInString(text[bytes:])
		bytes += size
		if !unicode.IsSpace(r) {
			position -= size
		}
	}
	return bytes
}

// waitTabShows waits until a tab shows a text: "NAME URL", or "NAME URL BUTTON" after a click on the button of that text.
func (r *pageRunner) waitTabShows(view, want string) error {
	name, address, _ := strings.Cut(view, " ")
	address, button, clicks := strings.Cut(address, " ")
	tab := r.tabs[name]
	switch {
	case tab == nil && r.browser == nil:
		r.browser = browsertest.NewProfileTab(r.tb)
		tab = r.browser
	case tab == nil:
		tab = browsertest.NewTab(r.browser, r.tb)
	}
	if r.tabs[name] == nil {
		r.tabs[name] = tab
		browsertest.Navigate(tab, r.tb, r.withRealValues(address))
	}
	if clicks {
		browsertest.WaitFor(tab, r.tb, "the button is there", fmt.Sprintf(`window.wanted = [...document.querySelectorAll('button')].find((button) => button.innerText === %q)`, button))
		browsertest.Evaluate[bool](tab, r.tb, `(window.wanted.click(), true)`)
	}
	var err error
	for deadline := time.Now().Add(commandTimeout); time.Now().Before(deadline); {
		shown := browsertest.Evaluate[string](tab, r.tb, `document.body?.innerText ?? ''`)
		if _, err = r.matchText(want, shown, false); err == nil {
			return nil
		}
		select {
		case <-r.tb.Context().Done():
			return r.tb.Context().Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return err
}

// matchText looks for the text want in got, without the white space of both; if whole is true, they must be equal. In want, "..."
// stands for any text, and an ID that occurs in the page for the first time stands for any ID of its type. end is the position in got,
// counted without white space, at which want ends.
func (r *pageRunner) matchText(want, got string, whole bool) (end int, err error) {
	bare := func(text string) string { return strings.Join(strings.Fields(text), "") }
	var pattern strings.Builder
	var named []string
	text, at := r.withRealValues(want), 0
	quote := func(text string) {
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(bare(text)), `\.\.\.`, `.*?`))
	}
	for _, span := range objectIDPattern.FindAllStringIndex(text, -1) {
		id := text[span[0]:span[1]]
		quote(text[at:span[0]])
		kind, key, _ := strings.Cut(id, ":")
		if r.isRealID(id) {
			quote(id)
		} else {
			fmt.Fprintf(&pattern, "(%s:[0-9A-Z]{%d})", kind, len(key))
			named = append(named, id)
		}
		at = span[1]
	}
	quote(text[at:])
	expression := "(?s)" + pattern.String()
	if whole {
		expression = "(?s)^" + pattern.String() + "$"
	}
	found := regexp.MustCompile(expression).FindStringSubmatchIndex(bare(got))
	if found == nil {
		return 0, fmt.Errorf("it printed:\n%s\nand not:\n%s", got, r.withRealValues(want))
	}
	actual := map[string]string{}
	for i, id := range named {
		text := bare(got)[found[2*i+2]:found[2*i+3]]
		if actual[id] != "" && actual[id] != text {
			return 0, fmt.Errorf("%s stands for two IDs, %s and %s", id, actual[id], text)
		}
		actual[id] = text
	}
	maps.Copy(r.realIDs, actual)
	return found[1], nil
}

// isRealID reports whether an ID is a real one, and not one of the page.
func (r *pageRunner) isRealID(id string) bool {
	for _, actual := range r.realIDs {
		if actual == id {
			return true
		}
	}
	return false
}

// runJavaScript writes a program with a name to a file for later commands, and runs a program without a name at once.
func (r *pageRunner) runJavaScript(b codeBlock) error {
	if b.fileName != "" {
		return r.writeBlockFile(b)
	}
	b.fileName = fmt.Sprintf("sample-%d.mjs", len(r.environment)+r.shell.blocksRun)
	if err := os.WriteFile(filepath.Join(r.scratchFolder, b.fileName), []byte(r.withRealValues(b.text)), 0o600); err != nil {
		return err
	}
	return r.runCommand(codeBlock{text: "node " + filepath.Join(r.scratchFolder, b.fileName)})
}

// writeBlockFile writes a block into a file for the commands that follow.
func (r *pageRunner) writeBlockFile(b codeBlock) error {
	if b.fileName != filepath.Base(b.fileName) {
		return fmt.Errorf("%s is no name of a file in the folder of the page", b.fileName)
	}
	r.markFilesUsed(b.text) // a program may name another file
	r.unusedFileBlocks = append(r.unusedFileBlocks, b)
	return os.WriteFile(filepath.Join(r.folder, b.fileName), []byte(r.withRealValues(b.text)), 0o600)
}

// runSQL runs SQL in a PostgreSQL database that only this page uses.
func (r *pageRunner) runSQL(b codeBlock) error {
	if r.databaseURL == "" {
		r.databaseURL = sqltest.NewServer(r.tb).NewDatabase(r.tb)
	}
	file := filepath.Join(r.scratchFolder, fmt.Sprintf("%d.sql", r.shell.blocksRun))
	if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
		return err
	}
	return r.runCommand(codeBlock{text: fmt.Sprintf("psql -qAt -v ON_ERROR_STOP=1 '%s' < %s", r.databaseURL, file)})
}
