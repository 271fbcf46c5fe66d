// Package node is a whole server: its settings, the wiring of all parts, run and drain, readiness, metrics.
//
// A node shares SQL and Redis with the other nodes and can be killed at any moment: everything that it acknowledged is on
// disk.
package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/99designs/gqlgen/graphql/handler"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/resolvers"
	"tidings/services"
	"tidings/services/acts"
	"tidings/services/announcements"
	"tidings/services/audit"
	"tidings/services/badge"
	"tidings/services/chat"
	"tidings/services/demo"
	"tidings/services/devices"
	"tidings/services/erasures"
	"tidings/services/export"
	"tidings/services/fanout"
	"tidings/services/feed"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/messages"
	"tidings/services/nodecache"
	"tidings/services/notifications"
	"tidings/services/projector"
	"tidings/services/push"
	"tidings/services/ratelimit"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/refs"
	"tidings/services/social"
	"tidings/services/sql"
	"tidings/services/stream"
	"tidings/services/trace"
	"tidings/services/views"
	"tidings/services/webhooks"
	"tidings/transport"
	"tidings/web"
)

// Server is every part of a running node.
type Server struct {
	Config    Config
	Log       *slog.Logger
	clock     services.Clock
	Store     *sql.DB
	Redis     *rdb.Projections
	Memory    *nodecache.Caches
	Jobs      *jobs.Engine
	Projector *projector.Projector
	Fanout    *fanout.Fanout
	audit     *audit.Audit
	cleaner   *projector.Cleaner
	Badge     *badge.Service
	Live      *live.Service
	Hub       *push.Hub
	Limiter   *ratelimit.Limiter
	sockets   *transport.Sockets
	HTTP      *http.Server     // for everybody
	Front     *transport.Front // in front of HTTP

	Operations  *http.Server // for operators; not started without a listener
	Connections *transport.Connections
	Ready       readiness
	stream      *stream.Service
	webhooks    *webhooks.Service
	devices     *devices.Service
	console     http.Handler // of operators
	erasures    *erasures.Service
	world       *demo.World     // nil without --demo
	worldEnds   <-chan struct{} // closed when the world stops, before the node drains
	spans       *trace.Recorder // nil without --traces
}

// Serve runs a node until ctx ends, and then drains it.
func Serve(ctx context.Context, cfg Config, stdout io.Writer, log *slog.Logger) (err error) {
	if cfg.Demo {
		remove, err := claimDemoFolder(&cfg)
		if err != nil {
			return err
		}
		defer remove()
		followForDemo(&cfg)
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return fmt.Errorf("--data %s: the folder cannot be made: %w", cfg.Data, err)
	}
	at, err := listen(cfg)
	if err != nil {
		return err
	}
	defer at.close() // http.Server has closed them by then, unless the start failed
	s, err := NewServer(ctx, cfg, services.SystemClock{}, log)
	if err != nil {
		return err
	}
	if cfg.Development() {
		log.Warn("development mode: tokens like dev:alice are accepted, and only loopback is served; configure a key for production")
	}
	serves := func() { fmt.Fprintln(stdout, "Tidings serves "+at.text(cfg)) }
	if cfg.Demo {
		return s.serveDemo(ctx, at, serves)
	}
	serves()
	return s.runUntilGone(ctx, at)
}

// goneWithin is the time after SIGTERM at which the process ends, even if the drain waits for something. Acknowledged data
// is on disk by then, and the other nodes, or the next start, free the jobs that it holds.
const goneWithin = 14 * time.Second

// runUntilGone is run with a deadline: it ends a drain that hangs, as when an engine blocks a job or a request.
func (s *Server) runUntilGone(ctx context.Context, at Listeners) error {
	over, end := context.WithCancel(context.Background())
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(goneWithin, end) })()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, at) }()
	select {
	case err := <-ended:
		return err
	case <-over.Done():
	}
	s.Log.Warn("the drain has taken too long: requests in progress are ended", "after", goneWithin)
	closed := make(chan error, 1)
	go func() { closed <- s.Redis.Close() }() // a private server must not be left behind
	select {
	case <-closed:
	case <-time.After(goneWithin / 50):
	}
	return nil
}

// NewServer opens the engines and wires the parts. If a part fails, it closes those that are open. changes are for tests, which need with a
// few followers what normally takes thousands.
func NewServer(ctx context.Context, cfg Config, clock services.Clock, log *slog.Logger, changes ...func(*fanout.Config)) (s *Server, err error) {
	s = &Server{Config: cfg, Log: log, clock: clock}
	// Read keys first: if a key cannot be read, no database has been created yet.
	identity, err := transport.NewIdentity(ctx, transport.IdentityConfig{
		Development: cfg.Development(), HMACSecret: cfg.JWTSecret, PublicKeyFile: cfg.JWTPublicKey, JWKS: cfg.JWKS,
		Audience: cfg.JWTAudience, Issuer: cfg.JWTIssuer, Clock: s.clock, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.keyFlag(), err)
	}
	var trusted *transport.TrustedDocuments
	if cfg.TrustedDocuments != "" {
		if trusted, err = transport.ReadTrustedDocuments(cfg.TrustedDocuments); err != nil {
			return nil, fmt.Errorf("--trusted-documents (TIDINGS_TRUSTED_DOCUMENTS): %w", err)
		}
	}
	if s.Store, err = sql.Open(ctx, sql.Config{URL: cfg.DatabaseURL(), Node: cfg.Node, Clock: s.clock, Log: log}); err != nil {
		return nil, err
	}
	ages, _ := services.ParseSourceExpiry(cfg.BadgeExpiry) // checked with the settings
	s.Redis, err = rdb.Open(ctx, redis.Options{URL: cfg.Redis, Late: true, Node: cfg.Node, DataDir: cfg.Data, Clock: s.clock, Log: log},
		rdb.Shape{MessageTypes: cfg.SiteMessageTypes, Expiry: ages})
	if err != nil {
		return nil, errors.Join(err, s.Store.Close())
	}
	s.Ready.refuses = s.Store.RefusesWrites
	s.Ready.remark = func() string {
		if s.Redis.RefusesWrites() {
			return "Redis refuses writes: counts and feeds are read from SQL, and counts are STALE\n"
		}
		return ""
	}
	root := s.wire(changes)
	if err = s.Projector.BeginActivity(ctx); err == nil {
		err = root.Notifications.Begin(ctx)
	}
	if err == nil && cfg.Development() {
		_, err = root.Social.Make(ctx, web.People)
	}
	if err == nil {
		s.spans, err = trace.Open(ctx, trace.Config{Endpoint: cfg.Traces, Node: cfg.Node, Version: Version(), Env: os.Getenv, Log: log})
	}
	if err != nil {
		return nil, errors.Join(err, s.Redis.Close(), s.Store.Close())
	}
	s.Ready.knows = s.Live.Memory.Loaded
	s.Ready.ahead = s.Projector.ClockAhead
	limits, _ := ratelimit.Parse(cfg.RateLimits) // checked with the settings, as are the next
	proxies, _ := transport.ParseProxies(cfg.TrustedProxies)
	s.Limiter = ratelimit.New(ratelimit.Config{Limits: limits, Ledger: s.Redis, Clock: s.clock, Log: log})
	s.sockets = transport.NewSockets(transport.SocketConfig{
		Limits: resolvers.Limits{Limiter: s.Limiter}, Proxies: proxies, PerUser: cfg.SocketsPerUser, PerAddress: cfg.SocketsPerAddress,
		Identity: identity, Ready: s.Live.Memory.Loaded, Gone: s.deviceGone(root), Wake: push.WithWake, Waking: []string{"badgesChanged"}, Origins: cfg.Origins,
		OperationTimeout: cfg.OperationTimeout, WriteTimeout: cfg.SocketWriteDeadline, MessageTimeout: cfg.RequestDeadline,
		Subscriptions: cfg.SocketSubscriptions, AnswerLimit: cfg.AnswerLimit, Clock: s.clock, Log: log,
	})
	var graphql http.Handler = transport.Handler(transport.Config{
		Schema: resolvers.Hot(graph.NewSchema(graph.Config{Resolvers: root}), root), Identity: identity, Sockets: s.sockets,
		Limits: resolvers.Limits{Limiter: s.Limiter}, Proxies: proxies,
		ErrorPresenter: resolvers.ErrorPresenter(log), Recover: resolvers.Recover, Around: s.around(root.Sources),
		Introspection: cfg.AllowIntrospection(), Origins: cfg.Origins, OperationTimeout: cfg.OperationTimeout,
		BodyLimit: int64(cfg.BodyLimit), IngestBodyLimit: int64(cfg.IngestBodyLimit), QueryTokens: cfg.QueryTokens, Log: log,
		Shape: transport.Shape{
			Depth: cfg.QueryDepth, Fields: cfg.QueryFields, Aliases: cfg.QueryAliases, Directives: cfg.QueryDirectives, RootFields: cfg.QueryRootFields,
		},
		QueryCost: cfg.QueryCost, Weights: resolvers.Weights, Pages: resolvers.Pages, QueryCacheBytes: int64(cfg.QueryCache), PersistedBytes: int64(cfg.PersistedQueries), Trusted: trusted, TrustedOnly: cfg.TrustedOnly, AnswerLimit: cfg.AnswerLimit, WriteTimeout: cfg.AnswerDeadline,
	})
	if s.spans != nil {
		graphql = trace.Handler(graphql)
	}
	s.console = s.newConsole(identity, root)
	s.Connections = transport.NewConnections(cfg.connectionsPerAddress(), proxies)
	s.HTTP = s.httpServer(s.routes(graphql, cfg.Development(), cfg.Pprof && cfg.Development() && cfg.Operations == ""))
	s.Front = transport.NewFront(graphql, s.HTTP, cfg.Development())
	s.Operations = s.httpServer(s.routes(graphql, true, cfg.Pprof))
	return s, nil
}

// around is the middleware of operations.
func (s *Server) around(sources dataloader.Sources) func(*handler.Server) {
	return func(server *handler.Server) {
		resolvers.Around(sources)(server)
		if s.spans != nil {
			transport.Traced(server)
		}
	}
}

// wire makes the services, from the bottom up.
func (s *Server) wire(changes []func(*fanout.Config)) *resolvers.Resolver {
	caps, _ := displayCaps(s.Config.DisplayCaps) // checked with the settings, as are the next
	expiry, _ := notificationExpiry(s.Config.NotifyFor)
	ages, _ := services.ParseSourceExpiry(s.Config.BadgeExpiry)
	kinds, _ := FeedKinds(s.Config.FeedKinds)
	ids := services.NewIDClock(s.clock, uint16(rand.Uint32()))
	s.Memory = nodecache.New(nodecache.Config{
		Facts: nodecache.SQL{DB: s.Store}, Redis: s.Redis, Clock: s.clock, Log: s.Log, Poll: s.Config.LogInterval,
	})
	s.Jobs = jobs.New(jobs.Config{DB: s.Store, Clock: s.clock, Log: s.Log})
	s.Projector = projector.New(projector.Config{
		Jobs: s.Jobs, Store: s.Store, Redis: s.Redis, Activity: s.Memory.Activity, Clock: s.clock, IDs: ids, Log: s.Log,
		ActiveFor: s.Config.ActiveFor, IdleAfter: s.Config.IdleAfter, Expiry: ages,
	})
	fanoutConfig := fanout.Config{
		Jobs: s.Jobs, Projector: s.Projector, Store: s.Store, Redis: s.Redis, Clock: s.clock, IDs: ids, Log: s.Log,
		Thresholds: services.Thresholds{Big: s.Config.BigFollowers, Huge: s.Config.HugeFollowers},
	}
	for _, change := range changes {
		change(&fanoutConfig)
	}
	s.Fanout = fanout.New(fanoutConfig)
	s.audit = audit.New(audit.Config{Store: s.Store, Redis: s.Redis, Projector: s.Projector, Clock: s.clock, Log: s.Log, Every: s.Config.AuditEvery})
	s.cleaner = s.Projector.Cleaner(s.Config.CleanEvery)
	announced := announcements.New(announcements.Config{
		DB: s.Store, Redis: s.Redis, Jobs: s.Jobs, Log: s.Memory.Log, Projector: s.Projector, IDs: ids, Clock: s.clock,
	})
	conversations := chat.New(chat.Config{
		Store: s.Store, Redis: s.Redis, Changes: s.Memory.Log, Jobs: s.Jobs, Projector: s.Projector, Clock: s.clock, MuteMentions: s.Config.MuteMentions, MaxGroup: s.Config.MaxGroup,
		MaxWriteMembers: s.Config.MaxWriteMembers, MaxWriteLoad: s.Config.MaxWriteLoad, Lease: s.Config.InsideLease,
	})
	letters := messages.New(messages.Config{DB: s.Store, Jobs: s.Jobs, Projector: s.Projector, IDs: ids, Types: s.Config.SiteMessageTypes})
	categories, _ := notifications.ParseConfigured(s.Config.Categories)
	notified := notifications.New(notifications.Config{
		DB: s.Store, Redis: s.Redis, Jobs: s.Jobs, Projector: s.Projector, Changes: s.Memory.Log, IDs: ids, Log: s.Log, Expiry: expiry, Categories: categories,
	})
	lists := views.New(views.Config{
		DB: s.Store, Redis: s.Redis.Client, Jobs: s.Jobs, Projector: s.Projector, IDs: ids, Clock: s.clock, Log: s.Log,
	})
	s.Live = live.New(live.Config{
		Store: s.Store, Redis: s.Redis, Reader: s.Memory.Reader, Log: s.Memory.Log, Jobs: s.Jobs, Fanout: s.Fanout, IDs: ids, Clock: s.clock,
		Limits:   live.ShowLimits{LateAfter: s.Config.ShowLateAfter, Longest: s.Config.ShowLongest},
		Sessions: live.Scope(s.Config.BoardSessions), SessionFor: s.Config.BoardSessionFor,
	})
	s.Badge = badge.New(badge.Config{
		Store: s.Store, Redis: s.Redis, Jobs: s.Jobs, Projector: s.Projector, Pulled: s.Memory.Pulled, Clock: s.clock, Log: s.Log, Caps: caps,
		Sources: []badge.Source{announced.Source(), letters.Source(), conversations.Source(), s.Live.Source(), notified.Source(), lists.Source()},
	})
	s.Hub = push.New(push.Config{
		Versions: s.Redis.Versions, Enter: s.Redis.Enter, Leave: s.leave, Lost: s.Redis.MarkLost, Render: s.Badge.ReadWatched,
		Learned: s.Memory.Log.Learned, Raise: s.Badge.Raise, Held: s.Badge.Holds,
		Clock: s.clock, Log: s.Log, MinInterval: s.Config.PushInterval, Sweep: s.Config.SweepInterval,
	})
	s.Memory.Log.OnShared(s.Hub.HintShared)
	s.Memory.Log.OnMoved(s.Hub.HintSharedOf)
	s.Store.OnSignal(func() {
		s.Memory.Log.Wake() // no mutation waits for a job's change, so nothing else wakes it
		s.Redis.HintLog()
	})
	s.wireStream()
	posted := feed.New(feed.Config{
		Jobs: s.Jobs, Store: s.Store, Redis: s.Redis, Posts: s.Memory.Posts, Reader: s.Memory.Reader, Pulled: s.Memory.Pulled, InFlight: s.Memory.InFlight, Fanout: s.Fanout, IDs: ids, Clock: s.clock, Kinds: kinds,
	})
	return &resolvers.Resolver{
		Acts:     acts.New(acts.Config{DB: s.Store, IDs: ids, Projector: s.Projector, Log: s.Log}),
		Erasures: s.wireErasures(posted, conversations), Feed: posted,
		Exports: export.Reader{DB: s.Store, Kinds: Exports},
		Refs:    refs.New(s.Store), Stream: s.stream, Webhooks: s.webhooks, Devices: s.devices, Live: s.Live, Sources: dataloader.Sources{Posts: s.Memory.Reader, Shows: s.Live.Memory},
		Social: social.New(social.Config{
			Store: s.Store, People: s.Memory.People, Fanout: s.Fanout, IDs: ids, Notifications: notified, MaxFollowees: s.Config.MaxFollowees,
			MaxMutes: s.Config.MaxMutes, MaxBlocks: s.Config.MaxBlocks, MaxHides: s.Config.MaxHides, OnBlock: conversations.CloseDirect,
		}),
		Messages: letters,
		Views:    lists,
		Chat:     conversations, Announcements: announced,
		Badge: s.Badge, Notifications: notified, Fanout: s.Fanout, Projector: s.Projector, Hub: s.Hub, Queue: s.Jobs, Clock: s.clock, Log: s.Log,
	}
}

// Run serves until ctx ends or a part fails for good, and drains in this order: what brings new work first, what
// finishes work next, the engines last.
//
//	not ready, and no new connections; workers stop claiming and finish what they hold; subscriptions are refused and sockets closed
//	with 1012, spread over the drain time; HTTP requests on both listeners end; the hub takes this node out of Redis; SQL is flushed
//	and closed; Redis, with the private server, is last.
func (s *Server) Run(ctx context.Context, at Listeners) error {
	workers, stopWorkers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorkers()
	loops, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()
	failed := s.serveAt(at)
	heart := s.Jobs.Heartbeat()
	if err := heart.Begin(ctx); err != nil {
		s.Log.Warn("jobs of the previous process may wait until their leases end", "error", err)
	}
	working := Start(workers, s.workerLoops()...)
	looping := Start(loops, heart.Run, s.Memory.Log.Run, s.Hub.Run, s.Badge.Run, s.Projector.Janitor().Run, s.audit.Run, s.cleaner.Run, s.Redis.Watch, s.Store.Watch, s.Limiter.Run, s.runHints, s.stream.Run, s.webhooks.Run, s.devices.Run)
	s.Ready.Set(true)
	var failure error
	select {
	case <-ctx.Done():
		open := s.sockets.Stats()
		s.Log.Info("draining", "sockets", open.Open, "eventStreams", open.Streams)
	case failure = <-failed:
	}
	s.Ready.Set(false)
	s.Front.Drain(min(s.Config.Drain, lastRequests))
	stopWorkers()
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(s.Config.Drain+4*time.Second, goneWithin-time.Second))
	defer cancel()
	s.sockets.Drain(deadline, s.Config.Drain)
	s.Hub.Drain()
	if err := s.shutdown(deadline); err != nil {
		s.Log.Warn("the drain ended requests that were in progress", "error", err)
	}
	<-working
	stopLoops()
	<-looping
	failure = errors.Join(failure, s.Store.Close(), s.Redis.Close())
	s.spans.Close()
	s.Log.Info("gone")
	return failure
}

// lastRequests is the least time that idle connections stay open after SIGTERM. A proxy that keeps using one gets an answer that closes it
// within that time.
const lastRequests = time.Second

func (s *Server) runHints(ctx context.Context) error {
	return s.Redis.RunHints(ctx, redis.HintReceiver{
		Documents: func(hints []redis.Hint, cause trace.Cause) {
			for _, hint := range hints {
				s.Hub.HintFrom(hint.User, hint.N, cause)
			}
		},
		Log: s.Memory.Log.Wake,
		Resync: func() {
			s.Hub.HintAll()
			s.Memory.Log.Wake()
		},
	})
}
