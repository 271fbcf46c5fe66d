// Package node is a whole server: its settings, the wiring of all parts, run and drain, readiness, metrics.
//
// A node shares SQL and Redis with the other nodes and can be killed at any moment: everything that it acknowledged is on
// disk.
//
// Its life: Serve opens the addresses, so that a taken port fails before a database is made. NewServer opens the engines and wires
// the services, from the bottom up. Run serves and starts the loops, and at the end drains. The settings are Config, whose tags are
// the flags, the help and the bounds; Faults has what tags cannot say. Where services are listed (sources of the badges,
// steps of an erasure, lines of an export), a new feature has one line here, and nothing else knows them all.
package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"

	"github.com/99designs/gqlgen/graphql/handler"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/resolvers"
	"tidings/services"
	"tidings/services/audit"
	"tidings/services/badge"
	"tidings/services/demo"
	"tidings/services/devices"
	"tidings/services/erasures"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/nodecache"
	"tidings/services/posts"
	"tidings/services/projector"
	"tidings/services/push"
	"tidings/services/ratelimit"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/sql"
	"tidings/services/stream"
	"tidings/services/trace"
	"tidings/services/webhooks"
	"tidings/transport"
	"tidings/web"
)

// Server is every part of a running node. Tests of the whole program use the exported fields. After NewServer only Ready
// changes, and in a demo the world, which is made before the node serves. Fields that are not exported are made by wire and
// NewServer, and are nil before.
type Server struct {
	Config Config
	Log    *slog.Logger
	clock  services.Clock
	// The engines. They are closed in the opposite order.
	DB        *sql.DB
	Redis     *rdb.Projections
	Caches    *nodecache.Caches
	Jobs      *jobs.Engine         // commits commands and runs jobs
	Projector *projector.Projector // brings facts into users' documents and inboxes
	Fanout    *fanout.Fanout
	audit     *audit.Audit
	counts    *posts.CountAudit // of posts: a part of the audit
	cleaner   *projector.Cleaner
	Badge     *badge.Service     // renders badges
	Live      *live.Service      // shows and live boards
	Hub       *push.Hub          // sends each new state of a user's badges to the user's subscriptions on this node
	Limiter   *ratelimit.Limiter // bounds how much viewers, host applications and addresses may ask
	sockets   *transport.Sockets // the WebSockets and event streams of subscriptions
	HTTP      *http.Server       // for everybody
	Front     *transport.Front   // in front of HTTP

	OperationsServer *http.Server               // the pages and probes for operators; not started without a listener
	Connections      *transport.ConnectionLimit // bounds the open connections of each address
	Ready            readiness                  // whether this node takes traffic
	// These are made even if they are switched off. Each then reports by itself that it is off.
	stream           *stream.Service // the change stream
	webhooks         *webhooks.Service
	devices          *devices.Service
	console          http.Handler // of operators
	erasures         *erasures.Service
	world            *demo.World     // nil without --demo
	demoWorldStopped <-chan struct{} // closed when the world stops, before the node drains
	spans            *trace.Recorder // nil without --traces
}

// Serve runs a node until ctx ends, and then drains it. It prints one line to stdout, with the addresses, once they are open. An
// error is from the start, or says why a part ended for good. After a drain without faults it is nil.
func Serve(ctx context.Context, cfg Config, stdout io.Writer, log *slog.Logger) (err error) {
	if cfg.Demo {
		remove, err := claimDemoFolder(&cfg)
		if err != nil {
			return err
		}
		defer remove()
		speedUpStreamForDemo(&cfg)
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return fmt.Errorf("--data %s: the folder cannot be made: %w", cfg.Data, err)
	}
	// The addresses are taken first: of two nodes that are started by mistake, the second must not touch the first one's files.
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
	// A demo prints the line later, when its world can be visited.
	serves := func() { fmt.Fprintln(stdout, "Tidings serves "+at.addressLine(cfg)) }
	if cfg.Demo {
		return s.serveDemo(ctx, at, serves)
	}
	serves()
	return s.runWithExitTimeout(ctx, at)
}

// NewServer opens the engines and wires the parts. If a part fails, it closes those that are open. When it returns no loop runs and
// nothing is served. The caller must call Run, which also closes the engines at its end.
func NewServer(ctx context.Context, cfg Config, clock services.Clock, log *slog.Logger) (s *Server, err error) {
	s = &Server{Config: cfg, Log: log, clock: clock}
	// Read keys first: if a key cannot be read, no database has been created yet.
	identity, trusted, err := s.readTokenKeys(ctx)
	if err != nil {
		return nil, err
	}
	if s.DB, err = sql.Open(ctx, sql.Config{URL: cfg.DatabaseURL(), Node: cfg.Node, Clock: s.clock, Log: log}); err != nil {
		return nil, err
	}
	// With AllowLateServer the node starts also while Redis does not answer, and reads SQL until it does.
	s.Redis, err = rdb.Open(ctx, redis.Options{URL: cfg.Redis, AllowLateServer: true, NodeID: cfg.Node, DataDir: cfg.Data, Clock: s.clock, Log: log},
		rdb.DocumentShape{MessageTypes: cfg.Messages.Types, Expiry: cfg.Badge.Expiry()})
	if err != nil {
		return nil, errors.Join(err, s.DB.Close())
	}
	// From here on errors close the engines.
	s.Ready.refusesWrites = s.DB.RefusesWrites
	s.Ready.limitationText = func() string {
		if s.Redis.Client.RefusesWrites() {
			return "Redis refuses writes: counts and feeds are read from SQL, and counts are STALE\n"
		}
		return ""
	}
	root := s.wire()
	// Each of these parts needs the database once, before anything is served.
	if err = s.Projector.RecordConfiguredThresholds(ctx); err == nil {
		err = root.Notifications.LoadAndDefineCategories(ctx)
	}
	// The users of the tour (docs/tour.md, web.People) exist from the start, so that its first query finds them.
	if err == nil && cfg.Development() {
		_, err = root.Social.EnsureUsers(ctx, web.People)
	}
	if err == nil {
		s.spans, err = trace.Open(ctx, trace.Config{Settings: cfg.Trace, Node: cfg.Node, Version: version(), Env: os.Getenv, Log: log})
	}
	if err != nil {
		return nil, errors.Join(err, s.Redis.Close(), s.DB.Close())
	}
	s.Ready.cachesLoaded = s.Live.Memory.Loaded
	s.Ready.clockAhead = s.Projector.ClockAhead
	// These parts serve requests: budgets, sockets, the handler, then the servers around it.
	proxies := cfg.Proxies.Networks()
	// Budgets are counted on all nodes together: the ledger is Redis, and each node counts alone while that does not answer.
	s.Limiter = ratelimit.New(ratelimit.Config{Limits: cfg.RateLimit.Limits(), Ledger: rdb.SpendingLedger{Client: s.Redis.Client}, Clock: s.clock, Log: log})
	// A subscription to badges is woken and has no goroutine, because every user has such a subscription. Subscriptions to lists
	// are few, and take a goroutine each.
	s.sockets = transport.NewSockets(transport.SocketConfig{
		Limits: resolvers.Limits{Limiter: s.Limiter}, Proxies: proxies, SocketSettings: cfg.Sockets,
		Identity: identity, Ready: s.Live.Memory.Loaded, DeviceGone: s.deviceGoneHandler(root), WithWakeConsumer: push.WithConsumer, WakingFields: []string{"badgesChanged"}, Origins: cfg.Origins.Allowed,
		OperationTimeout: cfg.Requests.OperationTimeout, MessageTimeout: cfg.Requests.RequestDeadline, MaxAnswerBytes: cfg.Requests.MaxAnswerBytes, Clock: s.clock, Log: log,
	})
	// The handler has the same limits, identity and schema as the sockets.
	var graphql http.Handler = transport.Handler(transport.Config{
		Schema: resolvers.WithHotOperations(graph.NewSchema(graph.Config{Resolvers: root}), root), Identity: identity, Sockets: s.sockets,
		Limits: resolvers.Limits{Limiter: s.Limiter}, Proxies: proxies,
		ErrorPresenter: resolvers.ErrorPresenter(log), Recover: resolvers.Recover, AddMiddleware: s.operationMiddleware(root.Readers),
		Introspection: cfg.allowIntrospection(), Origins: cfg.Origins.Allowed, RequestSettings: cfg.Requests, Trusted: trusted, Log: log,
		FieldWeights: resolvers.CostWeights, MaxPageSizes: resolvers.MaxPageSizes, MaxListLengths: resolvers.ListLengths,
	})
	// With spans around the handler, the Front leaves everything to the HTTP server: a span is made for each request.
	if s.spans != nil {
		graphql = trace.Handler(graphql)
	}
	s.console = s.newConsole(identity, root)
	s.Connections = transport.NewConnectionLimit(cfg.connectionsPerAddress(), proxies)
	s.HTTP = s.httpServer(s.routes(graphql, cfg.Development(), cfg.Pprof && cfg.Development() && cfg.Operations == ""))
	s.Front = transport.NewFront(graphql, s.HTTP, cfg.Development())
	// OperationsServer is for operators. HTTP has profiles only in development mode, and only if no address for operators is set.
	s.OperationsServer = s.httpServer(s.routes(graphql, true, cfg.Pprof))
	return s, nil
}

// readTokenKeys reads the keys for tokens, and the trusted documents, nil for none. The errors name the flag. A JWKS at an address
// is read again while the node runs; here it must be read once.
func (s *Server) readTokenKeys(ctx context.Context) (identity *transport.Identity, trusted *transport.TrustedDocuments, err error) {
	cfg := s.Config
	identity, err = transport.NewIdentity(ctx, transport.IdentityConfig{
		Development: cfg.Development(), TokenSettings: cfg.Tokens, Clock: s.clock, Log: s.Log,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", cfg.Tokens.KeyFlag(), err)
	}
	if cfg.Requests.TrustedDocuments != "" {
		if trusted, err = transport.ReadTrustedDocuments(cfg.Requests.TrustedDocuments); err != nil {
			return nil, nil, fmt.Errorf("--trusted-documents (TIDINGS_TRUSTED_DOCUMENTS): %w", err)
		}
	}
	return identity, trusted, nil
}

// operationMiddleware is the middleware of operations: loaders for each response, and spans. Without --traces nothing is added for
// spans, so that nothing is paid for them.
func (s *Server) operationMiddleware(readers dataloader.Readers) func(*handler.Server) {
	return func(server *handler.Server) {
		resolvers.UseLoader(readers)(server)
		if s.spans != nil {
			transport.TraceOperations(server)
		}
	}
}
