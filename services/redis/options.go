package redis

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"tidings/services"
)

// Options select a Redis and its use. The zero value opens a Redis of this process's own.
type Options struct {
	// URL names the Redis. "" and "auto" start a private redis-server if one is in PATH, else an embedded one; "private" and
	// "embedded" require the server that they name. Other URLs are redis://, rediss:// and unix:// in their usual form,
	// redis+sentinel://[user:password@]host:port,host:port/MASTER[/db] and redis+cluster://[user:password@]host:port,host:port;
	// with rediss+ the last two use TLS. The sentinels' own password goes into ?sentinel_username= and ?sentinel_password=.
	URL string
	// NodeID is this node's ID: RunHints receives the hints for it. Without an ID there are no hints from other nodes.
	NodeID string
	// DataDir is the folder in which a private server has its socket; "" is the system's temporary folder.
	DataDir string
	// AllowLateServer accepts a Redis that does not answer yet, also a Redis that stalls after this Client has started it: all
	// calls are UNAVAILABLE until it answers, and WatchMasters prepares it then.
	AllowLateServer bool
	// Clock is the node's clock; nil is the machine's.
	Clock services.Clock
	// Log is the logger for operators; nil is slog.Default().
	Log *slog.Logger
	// ReadTimeout bounds the wait for the answers of one round trip if the context has no earlier deadline; 0 means 400 ms.
	// Readers wait half of it, because they can read from SQL instead. The embedded Redis has at least 5 s, for readers too,
	// because no network can fail there and its scripts are slow.
	ReadTimeout time.Duration
	// PoolSize is how many connections may be in use at once (to each master of a cluster); 0 means 32 for each CPU. RunHints
	// has one more.
	PoolSize int
	// DataFormat names the format of data that a node of another format cannot read: the epoch depends on it too. All nodes need
	// the same DataFormat.
	DataFormat string
}

// The modes of a Client. Options may also name modeAuto, in place of which Open chooses one.
const (
	modeSingle   = "single"   // one server at an address
	modeSentinel = "sentinel" // the master that sentinels name
	modeCluster  = "cluster"  // a Redis Cluster
	modePrivate  = "private"  // a redis-server that this process starts
	modeEmbedded = "embedded" // a server within this process
	modeAuto     = "auto"     // private if redis-server is in PATH, else embedded
)

// The constants are the defaults and limits of connections.
const (
	// A reader waits half of this time before asking SQL: a Redis that hangs must not make a badge slow.
	defaultReadTimeout    = 400 * time.Millisecond
	embeddedReadTimeout   = 5 * time.Second // the least timeout of the embedded Redis
	dialTimeout           = time.Second
	poolTimeout           = 100 * time.Millisecond // the longest wait for a free connection; more only moves the queue into the pool
	clusterReloadInterval = time.Second            // between two reads of the slots; by default a dead master is left after 59 s
	maxClusterRedirects   = 3                      // how often one command follows a slot that has moved
	connectionsPerCPU     = 32                     // the default of PoolSize per CPU; with fewer, callers wait in no order, some too long
	// A page of a feed is an answer of a few KB, and a batch of documents is an answer of about 100 KB.
	bufferBytes = 32 << 10
	// A pipeline that met a moved slot is sent to the slot's new place after a pause between these two; a single command goes there
	// at once.
	minClusterBackoff = 2 * time.Millisecond
	maxClusterBackoff = 20 * time.Millisecond // the longest such pause
	// For failingNodeSeconds after a node's failure, a cluster's client asks another node where the slots are.
	failingNodeSeconds    = 1
	sentinelUserParam     = "sentinel_username" // this and the next are the URL's parameters with the login for the sentinels
	sentinelPasswordParam = "sentinel_password"
)

// withDefaults fills in what the caller left out. It is called once, before anything else looks at the options.
func (o Options) withDefaults() Options {
	o.URL = cmp.Or(o.URL, modeAuto)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, defaultReadTimeout)
	o.PoolSize = cmp.Or(o.PoolSize, connectionsPerCPU*runtime.GOMAXPROCS(0))
	if o.Clock == nil {
		o.Clock = services.SystemClock{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// dialTarget is a parsed URL: the addresses to dial, and the mode.
type dialTarget struct {
	mode   string         // one of the modes above, except modeAuto
	single *redis.Options // for the modes single, private and embedded
	addrs  []string       // sentinels or cluster nodes
	// Only a target of sentinels has masterName, db, sentinelUser and sentinelPassword.
	masterName       string // by which the sentinels know the master
	db               int    // the number of the database
	user, password   string // of the Redis servers, also of a cluster's
	sentinelUser     string // of the sentinels themselves
	sentinelPassword string
	tls              *tls.Config // nil: without TLS
}

// name returns the target's addresses for messages, without any secret.
func (t *dialTarget) name() string {
	if t.single != nil {
		return t.single.Addr
	}
	name := strings.Join(t.addrs, ",")
	if t.masterName != "" {
		name += "/" + t.masterName
	}
	return name
}

// parseURL parses the URL of a Redis. Errors are INVALID and never repeat the URL: it may contain a password.
func parseURL(text string) (*dialTarget, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return nil, services.Errorf(services.Invalid, "the URL of Redis has no scheme: expected auto, private, embedded, "+
			"redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://")
	}
	switch scheme {
	case "redis", "rediss", "unix":
		return parseSingle(scheme, text)
	case "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster":
		return parseMultiHost(scheme, rest)
	}
	return nil, services.Errorf(services.Invalid, "the URL of Redis has the scheme %s: expected redis, rediss, unix, "+
		"redis+sentinel, rediss+sentinel, redis+cluster or rediss+cluster", services.Quote(scheme))
}

// parseSingle parses the URL of one server, in the form of go-redis.
func parseSingle(scheme, text string) (*dialTarget, error) {
	options, err := redis.ParseURL(text)
	if err != nil {
		// The message of go-redis may repeat the whole URL, and with it the password.
		return nil, services.Errorf(services.Invalid, "the %s:// URL of Redis cannot be read: expected %s", scheme, map[string]string{
			"redis":  "redis://[user:password@]host:port[/db]",
			"rediss": "rediss://[user:password@]host:port[/db]",
			"unix":   "unix://[user:password@]/path/to/socket[?db=0]",
		}[scheme])
	}
	return &dialTarget{mode: modeSingle, single: options}, nil
}

// parseMultiHost parses the URL of sentinels or of a cluster, which names several hosts: url.Parse accepts only one.
func parseMultiHost(scheme, rest string) (*dialTarget, error) {
	hosts, query, path := rest, "", ""
	hosts, query, _ = strings.Cut(hosts, "?")
	t := &dialTarget{mode: modeCluster}
	// The last @ ends the login: a password may contain an @, though it should be escaped.
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		// url.Parse decodes a user and a password, but refuses several hosts.
		login, err := url.Parse("redis://" + hosts[:i] + "@host")
		if err != nil {
			return nil, services.Errorf(services.Invalid, "the %s:// URL of Redis has a user or a password that is not escaped", scheme)
		}
		t.user = login.User.Username()
		t.password, _ = login.User.Password()
		hosts = hosts[i+1:]
	}
	hosts, path, _ = strings.Cut(hosts, "/")
	for address := range strings.SplitSeq(hosts, ",") {
		host, port, err := net.SplitHostPort(address)
		if number, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || host == "" || number == 0 {
			return nil, services.Errorf(services.Invalid, "the %s:// URL of Redis has the address %s: expected host:port", scheme, services.Quote(address))
		}
		t.addrs = append(t.addrs, address)
	}
	if strings.HasPrefix(scheme, "rediss") {
		t.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if strings.HasSuffix(scheme, "+cluster") {
		if path != "" && path != "0" {
			return nil, services.Errorf(services.Invalid, "the %s:// URL of Redis names %s: a cluster has the database 0 only", scheme, services.Quote(path))
		}
		return t, nil
	}
	return t, t.parseSentinel(scheme, path, query)
}

// parseSentinel parses what follows the hosts in a URL of sentinels: the master, its database, and the sentinels' own login.
func (t *dialTarget) parseSentinel(scheme, path, query string) error {
	master, db, hasDB := strings.Cut(path, "/")
	number, err := uint64(0), error(nil)
	if hasDB {
		number, err = strconv.ParseUint(db, 10, 16)
	}
	if master == "" || err != nil {
		return services.Errorf(services.Invalid, "the %s:// URL of Redis ends in %s: expected /MASTER or /MASTER/db", scheme, services.Quote("/"+path))
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return services.Errorf(services.Invalid, "the %s:// URL of Redis has a query that cannot be read", scheme)
	}
	t.mode, t.masterName, t.db = modeSentinel, master, int(number)
	t.sentinelUser, t.sentinelPassword = values.Get(sentinelUserParam), values.Get(sentinelPasswordParam)
	return nil
}

// singleOptions configures the single Redis. It uses RESP2, because the embedded Redis answers RESP2 identically, and RESP2 has
// no push frames to look for before every answer. go-redis retries nothing: the breaker and the caller decide.
func (o Options) singleOptions(from *redis.Options, limiter redis.Limiter) *redis.Options {
	// The URL's own settings for timeouts and pools are overwritten: the settings of Options hold in every mode.
	r := *from
	r.Protocol = 2
	// CLIENT SETINFO on each new connection would tell the server nothing that is needed.
	r.DisableIdentity = true
	r.MaxRetries = -1
	r.DialTimeout, r.DialerRetries = dialTimeout, 1
	r.ReadTimeout, r.WriteTimeout, r.ContextTimeoutEnabled = o.ReadTimeout, o.ReadTimeout, true
	r.PoolSize, r.PoolTimeout = o.PoolSize, poolTimeout
	r.PipelinePoolSize = -1 // one pool: PoolSize then counts every connection, and a dead address is dialled once
	r.ReadBufferSize, r.WriteBufferSize = bufferBytes, bufferBytes
	r.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	r.Limiter = limiter
	return &r
}

// sentinelOptions configures the master that the sentinels name.
func (o Options) sentinelOptions(t *dialTarget) *redis.FailoverOptions {
	return &redis.FailoverOptions{
		MasterName: t.masterName, SentinelAddrs: t.addrs, DB: t.db, TLSConfig: t.tls,
		Username: t.user, Password: t.password, SentinelUsername: t.sentinelUser, SentinelPassword: t.sentinelPassword,
		Protocol: 2, DisableIdentity: true, MaxRetries: -1,
		DialTimeout: dialTimeout, DialerRetries: 1,
		ReadTimeout: o.ReadTimeout, WriteTimeout: o.ReadTimeout, ContextTimeoutEnabled: true,
		PoolSize: o.PoolSize, PoolTimeout: poolTimeout, PipelinePoolSize: -1,
		ReadBufferSize: bufferBytes, WriteBufferSize: bufferBytes,
	}
}

// clusterOptions configures a cluster; connect gives each of its nodes a breaker and a guard of its own: one dead master must
// not block the others.
func (o Options) clusterOptions(t *dialTarget, connect func(node *redis.Options) *redis.Client) *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs: t.addrs, TLSConfig: t.tls, Username: t.user, Password: t.password,
		NewClient: connect,
		Protocol:  2, DisableIdentity: true, MaxRetries: -1,
		MaxRedirects: maxClusterRedirects, MinRetryBackoff: minClusterBackoff, MaxRetryBackoff: maxClusterBackoff,
		DisableRoutingPolicies: true, // every command here has a key, or goes to each master by name
		DialTimeout:            dialTimeout, DialerRetries: 1, FailingTimeoutSeconds: failingNodeSeconds,
		ReadTimeout: o.ReadTimeout, WriteTimeout: o.ReadTimeout, ContextTimeoutEnabled: true,
		PoolSize: o.PoolSize, PoolTimeout: poolTimeout, PipelinePoolSize: -1,
		ReadBufferSize: bufferBytes, WriteBufferSize: bufferBytes,
		MaintNotificationsConfig:   &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		ClusterStateReloadInterval: clusterReloadInterval,
	}
}
