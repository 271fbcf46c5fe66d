package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"tidings/services"
	"tidings/services/node"
)

// Command is a parsed command line. Help and version have been printed when ParseArgs returns, and nothing is left to do for
// them. Fields without a flag (kong:"-") are set by finishParse from the words, because their meaning depends on the command.
// Only the options of the command that was named mean anything.
type Command struct {
	Name   string        `kong:"-"` // "serve", "import follows" (or another of importKinds), "export", "erase", "webhooks add" (or list and so on), "token", "vapid", "doctor", "schema", "completion", "help" or "version"
	Config node.Config   `embed:""` // each command checks only the settings that it takes
	Import importOptions `embed:""`
	Export exportOptions `embed:""`
	Erase  eraseOptions  `embed:""`
	Token  tokenOptions  `embed:""`
	Shell  string        `kong:"-"` // the shell to print the completion script for
	Schema schemaOptions `embed:""`

	Webhooks webhookOptions `embed:""`
}

// commandLineGrammar is the command line as kong reads it. All flags belong to the root, so that they may come before their
// command: the tag `for` of a flag names the commands that take it, and finishParse refuses the flag with others. The names of the
// fields mean nothing. A new command is a field here, a file of its own with its words and options, and a case in Run.
type commandLineGrammar struct {
	Command `embed:""`

	Serve   struct{}    `cmd:"" default:"1" help:"Serve until SIGTERM or Ctrl-C."`
	Imports importArgs  `cmd:"" name:"import" help:"${import_summary}"`
	Exports exportArgs  `cmd:"" name:"export" help:"Export all data of one user as JSON Lines."`
	Erases  eraseArgs   `cmd:"" name:"erase" help:"Remove a user and everything that they did, for good."`
	Hooks   webhookArgs `cmd:"" name:"webhooks" help:"Manage the endpoints that changes of badges are sent to."`
	Tokens  tokenArgs   `cmd:"" name:"token" help:"Sign a token for a test."`
	VAPID   vapidArgs   `cmd:"" name:"vapid" help:"Make a key for Web Push."`
	Doctor  doctorArgs  `cmd:"" help:"Check the settings, the database, Redis and this machine."`
	Schemas schemaArgs  `cmd:"" name:"schema" help:"Print the GraphQL schema of the server."`
	Version struct{}    `cmd:"" help:"Print the version, the commit and Go's version, as --version does."`

	Completion completionArgs `cmd:"" help:"Print the script that completes commands and flags in bash, zsh or fish."`
}

// importArgs are the words after import. The words of a command are its arguments other than flags; kong requires each, unless its
// tag says optional. The types of words have the method Help, which is why several are empty structs of their own. The tag `words`
// lists values for completion in shells.
type importArgs struct {
	What string `arg:"" words:"${imports}" help:"${imports_or}"`
	File string `arg:"" help:"the file, gzipped or not; - is the standard input"`
}

type (
	doctorArgs struct{}
	schemaArgs struct{}
)

// tokenArgs are the words after token.
type tokenArgs struct {
	User string `arg:"" optional:"" help:"the host application's key of the user; none for a token of the host application itself"`
}

// exportArgs are the words after export.
type exportArgs struct {
	User string `arg:"" help:"the host application's key of the user"`
}

// newParser makes a parser that puts what it reads into g. r collects unreadable values; a parser that only describes the flags needs
// none (nil). newParser parses nothing: g may hold values already, which settingsOf then reads from the model.
func newParser(g *commandLineGrammar, r valueDecoder, more ...kong.Option) *kong.Kong {
	options := append(more, tagVariables(), kong.Name("tidings"), kong.Description(about), kong.Help(printHelp), kong.ValueFormatter(flagHelp),
		kong.ConfigureHelp(kong.HelpOptions{FlagsLast: true, WrapUpperBound: 120}))
	// Our valueDecoder takes the place of kong's own mappers, which would stop at the first fault.
	for _, readable := range decodableTypes {
		options = append(options, kong.TypeMapper(readable, r))
	}
	// kong.Must panics only for tags that are wrong, which tests find.
	k := kong.Must(g, options...)
	// In the tags only the first flag of a group names the group; the flags after it belong to it too.
	var group *kong.Group
	for _, flag := range k.Model.Flags {
		group = cmp.Or(flag.Group, group)
		flag.Group = group
	}
	return k
}

// usageError is an invalid command line or environment: all its faults, and where to find help. The process ends with exit
// code 2. With all faults at once, a node with five wrong settings is started twice, not six times. A fault names its flag
// and variable, so it can be fixed without reading the help.
type usageError struct {
	faults []error
	hint   string // where to find help
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

// ParseArgs reads the command line (without the program's name) and the environment. It prints help and version to out. An
// error is for the user: print it and exit with 2. It opens no engine and makes no file, so a wrong command line leaves
// nothing behind.
func ParseArgs(args []string, env func(string) string, out io.Writer) (Command, error) {
	var g commandLineGrammar
	// Unreadable values are kept here, and reported with the other faults.
	unread := valueDecoder{}
	// kong exits after it has printed help; here it only sets helped.
	helped := false
	k := newParser(&g, unread, kong.Writers(out, out), kong.Resolvers(environmentResolver(env)), kong.Exit(func(int) { helped = true }))
	args = withTwoDashes(args)
	switch {
	// Help is printed for a line with faults too, because a user asks for it after a fault.
	case slices.Contains(args, "--help") || slices.Contains(args, "-h") || len(args) > 0 && args[0] == "help":
		return Command{Name: "help"}, printHelpOn(k, args)
	// --version may stand anywhere in the line.
	case slices.Contains(args, "--version"):
		args = []string{"version"}
	}
	line, err := k.Parse(args)
	if helped { // the check above misses some forms: --help=true, -hh
		return Command{Name: "help"}, nil
	}
	// The error is one of kong's own faults, such as an unknown flag: kong stops at the first of them.
	if parse, ok := errors.AsType[*kong.ParseError](err); ok {
		return Command{}, &usageError{[]error{parse.Unwrap()}, helpHintFor(parse.Context)}
	}
	g.Name = commandOf(line)
	if g.Name == "version" {
		_, err := fmt.Fprintln(out, "tidings", node.BuildInfo())
		return Command{Name: "version"}, err
	}
	if faults := g.finishParse(line, unread); len(faults) > 0 {
		return Command{}, &usageError{faults, helpHintFor(line)}
	}
	// Two nodes with one name would take each other's jobs, so a node without a name gets one that nobody else has.
	g.Config.Node = cmp.Or(g.Config.Node, node.NewNodeName(rand.Uint32()))
	return g.Command, nil
}

// withTwoDashes replaces -name by --name: a flag may have one dash or two, as in programs on Go's package flag. No flag has one
// letter, except -h.
func withTwoDashes(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		if arg == "--" {
			break // no flags follow
		}
		if len(arg) > 2 && arg[0] == '-' && arg[1] != '-' {
			args[i] = "-" + arg
		}
	}
	return args
}

// environmentResolver makes the resolver by which flags get the values of their variables. An empty variable counts as not set,
// because an orchestrator's templates set variables that they have no value for. A flag that the command does not take ignores its
// variable: a server's environment may be used for an import. kong calls the resolver for each flag that the command line does not
// set. The text then goes through the same valueDecoder as a flag's.
func environmentResolver(env func(string) string) kong.ResolverFunc {
	return func(line *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		name := environmentVariable(flag)
		if name == "" || !commandTakesFlag(commandOf(line), flag) {
			return nil, nil
		}
		text := env(name)
		for _, former := range flag.Aliases {
			text = cmp.Or(text, env(variableOf(former)))
		}
		if text == "" {
			return nil, nil
		}
		return text, nil
	}
}

// commandOf is the command that the words name: serve if they name none. It is only the first word, such as import. The tags of
// flags need the whole name, such as import follows, which finishParse makes.
func commandOf(line *kong.Context) string {
	if selected := line.Selected(); selected != nil {
		return selected.Name
	}
	return "serve"
}

// helpHintFor says where to find help, on the command that the line names.
func helpHintFor(line *kong.Context) string {
	program := "tidings"
	if command := commandOf(line); command != "serve" {
		program += " " + command
	}
	return program + " --help lists every command and flag."
}

// finishParse finishes kong's work, and returns every fault of the line: first those of the command's words, then those of its
// flags. If a word is so wrong that no flag can be judged, only its fault is returned. It is called once, after kong and before
// the command runs, and also copies the words into the options, where the commands look for them.
func (g *commandLineGrammar) finishParse(line *kong.Context, unread valueDecoder) (faults []error) {
	switch g.Name {
	case "import":
		if _, found := importKind(g.Imports.What, g.Config); !found {
			return []error{fmt.Errorf("%s is not a kind of import: %s are", services.Quote(g.Imports.What), joinWords(importNames(), "and"))}
		}
		// From here on the name of the command includes the kind of import, because commandTakesFlag needs it.
		g.Name += " " + g.Imports.What
		g.Import.What, g.Import.File = g.Imports.What, g.Imports.File
		// A key with the prefix before it must be a valid key; x stands for the key.
		if g.Import.Prefix != "" && services.CheckUserKey(g.Import.Prefix+"x") != nil {
			faults = append(faults, fmt.Errorf("--prefix is %s: up to %d printable characters are allowed, and no space first", services.Quote(g.Import.Prefix), services.MaxKeyCharacters-1))
		}
	case "token":
		g.Token.User = g.Tokens.User
		faults = append(faults, checkToken(g.Config, g.Token)...)
	case "completion":
		if err := checkShell(g.Completion.Shell); err != nil {
			return []error{err}
		}
		g.Shell = g.Completion.Shell
	case "webhooks":
		if err := checkWebhooks(g.Hooks); err != nil {
			return []error{err}
		}
		g.Name += " " + g.Hooks.What
		g.Webhooks.Name, g.Webhooks.URL = g.Hooks.Name, g.Hooks.URL
	case "erase":
		g.Erase.User = g.Erases.User
		if err := services.CheckUserKey(g.Erase.User); err != nil {
			faults = append(faults, err)
		}
	case "export":
		g.Export.User = g.Exports.User
		if err := services.CheckUserKey(g.Export.User); err != nil {
			faults = append(faults, err)
		}
	}
	// given are the flags on the command line; set also has those from the environment. A flag with its default is in neither.
	given, set := map[*kong.Flag]bool{}, map[string]bool{}
	for _, word := range line.Path {
		given[word.Flag] = !word.Resolved // set on the command line, not by the environment
		if word.Flag != nil {
			set[word.Flag.Name] = true
		}
	}
	if g.Config.Demo && !set["data"] {
		g.Config.Data = "" // a temporary folder
	}
	// Every flag is checked, also one with its default: a check may concern two settings, and the other one was given.
	reasons := g.Config.Faults()
	for _, flag := range line.Model.Flags {
		var fault error
		text, bad := unread[flag.Value]
		switch {
		// A flag that does nothing is a mistake. From the environment it may be meant for another command.
		case !commandTakesFlag(g.Name, flag) && given[flag]:
			fault = fmt.Errorf("--%s is not a flag of tidings %s", flag.Name, g.Name)
		case !commandTakesFlag(g.Name, flag) || g.Name == "token" && (flag.Name == "jwt-audience" || flag.Name == "jwt-issuer"): // tokens can be for any server, so these two are not checked
		case bad:
			fault = unreadableError(flag, text)
		default:
			fault = checkSetting(flag, reasons)
		}
		if fault != nil {
			faults = append(faults, fault)
		}
	}
	return faults
}

// importOptions are the options of "tidings import" besides the database. The tag `for` of an option names the kinds that take it.
type importOptions struct {
	What   string `kong:"-"` // the name of the kind
	File   string `kong:"-"` // a path, or "-" for the standard input
	Both   bool   `group:"Import:" for:"import follows" help:"import each row as two follows, one in each direction"`
	Prefix string `for:"import" placeholder:"TEXT" help:"a text to put before every key of the file: with u, 17 becomes the user u17"`
	Factor int    `for:"import shows" default:"0" placeholder:"TIMES" min:"0" max:"1000000" help:"replay the shows from now on, this many times as fast as they happened; 0: import them at once"`
	Quiet  bool   `for:"import" help:"print only errors and the result, no progress"`
}

// exportOptions are the options of "tidings export" besides the database.
type exportOptions struct {
	User string `kong:"-"` // the user's key
	Out  string `group:"Export:" for:"export" placeholder:"FILE" help:"the file to write; empty: the standard output; a file that exists is replaced only once the export is complete"`
}
