package command

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"tidings/services/node"
)

// Each method Help returns the text that --help prints between the usage and the flags.
// kong wraps these texts, except for indented lines. The documentation repeats some of them, and tests run their examples.

// about is what tidings --help prints first. It begins with what a user needs who has only downloaded the program.
const about = `Tidings serves feeds and unread badges over GraphQL.

Examples:

  tidings                                        SQLite in ./data, development mode, http://127.0.0.1:8080/graphiql
  tidings --listen 127.0.0.1:0 --data /srv/tidings
  TIDINGS_JWT_SECRET=... DATABASE_URL=postgres://tidings@db/tidings REDIS_URL=redis://cache:6379 \
      tidings --listen :8080 --log-format json

A flag takes precedence over its environment variable, and the variable over the default. An empty variable counts as not set.
`

// Help is the text of tidings import --help above its flags: the parts of the kinds, and what holds for all.
func (importArgs) Help() string {
	var examples, parts strings.Builder
	for _, kind := range importKinds(node.Config{}) {
		for _, example := range kind.Examples {
			fmt.Fprintf(&examples, "  %s\n", example)
		}
		fmt.Fprintf(&parts, "%s\n", kind.Help)
	}
	return "Examples:\n\n" + examples.String() + "\n" + parts.String() + aboutImports
}

// aboutImports is the end of the text of tidings import --help.
const aboutImports = `A line that cannot be used is reported with its number and written to FILE.bad; the other lines are imported, and the
exit code is 1. An import that was interrupted continues where it stopped when it is started again (not from the
standard input). A follow that exists already stays as it is. The limit on followed users does not apply to an import,
because the data is the host application's. On SQLite the server must not run at the same time.

A gzipped file shows where it was cut off; a plain one does not. So the last row of a plain CSV file is treated as a bad
line if it does not end with a line break: alice,bob may have become alice,bo. If the row is complete, import FILE.bad.
`

// Help is the text of tidings export --help above its flags.
func (exportArgs) Help() string {
	return `Examples:

  tidings export alice > alice.jsonl
  tidings export alice --out alice.jsonl --database postgres://tidings@db/tidings

Each line of the output is an object with a type: profile, follow, followers (their
number), mute, block, hide, author, post (of every kind, including deleted ones), mention (by the user), like, notification,
notificationMark, position (up to which the user has seen a list), siteMessage, announcementMark, dot, segment, displayPolicy,
groupPolicy, conversation (present and former ones), message (by the user), mentionInMessage (by the user), messageMention (of
the user), device (that is inside a conversation). A type always has the same fields; a field without a value is null. Times are RFC 3339,
and IDs are those of the API. Redis holds nothing that is not derived from this data.

All lines of one type are from one moment. The export reads every post and every like in the database, so its time grows
with them. If the user does not exist or the export fails, the exit code is 1. On SQLite the server must not run at the
same time.
`
}

// Help is the text of tidings token --help above its flags. It says what an application's own tokens need, because most readers
// of this text write that part of an application.
func (tokenArgs) Help() string {
	return `Examples:

  TIDINGS_JWT_SECRET=... tidings token alice
  tidings token alice --private-key key.pem --valid-for 5m --jwt-audience tidings
  TIDINGS_JWT_SECRET=... tidings token --scope ingest,admin

The token is printed alone on a line. An application signs the tokens of its users itself, with the same claims: sub is the
user's key as it is, exp the time of the end in seconds, scope the scopes with spaces between (viewer if it is missing). This command is for
tests and operators. In development mode there are no keys: dev:alice and dev:host:ingest,admin are tokens there.
`
}

// Help is the text of tidings doctor --help above its flags.
// The exit code is in the Help of each command that scripts call.
func (doctorArgs) Help() string {
	return `Examples:

  tidings doctor
  DATABASE_URL=postgres://tidings@db/tidings REDIS_URL=redis://cache:6379 tidings doctor --listen :8080

Give it the flags and the environment of your server. It connects to the database and to Redis, compares their clocks, looks at their
settings and versions, at keys for tokens, addresses, open files and the disk, and says what to do about what it finds. It changes
nothing. The exit code is 1 if there is a failure: a node would not start, or not keep its promises.
`
}

// Help is the text of tidings schema --help.
func (schemaArgs) Help() string {
	return `Examples:

  tidings schema > schema.graphql

The output is in the schema definition language, with all descriptions, sorted by name, so that the same schema always has
the same text. The command needs no server, database or Redis, and has no settings.
`
}

// printHelpOn prints the help of the command that the words among args name, even if args have other faults. kong's own --help
// would report those first. Trace fails for words that no command has; its error names them.
func printHelpOn(k *kong.Kong, args []string) error {
	flags, words := flagsByName(k.Model), []string{"--help"}
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case strings.HasPrefix(arg, "-"):
			// The value of a flag is no command.
			if _, apart := flagOf(flags, arg); apart {
				i++
			}
		case arg != "help":
			words = append(words, arg)
		}
	}
	line, err := kong.Trace(k, words)
	if err != nil {
		return err
	}
	return line.PrintUsage(false)
}

// printHelp prints a command's help, with the flags that the command takes. For import and webhooks these are the flags of all their
// forms, such as import follows and webhooks add. kong hides a flag by a field of its model, which belongs to this one parse, so
// nothing has to be put back.
func printHelp(options kong.HelpOptions, line *kong.Context) error {
	command := commandOf(line)
	for _, flag := range line.Model.Flags {
		flag.Hidden = !commandTakesFlag(command, flag) && !strings.Contains(","+flag.Tag.Get("for"), ","+command+" ")
	}
	return kong.DefaultHelpPrinter(options, line)
}

// flagHelp is the help of a flag with its bounds and variable: [default 5s; 100ms to 1m; TIDINGS_OPERATION_TIMEOUT]. It is
// made of the tags that the checks use, so that the help cannot be wrong about them. Values without a flag are arguments,
// whose text has everything.
func flagHelp(value *kong.Value) string {
	if value.Flag == nil {
		return value.Help
	}
	var facts []string
	// The order is fixed, so that the brackets of all flags read alike.
	if value.HasDefault {
		facts = append(facts, "default "+value.Default)
	}
	if least := value.Tag.Get("min"); least != "" {
		facts = append(facts, least+" to "+value.Tag.Get("max"))
	}
	if name := environmentVariable(value.Flag); name != "" {
		facts = append(facts, name)
	}
	if len(facts) == 0 {
		return value.Help
	}
	return value.Help + " [" + strings.Join(facts, "; ") + "]"
}
