package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/services"
)

// Config is every setting of the server. A field's tags are its documentation, and --help prints them: flag and env
// are its names, default is what holds when neither is given, unit is what the value counts or how it is written, min
// and max bound it, secret says how it is hidden when it is printed ("all": wholly; "url": its password). A flag goes
// before the environment, the environment before the default; an empty variable counts as not set.
type Config struct {
	Listen   string `flag:"listen" env:"TIDINGS_LISTEN" default:"127.0.0.1:8080" unit:"HOST:PORT" help:"where to serve; port 0 takes a free one; without a key for tokens only on loopback"`
	Data     string `flag:"data" env:"TIDINGS_DATA" default:"./data" unit:"FOLDER" for:"import" help:"where SQLite and the private Redis keep their files; made when missing"`
	Database string `flag:"database" env:"DATABASE_URL" default:"" unit:"URL" for:"import" secret:"url" help:"postgres://USER:PASSWORD@HOST/NAME or sqlite:FILE; empty: tidings.db in the data folder"`
	Redis    string `flag:"redis" env:"REDIS_URL" default:"auto" unit:"URL" secret:"url" help:"redis://, rediss://, unix://, redis+sentinel://H1:P,H2:P/MASTER, redis+cluster://H1:P,H2:P; private: a redis-server of our own; embedded: in this process; auto: private if redis-server is in PATH, else embedded"`
	Node     string `flag:"node" env:"TIDINGS_NODE" default:"" unit:"NAME" help:"this node's name among the nodes on one Redis, 1 to 64 of letters, digits, '.', '_', '-'; empty: host, process and chance"`

	JWTSecret    string   `flag:"jwt-secret" env:"TIDINGS_JWT_SECRET" default:"" unit:"TEXT" secret:"all" help:"the key of HS256 tokens, at least 32 bytes; better in the environment, for others can read a command line"`
	JWTPublicKey string   `flag:"jwt-public-key" env:"TIDINGS_JWT_PUBLIC_KEY" default:"" unit:"FILE" help:"the PEM public key of RS256 or EdDSA tokens"`
	JWKS         string   `flag:"jwks" env:"TIDINGS_JWKS" default:"" unit:"FILE|URL" secret:"url" help:"a JSON Web Key Set, as a file or an http(s) address"`
	JWTAudience  string   `flag:"jwt-audience" env:"TIDINGS_JWT_AUDIENCE" default:"" unit:"TEXT" help:"the aud that a token must carry; empty: not looked at"`
	JWTIssuer    string   `flag:"jwt-issuer" env:"TIDINGS_JWT_ISSUER" default:"" unit:"TEXT" help:"the iss that a token must carry; empty: not looked at"`
	Origins      []string `flag:"origins" env:"TIDINGS_ORIGINS" default:"" unit:"LIST" help:"other origins whose pages may call, exact and separated by commas: https://app.example.com; empty: only our own"`

	Introspection string     `flag:"introspection" env:"TIDINGS_INTROSPECTION" default:"development" unit:"MODE" oneof:"development always never" help:"when the schema may be asked for: development (that is, without a key for tokens), always or never"`
	LogLevel      slog.Level `flag:"log-level" env:"TIDINGS_LOG_LEVEL" default:"info" unit:"LEVEL" help:"the least that is logged: debug, info, warn or error"`
	LogFormat     string     `flag:"log-format" env:"TIDINGS_LOG_FORMAT" default:"text" unit:"FORMAT" oneof:"text json" help:"how a line of the log is written: text or json"`

	OperationTimeout    time.Duration `flag:"operation-timeout" env:"TIDINGS_OPERATION_TIMEOUT" default:"5s" unit:"DURATION" min:"100ms" max:"1m" help:"how long one query or mutation may take"`
	BodyLimit           int           `flag:"body-limit" env:"TIDINGS_BODY_LIMIT" default:"65536" unit:"BYTES" min:"1024" max:"16777216" help:"the longest request body"`
	IngestBodyLimit     int           `flag:"ingest-body-limit" env:"TIDINGS_INGEST_BODY_LIMIT" default:"1048576" unit:"BYTES" min:"1024" max:"16777216" help:"the longest request body with the scope ingest"`
	QueryTokens         int           `flag:"query-tokens" env:"TIDINGS_QUERY_TOKENS" default:"1000" unit:"TOKENS" min:"100" max:"100000" help:"the longest query document"`
	SocketSubscriptions int           `flag:"socket-subscriptions" env:"TIDINGS_SOCKET_SUBSCRIPTIONS" default:"20" unit:"COUNT" min:"1" max:"1000" help:"how many subscriptions one socket may hold"`
	SocketWriteDeadline time.Duration `flag:"socket-write-deadline" env:"TIDINGS_SOCKET_WRITE_DEADLINE" default:"10s" unit:"DURATION" min:"100ms" max:"1m" help:"how long a socket may take for one message before it is cut off"`
	Drain               time.Duration `flag:"drain" env:"TIDINGS_DRAIN" default:"8s" unit:"DURATION" min:"0s" max:"12s" help:"over how long the sockets are closed after SIGTERM; the process is gone within 15 s"`

	Workers       int           `flag:"workers" env:"TIDINGS_WORKERS" default:"4" unit:"COUNT" min:"1" max:"256" help:"how many workers carry facts into feeds and badges"`
	ActiveFor     time.Duration `flag:"active-for" env:"TIDINGS_ACTIVE_FOR" default:"720h" unit:"DURATION" min:"1h" max:"8760h" help:"a user not seen for longer is dormant: Redis keeps nothing of him until he returns"`
	MaxFollowees  int           `flag:"max-followees" env:"TIDINGS_MAX_FOLLOWEES" default:"2000" unit:"COUNT" min:"1" max:"100000" help:"how many people one user may follow; an import is not bound by it"`
	PushInterval  time.Duration `flag:"push-interval" env:"TIDINGS_PUSH_INTERVAL" default:"100ms" unit:"DURATION" min:"10ms" max:"10s" help:"the shortest time between two events of one subscription"`
	SweepInterval time.Duration `flag:"sweep-interval" env:"TIDINGS_SWEEP_INTERVAL" default:"1s" unit:"DURATION" min:"100ms" max:"1m" help:"how often the open subscriptions are compared with Redis, which mends what a lost hint left"`
}

// ImportOptions is what "tidings import follows" is told beside the database.
type ImportOptions struct {
	File   string // a path, or "-" for the standard input
	Both   bool   `flag:"both" help:"each row is two follows, there and back"`
	Prefix string `flag:"prefix" unit:"TEXT" help:"put before every key of the file: with u, 17 is the user u17"`
	Quiet  bool   `flag:"quiet" help:"print faults and the result only, no progress"`
}

// Development says that no key for tokens is configured: dev: tokens are taken, and only loopback is served.
func (c Config) Development() bool { return c.JWTSecret == "" && c.JWTPublicKey == "" && c.JWKS == "" }

// AllowIntrospection says whether clients may ask for the schema.
func (c Config) AllowIntrospection() bool {
	return c.Introspection == "always" || c.Introspection == "development" && c.Development()
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

// setting is one field of Config or ImportOptions with its tags.
type setting struct {
	flag, env, fallback, unit, help, secret, min, max, oneof string

	serves, imports bool // which commands take it
	value           reflect.Value
}

// settingsOf lists the tagged fields of a struct, in their order. It takes a pointer, so that they can be set.
func settingsOf(holder any) []setting {
	value := reflect.ValueOf(holder).Elem()
	_, options := holder.(*ImportOptions)
	var list []setting
	for i := range value.NumField() {
		tag := value.Type().Field(i).Tag
		if tag.Get("flag") == "" {
			continue
		}
		list = append(list, setting{
			flag: tag.Get("flag"), env: tag.Get("env"), fallback: tag.Get("default"), unit: tag.Get("unit"), help: tag.Get("help"),
			secret: tag.Get("secret"), min: tag.Get("min"), max: tag.Get("max"), oneof: tag.Get("oneof"),
			serves: !options, imports: options || tag.Get("for") == "import", value: value.Field(i),
		})
	}
	return list
}

func (s setting) isSwitch() bool { return s.value.Kind() == reflect.Bool }

// set reads the text into the field.
func (s setting) set(text string) error {
	switch field := s.value.Addr().Interface().(type) {
	case *string:
		*field = text
	case *[]string:
		*field = nil
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*field = append(*field, item)
			}
		}
	case *bool:
		on, err := strconv.ParseBool(text)
		if err != nil {
			return s.fault(text, "true or false is allowed")
		}
		*field = on
	case *int:
		number, err := strconv.Atoi(text)
		if err != nil {
			return s.fault(text, "a whole number from %s to %s is allowed", s.min, s.max)
		}
		*field = number
	case *time.Duration:
		duration, err := time.ParseDuration(text)
		if err != nil {
			return s.fault(text, "a duration with its unit is allowed (300ms, 5s, 720h), from %s to %s", s.min, s.max)
		}
		*field = duration
	case *slog.Level:
		if err := field.UnmarshalText([]byte(text)); err != nil {
			return s.fault(text, "debug, info, warn or error is allowed")
		}
	default:
		return fmt.Errorf("--%s: no way to read a %T", s.flag, field)
	}
	return nil
}

// text is the field's value as it could be given.
func (s setting) text() string {
	switch field := s.value.Interface().(type) {
	case []string:
		return strings.Join(field, ",")
	case slog.Level:
		return strings.ToLower(field.String())
	default:
		return fmt.Sprint(field)
	}
}

const hidden = "***"

var (
	urlPassword   = regexp.MustCompile(`(?s)(://[^:@/]*:).*@`)
	queryPassword = regexp.MustCompile(`(?i)([?&][^=&]*(?:pass|secret|token|key)[^=&]*=)[^&]*`)
)

// shown is a value as it may be printed. An address in which no scheme can be seen is hidden wholly: it may hold
// its password anywhere.
func (s setting) shown(text string) string {
	switch {
	case text == "" || s.secret == "":
		return text
	case s.secret == "all" || strings.ContainsAny(text, "@=") && !strings.Contains(text, "://"):
		return hidden
	}
	return queryPassword.ReplaceAllString(urlPassword.ReplaceAllString(text, "${1}"+hidden+"@"), "${1}"+hidden)
}

func (s setting) names() string {
	if s.env == "" {
		return "--" + s.flag
	}
	return "--" + s.flag + " (" + s.env + ")"
}

func (s setting) fault(text, format string, args ...any) error {
	return fmt.Errorf("%s is %s: %s", s.names(), services.Quote(s.shown(text)), fmt.Sprintf(format, args...))
}

// check looks at one value: its bounds, its list of words, and what only this setting asks for.
func (s setting) check(c Config) error {
	low, high := s.value, s.value
	if s.min != "" {
		low, high = s.limit(s.min), s.limit(s.max)
	}
	if s.value.CanInt() && (s.value.Int() < low.Int() || s.value.Int() > high.Int()) {
		return s.fault(s.text(), "%s to %s is allowed", s.min, s.max)
	}
	if words := strings.Fields(s.oneof); s.oneof != "" && !slices.Contains(words, s.text()) {
		return s.fault(s.text(), "one of these is allowed: %s", strings.Join(words, ", "))
	}
	if special := checks[s.flag]; special != nil {
		if reason := special(c); reason != "" {
			return s.fault(s.text(), "%s", reason)
		}
	}
	return nil
}

// limit reads a bound of the tags, which are right or the tests fail.
func (s setting) limit(text string) reflect.Value {
	bound := s
	bound.value = reflect.New(s.value.Type()).Elem()
	if err := bound.set(text); err != nil {
		panic(err)
	}
	return bound.value
}

const keyNeeded = "configure --jwt-secret (TIDINGS_JWT_SECRET), --jwt-public-key (TIDINGS_JWT_PUBLIC_KEY) or --jwks (TIDINGS_JWKS)"

// checks holds what a setting asks for beyond bounds: each answers why the value cannot be, or "".
var checks = map[string]func(c Config) string{
	"listen":   checkListen,
	"data":     func(c Config) string { return when(c.Data == "", "the name of a folder is needed") },
	"database": checkDatabase,
	"redis":    checkRedis,
	"node":     checkNode,
	"origins":  checkOrigins,
	"ingest-body-limit": func(c Config) string {
		return when(c.IngestBodyLimit < c.BodyLimit, fmt.Sprintf("at least --body-limit, %d, is needed", c.BodyLimit))
	},
	"jwt-secret": func(c Config) string {
		return when(c.JWTSecret != "" && len(c.JWTSecret) < 32, fmt.Sprintf("at least 32 bytes are needed, got %d", len(c.JWTSecret)))
	},
	"jwt-public-key": func(c Config) string {
		return when(c.JWTPublicKey != "" && c.JWTSecret != "", "only one key for tokens is allowed, and --jwt-secret is set")
	},
	"jwks": checkJWKS,
	"jwt-audience": func(c Config) string {
		return when(c.JWTAudience != "" && c.Development(), "without a key no token is looked at; "+keyNeeded)
	},
	"jwt-issuer": func(c Config) string {
		return when(c.JWTIssuer != "" && c.Development(), "without a key no token is looked at; "+keyNeeded)
	},
}

func when(fault bool, reason string) string {
	if fault {
		return reason
	}
	return ""
}

func checkListen(c Config) string {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "HOST:PORT is needed, like 127.0.0.1:8080"
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(number, 10) != port {
		return "the port is a number from 0 to 65535"
	}
	address := net.ParseIP(host)
	if c.Development() && host != "localhost" && (address == nil || !address.IsLoopback()) {
		return "without a key for tokens the server is in development mode, which serves loopback only (127.0.0.1, ::1, localhost); " + keyNeeded
	}
	return ""
}

func checkDatabase(c Config) string {
	scheme, rest, found := strings.Cut(c.Database, ":")
	known := scheme == "sqlite" && rest != "" || (scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//")
	return when(c.Database != "" && !(found && known), "postgres://USER:PASSWORD@HOST/NAME or sqlite:FILE is needed")
}

func checkRedis(c Config) string {
	for _, scheme := range []string{"redis", "rediss", "unix", "redis+sentinel", "redis+cluster"} {
		if rest, found := strings.CutPrefix(c.Redis, scheme+"://"); found && rest != "" {
			return ""
		}
	}
	known := slices.Contains([]string{"", "auto", "private", "embedded"}, c.Redis)
	return when(!known, "auto, private, embedded or an address that begins with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster:// is needed")
}

func checkNode(c Config) string {
	return when(c.Node != "" && services.CheckUserKey(c.Node) != nil, "1 to 64 of letters, digits, '.', '_' and '-' are allowed")
}

func checkJWKS(c Config) string {
	if c.JWKS != "" && (c.JWTSecret != "" || c.JWTPublicKey != "") {
		return "only one key for tokens is allowed, and --jwt-secret or --jwt-public-key is set"
	}
	scheme, _, address := strings.Cut(c.JWKS, "://")
	return when(address && scheme != "https" && scheme != "http", "a file or an address with http:// or https:// is needed")
}

func checkOrigins(c Config) string {
	for _, origin := range c.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || origin != u.Scheme+"://"+u.Host {
			return services.Quote(origin) + " is not an origin: scheme://host or scheme://host:port is needed"
		}
	}
	return ""
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
