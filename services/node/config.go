package node

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"tidings/services"
	"tidings/services/audit"
	"tidings/services/badge"
	"tidings/services/changelog"
	"tidings/services/chat"
	"tidings/services/devices"
	"tidings/services/fanout"
	"tidings/services/feed"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/messages"
	"tidings/services/notifications"
	"tidings/services/projector"
	"tidings/services/push"
	"tidings/services/ratelimit"
	"tidings/services/social"
	"tidings/services/stream"
	"tidings/services/trace"
	"tidings/services/webhooks"
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

	Trace trace.Settings `embed:""`

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

	SocketSubscriptions int                `group:"Sockets, rates and the drain:" default:"20" placeholder:"COUNT" min:"1" max:"1000" help:"the most subscriptions of one socket or event stream"`
	SocketWriteDeadline time.Duration      `default:"10s" placeholder:"DURATION" min:"100ms" max:"1m" help:"the longest time for a client to read one message of a socket or event stream, after which it is disconnected"`
	SocketsPerUser      int                `default:"50" placeholder:"COUNT" min:"0" max:"1000000" help:"the most open sockets and event streams of one user on this node; 0: no limit"`
	SocketsPerAddress   int                `default:"2000" placeholder:"COUNT" min:"0" max:"1000000" help:"the most open sockets and event streams of one address on this node; 0: no limit; behind a proxy set --trusted-proxies, or all clients count as one address"`
	RateLimit           ratelimit.Settings `embed:""`
	TrustedProxies      []string           `placeholder:"LIST" help:"the addresses and networks (10.0.0.0/8) of proxies in front of this server; the client of their requests is the last other address in X-Forwarded-For; empty: the header is ignored"`
	// Its maximum is below exitTimeout, so that requests and jobs have time to end after the last socket.
	Drain time.Duration `default:"8s" placeholder:"DURATION" min:"0s" max:"12s" help:"the time over which sockets and event streams are closed after SIGTERM; the process ends within 15 s"`

	Jobs          jobs.Settings          `embed:"" group:"Features and background work:"`
	Projector     projector.Settings     `embed:""`
	Fanout        fanout.Settings        `embed:""`
	Social        social.Settings        `embed:""`
	Chat          chat.Settings          `embed:""`
	Live          live.Settings          `embed:""`
	Feed          feed.Settings          `embed:""`
	Notifications notifications.Settings `embed:""`
	Messages      messages.Settings      `embed:""`
	Badge         badge.Settings         `embed:""`
	Push          push.Settings          `embed:""`
	Changelog     changelog.Settings     `embed:""`
	Audit         audit.Settings         `embed:""`

	Stream   stream.Settings   `embed:"" group:"Change stream:"`
	Webhooks webhooks.Settings `embed:""`

	Devices devices.Settings `embed:"" group:"Web Push:"`
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
