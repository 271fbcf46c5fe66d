package node

import (
	"maps"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"tidings/services"
	"tidings/transport"
)

// Faults returns the reasons why settings are invalid, by the name of the flag: "" for a setting that is valid. It has what bounds
// cannot express, of the settings here and of those in each package's settings.go, whose type has a method of this name. A check of
// two settings stands under the setting that the operator should change. The command line reports the reasons of the flags that a
// command takes. A node parses the same settings again later and does not report them a second time. A test compares the names with
// the flags: a check under a name that no flag has would never be reported.
func (c Config) Faults() map[string]string {
	faults := c.ownFaults()
	for _, field := range reflect.ValueOf(c).Fields() {
		if settings, checked := field.Interface().(interface{ Faults() map[string]string }); checked {
			maps.Copy(faults, settings.Faults())
		}
	}
	return faults
}

// ownFaults are the faults of the settings that are fields of Config themselves. A check sees the whole configuration, also settings
// that are wrong themselves, so it must not panic on them.
func (c Config) ownFaults() map[string]string {
	return map[string]string{
		"listen":            c.checkAddress(c.Listen),
		"operations-listen": c.checkOperationsAddress(),
		"pprof":             reasonIf(c.Pprof && c.Operations == "" && !c.Development(), "profiles show the inside of the process, so they need --operations-listen (TIDINGS_OPERATIONS_LISTEN), an address that only operators reach"),
		"data":              reasonIf(c.Data == "" && !c.Demo, "the name of a folder is required"),
		"demo":              c.checkDemo(),
		"database":          c.checkDatabase(),
		"redis":             c.checkRedis(),
		"node":              checkNodeName(c.Node),
	}
}

// reasonIf returns reason if fault is true, else "". With reasonIf a check of one condition fits on a line.
func reasonIf(fault bool, reason string) string {
	if fault {
		return reason
	}
	return ""
}

// checkOperationsAddress checks the address for operators. Port 0 of both addresses is no conflict: each gets a port of its own.
// Whether two names mean one address is found when the second one is opened.
func (c Config) checkOperationsAddress() string {
	switch {
	case c.Operations == "":
		return ""
	case c.Operations == c.Listen && !strings.HasSuffix(c.Listen, ":0"):
		return "it must differ from the address of --listen"
	}
	return c.checkAddress(c.Operations)
}

// checkAddress checks the address of a listener. Without a key the server is in development mode and believes every token, so only
// this machine may reach it: the address must be a loopback address or localhost. The text is checked and no name is resolved,
// because a resolver could return any address. LoopbackOnly checks each request once more.
func (c Config) checkAddress(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "it must be HOST:PORT, like 127.0.0.1:8080"
	}
	// The text must be the number itself: Go would also take names of services, such as http.
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(number, 10) != port {
		return "the port must be a number from 0 to 65535"
	}
	address := net.ParseIP(host)
	if c.Development() && host != "localhost" && (address == nil || !address.IsLoopback()) {
		return "without a key for tokens the server is in development mode, which serves loopback only (127.0.0.1, ::1, localhost); " + transport.KeyNeededAdvice
	}
	return ""
}

// checkDemo refuses a demo world beside anything of a production server. Its page can empty Redis, and its people would be in
// the database for good. The greatest harm is checked first: a key means production.
func (c Config) checkDemo() string {
	switch {
	case !c.Demo:
		return ""
	case !c.Development():
		return "the demo is for development mode, and " + c.Tokens.KeyFlag() + " is set"
	case c.Database != "":
		return "the demo has a database of its own, and --database (DATABASE_URL) is set"
	case !slices.Contains([]string{"", "auto", "private", "embedded"}, c.Redis):
		return "the demo has a Redis of its own, and --redis (REDIS_URL) names another"
	}
	return ""
}

// checkDatabase checks the form of the address. Whether the database answers is known only when it is opened. The driver
// would refuse a wrong form later, with an error that names no flag.
func (c Config) checkDatabase() string {
	scheme, rest, found := strings.Cut(c.Database, ":")
	known := scheme == "sqlite" && rest != "" || (scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//")
	return reasonIf(c.Database != "" && !(found && known), "it must be postgres://USER:PASSWORD@HOST/NAME or sqlite:FILE")
}

// checkRedis checks the form of the address. Besides the driver's own forms there are those for sentinels and for a cluster: see
// redis.Options. The address is empty only in a Config that tests make without the command line. It then means auto.
func (c Config) checkRedis() string {
	for _, scheme := range []string{"redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"} {
		if rest, found := strings.CutPrefix(c.Redis, scheme+"://"); found && rest != "" {
			return ""
		}
	}
	known := slices.Contains([]string{"", "auto", "private", "embedded"}, c.Redis)
	return reasonIf(!known, "it must be auto, private, embedded or an address with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster:// (with TLS rediss+sentinel:// or rediss+cluster://)")
}

// checkNodeName returns why the name of a node is invalid, or "". It becomes part of keys in Redis and of rows in SQL. Without a
// name the command line makes one: see NewNodeName.
func checkNodeName(name string) string {
	return reasonIf(name != "" && services.CheckIdentifier(name) != nil, "1 to 64 of letters, digits, '.', '_' and '-' are allowed")
}
