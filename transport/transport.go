// Package transport serves GraphQL over HTTP, WebSocket and event streams (SSE), and authenticates requests. gorilla/websocket
// does only the handshake of a WebSocket.
//
// It guarantees: no resolver runs before the token, the origin, the size and the form of a request were checked, and refusing a
// request is always cheap; no error repeats more than 100 bytes of what the client sent; no answer is longer than its limit; a
// waiting socket and a waking subscription cost no goroutine (a socket costs one on systems other than Linux), and an event
// stream costs the goroutine of its request; a slow reader delays no other; every mistake of a client ends in a documented status
// or close code.
//
// On failure: a request that cannot be understood gets an error with a code and nothing is executed. A socket that does not
// take its frames within the write deadline is cut off, and its client reconnects and gets the full state. When the server
// drains, sockets are closed with 1012, event streams end with a retry time, and new connections of both kinds are refused
// with 503.
//
// The path of a request: ConnectionLimit bounds the connections of its address. Front reads it, answers it if it is plain, and
// hands every other connection to the HTTP server. There Handler chooses between Sockets (an upgrade) and httpTransport (anything
// else). httpTransport checks the method, the origin, the address, the token and the body, in this order: the cheapest check that can
// refuse comes first. createOperation then finds or prepares the document, reads its variables and computes its cost, Limits
// charges it, and gqlgen's executor runs the resolvers.
//
// The path of a push: the hub (see package push) puts an event into the channel of a subscription and calls its wake-up. The operation
// queues a turn, the delivery of one event, with the workers. A worker takes the newest event, renders it, gives up its slot, and writes
// the frame. While a client does not read, the hub replaces the event in the channel: the client then gets the newest state, never a
// queue of old ones.
package transport

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/extension"

	"tidings/services"
)

// Config configures /graphql. Schema and Identity are required; for everything else, zero means the default.
type Config struct {
	// Schema may be a HotSchema too; the Front then answers some operations without the executor.
	Schema graphql.ExecutableSchema
	// Identity finds the viewer of each token.
	Identity *Identity
	// Sockets accepts the WebSocket upgrades and the event streams; nil refuses both, an upgrade with 400.
	Sockets *Sockets

	// ErrorPresenter turns a resolver's error into the error that the client sees; nil means gqlgen's own presenter.
	ErrorPresenter graphql.ErrorPresenterFunc
	// Recover turns a panic into an error; nil means gqlgen's own function.
	Recover graphql.RecoverFunc
	// AddMiddleware adds middleware around operations and responses (loaders, metrics); nil adds none. An answer that a Front makes
	// by a HotSchema does not pass through it, and an event that a schema writes without an execution (see
	// services.SubscriptionRequest) does not pass through the middleware of responses.
	AddMiddleware func(*handler.Server)

	// Introspection permits introspection, and suggestions of names in errors, which reveal the schema name by name. Default off.
	Introspection bool
	// Origins are the exact origins (https://app.example.com) whose pages may call, besides this host's own origin and, in
	// development mode, the origins of this machine.
	Origins []string

	// Limits bounds the requests of clients; nil: no limits.
	Limits Limits
	// Proxies are the networks whose X-Forwarded-For header is trusted. Without them, all clients of a proxy share its address
	// and with it one limit; if a network is listed wrongly, its clients can choose the address that they are counted under.
	Proxies []netip.Prefix

	// With MaxPersistedQueryBytes 0 no hashes are accepted, except those of trusted documents.
	RequestSettings

	FieldWeights   map[string]int // the costs of fields that cost more than others, by Type.field
	MaxPageSizes   map[string]int // the most items of a page where it is not 100, by Type.field
	MaxListLengths map[string]int // the most items of lists without an argument for their length, by Type.field; default 10 each
	// The memory for documents has two bounds, because the length of a text says little about the memory of the parsed document.
	// The other bound is QueryCacheBytes.
	MaxCachedQueries int // documents kept parsed and validated; default 1,000

	// Trusted are the documents that requests may name by an ID; nil: none. With TrustedOnly only these are executed.
	Trusted *TrustedDocuments

	Log *slog.Logger // default slog.Default()
}

// withDefaults sets the fields that are zero to their defaults.
func (c Config) withDefaults() Config {
	c.RequestSettings = services.WithDefaults(c.RequestSettings)
	c.MaxCachedQueries = cmp.Or(c.MaxCachedQueries, 1000)
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Limits = cmp.Or[Limits](c.Limits, noLimits{})
	return c
}

// Handler serves GraphQL: queries and mutations by POST, queries by GET, everything by WebSocket and, as event streams, by
// both modes of the GraphQL over SSE protocol. It answers OPTIONS, and any other method with 405. It does not look at the path.
//
// The transports are asked in the order in which they are added: Sockets takes upgrades, httpTransport everything that is left.
func Handler(cfg Config) http.Handler {
	cfg = cfg.withDefaults()
	documents := newDocumentPreparer(cfg)
	cfg.Trusted.logRefused(cfg, documents)
	server := handler.New(cfg.Schema)
	// createOperation has prepared the document already; the executor finds it by its context and parses nothing.
	server.SetQueryCache(contextDocumentCache{})
	if cfg.ErrorPresenter != nil {
		server.SetErrorPresenter(cfg.ErrorPresenter)
	}
	if cfg.Recover != nil {
		server.SetRecoverFunc(cfg.Recover)
	}
	if cfg.Introspection {
		server.Use(extension.Introspection{})
	}
	server.Use(rootFieldsExtension{cfg.Introspection})
	if cfg.AddMiddleware != nil {
		cfg.AddMiddleware(server)
	}
	// Sockets exist before their handler, because other parts of the program need them. They get the handler's documents here.
	if cfg.Sockets != nil {
		cfg.Sockets.documents = documents
		server.AddTransport(cfg.Sockets)
	}
	// One backlog for all protocols: an answer that waits to be read takes the same memory in each.
	answers := &answerBacklog{limitBytes: backlogLimit}
	if cfg.Sockets != nil {
		answers = &cfg.Sockets.backlog
	}
	served := &httpTransport{cfg: cfg, backlog: answers, documents: documents, origins: newOrigins(cfg.Origins, cfg.Identity), trustedProxies: trustedProxies{cfg.Proxies}, sockets: cfg.Sockets}
	server.AddTransport(served)
	return &endpoint{server, served}
}

// endpoint is the handler that Handler makes. A Front reads from it the checks and limits that the Front must apply too. Any
// other handler is opaque to the Front, which then serves nothing itself.
type endpoint struct {
	*handler.Server
	httpTransport *httpTransport // answers every request that Sockets does not take
}

// WithWakeConsumerFunc adds to a resolver's context the consumer of the channel that the resolver returns. push.WithConsumer is one.
type WithWakeConsumerFunc func(ctx context.Context, consumer services.ChannelConsumer) context.Context
