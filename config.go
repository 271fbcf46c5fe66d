package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"tidings/services"
)

// Config is every setting of the server. A field's tags are its documentation, and --help prints them: flag and env
// are its names, default is what holds when neither is given, unit is what the value counts or how it is written, min
// and max bound it, secret says how it is hidden when it is printed ("all": wholly; "url": its password). A flag goes
// before the environment, the environment before the default; an empty variable counts as not set.
type Config struct {
	Listen   string `flag:"listen" env:"TIDINGS_LISTEN" default:"127.0.0.1:8080" unit:"HOST:PORT" help:"where to serve; port 0 takes a free one; without a key for tokens only on loopback"`
	Data     string `flag:"data" env:"TIDINGS_DATA" default:"./data" unit:"FOLDER" for:"import export" help:"where SQLite and the private Redis keep their files; made when missing"`
	Database string `flag:"database" env:"DATABASE_URL" default:"" unit:"URL" for:"import export" secret:"url" help:"postgres://USER:PASSWORD@HOST/NAME or sqlite:FILE; empty: tidings.db in the data folder"`
	Redis    string `flag:"redis" env:"REDIS_URL" default:"auto" unit:"URL" secret:"url" help:"redis://, rediss://, unix://, redis+sentinel://H1:P,H2:P/MASTER, redis+cluster://H1:P,H2:P; private: a redis-server of our own; embedded: in this process; auto: private if redis-server is in PATH, else embedded"`
	Node     string `flag:"node" env:"TIDINGS_NODE" default:"" unit:"NAME" help:"this node's name among those on one Redis and one PostgreSQL; started again under it after a crash, it goes on with its work at once; 1 to 64 of letters, digits, '.', '_', '-'; empty: host, process and chance"`

	Operations string `flag:"operations-listen" env:"TIDINGS_OPERATIONS_LISTEN" default:"" unit:"HOST:PORT" help:"where to serve /metrics and GraphiQL to operators, with /graphql, /healthz and /readyz; empty: nowhere; in development mode --listen serves them all too"`

	JWTSecret    string   `flag:"jwt-secret" env:"TIDINGS_JWT_SECRET" default:"" unit:"TEXT" secret:"all" help:"the key of HS256 tokens, at least 32 bytes; better in the environment, for others can read a command line"`
	JWTPublicKey string   `flag:"jwt-public-key" env:"TIDINGS_JWT_PUBLIC_KEY" default:"" unit:"FILE" help:"the PEM public key of RS256 or EdDSA tokens"`
	JWKS         string   `flag:"jwks" env:"TIDINGS_JWKS" default:"" unit:"FILE|URL" secret:"url" help:"a JSON Web Key Set, as a file or an http(s) address"`
	JWTAudience  string   `flag:"jwt-audience" env:"TIDINGS_JWT_AUDIENCE" default:"" unit:"TEXT" help:"the aud that a token must carry; empty: not looked at"`
	JWTIssuer    string   `flag:"jwt-issuer" env:"TIDINGS_JWT_ISSUER" default:"" unit:"TEXT" help:"the iss that a token must carry; empty: not looked at"`
	Origins      []string `flag:"origins" env:"TIDINGS_ORIGINS" default:"" unit:"LIST" help:"other origins whose pages may call, exact and separated by commas: https://app.example.com; empty: only our own"`

	Introspection string     `flag:"introspection" env:"TIDINGS_INTROSPECTION" default:"development" unit:"MODE" oneof:"development always never" help:"when the schema may be asked for: development (that is, without a key for tokens), always or never"`
	LogLevel      slog.Level `flag:"log-level" env:"TIDINGS_LOG_LEVEL" default:"info" unit:"LEVEL" help:"the least that is logged: debug, info, warn or error"`
	LogFormat     string     `flag:"log-format" env:"TIDINGS_LOG_FORMAT" default:"text" unit:"FORMAT" oneof:"text json" help:"how a line of the log is written: text or json"`

	OperationTimeout time.Duration `flag:"operation-timeout" env:"TIDINGS_OPERATION_TIMEOUT" default:"5s" unit:"DURATION" min:"100ms" max:"1m" help:"how long one query or mutation may take"`
	BodyLimit        int           `flag:"body-limit" env:"TIDINGS_BODY_LIMIT" default:"65536" unit:"BYTES" min:"1024" max:"16777216" help:"the longest request body"`
	IngestBodyLimit  int           `flag:"ingest-body-limit" env:"TIDINGS_INGEST_BODY_LIMIT" default:"1048576" unit:"BYTES" min:"1024" max:"16777216" help:"the longest request body with the scope ingest"`
	QueryTokens      int           `flag:"query-tokens" env:"TIDINGS_QUERY_TOKENS" default:"1000" unit:"TOKENS" min:"100" max:"100000" help:"the longest query document"`

	QueryDepth            int           `flag:"query-depth" env:"TIDINGS_QUERY_DEPTH" default:"12" unit:"LEVELS" min:"1" max:"100" help:"how many levels of fields a query may have; questions about the schema have bounds of their own"`
	QueryFields           int           `flag:"query-fields" env:"TIDINGS_QUERY_FIELDS" default:"300" unit:"FIELDS" min:"1" max:"10000" help:"how many fields a query may have, each fragment counted wherever it is spread"`
	QueryAliases          int           `flag:"query-aliases" env:"TIDINGS_QUERY_ALIASES" default:"30" unit:"COUNT" min:"1" max:"10000" help:"how many fields of a query may have an alias"`
	QueryDirectives       int           `flag:"query-directives" env:"TIDINGS_QUERY_DIRECTIVES" default:"30" unit:"COUNT" min:"1" max:"10000" help:"how many directives a query may have"`
	QueryRootFields       int           `flag:"query-root-fields" env:"TIDINGS_QUERY_ROOT_FIELDS" default:"10" unit:"FIELDS" min:"1" max:"1000" help:"how many fields a query may have at its root, and how many mutations a document"`
	QueryCost             int           `flag:"query-cost" env:"TIDINGS_QUERY_COST" default:"30000" unit:"COST" min:"100" max:"1000000000" help:"what one operation may cost: each field 1 or more, times the items (first) of each list around it; what is within it is charged to READS of --rate-limits"`
	QueryCache            int           `flag:"query-cache" env:"TIDINGS_QUERY_CACHE" default:"33554432" unit:"BYTES" min:"65536" max:"1073741824" help:"how much memory parsed queries may take, roughly"`
	AnswerLimit           int           `flag:"answer-limit" env:"TIDINGS_ANSWER_LIMIT" default:"4194304" unit:"BYTES" min:"65536" max:"1073741824" help:"the longest answer, and the longest event of a subscription; in place of a longer one stands an error"`
	RequestDeadline       time.Duration `flag:"request-deadline" env:"TIDINGS_REQUEST_DEADLINE" default:"10s" unit:"DURATION" min:"100ms" max:"10m" help:"how long a request may take to arrive, its body included"`
	AnswerDeadline        time.Duration `flag:"answer-deadline" env:"TIDINGS_ANSWER_DEADLINE" default:"30s" unit:"DURATION" min:"100ms" max:"10m" help:"how long a client may take for one answer before it is cut off"`
	ConnectionsPerAddress int           `flag:"connections-per-address" env:"TIDINGS_CONNECTIONS_PER_ADDRESS" default:"3000" unit:"COUNT" min:"0" max:"1000000" help:"how many connections one address may hold, sockets among them; 0: any number; not for trusted proxies, and not in development mode"`

	SocketSubscriptions int           `flag:"socket-subscriptions" env:"TIDINGS_SOCKET_SUBSCRIPTIONS" default:"20" unit:"COUNT" min:"1" max:"1000" help:"how many subscriptions one socket may hold"`
	SocketWriteDeadline time.Duration `flag:"socket-write-deadline" env:"TIDINGS_SOCKET_WRITE_DEADLINE" default:"10s" unit:"DURATION" min:"100ms" max:"1m" help:"how long a socket may take for one message before it is cut off"`
	SocketsPerUser      int           `flag:"sockets-per-user" env:"TIDINGS_SOCKETS_PER_USER" default:"50" unit:"COUNT" min:"0" max:"1000000" help:"how many sockets one user may have open on this node; 0: any number"`
	SocketsPerAddress   int           `flag:"sockets-per-address" env:"TIDINGS_SOCKETS_PER_ADDRESS" default:"2000" unit:"COUNT" min:"0" max:"1000000" help:"how many sockets one address may have open on this node; 0: any number; behind a proxy set --trusted-proxies, or all clients share one address"`
	RateLimits          []string      `flag:"rate-limits" env:"TIDINGS_RATE_LIMITS" default:"" unit:"LIST" help:"how much one user, host application or address may ask for a minute, on all nodes together: WRITES=600,FOLLOWS=120; 0 is without limit, and off alone removes all; README lists the budgets and their defaults"`
	TrustedProxies      []string      `flag:"trusted-proxies" env:"TIDINGS_TRUSTED_PROXIES" default:"" unit:"LIST" help:"addresses and networks (10.0.0.0/8) of proxies before this server: of a request from one of them the client is the last other address in X-Forwarded-For; empty: no such header is read"`
	Drain               time.Duration `flag:"drain" env:"TIDINGS_DRAIN" default:"8s" unit:"DURATION" min:"0s" max:"12s" help:"over how long the sockets are closed after SIGTERM; the process is gone within 15 s"`

	Workers          int           `flag:"workers" env:"TIDINGS_WORKERS" default:"4" unit:"COUNT" min:"1" max:"256" help:"how many workers carry facts into feeds and badges"`
	ActiveFor        time.Duration `flag:"active-for" env:"TIDINGS_ACTIVE_FOR" default:"720h" unit:"DURATION" min:"1h" max:"8760h" help:"a user not seen for longer is dormant: Redis keeps nothing of them until they return; until an admin sets another number"`
	IdleAfter        time.Duration `flag:"idle-after" env:"TIDINGS_IDLE_AFTER" default:"168h" unit:"DURATION" min:"1h" max:"8760h" help:"to a user not seen for longer the posts of big authors are not pushed: their feed is brought up to date when they return; it counts whole days, and active-for at most; until an admin sets another number"`
	BigFollowers     int           `flag:"big-followers" env:"TIDINGS_BIG_FOLLOWERS" default:"5000" unit:"COUNT" min:"1" max:"2147483647" help:"from so many followers on an author is big: his posts are pushed to those of them who are not idle; until an admin sets another number"`
	HugeFollowers    int           `flag:"huge-followers" env:"TIDINGS_HUGE_FOLLOWERS" default:"1000000" unit:"COUNT" min:"1" max:"2147483647" help:"from so many followers on an author is huge: his posts are pushed to nobody, and every node holds the newest in memory; until an admin sets another number"`
	MaxFollowees     int           `flag:"max-followees" env:"TIDINGS_MAX_FOLLOWEES" default:"2000" unit:"COUNT" min:"1" max:"100000" help:"how many people one user may follow; an import is not bound by it"`
	MaxMutes         int           `flag:"max-mutes" env:"TIDINGS_MAX_MUTES" default:"10000" unit:"COUNT" min:"1" max:"1000000" help:"how many people one user may mute"`
	MaxBlocks        int           `flag:"max-blocks" env:"TIDINGS_MAX_BLOCKS" default:"10000" unit:"COUNT" min:"1" max:"1000000" help:"how many people one user may block"`
	MaxHides         int           `flag:"max-hides" env:"TIDINGS_MAX_HIDES" default:"10000" unit:"COUNT" min:"1" max:"1000000" help:"from how many people one user may hide his posts"`
	MaxGroup         int           `flag:"max-group" env:"TIDINGS_MAX_GROUP" default:"500" unit:"COUNT" min:"2" max:"100000" help:"how many members a GROUP may have"`
	MaxWriteMembers  int           `flag:"max-write-members" env:"TIDINGS_MAX_WRITE_MEMBERS" default:"500" unit:"COUNT" min:"1" max:"1000000" help:"conversations of more members are counted when somebody reads"`
	MaxWriteLoad     int           `flag:"max-write-load" env:"TIDINGS_MAX_WRITE_LOAD" default:"20000" unit:"COUNT" min:"1" max:"100000000" help:"so are those of this many members times messages a minute, until both are below half"`
	InsideLease      time.Duration `flag:"inside-lease" env:"TIDINGS_INSIDE_LEASE" default:"60s" unit:"DURATION" min:"1s" max:"1h" help:"how long a device is inside a conversation without saying so again"`
	ShowLateAfter    time.Duration `flag:"show-late-after" env:"TIDINGS_SHOW_LATE_AFTER" default:"6h" unit:"DURATION" min:"1m" max:"720h" help:"an upcoming show that nobody starts is cancelled so long after its plan; one whose end was told becomes a replay"`
	ShowLongest      time.Duration `flag:"show-longest" env:"TIDINGS_SHOW_LONGEST" default:"12h" unit:"DURATION" min:"1m" max:"720h" help:"a live show that nobody ends is over so long after its start"`
	MuteMentions     bool          `flag:"mute-mentions" env:"TIDINGS_MUTE_MENTIONS" help:"muting a conversation takes what mentions the user out of his total too"`
	BoardSessions    string        `flag:"board-sessions" env:"TIDINGS_BOARD_SESSIONS" default:"request" unit:"SCOPE" oneof:"request device user" help:"for how many sessions of the live board there is room at once: one for each first page, or one a device or a user, which a new first page ends"`
	BoardSessionFor  time.Duration `flag:"board-session-for" env:"TIDINGS_BOARD_SESSION_FOR" default:"30m" unit:"DURATION" min:"1m" max:"2h" help:"how long a session of the live board lives after its last page or open subscription; it ends after 24 times as much in any case"`
	FeedKinds        []string      `flag:"feed-kinds" env:"TIDINGS_FEED_KINDS" default:"POST" unit:"LIST" for:"import" help:"the kinds of posts that enter home feeds and count there: POST, COMMENT, REPLY, separated by commas; it holds for what is published from then on"`
	NotifyFor        []string      `flag:"notification-expiry" env:"TIDINGS_NOTIFICATION_EXPIRY" default:"" unit:"LIST" help:"for how many whole days an unseen notification stays in its number, 1 to 7, or never: LIKE=2,MENTION=never; what is not named has 7"`
	SiteMessageTypes []string      `flag:"site-message-types" env:"TIDINGS_SITE_MESSAGE_TYPES" default:"general" unit:"LIST" for:"import" help:"the types of site messages, 1 to 8, each with a count of its own; the first is the default; of a type that is taken off the list nothing is shown"`
	DisplayCaps      []string      `flag:"display-caps" env:"TIDINGS_DISPLAY_CAPS" default:"" unit:"LIST" help:"the largest numbers shown in full, 1 to 9999: TOTAL=99,CONVERSATIONS=999; sources are HOME_FEED, NOTIFICATIONS, SITE_MESSAGES, ANNOUNCEMENTS, CONVERSATIONS, LIVE_BOARD; what is not named has 99"`
	PushInterval     time.Duration `flag:"push-interval" env:"TIDINGS_PUSH_INTERVAL" default:"100ms" unit:"DURATION" min:"10ms" max:"10s" help:"the shortest time between two events of one subscription"`
	SweepInterval    time.Duration `flag:"sweep-interval" env:"TIDINGS_SWEEP_INTERVAL" default:"1s" unit:"DURATION" min:"100ms" max:"1m" help:"how often the open subscriptions are compared with Redis, which mends what a lost hint left"`
	LogInterval      time.Duration `flag:"log-interval" env:"TIDINGS_LOG_INTERVAL" default:"500ms" unit:"DURATION" min:"50ms" max:"1m" help:"how often a node reads what others have changed of shared data (shows, announcements, authors' modes) without a hint"`
	AuditEvery       time.Duration `flag:"audit-every" env:"TIDINGS_AUDIT_EVERY" default:"10m" unit:"DURATION" min:"10s" max:"24h" help:"how often each active user's badges are compared with the facts at least, and repaired"`
	CleanEvery       time.Duration `flag:"clean-every" env:"TIDINGS_CLEAN_EVERY" default:"10m" unit:"DURATION" min:"10s" max:"24h" help:"how often Redis is cleaned: inboxes cut to what is listed, users who are dormant and keys that belong to nobody dropped"`
}

// ImportOptions is what "tidings import" is told beside the database.
type ImportOptions struct {
	File   string // a path, or "-" for the standard input
	Both   bool   `flag:"both" help:"each row is two follows, there and back"`
	Prefix string `flag:"prefix" unit:"TEXT" help:"put before every key of the file: with u, 17 is the user u17"`
	Factor int    `flag:"factor" default:"0" unit:"TIMES" min:"0" max:"1000000" help:"let shows happen once more from now on, so many times as fast as they did; 0: take them in at once"`
	Quiet  bool   `flag:"quiet" help:"print faults and the result only, no progress"`
}

// ExportOptions is what "tidings export" is told beside the database.
type ExportOptions struct {
	User string // his key
	Out  string `flag:"out" unit:"FILE" help:"where to write; empty: the standard output; the file is there when it is whole, and what it held before until then"`
}

// Development says that no key for tokens is configured: dev: tokens are taken, and only loopback is served.
func (c Config) Development() bool { return c.JWTSecret == "" && c.JWTPublicKey == "" && c.JWKS == "" }

// AllowIntrospection says whether clients may ask for the schema.
func (c Config) AllowIntrospection() bool {
	return c.Introspection == "always" || c.Introspection == "development" && c.Development()
}

// connectionsPerAddress is the limit that holds: in development mode every client has the same address.
func (c Config) connectionsPerAddress() int {
	if c.Development() {
		return 0
	}
	return c.ConnectionsPerAddress
}

// DatabaseURL is the database to open: the configured one, else SQLite in the data folder.
func (c Config) DatabaseURL() string {
	if c.Database != "" {
		return c.Database
	}
	return "sqlite:" + filepath.Join(c.Data, "tidings.db")
}

// Masked is every setting by its flag's name, for the log at the start: secrets and passwords are hidden.
func (c Config) Masked() []slog.Attr {
	var attrs []slog.Attr
	for _, s := range settingsOf(&c) {
		attrs = append(attrs, slog.String(s.flag, s.shown(s.text())))
	}
	return attrs
}

// validate reports every fault at once, each with the flag, the variable, the value and what is allowed.
func (c Config) validate() error {
	var faults []error
	for _, s := range settingsOf(&c) {
		faults = append(faults, s.check(c))
	}
	return errors.Join(faults...)
}

// nodeName makes the name of a node that was given none. Chance keeps apart two containers whose host and process
// are called the same.
func nodeName(chance uint32) string {
	host, err := os.Hostname()
	if err != nil || services.CheckUserKey(host) != nil || len(host) > 40 {
		host = "node"
	}
	return fmt.Sprintf("%s-%d-%08x", host, os.Getpid(), chance)
}
