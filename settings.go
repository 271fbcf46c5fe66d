package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"tidings/services"
	"tidings/services/badge"
	"tidings/services/ratelimit"
	"tidings/transport"
)

// settingsOf lists the settings of the server as flags that hold the values of c.
func settingsOf(c Config) []*kong.Flag {
	return slices.DeleteFunc(newParser(&grammar{Command: Command{Config: c}}, nil).Model.Flags, func(flag *kong.Flag) bool { return variable(flag) == "" })
}

// variable is the environment variable of a flag, "" without one.
func variable(flag *kong.Flag) string {
	if flag.Name == "help" || !takes("serve", flag) {
		return ""
	}
	return cmp.Or(flag.Tag.Get("variable"), "TIDINGS_"+strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_")))
}

// takes says whether a command has the flag.
func takes(command string, flag *kong.Flag) bool {
	return slices.ContainsFunc(strings.Split(cmp.Or(flag.Tag.Get("for"), "serve"), ","), func(name string) bool {
		return command == name || strings.HasPrefix(command, name+" ")
	})
}

// reader decodes values for kong. What cannot be read is kept here and is no error yet, so that all faults of a command line
// are reported at once.
type reader map[*kong.Value]string

// Decode reads the next value of the command line into target.
func (r reader) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("value", &text); err != nil {
		return fmt.Errorf("a value is needed: %s", ctx.Value.Flag)
	}
	if read(text, target) != nil {
		r[ctx.Value] = text
	}
	return nil
}

// PlaceHolder is the form of a flag's value in the help.
func (reader) PlaceHolder(flag *kong.Flag) string { return flag.PlaceHolder }

// readableTypes are the types that a reader decodes. kong itself reads switches.
var readableTypes = []reflect.Type{
	reflect.TypeFor[string](), reflect.TypeFor[[]string](), reflect.TypeFor[int](), reflect.TypeFor[time.Duration](), reflect.TypeFor[slog.Level](),
}

// read sets target, of one of readableTypes, to what the text says.
func read(text string, target reflect.Value) (err error) {
	switch field := target.Addr().Interface().(type) {
	case *string:
		*field = text
	case *[]string:
		*field = nil
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*field = append(*field, item)
			}
		}
	case *int:
		*field, err = strconv.Atoi(text)
	case *time.Duration:
		*field, err = time.ParseDuration(text)
	case *slog.Level:
		err = field.UnmarshalText([]byte(text))
	}
	return err
}

// text is a flag's value as it could be given.
func text(flag *kong.Flag) string {
	switch value := flag.Target.Interface().(type) {
	case []string:
		return strings.Join(value, ",")
	case slog.Level:
		return strings.ToLower(value.String())
	default:
		return fmt.Sprint(value)
	}
}

const hidden = "***"

var (
	urlPassword   = regexp.MustCompile(`(?s)(://[^:@/]*:).*@`)
	queryPassword = regexp.MustCompile(`(?i)([?&][^=&]*(?:pass|secret|token|key)[^=&]*=)[^&]*`)
)

// shown is a flag's value as it may be printed. An address in which no scheme can be seen is hidden wholly: it may hold
// its password anywhere.
func shown(flag *kong.Flag, text string) string {
	secret := flag.Tag.Get("secret")
	switch {
	case text == "" || secret == "":
		return text
	case secret == "all" || strings.ContainsAny(text, "@=") && !strings.Contains(text, "://"):
		return hidden
	}
	return queryPassword.ReplaceAllString(urlPassword.ReplaceAllString(text, "${1}"+hidden+"@"), "${1}"+hidden)
}

func fault(flag *kong.Flag, text, format string, args ...any) error {
	name := "--" + flag.Name
	if env := variable(flag); env != "" {
		name += " (" + env + ")"
	}
	return fmt.Errorf("%s is %s: %s", name, services.Quote(shown(flag, text)), fmt.Sprintf(format, args...))
}

// unreadable is the fault of a text that its type does not allow.
func unreadable(flag *kong.Flag, text string) error {
	form := "a whole number"
	switch flag.Target.Interface().(type) {
	case slog.Level:
		return fault(flag, text, "debug, info, warn or error is allowed")
	case time.Duration:
		form = "a duration with its unit (300ms, 5s, 720h)"
	}
	return fault(flag, text, "%s from %s to %s is allowed", form, flag.Tag.Get("min"), flag.Tag.Get("max"))
}

// checkSetting returns the fault of a value that was read: outside its bounds or its list of words, or not what its own check asks for.
func checkSetting(flag *kong.Flag, c Config) error {
	if least, most := flag.Tag.Get("min"), flag.Tag.Get("max"); least != "" {
		if value := flag.Target.Int(); value < limit(flag, least) || value > limit(flag, most) {
			return fault(flag, text(flag), "%s to %s is allowed", least, most)
		}
	}
	if words := strings.Fields(flag.Tag.Get("oneof")); len(words) > 0 && !slices.Contains(words, text(flag)) {
		return fault(flag, text(flag), "one of these is allowed: %s", strings.Join(words, ", "))
	}
	if special := checks[flag.Name]; special != nil {
		if reason := special(c); reason != "" {
			return fault(flag, text(flag), "%s", reason)
		}
	}
	return nil
}

// limit reads a bound of the tags, which are right or the tests fail.
func limit(flag *kong.Flag, text string) int64 {
	bound := reflect.New(flag.Target.Type()).Elem()
	if err := read(text, bound); err != nil {
		panic(err)
	}
	return bound.Int()
}

// keyFlag names the setting that holds the key for tokens.
func (c Config) keyFlag() string {
	switch {
	case c.JWTSecret != "":
		return "--jwt-secret (TIDINGS_JWT_SECRET)"
	case c.JWTPublicKey != "":
		return "--jwt-public-key (TIDINGS_JWT_PUBLIC_KEY)"
	}
	return "--jwks (TIDINGS_JWKS)"
}

const keyNeeded = "configure --jwt-secret (TIDINGS_JWT_SECRET), --jwt-public-key (TIDINGS_JWT_PUBLIC_KEY) or --jwks (TIDINGS_JWKS)"

// checks holds what a setting asks for beyond bounds: each answers why the value cannot be, or "".
var checks = map[string]func(c Config) string{
	"listen":             func(c Config) string { return c.checkAddress(c.Listen) },
	"operations-listen":  checkOperations,
	"data":               func(c Config) string { return when(c.Data == "", "the name of a folder is needed") },
	"database":           checkDatabase,
	"redis":              checkRedis,
	"node":               checkNode,
	"origins":            checkOrigins,
	"site-message-types": checkMessageTypes,
	"display-caps": func(c Config) string {
		_, reason := displayCaps(c.DisplayCaps)
		return reason
	},
	"rate-limits": func(c Config) string {
		_, reason := ratelimit.Parse(c.RateLimits)
		return reason
	},
	"trusted-proxies": func(c Config) string {
		_, wrong := transport.ParseProxies(c.TrustedProxies)
		return when(wrong != "", services.Quote(wrong)+" is not an address or a network: 10.0.0.1 or 10.0.0.0/8 is needed")
	},
	"feed-kinds": func(c Config) string {
		_, reason := feedKinds(c.FeedKinds)
		return reason
	},
	"notification-expiry": func(c Config) string {
		_, reason := notificationExpiry(c.NotifyFor)
		return reason
	},
	"badge-expiry": func(c Config) string {
		_, reason := services.ParseSourceExpiry(c.BadgeExpiry)
		return reason
	},
	"ingest-body-limit": func(c Config) string {
		return when(c.IngestBodyLimit < c.BodyLimit, fmt.Sprintf("at least --body-limit, %d, is needed", c.BodyLimit))
	},
	"huge-followers": func(c Config) string {
		return when(c.HugeFollowers < c.BigFollowers, fmt.Sprintf("at least --big-followers, %d, is needed", c.BigFollowers))
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

func checkOperations(c Config) string {
	switch {
	case c.Operations == "":
		return ""
	case c.Operations == c.Listen && !strings.HasSuffix(c.Listen, ":0"):
		return "another address than that of --listen is needed"
	}
	return c.checkAddress(c.Operations)
}

// checkAddress looks at where a listener is to serve.
func (c Config) checkAddress(listen string) string {
	host, port, err := net.SplitHostPort(listen)
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

// displayCaps reads SOURCE=CAP items, or answers why they cannot be.
func displayCaps(items []string) (caps badge.Caps, reason string) {
	caps = badge.Caps{}
	for _, item := range items {
		name, text, _ := strings.Cut(item, "=")
		source := services.Source(name)
		if source != badge.CapTotal && !slices.Contains(services.Sources, source) {
			return nil, fmt.Sprintf("%s is no source: %s or one of %v is needed, then = and the cap", services.Quote(item), badge.CapTotal, services.Sources)
		}
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 || limit > 9999 {
			return nil, fmt.Sprintf("%s: 1 to 9999 is allowed after the =", services.Quote(item))
		}
		if _, twice := caps[source]; twice {
			return nil, fmt.Sprintf("%s is named twice", source)
		}
		caps[source] = limit
	}
	return caps, ""
}

// feedKinds reads the kinds of posts that enter home feeds, or answers why they cannot be.
func feedKinds(items []string) (kinds []services.PostKind, reason string) {
	for _, item := range items {
		kind := services.PostKind(item)
		if !slices.Contains(services.PostKinds, kind) {
			return nil, fmt.Sprintf("%s is no kind of posts: one of %v is needed", services.Quote(item), services.PostKinds)
		}
		kinds = append(kinds, kind)
	}
	return kinds, when(len(kinds) == 0, "at least one kind is needed")
}

// notificationExpiry reads CATEGORY=DAYS items, or answers why they cannot be.
func notificationExpiry(items []string) (expiry services.Expiry, reason string) {
	expiry = services.Expiry{}
	for _, item := range items {
		name, text, _ := strings.Cut(item, "=")
		category := services.Category(name)
		if !slices.Contains(services.Categories, category) {
			return nil, fmt.Sprintf("%s is no category: one of %v is needed, then = and the days", services.Quote(item), services.Categories)
		}
		days, reason := services.ParseExpiryDays(item, text)
		if reason != "" {
			return nil, reason
		}
		if _, twice := expiry[category]; twice {
			return nil, fmt.Sprintf("%s is named twice", category)
		}
		expiry[category] = days
	}
	return expiry, ""
}

// messageType is the form of a type of site messages: it is a field of every badge document.
var messageType = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)

func checkMessageTypes(c Config) string {
	const most = 8
	if n := len(c.SiteMessageTypes); n == 0 || n > most {
		return fmt.Sprintf("1 to %d types are allowed, got %d", most, n)
	}
	for i, kind := range c.SiteMessageTypes {
		if !messageType.MatchString(kind) {
			return services.Quote(kind) + " is not a type: 1 to 32 of a-z, 0-9, '_' and '-' are allowed"
		}
		if slices.Contains(c.SiteMessageTypes[:i], kind) {
			return services.Quote(kind) + " is named twice"
		}
	}
	return ""
}
