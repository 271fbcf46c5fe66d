package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"tidings/services"
)

// The limits of a Client.
const (
	loadScriptsTimeout      = 5 * time.Second   // for loading all scripts in the background
	clusterClockSlackMicros = uint64(1_000_000) // microseconds by which the clocks of two masters may differ
	serverProgram           = "redis-server"    // what a private server runs, from PATH
)

// Client is the only access to Redis. It is safe for concurrent use. Open sets the fields up to log, and they do not change
// afterwards.
type Client struct {
	redis          redis.UniversalClient                          // the client of go-redis, with the connections to all servers
	batchingClient *redis.Client                                  // for single reads under load, see newBatchingClient
	fieldReads     *fieldReadBatcher                              // of ReadFields; nil on a cluster
	readGuard      *guard                                         // of the one server; nil on a cluster and for the embedded Redis
	dials          *sentinelDials                                 // counts the connections that are being made; nil without sentinels
	bulkTurn       bulkTurn                                       // of round trips with many calls of a script
	mode           string                                         // see Mode
	nodeID         string                                         // this node's
	time           services.Clock                                 // of this node
	log            *slog.Logger                                   // for operators
	epoch          epoch                                          // the lineages of the masters, see Epoch
	epochChecks    singleflight.Group                             // joins concurrent questions for the epoch
	refusals       writeRefusals                                  // whether Redis refuses writes
	emptyKeys      func(ctx context.Context, keys []string) error // see SetEmptyKeysFunc

	hints          hintReceivers              // the functions in this process that take hints
	changelogGrown chan struct{}              // a token: the changelog has grown, and the other nodes are not notified yet
	localServer    interface{ close() error } // the server that this Client runs, nil if it runs none
	ctx            context.Context            // ends at Close
	stop           context.CancelFunc         // ends ctx
	// closingMu is held to end ctx and to start work, so that no work begins which Close does not wait for.
	closingMu         sync.Mutex
	backgroundWork    sync.WaitGroup // goroutines in the background; Close waits for them
	loadingScripts    atomic.Bool    // reloadScripts is under way
	awaitsFirstAnswer atomic.Bool    // Redis has not answered since Open and is still to be prepared
	warnMemoryCost    sync.Once      // the warning about settings that cost memory
	warnLateRefusal   sync.Once      // the warning that a late Redis has come and refuses this node
}

// debugLogger takes the log lines of go-redis, which report every failed dial. It hides them unless the operator logs at the level
// debug: this package logs what an operator needs.
type debugLogger struct{}

// Printf passes a line on at the level debug.
func (debugLogger) Printf(ctx context.Context, format string, values ...any) {
	if slog.Default().Enabled(ctx, slog.LevelDebug) {
		slog.DebugContext(ctx, fmt.Sprintf(format, values...))
	}
}

func init() { redis.SetLogger(debugLogger{}) }

// Open connects to the Redis of the options, or starts one. An error names the address: INVALID for a URL that cannot be parsed
// or that Redis refuses (a wrong password), UNAVAILABLE for a Redis that is absent or not ready, unless the options allow it to
// be late.
func Open(ctx context.Context, options Options) (*Client, error) {
	options = options.withDefaults()
	if options.URL == modeAuto {
		options.URL = modePrivate
		if _, err := exec.LookPath(serverProgram); err != nil {
			options.URL = modeEmbedded
			options.Log.Warn("there is no redis-server in PATH: an embedded Redis is used, which is slower under load and ends with this process")
		}
	}
	c, at, err := dial(ctx, options)
	if err == nil {
		err = c.prepare(ctx)
	}
	if err == nil {
		return c, nil
	}
	// The URL may contain a password, so messages name the addresses instead. Without a target the URL is private or embedded, or
	// parseURL refused it: then openError does not use name.
	name := options.URL
	if at != nil {
		name = at.name()
	}
	failure := openError(err, name)
	// Only an absent Redis may be late. A refusal must be fixed by the operator, and without a client the URL itself was wrong.
	if options.AllowLateServer && c.redis != nil && services.IsUnavailable(failure) && ctx.Err() == nil {
		c.log.Warn("this node runs without Redis until it answers", "error", failure, "cause", err)
		c.awaitsFirstAnswer.Store(true)
		return c, nil
	}
	_ = c.Close()
	return nil, failure
}

// dial makes a Client of options with all their defaults, and starts the server that they ask for. It asks no other server yet. With
// an error it returns the parts that it has made so far.
func dial(ctx context.Context, options Options) (c *Client, at *dialTarget, err error) {
	c = &Client{nodeID: options.NodeID, time: options.Clock, log: options.Log, changelogGrown: make(chan struct{}, 1), bulkTurn: newBulkTurn()}
	c.epoch.dataFormat = options.DataFormat
	// The Client outlives the context of Open: its work ends with Close.
	c.ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	if at, err = c.openTarget(ctx, options); err == nil {
		err = c.connect(options, at)
	}
	return c, at, err
}

// openError makes the error of Open from its cause. After a refusal the operator must act, and waiting does not help; any other
// error may be temporary.
func openError(err error, name string) error {
	var refusal redis.Error
	switch {
	case services.CodeOf(err) == services.Invalid:
		return err
	case !services.IsUnavailable(err) && errors.As(err, &refusal):
		return services.Wrapf(services.Invalid, err, "Redis at %s refuses the user, password, database or rights of its URL", name)
	}
	return services.Wrapf(services.Unavailable, err, "Redis at %s does not answer", name)
}

// openTarget starts the server that the options ask for, or parses their URL.
func (c *Client) openTarget(ctx context.Context, options Options) (*dialTarget, error) {
	switch options.URL {
	// The Client owns the server from here on: Close ends it, also after a failure below.
	case modePrivate:
		server, err := startPrivate(ctx, options.DataDir, c.log)
		if err != nil {
			return nil, err
		}
		c.localServer = server
		return &dialTarget{mode: modePrivate, single: server.options()}, nil
	case modeEmbedded:
		server, err := startEmbedded()
		if err != nil {
			return nil, err
		}
		c.localServer = server
		return &dialTarget{mode: modeEmbedded, single: server.options()}, nil
	}
	return parseURL(options.URL)
}

// connect makes the client of a mode. In every mode a new connection asks for the server's lineage before it reads, except on the
// embedded Redis, whose data ends with this process. Readers wait half of the read timeout, because they can read from SQL instead.
func (c *Client) connect(options Options, at *dialTarget) (err error) {
	c.mode = at.mode
	if at.mode == modeEmbedded {
		options.ReadTimeout = max(options.ReadTimeout, embeddedReadTimeout)
	}
	// Each mode sets three things on its client: a breaker for each server, the question for the lineage on each new
	// connection, and where a server may hang, a guard for readers.
	switch at.mode {
	case modeCluster:
		c.redis = redis.NewClusterClient(options.clusterOptions(at, func(node *redis.Options) *redis.Client {
			node.Limiter, node.OnConnect = newBreaker(node.Addr, c.log), c.askLineageOnConnect(node.Addr)
			client := redis.NewClient(node)
			client.AddHook(guardHook{newGuard(options.ReadTimeout / 2)})
			return client
		}))
	case modeSentinel:
		client := redis.NewFailoverClient(options.sentinelOptions(at))
		// The options for sentinels have no field for OnConnect, and would apply a limiter to the sentinels too. Both are set
		// here: nothing has been dialled yet.
		client.Options().Limiter, client.Options().OnConnect = newBreaker(at.name(), c.log), c.askLineageOnConnect(soleMasterKey)
		c.dials = &sentinelDials{client: client}
		client.AddHook(c.dials)
		c.redis = client
	case modeEmbedded:
		c.epoch.recordLineage(soleMasterKey, embeddedLineage, c.epoch.nextQuestionNumber())
		c.redis = redis.NewClient(options.singleOptions(at.single, newBreaker(at.name(), c.log)))
	default:
		single := options.singleOptions(at.single, newBreaker(at.name(), c.log))
		single.OnConnect = c.askLineageOnConnect(soleMasterKey)
		c.redis = redis.NewClient(single)
	}
	// On the embedded Redis readers wait for the whole read timeout: only its own scripts can make it slow, and SQL shares its
	// processor.
	within := options.ReadTimeout
	if at.mode != modeEmbedded {
		within /= 2
	}
	// The embedded Redis has no guard: SQL is no faster on the same processor. A cluster has one for each node.
	if at.mode == modeSingle || at.mode == modePrivate || at.mode == modeSentinel {
		c.readGuard = newGuard(within)
		c.redis.AddHook(guardHook{c.readGuard})
	}
	// The hook that was added first is the outermost: see the package comment.
	c.redis.AddHook(roundTripHook{})
	c.redis.AddHook(refusalsHook{c})
	// The commands of a batch have keys of many users, which a cluster would have to split again.
	if at.mode != modeCluster {
		c.fieldReads = newFieldReads(c.redis, c.readGuard, within)
	}
	c.batchingClient, err = newBatchingClient(c.redis, c.readGuard, within)
	return err
}

// prepare makes a Redis that answers ready for use: its lineage, the scripts, the settings. It does not wait: it is an error if
// the named Redis does not answer now. A Redis that refuses writes is ready, because it still serves others and may
// recover.
func (c *Client) prepare(ctx context.Context) error {
	// The ping comes first, so that the error for an absent Redis says so, and does not name a later step.
	if err := c.Ping(ctx); err != nil {
		return err
	}
	if err := c.CheckEpoch(ctx); err != nil {
		return err
	}
	if err := c.loadScripts(ctx); err != nil {
		return fmt.Errorf("load the scripts: %w", err)
	}
	c.raiseListpackSettings(ctx)
	if err := c.CheckWrites(ctx); err != nil && !c.RefusesWrites() {
		return err
	}
	return nil
}

// prepareLate calls prepare for a late Redis once it answers. WatchMasters calls it each second; it costs one atomic read when
// Redis has answered already.
func (c *Client) prepareLate(ctx context.Context) error {
	if !c.awaitsFirstAnswer.Load() {
		return nil
	}
	// A refusal does not go away by itself: it is reported once, and the operator may still mend it while the node
	// runs.
	if err := c.prepare(ctx); err != nil {
		if !services.IsUnavailable(err) {
			c.warnLateRefusal.Do(func() {
				c.log.Error("Redis refuses the user, password, database or rights of its URL", "error", err)
			})
		}
		return err
	}
	c.awaitsFirstAnswer.Store(false)
	c.log.Info("Redis answers: this node uses it")
	return nil
}

// Close ends the hints, closes the connections and then stops the server that Open started. It may be called twice, and
// on a Client that Open gave up halfway.
func (c *Client) Close() error {
	// reloadScripts begins work in the background only under this lock, and not after stop: so Wait sees all of the work.
	c.closingMu.Lock()
	c.stop()
	c.closingMu.Unlock()
	c.backgroundWork.Wait()
	var err error
	if c.batchingClient != nil {
		err = ignoreErrClosed(c.batchingClient.Close())
	}
	if c.dials != nil {
		c.dials.close()
	}
	if c.redis != nil {
		err = errors.Join(err, ignoreErrClosed(c.redis.Close()))
	}
	if c.localServer != nil {
		err = errors.Join(err, c.localServer.close())
	}
	return err
}

// ignoreErrClosed drops the error of a second Close.
func ignoreErrClosed(err error) error {
	if errors.Is(err, redis.ErrClosed) {
		return nil
	}
	return err
}

// Mode is the mode that Open chose: "single", "sentinel", "cluster", "private" or "embedded".
func (c *Client) Mode() string { return c.mode }

// EmptyOwnServer removes every key of a server that Open has started, and returns their number. Any other Redis is FORBIDDEN: it
// may hold the data of others.
func (c *Client) EmptyOwnServer(ctx context.Context) (keys int64, err error) {
	if c.localServer == nil {
		return 0, services.Errorf(services.Forbidden, "only a Redis that this process has started can be emptied")
	}
	if keys, err = c.redis.DBSize(ctx).Result(); err == nil {
		err = c.redis.FlushAll(ctx).Err()
	}
	return keys, MapError(err)
}

// Ping asks every master for an answer. If one does not answer, the error is UNAVAILABLE.
func (c *Client) Ping(ctx context.Context) error {
	return MapError(c.EachMaster(ctx, func(ctx context.Context, master *redis.Client) error { return master.Ping(ctx).Err() }))
}

// Now takes a stamp of Redis' clock. Take it before the read of SQL that a change is based on. On a cluster the stamp is a second in the
// past, because the masters' clocks differ.
func (c *Client) Now(ctx context.Context) (ClockStamp, error) {
	t, err := c.redis.Time(ctx).Result()
	if err != nil {
		return 0, MapError(err)
	}
	return ClockStamp(uint64(t.UnixMicro()) - c.stampSlackMicros()), nil
}

// stampSlackMicros is how many microseconds to subtract from a time of another master's clock, so that a stamp is never later
// than a removal that happened before it on a master whose clock is behind. A stamp that is too early only makes some
// adds try again.
func (c *Client) stampSlackMicros() uint64 {
	if c.mode == modeCluster {
		return clusterClockSlackMicros
	}
	return 0
}

// Commands sends single commands. Map their errors with MapError.
func (c *Client) Commands() redis.UniversalClient { return c.redis }

// NodeID is this node's ID.
func (c *Client) NodeID() string { return c.nodeID }

// Clock is this node's clock.
func (c *Client) Clock() services.Clock { return c.time }

// Log is the logger for operators.
func (c *Client) Log() *slog.Logger { return c.log }
