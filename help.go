package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

const helpHead = `Tidings serves feeds and unread badges over GraphQL.

Usage:
  tidings [serve] [flags]               serve until SIGTERM or Ctrl-C
  tidings import follows FILE [flags]   take in a list of who follows whom (tidings import --help)
  tidings import messages FILE [flags]  send site messages to any number of users
  tidings import posts FILE [flags]     take in what was published elsewhere
  tidings import shows FILE [flags]     take in shows that are planned, run or are over
  tidings export USER [flags]           write down everything that is held of one user (tidings export --help)
  tidings --version

Examples:
  tidings                                             SQLite in ./data, development mode, http://127.0.0.1:8080/graphiql
  tidings --listen 127.0.0.1:0 --data /srv/tidings
  TIDINGS_JWT_SECRET=... DATABASE_URL=postgres://tidings@db/tidings REDIS_URL=redis://cache:6379 \
      tidings --listen :8080 --log-format json

A flag goes before its environment variable, the variable before the default; an empty variable is not set.

Flags:
`

const importHelpHead = `Takes in who follows whom from a CSV file, or sends site messages or takes in posts or shows from a file of JSON Lines.

Usage:
  tidings import follows FILE [flags]
  tidings import messages FILE [flags]
  tidings import posts FILE [flags]
  tidings import shows FILE [flags]

Examples:
  tidings import follows follows.csv.gz
  tidings import follows friends.csv --both --prefix u --database postgres://tidings@db/tidings
  zcat follows.csv.gz | tidings import follows -
  tidings import messages spring.jsonl.gz
  tidings import posts archive.jsonl.gz --prefix u
  tidings import shows season.jsonl.gz
  tidings import shows season.jsonl.gz --factor 60 --database postgres://tidings@db/tidings

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

Flags:
`

const exportHelpHead = `Writes down everything that Tidings holds of one user, as JSON Lines.

Usage:
  tidings export USER [flags]

Examples:
  tidings export alice > alice.jsonl
  tidings export alice --out alice.jsonl --database postgres://tidings@db/tidings

USER is the host application's key of the user. Each line is an object with a type: profile, follow, followers (how
many), mute, block, hide, author, post (of every kind, the deleted ones too), mention (by him), like, notification,
notificationMark, position (how far he has looked), siteMessage, announcementMark, dot, segment, displayPolicy,
groupPolicy, conversation (that he is or was in), message (his own), messageMention (of him), device (inside a
conversation now). The fields of a type are always the same; what there is nothing of is null. Times are RFC 3339, ids
those of the API. Redis holds nothing that is not made of these.

The lines of one type are of one moment. Every post and like is looked through, which takes the longer the more there
are. For a user whom nobody has mentioned yet, and when it breaks off, the exit code is 1. On SQLite the server must not
be running meanwhile.

Flags:
`

func printExportHelp(out io.Writer) error {
	settings := (&Command{}).allSettings()
	return printSettings(out, exportHelpHead, slices.DeleteFunc(settings, func(s setting) bool { return !s.exports }))
}

func printHelp(out io.Writer) error {
	return printSettings(out, helpHead, settingsOf(&Config{}))
}

func printImportHelp(out io.Writer) error {
	settings := (&Command{}).allSettings()
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
