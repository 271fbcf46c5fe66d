package command

import (
	"cmp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// kong wraps these texts, but for what is indented.

const about = `Tidings serves feeds and unread badges over GraphQL.

Examples:

  tidings                                        SQLite in ./data, development mode, http://127.0.0.1:8080/graphiql
  tidings --listen 127.0.0.1:0 --data /srv/tidings
  TIDINGS_JWT_SECRET=... DATABASE_URL=postgres://tidings@db/tidings REDIS_URL=redis://cache:6379 \
      tidings --listen :8080 --log-format json

A flag goes before its environment variable, the variable before the default; an empty variable is not set.
`

// Help is the text of tidings import --help above its flags.
func (importWords) Help() string {
	return `Examples:

  tidings import follows follows.csv.gz
  tidings import follows friends.csv --both --prefix u --database postgres://tidings@db/tidings
  zcat follows.csv.gz | tidings import follows -
  tidings import messages spring.jsonl.gz
  tidings import posts archive.jsonl.gz --prefix u
  tidings import shows season.jsonl.gz
  tidings import shows season.jsonl.gz --factor 60 --database postgres://tidings@db/tidings

Of follows FILE is CSV, gzipped or not; - is the standard input. The columns are follower,followee or
follower,followee,since: the host application's keys of users (1 to 64 of letters, digits, '.', '_', '-') and a
moment in RFC 3339. What the followee publishes after since counts as new for the follower; without it, what they
publish after the import does.

A first line of names is recognised: follower,followee, from,to, source,target, user_id,friend_id and the like. One that
names the followee first is refused. A first line with any other names is a row, if both are valid keys.

Of messages a line of FILE is {"key":"spring","type":"general","title":"...","content":"...","to":["alice","bob"]}, to
1 MB, with 1 to 10,000 recipients. Further lines of the same key name more of them and may leave the text out: one
message can go to millions. A recipient gets a message of one key once, also not from another import. The
messages reach their recipients when the server runs.

Of posts a line of FILE is {"key":"p2","author":"alice","at":"2026-01-31T09:30:00Z","body":"...","parent":"p1"}, to
128 KB. The post gets the place in time that at gives it (RFC 3339, to the millisecond; not in the future); of two posts
of one millisecond the later line is the newer one. key and parent may be left out. A post with a key goes in once,
whichever import brings it; one without goes in again when another file brings it. A file that is in brings nothing.
parent is the key of a post that stands before, or the id of any post (post:...): what answers a post is a comment, what
answers that a reply. Which kinds enter home feeds --feed-kinds says. Nobody is notified of imported posts, nor of the
mentions and answers in them. The feeds of those who were here lately are read again when the server runs.

Of shows a line of FILE is {"key":"s1","host":"alice","title":"...","plannedAt":"2026-01-31T20:00:00Z"}, to 128 KB; it
may have startedAt, endedAt, cancelled (true), coverUrl and replayUrl. Times are RFC 3339, or milliseconds since 1970.
What has an end is a replay, what has only a start is live; both lie in the past. A show goes in once, by its key, and
stays its host's: a line that gives it to another one is bad. Nobody is reminded of what is imported; what is live or
upcoming is closed as every other show when nothing more is told of it. Boards have the shows when the server runs.
With --factor 60 an hour of FILE happens again in a minute, beside nodes that run on the same PostgreSQL: each show is
scheduled an hour of FILE ahead, starts, ends or is cancelled as if its host told so, all times moved to now. Ctrl-C
ends it; started again it goes on with the next event.

A line that cannot be used is reported with its number and written to FILE.bad; the others go in, and the exit code is
1. An import that was broken off goes on where it stopped when it is started again (not from the standard input). A
follow that exists already is left as it is. The limit on how many people one user may follow does not bind an import:
the data is the host application's. On SQLite the server must not be running meanwhile.

A gzipped file tells where it was cut off, a plain one does not: the last row of a plain CSV file is put aside too when
no line break ends it, for of alice,bob may have been left alice,bo. If it is whole, import FILE.bad.
`
}

// Help is the text of tidings export --help above its flags.
func (exportWords) Help() string {
	return `Examples:

  tidings export alice > alice.jsonl
  tidings export alice --out alice.jsonl --database postgres://tidings@db/tidings

Each line of the output is an object with a type: profile, follow, followers (how
many), mute, block, hide, author, post (of every kind, the deleted ones too), mention (by the user), like, notification,
notificationMark, position (how far the user has looked), siteMessage, announcementMark, dot, segment, displayPolicy,
groupPolicy, conversation (that the user is or was in), message (by the user), messageMention (of the user), device
(inside a conversation now). The fields of a type are always the same; what there is nothing of is null. Times are RFC 3339, ids those of the API.
Redis holds nothing that is not made of these.

The lines of one type are of one moment. Every post and like is looked through, which takes the longer the more there
are. For a user that does not exist, and when it breaks off, the exit code is 1. On SQLite the server must not
be running meanwhile.
`
}

// Help is the text of tidings schema --help.
func (schemaWords) Help() string {
	return `Examples:

  tidings schema > schema.graphql

The output is in the schema definition language, with all descriptions, sorted by name: the same schema is the same text. It
needs no server, database or Redis, and takes no settings.
`
}

// helpOn prints the help of the command that the words among args name, even if args have other faults.
func helpOn(k *kong.Kong, args []string) error {
	words := slices.DeleteFunc(args, func(arg string) bool { return arg == "help" || strings.HasPrefix(arg, "-") })
	line, err := kong.Trace(k, append([]string{"--help"}, words...))
	if err != nil {
		return err
	}
	return line.PrintUsage(false)
}

// printHelp prints the flags that the command takes, and the text.
func printHelp(options kong.HelpOptions, line *kong.Context) error {
	for _, flag := range line.Model.Flags {
		flag.Hidden = !strings.Contains(cmp.Or(flag.Tag.Get("for"), "serve"), commandOf(line)) // import takes what import follows takes
	}
	return kong.DefaultHelpPrinter(options, line)
}

// describe is the help of a flag with its bounds and variable: [default 5s; 100ms to 1m; TIDINGS_OPERATION_TIMEOUT].
func describe(value *kong.Value) string {
	if value.Flag == nil {
		return value.Help
	}
	var facts []string
	if value.HasDefault {
		facts = append(facts, "default "+value.Default)
	}
	if least := value.Tag.Get("min"); least != "" {
		facts = append(facts, least+" to "+value.Tag.Get("max"))
	}
	if name := variable(value.Flag); name != "" {
		facts = append(facts, name)
	}
	if len(facts) == 0 {
		return value.Help
	}
	return value.Help + " [" + strings.Join(facts, "; ") + "]"
}
