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
	Name   string // "serve", "import-follows", "import-messages", "import-posts", "import-shows", "export", "help" or "version"
	Config Config // for an import or an export only the settings that it has were read and checked
	Import ImportOptions
	Export ExportOptions
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
	if len(line.words) > 0 && line.words[0] == "export" {
		hint = "tidings export --help shows how to export."
	}
	switch {
	case line.asksHelp() && slices.Contains(line.words, "import"):
		return Command{Name: "help"}, printImportHelp(out)
	case line.asksHelp() && slices.Contains(line.words, "export"):
		return Command{Name: "help"}, printExportHelp(out)
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
	for _, s := range c.allSettings() {
		if s.fallback != "" {
			faults = append(faults, s.set(s.fallback))
		}
		text, given := line.flags[s.flag]
		if !s.takenBy(c.Name) {
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
		for flag, of := range map[string]string{"both": "import-follows", "factor": "import-shows"} {
			if line.has(flag) && c.Name != of {
				faults = append(faults, fmt.Errorf("--%s is not a flag of %s", flag, c.typed()))
			}
		}
	}
	if c.Name == "export" {
		c.Export.User = line.words[1]
		if err := services.CheckUserKey(c.Export.User); err != nil {
			faults = append(faults, err)
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
	known := (&Command{}).allSettings()
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
	case len(l.words) == 2 && l.words[0] == "export":
		return "export"
	default:
		return ""
	}
}

// importable is what can be imported.
var importable = []string{"follows", "messages", "posts", "shows"}

func (l commandLine) unknownCommand() error {
	switch {
	case l.words[0] == "serve" || l.words[0] == "version":
		return fmt.Errorf("%s takes no further words, got %s", l.words[0], services.Quote(l.words[1]))
	case l.words[0] == "export" && len(l.words) == 1:
		return errors.New("export needs to know whom: tidings export USER")
	case l.words[0] == "export":
		return fmt.Errorf("export takes one user, got %d", len(l.words)-1)
	case l.words[0] != "import":
		return fmt.Errorf("%s is not a command: serve, import and export are", services.Quote(l.words[0]))
	case len(l.words) == 1:
		return errors.New("import needs to know what: tidings import follows FILE, tidings import messages FILE, tidings import posts FILE or tidings import shows FILE")
	case !slices.Contains(importable, l.words[1]):
		return fmt.Errorf("%s cannot be imported: follows, messages, posts and shows can", services.Quote(l.words[1]))
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
