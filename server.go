// Command tidings is a GraphQL server for feeds and unread badges: wire, run, drain.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"golang.org/x/sync/errgroup"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/resolvers"
	"tidings/services"
	"tidings/services/badge"
	"tidings/services/chat"
	"tidings/services/fanout"
	"tidings/services/feed"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/mirror"
	"tidings/services/notice"
	"tidings/services/notify"
	"tidings/services/push"
	"tidings/services/ratelimit"
	"tidings/services/rdb"
	"tidings/services/social"
	"tidings/services/store"
	"tidings/services/views"
	"tidings/transport"
	"tidings/web"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// run does what the command line asks for and answers the exit code: 0 done, 1 failed, 2 not understood.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	command, err := parseArgs(args, env, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "tidings:", err)
		return 2
	}
	switch command.Name {
	case "serve":
		spareProcessors(env)
		log := newLog(command.Config, stderr)
		tuneMemory(ctx, env, memlimit.FromCgroup, log)
		err = serve(ctx, command.Config, stdout, log)
	case "import follows", "import messages", "import posts", "import shows":
		return runImport(ctx, command, os.Stdin, stdout)
	case "export":
		err = runExport(ctx, command, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "tidings:", err)
		return 1
	}
	return 0
}

func newLog(cfg Config, out io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}

// server is every part of a running node.
type server struct {
	cfg     Config
	log     *slog.Logger
	clock   services.Clock
	store   *store.Store
	redis   *rdb.Client
	memory  *mirror.Memories
	jobs    *jobs.Engine
	fanout  *fanout.Fanout
	audit   *fanout.Audit
	cleaner *fanout.Cleaner
	badge   *badge.Service
	live    *live.Service
	hub     *push.Hub
	limiter *ratelimit.Limiter
	sockets *transport.Sockets
	http    *http.Server // for everybody

	operations  *http.Server // for operators; not started without a listener
	connections *transport.Connections
	ready       readiness
}

// serve runs a node until ctx ends, and then drains it.
func serve(ctx context.Context, cfg Config, stdout io.Writer, log *slog.Logger) error {
	log.LogAttrs(ctx, slog.LevelInfo, "configuration", cfg.Masked()...)
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return fmt.Errorf("--data %s: the folder cannot be made: %w", cfg.Data, err)
	}
	at, err := listen(cfg)
	if err != nil {
		return err
	}
	defer at.close() // closed by http.Server by then, except when the start failed
	s, err := newServer(ctx, cfg, services.SystemClock{}, log)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "Tidings serves "+at.text(cfg.Development()))
	if cfg.Development() {
		log.Warn("development mode: tokens like dev:alice are taken, and only loopback is served; configure a key for production")
	}
	return s.runUntilGone(ctx, at)
}

// goneWithin is how long after SIGTERM the process ends whatever it waits for still. What was acknowledged is on disk by then,
// and what it holds is freed by the others, or by the next start.
const goneWithin = 14 * time.Second

// runUntilGone is run, but for a drain that does not come to its end: a job or a request that an engine holds up.
func (s *server) runUntilGone(ctx context.Context, at listeners) error {
	over, end := context.WithCancel(context.Background())
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(goneWithin, end) })()
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, at) }()
	select {
	case err := <-ended:
		return err
	case <-over.Done():
	}
	s.log.Warn("the drain has taken too long: what is under way is cut off", "after", goneWithin)
	closed := make(chan error, 1)
	go func() { closed <- s.redis.Close() }() // a private server is not to be left behind
	select {
	case <-closed:
	case <-time.After(goneWithin / 50):
	}
	return nil
}

// newServer opens the engines and wires the parts. What was opened is closed again when a later part fails. changes are for
// tests, which want of a few followers what takes thousands.
func newServer(ctx context.Context, cfg Config, clock services.Clock, log *slog.Logger, changes ...func(*fanout.Config)) (s *server, err error) {
	s = &server{cfg: cfg, log: log, clock: clock}
	// Keys come first: one that cannot be read leaves no database behind.
	identity, err := transport.NewIdentity(ctx, transport.IdentityConfig{
		Development: cfg.Development(), HMACSecret: cfg.JWTSecret, PublicKeyFile: cfg.JWTPublicKey, JWKS: cfg.JWKS,
		Audience: cfg.JWTAudience, Issuer: cfg.JWTIssuer, Clock: s.clock, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.keyFlag(), err)
	}
	if s.store, err = store.Open(ctx, store.Config{URL: cfg.DatabaseURL(), Node: cfg.Node, Clock: s.clock, Log: log}); err != nil {
		return nil, err
	}
	ages, _ := services.ParseSourceExpiry(cfg.BadgeExpiry) // checked with the settings
	s.redis, err = rdb.Open(ctx, rdb.Options{URL: cfg.Redis, Late: true, Node: cfg.Node, DataDir: cfg.Data, MessageTypes: cfg.SiteMessageTypes, Expiry: ages, Clock: s.clock, Log: log})
	if err != nil {
		return nil, errors.Join(err, s.store.Close())
	}
	s.ready.refuses = s.store.RefusesWrites
	s.ready.remark = func() string {
		if s.redis.RefusesWrites() {
			return "Redis refuses writes: counts and feeds are read from SQL, and counts are STALE\n"
		}
		return ""
	}
	root := s.wire(changes)
	if err = s.fanout.BeginActivity(ctx); err == nil && cfg.Development() {
		_, err = root.Social.Make(ctx, web.People)
	}
	if err != nil {
		return nil, errors.Join(err, s.redis.Close(), s.store.Close())
	}
	s.ready.knows = s.memory.Shows.Loaded
	s.ready.ahead = s.fanout.ClockAhead
	limits, _ := ratelimit.Parse(cfg.RateLimits) // checked with the settings, as are the next
	proxies, _ := transport.ParseProxies(cfg.TrustedProxies)
	s.limiter = ratelimit.New(ratelimit.Config{Limits: limits, Ledger: s.redis, Clock: s.clock, Log: log})
	s.sockets = transport.NewSockets(transport.SocketConfig{
		Limits: resolvers.Limits{Limiter: s.limiter}, Proxies: proxies, PerUser: cfg.SocketsPerUser, PerAddress: cfg.SocketsPerAddress,
		Identity: identity, Ready: s.memory.Shows.Loaded, Gone: s.deviceGone(root), Wake: push.WithWake, Waking: []string{"badgesChanged"}, Origins: cfg.Origins,
		OperationTimeout: cfg.OperationTimeout, WriteTimeout: cfg.SocketWriteDeadline,
		Subscriptions: cfg.SocketSubscriptions, AnswerLimit: cfg.AnswerLimit, Clock: s.clock, Log: log,
	})
	graphql := transport.Handler(transport.Config{
		Schema: resolvers.Hot(graph.NewExecutableSchema(graph.Config{Resolvers: root}), root), Identity: identity, Sockets: s.sockets,
		Limits: resolvers.Limits{Limiter: s.limiter}, Proxies: proxies,
		ErrorPresenter: resolvers.ErrorPresenter(log), Recover: resolvers.Recover, Around: resolvers.Around(root.Sources),
		Introspection: cfg.AllowIntrospection(), Origins: cfg.Origins, OperationTimeout: cfg.OperationTimeout,
		BodyLimit: int64(cfg.BodyLimit), IngestBodyLimit: int64(cfg.IngestBodyLimit), QueryTokens: cfg.QueryTokens, Log: log,
		Shape: transport.Shape{
			Depth: cfg.QueryDepth, Fields: cfg.QueryFields, Aliases: cfg.QueryAliases, Directives: cfg.QueryDirectives, RootFields: cfg.QueryRootFields,
		},
		QueryCost: cfg.QueryCost, Weights: resolvers.Weights, QueryCacheBytes: int64(cfg.QueryCache), AnswerLimit: cfg.AnswerLimit, WriteTimeout: cfg.AnswerDeadline,
	})
	s.connections = transport.NewConnections(cfg.connectionsPerAddress(), proxies)
	s.http, s.operations = s.httpServer(s.routes(graphql, cfg.Development())), s.httpServer(s.routes(graphql, true))
	return s, nil
}

// wire makes the services, from the bottom up.
func (s *server) wire(changes []func(*fanout.Config)) *resolvers.Resolver {
	caps, _ := displayCaps(s.cfg.DisplayCaps) // checked with the settings, as are the next
	expiry, _ := notificationExpiry(s.cfg.NotifyFor)
	ages, _ := services.ParseSourceExpiry(s.cfg.BadgeExpiry)
	kinds, _ := feedKinds(s.cfg.FeedKinds)
	ids := services.NewIDClock(s.clock, uint16(rand.Uint32()))
	sessions := live.SessionLives * s.cfg.BoardSessionFor // how long one lives at most
	s.memory = mirror.New(mirror.Config{
		Facts: s.store, Redis: s.redis, Clock: s.clock, Log: s.log, Poll: s.cfg.LogInterval,
		ShowHistory: sessions + time.Hour, // clocks differ
	})
	s.jobs = jobs.New(jobs.Config{Store: s.store, Clock: s.clock, Log: s.log})
	carrying := fanout.Config{
		Jobs: s.jobs, Store: s.store, Redis: s.redis, Activity: s.memory.Activity, Announcements: s.memory.Announcements, ShowMemory: s.memory.Shows, Clock: s.clock, IDs: ids, Log: s.log, ActiveFor: s.cfg.ActiveFor,
		IdleAfter: s.cfg.IdleAfter, Thresholds: services.Thresholds{Big: s.cfg.BigFollowers, Huge: s.cfg.HugeFollowers}, MuteMentions: s.cfg.MuteMentions, Expiry: ages,
		Shows: services.ShowLimits{LateAfter: s.cfg.ShowLateAfter, Longest: s.cfg.ShowLongest}, KeepBoards: sessions,
	}
	for _, change := range changes {
		change(&carrying)
	}
	s.fanout = fanout.New(carrying)
	s.audit, s.cleaner = s.fanout.Audit(s.cfg.AuditEvery), s.fanout.Cleaner(s.cfg.CleanEvery)
	s.badge = badge.New(badge.Config{
		Store: s.store, Redis: s.redis, Fanout: s.fanout, Announcements: s.memory.Announcements, Pulled: s.memory.Pulled, Conversations: s.memory.Conversations, Shows: s.memory.Shows, Clock: s.clock, Log: s.log, Caps: caps,
		Expiry: expiry,
	})
	s.hub = push.New(push.Config{
		Versions: s.redis.Versions, Enter: s.redis.Enter, Leave: s.leave, Lost: s.redis.MarkLost, Render: s.badge.ReadWatched,
		Learned: s.memory.Log.Learned, Raise: s.badge.Raise, Held: s.badge.Holds,
		Clock: s.clock, Log: s.log, MinInterval: s.cfg.PushInterval, Sweep: s.cfg.SweepInterval,
	})
	s.memory.Log.OnShared(s.hub.HintShared)
	s.memory.Log.OnMoved(s.hub.HintSharedOf)
	s.store.OnLog(func() {
		s.memory.Log.Wake() // a job's change is nobody's own
		s.redis.HintLog()
	})
	s.live = live.New(live.Config{
		Store: s.store, Redis: s.redis, Reader: s.memory.Reader, Shows: s.memory.Shows, Fanout: s.fanout, IDs: ids, Clock: s.clock,
		Sessions: live.Scope(s.cfg.BoardSessions), SessionFor: s.cfg.BoardSessionFor,
	})
	return &resolvers.Resolver{
		Live: s.live, Sources: dataloader.Sources{Posts: s.memory.Reader, Shows: s.memory.Shows},
		Social: social.New(social.Config{
			Store: s.store, People: s.memory.People, Fanout: s.fanout, IDs: ids, MaxFollowees: s.cfg.MaxFollowees,
			MaxMutes: s.cfg.MaxMutes, MaxBlocks: s.cfg.MaxBlocks, MaxHides: s.cfg.MaxHides,
		}),
		Feed: feed.New(feed.Config{
			Store: s.store, Redis: s.redis, Posts: s.memory.Posts, Reader: s.memory.Reader, Pulled: s.memory.Pulled, InFlight: s.memory.InFlight, Fanout: s.fanout, IDs: ids, Clock: s.clock, Kinds: kinds,
		}),
		Notice:   notice.New(notice.Config{Store: s.store, Redis: s.redis, Announcements: s.memory.Announcements, Fanout: s.fanout, IDs: ids, Clock: s.clock}),
		Messages: notify.NewMessages(notify.MessagesConfig{Store: s.store, Fanout: s.fanout, IDs: ids, Types: s.cfg.SiteMessageTypes}),
		Views:    views.New(views.Config{Store: s.store, Redis: s.redis, Fanout: s.fanout, Log: s.log}),
		Chat: chat.New(chat.Config{
			Store: s.store, Conversations: s.memory.Conversations, Fanout: s.fanout, Clock: s.clock, MaxGroup: s.cfg.MaxGroup,
			MaxWriteMembers: s.cfg.MaxWriteMembers, MaxWriteLoad: s.cfg.MaxWriteLoad, Lease: s.cfg.InsideLease,
		}),
		Badge: s.badge, Notify: notify.New(notify.Config{Store: s.store, Fanout: s.fanout, IDs: ids, Expiry: expiry}), Fanout: s.fanout, Hub: s.hub, Queue: s.store, Clock: s.clock, Log: s.log,
	}
}

// deviceGone ends what a device had open once its last socket is closed.
func (s *server) deviceGone(root *resolvers.Resolver) func(services.Viewer) {
	return func(viewer services.Viewer) {
		ctx, cancel := context.WithTimeout(context.Background(), s.cfg.OperationTimeout)
		defer cancel()
		number, known, err := root.Social.Known(ctx, viewer.Key)
		if err == nil && known {
			err = root.Chat.DeviceGone(ctx, number, viewer.Device)
		}
		if err != nil {
			s.log.Warn("a device that is gone stays inside its conversations until its lease ends", "error", err)
		}
	}
}

// leave forgets users who are watched here no longer: in this node's memory and in Redis.
func (s *server) leave(ctx context.Context, users []services.UserNumber) error {
	s.memory.Log.Unfollow(users)
	return s.redis.Leave(ctx, users)
}

// run serves until ctx ends or a part fails for good, and drains in this order: what brings new work first, what
// finishes work next, the engines last.
//
//	not ready; workers stop claiming and finish what they hold; subscriptions are refused and sockets closed with 1012,
//	spread over the drain time; HTTP requests on both listeners end; the hub takes this node out of Redis; SQL is flushed and closed; Redis,
//	with the private server, is last.
func (s *server) run(ctx context.Context, at listeners) error {
	workers, stopWorkers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorkers()
	loops, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()
	failed := s.serveAt(at)
	heart := s.jobs.Heartbeat()
	if err := heart.Begin(ctx); err != nil {
		s.log.Warn("jobs of the process before may wait until their leases end", "error", err)
	}
	working := start(workers, s.workerLoops()...)
	looping := start(loops, heart.Run, s.memory.Log.Run, s.hub.Run, s.badge.Run, s.fanout.Janitor().Run, s.audit.Run, s.cleaner.Run, s.redis.Watch, s.store.Watch, s.limiter.Run, s.runHints)
	s.ready.set(true)
	var failure error
	select {
	case <-ctx.Done():
		s.log.Info("draining", "sockets", s.sockets.Stats().Open)
	case failure = <-failed:
	}
	s.ready.set(false)
	stopWorkers()
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(s.cfg.Drain+4*time.Second, goneWithin-time.Second))
	defer cancel()
	s.sockets.Drain(deadline, s.cfg.Drain)
	s.hub.Drain()
	if err := s.shutdown(deadline); err != nil {
		s.log.Warn("requests were cut off", "error", err)
	}
	<-working
	stopLoops()
	<-looping
	failure = errors.Join(failure, s.store.Close(), s.redis.Close())
	s.log.Info("gone")
	return failure
}

func (s *server) workerLoops() []func(context.Context) error {
	var loops []func(context.Context) error
	for _, worker := range s.jobs.Workers(s.cfg.Workers) {
		loops = append(loops, worker.Run)
	}
	return loops
}

func (s *server) runHints(ctx context.Context) error {
	return s.redis.RunHints(ctx, rdb.HintReceiver{
		Documents: func(hints []rdb.Hint) {
			for _, hint := range hints {
				s.hub.Hint(hint.User, hint.N)
			}
		},
		Log: s.memory.Log.Wake,
		Resync: func() {
			s.hub.HintAll()
			s.memory.Log.Wake()
		},
	})
}

// start runs loops that end with ctx; the channel is closed when all have.
func start(ctx context.Context, loops ...func(context.Context) error) <-chan struct{} {
	done := make(chan struct{})
	var group errgroup.Group
	for _, loop := range loops {
		group.Go(func() error { return loop(ctx) })
	}
	go func() {
		_ = group.Wait() // loops end with their context and log their own failures
		close(done)
	}()
	return done
}
