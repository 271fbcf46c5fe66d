package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"tidings/services"
)

// Command is what the command line asks for. Help and version have been printed when parseArgs answers; nothing is
// left to do.
type Command struct {
	Name   string // "serve", "import-follows", "import-messages", "import-posts", "help" or "version"
	Config Config // for an import only the settings that an import has were read and checked
	Import ImportOptions
}

// usageError is a command line or an environment that cannot be: every fault, and where to read on. The process
// ends with exit code 2.
type usageError struct {
	faults []error
	hint   string
}

func (e *usageError) Error() string {
	if len(e.faults) == 1 {
		return e.faults[0].Error() + "\n" + e.hint
	}
	lines := []string{fmt.Sprintf("%d faults:", len(e.faults))}
	for _, fault := range e.faults {
		lines = append(lines, "  "+fault.Error())
	}
	return strings.Join(append(lines, e.hint), "\n")
}

// Unwrap gives the faults.
func (e *usageError) Unwrap() []error { return e.faults }

// parseArgs reads the command line (without the program's name) and the environment. It prints help and version
// to out. An error is for the person who typed: print it and exit with 2.
func parseArgs(args []string, env func(string) string, out io.Writer) (Command, error) {
	line := readLine(args)
	command := Command{Name: line.command()}
	hint := "tidings --help lists every command and flag."
	if len(line.words) > 0 && line.words[0] == "import" {
		hint = "tidings import --help shows how to import."
	}
	switch {
	case line.asksHelp() && slices.Contains(line.words, "import"):
		return Command{Name: "help"}, printImportHelp(out)
	case line.asksHelp():
		return Command{Name: "help"}, printHelp(out)
	case command.Name == "version" || line.has("version"):
		_, err := fmt.Fprintf(out, "tidings %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return Command{Name: "version"}, err
	}
	faults := line.faults
	if command.Name == "" {
		// After a wrong flag its value stands as a word: only the flag is worth a message.
		if len(faults) == 0 {
			faults = append(faults, line.unknownCommand())
		}
		return Command{}, &usageError{faults: faults, hint: hint}
	}
	faults = append(faults, command.fill(line, env)...)
	if faults = compact(faults); len(faults) > 0 {
		return Command{}, &usageError{faults: faults, hint: hint}
	}
	if command.Config.Node == "" {
		command.Config.Node = nodeName(rand.Uint32())
	}
	return command, nil
}

func compact(faults []error) []error {
	return slices.DeleteFunc(faults, func(err error) bool { return err == nil })
}

// fill sets every setting of the command: default, then environment, then flag. It answers every fault.
func (c *Command) fill(line commandLine, env func(string) string) (faults []error) {
	imports := strings.HasPrefix(c.Name, "import-")
	var readable []setting
	for _, s := range append(settingsOf(&c.Config), settingsOf(&c.Import)...) {
		if s.fallback != "" {
			faults = append(faults, s.set(s.fallback))
		}
		text, given := line.flags[s.flag]
		if wanted := imports && s.imports || !imports && s.serves; !wanted {
			if given {
				faults = append(faults, fmt.Errorf("--%s is not a flag of %s", s.flag, c.typed()))
			}
			continue
		}
		if !given && s.env != "" {
			text = env(s.env)
			given = text != ""
		}
		if given {
			if fault := s.set(text); fault != nil {
				faults = append(faults, fault)
				continue
			}
		}
		readable = append(readable, s)
	}
	// Only now: what one setting allows can depend on another.
	for _, s := range readable {
		faults = append(faults, s.check(c.Config))
	}
	if imports {
		c.Import.File = line.words[2]
		faults = append(faults, c.checkImport())
		if line.has("both") && c.Name != "import-follows" {
			faults = append(faults, fmt.Errorf("--both is not a flag of %s", c.typed()))
		}
	}
	return faults
}

func (c *Command) checkImport() error {
	if c.Import.Prefix != "" && services.CheckUserKey(c.Import.Prefix) != nil {
		return fmt.Errorf("--prefix is %s: 1 to 64 of letters, digits, '.', '_' and '-' are allowed", services.Quote(c.Import.Prefix))
	}
	return nil
}

func (c *Command) typed() string {
	return "tidings " + strings.ReplaceAll(c.Name, "-", " ")
}

// commandLine is the arguments sorted into words and flags.
type commandLine struct {
	words  []string
	flags  map[string]string
	faults []error
}

// readLine sorts the arguments. Flags may stand anywhere, with one dash or two, as --name value or --name=value;
// the last of a name holds. After -- everything is a word, and so is a lone dash.
func readLine(args []string) commandLine {
	line := commandLine{flags: map[string]string{}}
	known := append(settingsOf(&Config{}), settingsOf(&ImportOptions{})...)
	for i := 0; i < len(args); i++ {
		word := args[i]
		if word == "--" {
			line.words = append(line.words, args[i+1:]...)
			break
		}
		if word == "-" || !strings.HasPrefix(word, "-") {
			line.words = append(line.words, word)
			continue
		}
		name, value, valued := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-"), "=")
		at := slices.IndexFunc(known, func(s setting) bool { return s.flag == name })
		switch {
		case name == "help" || name == "h" || name == "version":
		case at < 0:
			line.faults = append(line.faults, fmt.Errorf("%s is not a flag%s", services.Quote("--"+name), nearest(name, known)))
			continue
		case !valued && known[at].isSwitch():
			value = "true"
		case !valued && (i+1 == len(args) || strings.HasPrefix(args[i+1], "--")):
			line.faults = append(line.faults, fmt.Errorf("--%s needs a value: --%s %s", name, name, known[at].unit))
			continue
		case !valued:
			i++
			value = args[i]
		}
		line.flags[name] = value
	}
	return line
}

func (l commandLine) has(name string) bool { _, found := l.flags[name]; return found }

func (l commandLine) asksHelp() bool {
	return l.has("help") || l.has("h") || len(l.words) > 0 && l.words[0] == "help"
}

// command names what the words ask for, "" when they ask for nothing there is.
func (l commandLine) command() string {
	switch words := strings.Join(l.words, " "); {
	case words == "" || words == "serve":
		return "serve"
	case words == "version":
		return words
	case len(l.words) == 3 && l.words[0] == "import" && slices.Contains(importable, l.words[1]):
		return "import-" + l.words[1]
	default:
		return ""
	}
}

// importable is what can be imported.
var importable = []string{"follows", "messages", "posts"}

func (l commandLine) unknownCommand() error {
	switch {
	case l.words[0] == "serve" || l.words[0] == "version":
		return fmt.Errorf("%s takes no further words, got %s", l.words[0], services.Quote(l.words[1]))
	case l.words[0] != "import":
		return fmt.Errorf("%s is not a command: serve and import are", services.Quote(l.words[0]))
	case len(l.words) == 1:
		return errors.New("import needs to know what: tidings import follows FILE, tidings import messages FILE or tidings import posts FILE")
	case !slices.Contains(importable, l.words[1]):
		return fmt.Errorf("%s cannot be imported: follows, messages and posts can", services.Quote(l.words[1]))
	case len(l.words) == 2:
		return fmt.Errorf("import %s needs a file: tidings import %[1]s FILE, or - for the standard input", l.words[1])
	default:
		return fmt.Errorf("import %s takes one file, got %d", l.words[1], len(l.words)-2)
	}
}

// nearest is a hint at the flag that may have been meant: the one with the fewest letters to change, two at most.
func nearest(name string, known []setting) string {
	best, least := "", 3
	for _, s := range known {
		if d := distance(name, s.flag); d < least {
			best, least = s.flag, d
		}
	}
	if best == "" {
		return ""
	}
	return ": did you mean --" + best + "?"
}

// distance is how many letters must be put in, taken out or changed to make one word of the other (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// version is the module's version as the build knows it: a tag, a commit, or (devel).
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

const helpHead = `Tidings serves feeds and unread badges over GraphQL.

Usage:
  tidings [serve] [flags]               serve until SIGTERM or Ctrl-C
  tidings import follows FILE [flags]   take in a list of who follows whom (tidings import --help)
  tidings import messages FILE [flags]  send site messages to any number of users
  tidings import posts FILE [flags]     take in what was published elsewhere
  tidings --version

Examples:
  tidings                                             SQLite in ./data, development mode, http://127.0.0.1:8080/graphiql
  tidings --listen 127.0.0.1:0 --data /srv/tidings
  TIDINGS_JWT_SECRET=... DATABASE_URL=postgres://tidings@db/tidings REDIS_URL=redis://cache:6379 \
      tidings --listen :8080 --log-format json

A flag goes before its environment variable, the variable before the default; an empty variable is not set.

Flags:
`

const importHelpHead = `Takes in who follows whom from a CSV file, or sends site messages or takes in posts from a file of JSON Lines.

Usage:
  tidings import follows FILE [flags]
  tidings import messages FILE [flags]
  tidings import posts FILE [flags]

Examples:
  tidings import follows follows.csv.gz
  tidings import follows friends.csv --both --prefix u --database postgres://tidings@db/tidings
  zcat follows.csv.gz | tidings import follows -
  tidings import messages spring.jsonl.gz
  tidings import posts archive.jsonl.gz --prefix u

Of follows FILE is CSV, gzipped or not; - is the standard input. The columns are follower,followee or
follower,followee,since: the host application's keys of users (1 to 64 of letters, digits, '.', '_', '-') and a
moment in RFC 3339. What the followee publishes after since counts as new for the follower; without it, what he
publishes after the import does.
A first line of names is recognised: follower,followee, from,to, source,target, user_id,friend_id and the like. One that
names the followee first is refused. A first line with any other names is a row, if both are valid keys.

Of messages a line of FILE is {"key":"spring","type":"general","title":"...","content":"...","to":["alice","bob"]}, to
1 MB, with 1 to 10,000 recipients. Further lines of the same key name more of them and may leave the text out: one
message can go to millions. Who has a message of that key does not get it again, also not from another import. The
messages reach their recipients when the server runs.

Of posts a line of FILE is {"key":"p2","author":"alice","at":"2026-01-31T09:30:00Z","body":"...","parent":"p1"}, to
128 KB. The post gets the place in time that at gives it (RFC 3339, to the millisecond; not in the future); of two posts
of one millisecond the later line is the newer one. key and parent may be left out. A post with a key goes in once,
whichever import brings it; one without goes in again when another file brings it. A file that is in brings nothing.
parent is the key of a post that stands before, or the id of any post (post:...): what answers a post is a comment, what
answers that a reply. Which kinds enter home feeds --feed-kinds says. Nobody is notified of imported posts, nor of the
mentions and answers in them. The feeds of those who were here lately are read again when the server runs.

A line that cannot be used is reported with its number and written to FILE.bad; the others go in, and the exit code is
1. An import that was broken off goes on where it stopped when it is started again (not from the standard input). A
follow that exists already is left as it is. The limit on how many people one user may follow does not bind an import:
the data is the host application's. On SQLite the server must not be running meanwhile.

Flags:
`

func printHelp(out io.Writer) error {
	return printSettings(out, helpHead, settingsOf(&Config{}))
}

func printImportHelp(out io.Writer) error {
	settings := append(settingsOf(&Config{}), settingsOf(&ImportOptions{})...)
	return printSettings(out, importHelpHead, slices.DeleteFunc(settings, func(s setting) bool { return !s.imports }))
}

func printSettings(out io.Writer, head string, settings []setting) error {
	var text strings.Builder
	text.WriteString(head)
	for _, s := range settings {
		fmt.Fprintf(&text, "  %s\n", strings.TrimSpace("--"+s.flag+" "+s.unit))
		for _, row := range wrap(s.help, 100) {
			fmt.Fprintf(&text, "      %s\n", row)
		}
		var facts []string
		if s.fallback != "" {
			facts = append(facts, "default "+s.fallback)
		}
		if s.min != "" {
			facts = append(facts, s.min+" to "+s.max)
		}
		if s.env != "" {
			facts = append(facts, s.env)
		}
		if len(facts) > 0 {
			fmt.Fprintf(&text, "      [%s]\n", strings.Join(facts, "; "))
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// wrap breaks a text into rows of at most width letters, at blanks.
func wrap(text string, width int) (rows []string) {
	row := ""
	for word := range strings.FieldsSeq(text) {
		if row != "" && len(row)+1+len(word) > width {
			rows = append(rows, row)
			row = ""
		}
		row = strings.TrimSpace(row + " " + word)
	}
	return append(rows, row)
}
