package node

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"tidings/services"
)

// Config is every setting of the server. A field's tags are its documentation, and --help prints them. The flag of
// QueryDepth is --query-depth, its environment variable TIDINGS_QUERY_DEPTH; the tags name and variable change that. default
// holds when neither is given, placeholder is the unit of the value or its form, min and max bound it, oneof lists all values,
// secret says what is hidden when it is printed ("all", or of a "url" its password), for names the commands that take it
// ("serve" without the tag), group is the heading above it and those after it. A flag goes before the environment, the
// environment before the default; an empty variable counts as not set.
type Config struct {
	Listen   string `group:"Addresses and engines:" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"where to serve; port 0 takes a free one; without a key for tokens only on loopback"`
	Data     string `default:"./data" placeholder:"FOLDER" for:"serve,import,export" help:"where SQLite and the private Redis keep their files; made when missing"`
	Database string `variable:"DATABASE_URL" placeholder:"URL" for:"serve,import,export" secret:"url" help:"postgres://USER:PASSWORD@HOST/NAME or sqlite:FILE; empty: tidings.db in the data folder"`
	Redis    string `variable:"REDIS_URL" default:"auto" placeholder:"URL" secret:"url" help:"redis://, rediss://, unix://, redis+sentinel://H1:P,H2:P/MASTER, redis+cluster://H1:P,H2:P; private: a redis-server of our own; embedded: in this process; auto: private if redis-server is in PATH, else embedded"`
	Node     string `placeholder:"NAME" help:"this node's name among those on one Redis and one PostgreSQL; started again under it after a crash, it goes on with its work at once; 1 to 64 of letters, digits, '.', '_', '-'; empty: host, process and chance"`

	Operations string `name:"operations-listen" placeholder:"HOST:PORT" help:"where to serve /metrics and GraphiQL to operators, with /graphql, /healthz and /readyz; empty: nowhere; in development mode --listen serves them all too"`

	JWTSecret    string   `group:"Tokens and origins:" placeholder:"TEXT" secret:"all" help:"the key of HS256 tokens, at least 32 bytes; better in the environment, for others can read a command line"`
	JWTPublicKey string   `placeholder:"FILE" help:"the PEM public key of RS256 or EdDSA tokens"`
	JWKS         string   `placeholder:"FILE|URL" secret:"url" help:"a JSON Web Key Set, as a file or an http(s) address"`
	JWTAudience  string   `placeholder:"TEXT" help:"the aud that a token must carry; empty: not looked at"`
	JWTIssuer    string   `placeholder:"TEXT" help:"the iss that a token must carry; empty: not looked at"`
	Origins      []string `placeholder:"LIST" help:"other origins whose pages may call, exact and separated by commas: https://app.example.com; empty: only our own, and in development mode every page of this machine"`

	Introspection string     `group:"Schema and log:" default:"development" placeholder:"MODE" oneof:"development always never" help:"when the schema may be asked for: development (that is, without a key for tokens), always or never"`
	LogLevel      slog.Level `default:"info" placeholder:"LEVEL" help:"the least that is logged: debug, info, warn or error"`
	LogFormat     string     `default:"text" placeholder:"FORMAT" oneof:"text json" help:"how a line of the log is written: text or json"`

	OperationTimeout time.Duration `group:"Limits of requests:" default:"5s" placeholder:"DURATION" min:"100ms" max:"1m" help:"how long one query or mutation may take"`
	BodyLimit        int           `default:"65536" placeholder:"BYTES" min:"1024" max:"16777216" help:"the longest request body"`
	IngestBodyLimit  int           `default:"1048576" placeholder:"BYTES" min:"1024" max:"16777216" help:"the longest request body with the scope ingest"`
	QueryTokens      int           `default:"1000" placeholder:"TOKENS" min:"100" max:"100000" help:"the longest query document"`

	QueryDepth            int           `default:"12" placeholder:"LEVELS" min:"1" max:"100" help:"how many levels of fields a query may have; questions about the schema have bounds of their own"`
	QueryFields           int           `default:"300" placeholder:"FIELDS" min:"1" max:"10000" help:"how many fields a query may have, each fragment counted wherever it is spread"`
	QueryAliases          int           `default:"30" placeholder:"COUNT" min:"1" max:"10000" help:"how many fields of a query may have an alias"`
	QueryDirectives       int           `default:"30" placeholder:"COUNT" min:"1" max:"10000" help:"how many directives a query may have"`
	QueryRootFields       int           `default:"10" placeholder:"FIELDS" min:"1" max:"1000" help:"how many fields a query may have at its root, and how many mutations a document"`
	QueryCost             int           `default:"30000" placeholder:"COST" min:"100" max:"1000000000" help:"what one operation may cost: each field 1 or more, times the items (first) of each list around it; what is within it is charged to READS of --rate-limits"`
	QueryCache            int           `default:"33554432" placeholder:"BYTES" min:"65536" max:"1073741824" help:"how much memory parsed queries may take, roughly"`
	PersistedQueries      int           `default:"8388608" placeholder:"BYTES" min:"0" max:"1073741824" help:"how much memory the queries may take that clients have sent with their hash, to send the hash alone from then on (automatic persisted queries); 0: no hashes are taken"`
	TrustedDocuments      string        `placeholder:"FILE" help:"a JSON manifest of queries that clients may name by their id (documentId or hash): an object of texts by sha256:HASH, or the manifest of Apollo's tools"`
	TrustedOnly           bool          `help:"execute the queries of --trusted-documents and nothing else"`
	AnswerLimit           int           `default:"4194304" placeholder:"BYTES" min:"65536" max:"1073741824" help:"the longest answer, and the longest event of a subscription; in place of a longer one stands an error"`
	RequestDeadline       time.Duration `default:"10s" placeholder:"DURATION" min:"100ms" max:"10m" help:"how long a request may take to arrive, its body included"`
	AnswerDeadline        time.Duration `default:"30s" placeholder:"DURATION" min:"100ms" max:"10m" help:"how long a client may take for one answer before it is cut off"`
	ConnectionsPerAddress int           `default:"3000" placeholder:"COUNT" min:"0" max:"1000000" help:"how many connections one address may hold, sockets among them; 0: any number; not for trusted proxies, and not in development mode"`

	SocketSubscriptions int           `group:"Sockets, rates and the drain:" default:"20" placeholder:"COUNT" min:"1" max:"1000" help:"how many subscriptions one socket or event stream may hold"`
	SocketWriteDeadline time.Duration `default:"10s" placeholder:"DURATION" min:"100ms" max:"1m" help:"how long a socket or an event stream may take for one message before it is cut off"`
	SocketsPerUser      int           `default:"50" placeholder:"COUNT" min:"0" max:"1000000" help:"how many sockets and event streams one user may have open on this node; 0: any number"`
	SocketsPerAddress   int           `default:"2000" placeholder:"COUNT" min:"0" max:"1000000" help:"how many sockets and event streams one address may have open on this node; 0: any number; behind a proxy set --trusted-proxies, or all clients share one address"`
	RateLimits          []string      `placeholder:"LIST" help:"how much one user, host application or address may ask for a minute, on all nodes together: WRITES=600,FOLLOWS=120; 0 is without limit, and off alone removes all; docs/limits.md lists the budgets and their defaults"`
	TrustedProxies      []string      `placeholder:"LIST" help:"addresses and networks (10.0.0.0/8) of proxies before this server: of a request from one of them the client is the last other address in X-Forwarded-For; empty: no such header is read"`
	Drain               time.Duration `default:"8s" placeholder:"DURATION" min:"0s" max:"12s" help:"over how long sockets and event streams are closed after SIGTERM; the process is gone within 15 s"`

	Workers          int           `group:"Features and background work:" default:"4" placeholder:"COUNT" min:"1" max:"256" help:"how many workers carry facts into feeds and badges"`
	ActiveFor        time.Duration `default:"720h" placeholder:"DURATION" min:"1h" max:"8760h" help:"a user not seen for longer is dormant: Redis keeps nothing of them until they return; until an admin sets another number"`
	IdleAfter        time.Duration `default:"168h" placeholder:"DURATION" min:"1h" max:"8760h" help:"to a user not seen for longer the posts of big authors are not pushed: their feed is brought up to date when they return; it counts whole days, and active-for at most; until an admin sets another number"`
	BigFollowers     int           `default:"5000" placeholder:"COUNT" min:"1" max:"2147483647" help:"from so many followers on an author is big: their posts are pushed to those of them who are not idle; until an admin sets another number"`
	HugeFollowers    int           `default:"1000000" placeholder:"COUNT" min:"1" max:"2147483647" help:"from so many followers on an author is huge: their posts are pushed to nobody, and every node holds the newest in memory; until an admin sets another number"`
	MaxFollowees     int           `default:"2000" placeholder:"COUNT" min:"1" max:"100000" help:"how many people one user may follow; an import is not bound by it"`
	MaxMutes         int           `default:"10000" placeholder:"COUNT" min:"1" max:"1000000" help:"how many people one user may mute"`
	MaxBlocks        int           `default:"10000" placeholder:"COUNT" min:"1" max:"1000000" help:"how many people one user may block"`
	MaxHides         int           `default:"10000" placeholder:"COUNT" min:"1" max:"1000000" help:"from how many people one user may hide posts"`
	MaxGroup         int           `default:"500" placeholder:"COUNT" min:"2" max:"100000" help:"how many members a GROUP may have"`
	MaxWriteMembers  int           `default:"500" placeholder:"COUNT" min:"1" max:"1000000" help:"conversations of more members are counted when somebody reads"`
	MaxWriteLoad     int           `default:"20000" placeholder:"COUNT" min:"1" max:"100000000" help:"so are those of this many members times messages a minute, until both are below half"`
	InsideLease      time.Duration `default:"60s" placeholder:"DURATION" min:"1s" max:"1h" help:"how long a device is inside a conversation without saying so again"`
	ShowLateAfter    time.Duration `default:"6h" placeholder:"DURATION" min:"1m" max:"720h" help:"an upcoming show that nobody starts is cancelled so long after its plan; one whose end was told becomes a replay"`
	ShowLongest      time.Duration `default:"12h" placeholder:"DURATION" min:"1m" max:"720h" help:"a live show that nobody ends is over so long after its start"`
	MuteMentions     bool          `help:"muting a conversation takes what mentions the user out of their total too"`
	BoardSessions    string        `default:"request" placeholder:"SCOPE" oneof:"request device user" help:"for how many sessions of the live board there is room at once: one for each first page, or one a device or a user, which a new first page ends"`
	BoardSessionFor  time.Duration `default:"30m" placeholder:"DURATION" min:"1m" max:"2h" help:"how long a session of the live board lives after its last page or open subscription; it ends after 24 times as much in any case"`
	FeedKinds        []string      `default:"POST" placeholder:"LIST" for:"serve,import" help:"the kinds of posts that enter home feeds and count there: POST, COMMENT, REPLY, separated by commas; it holds for what is published from then on"`
	NotifyFor        []string      `name:"notification-expiry" placeholder:"LIST" help:"for how many whole days an unseen notification stays in its number, 1 to 7, or never: LIKE=2,MENTION=never; what is not named has 7"`
	BadgeExpiry      []string      `placeholder:"LIST" help:"for how many whole days an unread item of a source stays in its number, 1 to 7, or never: CONVERSATIONS=7,HOME_FEED=3; sources are HOME_FEED, SITE_MESSAGES, ANNOUNCEMENTS, CONVERSATIONS, LIVE_BOARD; what is not named has never; all nodes need the same"`
	SiteMessageTypes []string      `default:"general" placeholder:"LIST" for:"serve,import" help:"the types of site messages, 1 to 8, each with a count of its own; the first is the default; of a type that is taken off the list nothing is shown"`
	DisplayCaps      []string      `placeholder:"LIST" help:"the largest numbers shown in full, 1 to 9999: TOTAL=99,CONVERSATIONS=999; sources are HOME_FEED, NOTIFICATIONS, SITE_MESSAGES, ANNOUNCEMENTS, CONVERSATIONS, LIVE_BOARD; what is not named has 99"`
	PushInterval     time.Duration `default:"100ms" placeholder:"DURATION" min:"10ms" max:"10s" help:"the shortest time between two events of one subscription"`
	SweepInterval    time.Duration `default:"1s" placeholder:"DURATION" min:"100ms" max:"1m" help:"how often the open subscriptions are compared with Redis, which mends what a lost hint left"`
	LogInterval      time.Duration `default:"500ms" placeholder:"DURATION" min:"50ms" max:"1m" help:"how often a node reads what others have changed of shared data (shows, announcements, authors' modes) without a hint"`
	AuditEvery       time.Duration `default:"10m" placeholder:"DURATION" min:"10s" max:"24h" help:"how often each active user's badges are compared with the facts at least, and repaired"`
	CleanEvery       time.Duration `default:"10m" placeholder:"DURATION" min:"10s" max:"24h" help:"how often Redis is cleaned: inboxes cut to what is listed, users who are dormant and keys that belong to nobody dropped"`
}

// Development says that no key for tokens is configured: the node accepts dev: tokens, and serves only loopback.
func (c Config) Development() bool { return c.JWTSecret == "" && c.JWTPublicKey == "" && c.JWKS == "" }

// AllowIntrospection says whether clients may ask for the schema.
func (c Config) AllowIntrospection() bool {
	return c.Introspection == "always" || c.Introspection == "development" && c.Development()
}

// connectionsPerAddress is the limit in force: development mode has none, because there every client has the same address.
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

// NodeName makes a name for a node without one. The random part distinguishes two containers with equal host names and
// process IDs.
func NodeName(chance uint32) string {
	host, err := os.Hostname()
	if err != nil || services.CheckUserKey(host) != nil || len(host) > 40 {
		host = "node"
	}
	return fmt.Sprintf("%s-%d-%08x", host, os.Getpid(), chance)
}
