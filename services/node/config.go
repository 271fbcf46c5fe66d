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
	"tidings/transport"
	"tidings/web"
)

// Config is every setting of the server. Those of a package are in its settings.go, with their checks, and the package takes them
// whole; here they are a field with the tag "embed". The others concern the node as a whole. The help has the settings in the order of
// the fields.
//
// A field's tags are its documentation, and --help prints them. The flag of MaxMutes is --max-mutes, its environment variable
// TIDINGS_MAX_MUTES; the tags "name" and "variable" change these names. The tag "default" is the value if neither is given,
// "placeholder" is the unit of the value or its form, "min" and "max" bound it, "oneof" lists all values, and "words" lists some, for
// the completion in shells. The tag "secret" says what is hidden when the value is printed: "all" of it, or the password of a "url".
// The tag "for" names the commands that take the flag; without it only serve does. The tag "group" begins a group of the help with its
// heading. ${NAME} in "help" and "words" is a list of the code: services/command has these lists. The tag "aliases" lists former names
// of the flag, which still work, as their variables do, but are in no help. A flag takes precedence over the environment, and the
// environment over the default; an empty variable counts as not set.
//
// The bounds in the tags exclude values that are certainly mistakes, not those that are only unwise. What they cannot express is
// checked by the method Faults, here or of the package's settings.
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

	Tokens  transport.TokenSettings  `embed:"" group:"Tokens and origins:"`
	Origins transport.OriginSettings `embed:""`

	Introspection string     `group:"Schema and log:" default:"development" placeholder:"MODE" oneof:"development always never" help:"when introspection is allowed: development (that is, without a key for tokens), always or never"`
	LogLevel      slog.Level `default:"info" placeholder:"LEVEL" words:"debug info warn error" help:"the lowest level that is logged: debug, info, warn or error"`
	LogFormat     string     `default:"text" placeholder:"FORMAT" oneof:"text json" help:"the format of the log: text or json"`

	Requests transport.RequestSettings `embed:"" group:"Limits of requests:"`

	Sockets   transport.SocketSettings `embed:"" group:"Sockets, rates and the drain:"`
	RateLimit ratelimit.Settings       `embed:""`
	Proxies   transport.ProxySettings  `embed:""`
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
func (c Config) Development() bool { return !c.Tokens.HasKey() }

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

// allowIntrospection reports whether clients may ask for the schema. The schema is no secret, but printing it is an expensive
// query.
func (c Config) allowIntrospection() bool {
	return c.Introspection == "always" || c.Introspection == "development" && c.Development()
}

// connectionsPerAddress is the limit in force: development mode has none, because there every client has the same address.
func (c Config) connectionsPerAddress() int {
	if c.Development() {
		return 0
	}
	return c.Requests.ConnectionsPerAddress
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
