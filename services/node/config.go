package node

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"tidings/services"
	"tidings/web"
)

// Config is every setting of the server. A field's tags are its documentation, and --help prints them. The flag of QueryDepth is
// --query-depth, its environment variable TIDINGS_QUERY_DEPTH; the tags "name" and "variable" change these names. The tag
// "default" is the value if neither is given, "placeholder" is the unit of the value or its form, "min" and "max" bound it, "oneof"
// lists all values, and "words" lists some, for the completion in shells. The tag "secret" says what is hidden when the value is
// printed: "all" of it, or the password of a "url". The tag "for" names the commands that take the flag; without it only serve does.
// The tag "group" begins a group of the help with its heading. ${NAME} in "help" and "words" is a list of the code: services/command has
// these lists. The tag "aliases" lists former names of the flag, which still work, as their variables do, but are in no help. A flag
// takes precedence over the environment, and the environment over the default; an empty variable counts as not set.
//
// The bounds in the tags exclude values that are certainly mistakes, not those that are only unwise. A setting with a check in
// Faults needs the flag's name there. The settings of a package are in its settings.go; here they are a field with the tag "embed".
type Config struct {
	// The defaults make a node that needs nothing and that only this machine reaches: SQLite, a private Redis where there is a
	// redis-server, and loopback.
	Listen   string `group:"Addresses and engines:" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"the address to serve on; port 0 means any free port; only loopback without a key for tokens"`
	Data     string `default:"./data" placeholder:"FOLDER" for:"serve,import,export,erase,webhooks" help:"the folder for the files of SQLite and of the private Redis; created if missing"`
	Database string `variable:"DATABASE_URL" placeholder:"URL" for:"serve,import,export,erase,webhooks" secret:"url" help:"the database, postgres://USER:PASSWORD@HOST/NAME or sqlite:FILE; empty: tidings.db in the data folder"`
	Redis    string `variable:"REDIS_URL" default:"auto" placeholder:"URL" words:"auto private embedded" secret:"url" help:"Redis: redis://, rediss://, unix://, redis+sentinel://H1:P,H2:P/MASTER, redis+cluster://H1:P,H2:P, and with TLS rediss+sentinel:// and rediss+cluster://; private: a redis-server that this process starts; embedded: in this process; auto: private if redis-server is in PATH, otherwise embedded"`
	Node     string `placeholder:"NAME" help:"the name of this node, unique among the nodes on one Redis and one PostgreSQL; a node that restarts with the same name after a crash continues its jobs at once; 1 to 64 of letters, digits, '.', '_', '-'; empty: made of the host, the process and a random number"`

	Operations string `name:"operations-listen" placeholder:"HOST:PORT" help:"the address to serve /metrics, GraphiQL and the console /admin on, for operators, with /graphql, /healthz and /readyz; empty: they are not served; in development mode --listen serves all of them too"`

	Pprof bool `name:"pprof" help:"serve profiles of this process under /debug/pprof/ on the operations address alone, for go tool pprof; in development mode without such an address, on --listen"`

	Traces string `name:"traces" variable:"OTEL_EXPORTER_OTLP_ENDPOINT" placeholder:"URL" secret:"url" help:"the collector that spans of OpenTelemetry are sent to, by OTLP over HTTP: http://127.0.0.1:4318; empty: none are recorded; OpenTelemetry's other variables hold too: OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME and so on"`

	Demo     bool `help:"serve a demo world of a few hundred people who post, like, talk and go live, and a page to watch it on; in a temporary folder unless --data names one; development mode only"`
	DemoPace int  `default:"60" placeholder:"COUNT" min:"0" max:"6000" help:"the acts a minute of the people of --demo; 0: they do nothing"`

	// The key that a token must be signed with, and the claims that it must have. At most one of the first three is set, because it alone
	// determines the algorithm of tokens (transport.IdentityConfig); none is development mode.
	JWTSecret    string   `group:"Tokens and origins:" for:"serve,token" placeholder:"TEXT" secret:"all" help:"the key of HS256 tokens, at least 32 bytes; safer in the environment, because other users can read a command line"`
	JWTPublicKey string   `placeholder:"FILE" help:"the PEM public key of RS256 or EdDSA tokens"`
	JWKS         string   `placeholder:"FILE|URL" secret:"url" help:"a JSON Web Key Set, as a file or an http(s) address"`
	JWTAudience  string   `for:"serve,token" placeholder:"TEXT" help:"the aud that a token must have; empty: it is not checked"`
	JWTIssuer    string   `for:"serve,token" placeholder:"TEXT" help:"the iss that a token must have; empty: it is not checked"`
	Origins      []string `placeholder:"LIST" help:"other origins whose pages may call the server, exact and separated by commas: https://app.example.com; empty: only its own origin, and in development mode every page of this machine"`

	Introspection string     `group:"Schema and log:" default:"development" placeholder:"MODE" oneof:"development always never" help:"when introspection is allowed: development (that is, without a key for tokens), always or never"`
	LogLevel      slog.Level `default:"info" placeholder:"LEVEL" words:"debug info warn error" help:"the lowest level that is logged: debug, info, warn or error"`
	LogFormat     string     `default:"text" placeholder:"FORMAT" oneof:"text json" help:"the format of the log: text or json"`

	// These keep one operation of any client from taking more than its share: see transport.Config.
	OperationTimeout time.Duration `group:"Limits of requests:" default:"5s" placeholder:"DURATION" min:"100ms" max:"1m" help:"the longest time for one query or mutation"`
	BodyLimit        int           `default:"65536" placeholder:"BYTES" min:"1024" max:"16777216" help:"the longest request body"`
	IngestBodyLimit  int           `default:"1048576" placeholder:"BYTES" min:"1024" max:"16777216" help:"the longest request body with the scope ingest"`
	QueryTokens      int           `default:"1000" placeholder:"TOKENS" min:"100" max:"100000" help:"the longest query document"`

	QueryDepth       int           `default:"12" placeholder:"LEVELS" min:"1" max:"100" help:"the most levels of fields in a query; introspection has bounds of its own"`
	QueryFields      int           `default:"300" placeholder:"FIELDS" min:"1" max:"10000" help:"the most fields in a query; a fragment counts wherever it is spread"`
	QueryAliases     int           `default:"30" placeholder:"COUNT" min:"1" max:"10000" help:"the most aliases in a query"`
	QueryDirectives  int           `default:"30" placeholder:"COUNT" min:"1" max:"10000" help:"the most directives in a query"`
	QueryRootFields  int           `default:"10" placeholder:"FIELDS" min:"1" max:"1000" help:"the most fields at the root of a query, and so the most mutations in a document"`
	QueryCost        int           `default:"30000" placeholder:"COST" min:"100" max:"1000000000" help:"the highest cost of one operation: each field counts 1 or more, times the items (first) of each list around it; the cost of an executed query is charged to READS of --rate-limits"`
	QueryCache       int           `default:"33554432" placeholder:"BYTES" min:"65536" max:"1073741824" help:"the memory for the cache of parsed queries, roughly"`
	PersistedQueries int           `default:"8388608" placeholder:"BYTES" min:"0" max:"1073741824" help:"the memory for automatic persisted queries, which clients send once with their hash and then by the hash alone; 0: no hashes are accepted"`
	TrustedDocuments string        `placeholder:"FILE" help:"a JSON manifest of queries that clients may name by an id (documentId or hash): an object with the text of each sha256:HASH, or the manifest of Apollo's tools"`
	TrustedOnly      bool          `help:"execute only the queries of --trusted-documents"`
	AnswerLimit      int           `default:"4194304" placeholder:"BYTES" min:"65536" max:"1073741824" help:"the longest answer, and the longest event of a subscription; a longer one is replaced by an error"`
	RequestDeadline  time.Duration `default:"10s" placeholder:"DURATION" min:"100ms" max:"10m" help:"the longest time for a request to arrive, its body included, and for a message of a socket"`
	AnswerDeadline   time.Duration `default:"30s" placeholder:"DURATION" min:"100ms" max:"10m" help:"the longest time for a client to read one answer, after which it is disconnected"`
	// The default is above that of SocketsPerAddress, so that an address with all of its sockets open can still send requests.
	ConnectionsPerAddress int `default:"3000" placeholder:"COUNT" min:"0" max:"1000000" help:"the most connections of one address, sockets included; 0: no limit; it does not apply to trusted proxies or in development mode"`

	SocketSubscriptions int           `group:"Sockets, rates and the drain:" default:"20" placeholder:"COUNT" min:"1" max:"1000" help:"the most subscriptions of one socket or event stream"`
	SocketWriteDeadline time.Duration `default:"10s" placeholder:"DURATION" min:"100ms" max:"1m" help:"the longest time for a client to read one message of a socket or event stream, after which it is disconnected"`
	SocketsPerUser      int           `default:"50" placeholder:"COUNT" min:"0" max:"1000000" help:"the most open sockets and event streams of one user on this node; 0: no limit"`
	SocketsPerAddress   int           `default:"2000" placeholder:"COUNT" min:"0" max:"1000000" help:"the most open sockets and event streams of one address on this node; 0: no limit; behind a proxy set --trusted-proxies, or all clients count as one address"`
	RateLimits          []string      `placeholder:"LIST" help:"the budgets a minute of one user, host application or address, on all nodes together: WRITES=600,FOLLOWS=120; 0 means no limit, and off alone removes all limits; docs/limits.md lists the budgets and their defaults"`
	TrustedProxies      []string      `placeholder:"LIST" help:"the addresses and networks (10.0.0.0/8) of proxies in front of this server; the client of their requests is the last other address in X-Forwarded-For; empty: the header is ignored"`
	// Its maximum is below exitTimeout, so that requests and jobs have time to end after the last socket.
	Drain time.Duration `default:"8s" placeholder:"DURATION" min:"0s" max:"12s" help:"the time over which sockets and event streams are closed after SIGTERM; the process ends within 15 s"`

	Workers int `group:"Features and background work:" default:"4" placeholder:"COUNT" min:"1" max:"256" help:"the number of workers that project facts into feeds and badges"`
	// The next four settings hold until an admin sets other values, which are in SQL.
	ActiveFor          time.Duration `default:"720h" placeholder:"DURATION" min:"1h" max:"8760h" help:"a user not seen for longer is dormant: Redis holds nothing of them until they return; an admin can change it while the server runs"`
	IdleAfter          time.Duration `default:"168h" placeholder:"DURATION" min:"1h" max:"8760h" help:"a user not seen for longer is idle: posts of big authors are not pushed to them, and their feed is completed when they return; it is compared by whole days and is at most active-for; an admin can change it while the server runs"`
	BigFollowers       int           `default:"5000" placeholder:"COUNT" min:"1" max:"2147483647" help:"an author with this many followers is big: their posts are pushed only to followers who are not idle; an admin can change it while the server runs"`
	HugeFollowers      int           `default:"1000000" placeholder:"COUNT" min:"1" max:"2147483647" help:"an author with this many followers is huge: their posts are not pushed, and every node holds the newest in memory; an admin can change it while the server runs"`
	MaxFollowees       int           `default:"2000" placeholder:"COUNT" min:"1" max:"100000" help:"the most users that one user may follow; it does not apply to imports"`
	MaxMutes           int           `default:"10000" placeholder:"COUNT" min:"1" max:"1000000" help:"the most users that one user may mute"`
	MaxBlocks          int           `default:"10000" placeholder:"COUNT" min:"1" max:"1000000" help:"the most users that one user may block"`
	MaxHides           int           `default:"10000" placeholder:"COUNT" min:"1" max:"1000000" help:"the most users that one user may hide from"`
	MaxGroup           int           `default:"500" placeholder:"COUNT" min:"2" max:"100000" help:"the most members of a GROUP"`
	MaxWriteMembers    int           `default:"500" placeholder:"COUNT" min:"1" max:"1000000" help:"unread messages of a conversation with more members are counted when a member reads, not when a message is written"`
	MaxWriteLoad       int           `default:"20000" placeholder:"COUNT" min:"1" max:"100000000" help:"the same for a conversation with this many members times messages a minute, until both numbers are below half of their limits"`
	InsideLease        time.Duration `default:"60s" placeholder:"DURATION" min:"1s" max:"1h" help:"the time for which a device is inside a conversation after it entered"`
	ShowLateAfter      time.Duration `default:"6h" placeholder:"DURATION" min:"1m" max:"720h" help:"an upcoming show that is not started is cancelled this long after its planned start; it becomes a replay if its end was reported"`
	ShowLongest        time.Duration `default:"12h" placeholder:"DURATION" min:"1m" max:"720h" help:"a live show that is not ended becomes a replay this long after its start"`
	MuteMentions       bool          `help:"a muted conversation does not count in the total at all; without this setting, messages that mention the user still count"`
	BoardSessions      string        `default:"request" placeholder:"SCOPE" oneof:"request device user" help:"the scope of a session of the live board: request: each first page starts its own; device or user: there is one at a time, and a new first page ends it"`
	BoardSessionFor    time.Duration `default:"30m" placeholder:"DURATION" min:"1m" max:"2h" help:"the lifetime of a session of the live board after its last page or open subscription; it ends after 24 times as long in any case"`
	FeedKinds          []string      `default:"POST" placeholder:"LIST" for:"serve,import" words:"POST COMMENT REPLY" help:"the kinds of posts that enter home feeds and their counts: POST, COMMENT, REPLY, separated by commas; it applies to later posts"`
	NotificationExpiry []string      `name:"notification-expiry" placeholder:"LIST" help:"the whole days for which an unseen notification counts, 1 to 7, or never to let it count for good: LIKE=2,MENTION=never; 7 for other categories"`
	BadgeExpiry        []string      `placeholder:"LIST" help:"the whole days for which an unread item of a source counts, 1 to 7, or never to let it count for good: CONVERSATIONS=7,HOME_FEED=3; sources are ${expirable_sources}, and never is for one that is not named; other sources cannot expire; all nodes need the same setting"`
	Categories         []string      `placeholder:"LIST" help:"categories of notifications of the application, up to 32, which are defined at the start: NAME, or NAME=OPTIONS with a + between the options: 1 to 7, the days for which an unseen notification counts (7), or never; single: notifications are not grouped; dot: shown as a dot, not in the total; apart: a number that is not in the total: orders=never+single,promotions=dot; a category that is removed from the list stays until removeCategory"`
	SiteMessageTypes   []string      `default:"general" placeholder:"LIST" for:"serve,import,webhooks" help:"the types of site messages, 1 to 8, each with a count of its own; the first is the default; messages of a type that is removed from the list are not shown"`
	DisplayCaps        []string      `placeholder:"LIST" help:"the largest counts shown in full, 1 to 9999: TOTAL=99,CONVERSATIONS=999; sources are ${sources}; 99 for the others"`
	// A number that has changed is on an open page within PushInterval; if its hint was lost, within ReconcileInterval;
	// and if the hint of a change of shared data was lost, within LogInterval.
	PushInterval      time.Duration `default:"100ms" placeholder:"DURATION" min:"10ms" max:"10s" help:"the shortest time between two events of one subscription"`
	ReconcileInterval time.Duration `aliases:"sweep-interval" default:"1s" placeholder:"DURATION" min:"100ms" max:"1m" help:"the interval of reconciliation, which compares the open subscriptions with Redis and so finds what a lost hint left behind"`
	LogInterval       time.Duration `default:"500ms" placeholder:"DURATION" min:"50ms" max:"1m" help:"the interval at which a node reads the changelog of shared data (shows, announcements, authors' modes) without a hint"`
	AuditEvery        time.Duration `default:"10m" placeholder:"DURATION" min:"10s" max:"24h" help:"the longest interval at which each active user's badges are compared with the facts, and repaired"`
	CleanEvery        time.Duration `default:"10m" placeholder:"DURATION" min:"10s" max:"24h" help:"the interval of the cleaner, which trims inboxes in Redis and removes the data of dormant users and keys that belong to nobody"`

	Changes         bool          `group:"Change stream:" for:"serve,webhooks" help:"write the change stream, which admin.changes reads and webhooks are sent from"`
	ChangesInterval time.Duration `default:"1s" placeholder:"DURATION" min:"10ms" max:"1m" help:"the time that changes of one user's badges are gathered for: the change stream has one change of a user in it at most"`
	ChangesLap      time.Duration `default:"1m" placeholder:"DURATION" min:"100ms" max:"24h" help:"the longest interval at which the change stream compares the badges of all active users, which finds new messages of large rooms and what else has no write for each user; after an announcement, a raised dot, a show or a post of a huge author it is a twelfth; longer if one takes more than a fifth of it; for users who are idle or dormant it is ten times as long, and after such a change once"`

	WebhooksAllow    []string      `for:"serve,webhooks" placeholder:"LIST" help:"the networks and addresses that events may be sent to though they are not public, also without https, separated by commas: 10.0.0.0/8,127.0.0.1; empty: none"`
	WebhooksTimeout  time.Duration `for:"serve,webhooks" default:"10s" placeholder:"DURATION" min:"100ms" max:"30s" help:"the longest time for a receiver to answer an event; another node takes over the webhooks of one that crashed within this and 17 s"`
	WebhooksRequests int           `default:"8" placeholder:"COUNT" min:"1" max:"256" help:"the most requests to one webhook at the same time; each is about another user"`

	VAPIDPrivateKey string        `name:"vapid-private-key" group:"Web Push:" placeholder:"TEXT" secret:"all" help:"the private key of Web Push, as tidings vapid makes it, the same on every node: it switches Web Push on, and the change stream while a device is registered; safer in the environment, because other users can read a command line"`
	VAPIDSubject    string        `name:"vapid-subject" placeholder:"URL" help:"how push services can reach you, mailto:NAME@HOST or https://HOST; needed with --vapid-private-key"`
	WebPushAway     bool          `help:"send nothing to the devices of users with an open socket until they have closed it"`
	WebPushAllow    []string      `placeholder:"LIST" help:"the networks and addresses of push services that may be called though they are not public, also without https, separated by commas; empty: none; any user can name an address in them"`
	WebPushTimeout  time.Duration `default:"10s" placeholder:"DURATION" min:"100ms" max:"30s" help:"the longest time for a push service to answer; another node takes over from one that crashed within this and 17 s"`
	WebPushRequests int           `default:"32" placeholder:"COUNT" min:"1" max:"1024" help:"the most requests to one push service at the same time"`
}

// Development reports whether no key for tokens is configured: the node accepts dev: tokens, and serves only loopback. There is
// no flag for it, so nobody can switch it on beside a key.
func (c Config) Development() bool { return c.JWTSecret == "" && c.JWTPublicKey == "" && c.JWKS == "" }

// demoPageMode says what the demo page may offer. It may offer only what works: logins by name need development mode, and people who
// act need a demo world.
func (c Config) demoPageMode() web.DemoMode {
	switch {
	case c.Demo:
		return web.DemoWorld
	case c.Development():
		return web.Development
	}
	return web.Production
}

// AllowIntrospection reports whether clients may ask for the schema. The schema is no secret, but printing it is an expensive
// query.
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

// databaseFile is the file of SQLite in the data folder. claimDemoFolder looks for it too.
const databaseFile = "tidings.db"

// DatabaseURL is the database to open: the configured one, else SQLite in the data folder. Commands other than serve use it too.
func (c Config) DatabaseURL() string {
	if c.Database != "" {
		return c.Database
	}
	return "sqlite:" + filepath.Join(c.Data, databaseFile)
}

// NewNodeName makes a name for a node that has none. The random part distinguishes two containers with equal host names and
// process IDs. The name must be new at each start: a restart under an old name takes back its jobs at once, which is right
// only if the old process is dead.
func NewNodeName(chance uint32) string {
	host, err := os.Hostname()
	if err != nil || services.CheckIdentifier(host) != nil || len(host) > 40 {
		host = "node"
	}
	return fmt.Sprintf("%s-%d-%08x", host, os.Getpid(), chance)
}
