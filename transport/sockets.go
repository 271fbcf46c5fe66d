package transport

import (
	"bufio"
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/gorilla/websocket"

	"tidings/services"
)

// SocketConfig configures sockets. Identity is required; for everything else, zero means the default. The limits and times hold for
// event streams too, where they have a meaning.
type SocketConfig struct {
	Identity *Identity
	// WithWakeConsumer and WakingFields belong together. A subscription to a field in WakingFields gets its context from
	// WithWakeConsumer, and is read only when it is woken, so that it costs no goroutine. The resolver of such a field must return
	// the channel that the consumer is woken for. The consumer ends that channel; the end of a context must not end it.
	// Subscriptions to other fields, and all of them if WithWakeConsumer is nil, cost a goroutine each.
	WithWakeConsumer WithWakeConsumerFunc
	WakingFields     []string // the names of the subscription fields that wake

	// DeviceGone is called when the last socket or event stream of a device with a name has ended. The last goroutine of that
	// socket or stream calls it. It is not called while draining, because the client is about to reconnect to another node, or if
	// it is nil.
	DeviceGone func(viewer services.Viewer)

	// Ready reports whether sockets and event streams are accepted: not before the server has loaded the data that it serves from
	// memory. nil: always.
	Ready func() bool

	Origins []string // the pages that may open sockets and event streams: as in Config

	// Limits bounds the requests of clients; nil: no limits. Proxies are as in Config.
	Limits  Limits
	Proxies []netip.Prefix // the proxies whose X-Forwarded-For is believed: as in Config

	SocketSettings

	// Each of these bounds the time or the memory that one client can take.
	InitTimeout       time.Duration // the time for connection_init to arrive; default 3 s
	OperationTimeout  time.Duration // the time for a query, a mutation or the start of a subscription; default that of RequestSettings
	MessageTimeout    time.Duration // the time for a message to be complete once it has begun; default RequestSettings.RequestDeadline
	PingInterval      time.Duration // between two pings, give or take a tenth; default 25 s
	MaxMessageBytes   int64         // bytes of a message; default 64 KB
	MaxAnswerBytes    int           // bytes of an answer or an event; default that of RequestSettings
	MaxBacklogBytes   int64         // bytes of answers that may wait to be taken before clients get a shorter deadline; default 128 MB
	MessagesPerSecond int           // messages from one socket in a second, on average; default 20

	Clock services.Clock // default the machine's
	Log   *slog.Logger   // default slog.Default()
}

// withDefaults sets the fields that are zero to their defaults.
func (c SocketConfig) withDefaults() SocketConfig {
	c.SocketSettings = services.WithDefaults(c.SocketSettings)
	requests := services.WithDefaults(RequestSettings{})
	c.InitTimeout = cmp.Or(c.InitTimeout, 3*time.Second)
	c.OperationTimeout = cmp.Or(c.OperationTimeout, requests.OperationTimeout)
	c.MessageTimeout = cmp.Or(c.MessageTimeout, requests.RequestDeadline)
	c.PingInterval = cmp.Or(c.PingInterval, 25*time.Second)
	c.MaxMessageBytes = cmp.Or(c.MaxMessageBytes, 64<<10)
	c.MaxAnswerBytes = cmp.Or(c.MaxAnswerBytes, requests.MaxAnswerBytes)
	c.MaxBacklogBytes = cmp.Or(c.MaxBacklogBytes, backlogLimit)
	c.MessagesPerSecond = cmp.Or(c.MessagesPerSecond, 20)
	c.Clock = cmp.Or[services.Clock](c.Clock, services.SystemClock{})
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Limits = cmp.Or[Limits](c.Limits, noLimits{})
	return c
}

const (
	webSocketSubprotocol = "graphql-transport-ws" // the subprotocol of every socket

	// Sockets are closed in groups this far apart: clients come back evenly, and one goroutine with one ticker closes all.
	drainTickInterval = 10 * time.Millisecond

	// maxDrainGap is the longest time between the ends of two sockets. It keeps the drain of a few clients short: so few harm
	// nobody when they return together.
	maxDrainGap = 200 * time.Millisecond
)

// Sockets serves graphql-transport-ws by its specification, and holds the event streams of GraphQL over SSE beside its sockets: both
// have the same limits and workers. On Linux, all sockets that wait have one goroutine together, which ends with the last waiting
// socket: see inputPoller. Sockets is safe for concurrent use.
type Sockets struct {
	cfg SocketConfig
	// Handler sets documents, before anything is served.
	documents      *documentPreparer       // parses and caches documents; the handler uses it too
	wakingFields   map[string]bool         // the names of cfg.WakingFields; none without cfg.WithWakeConsumer
	origins        allowedOrigins          // the pages that may connect
	upgrader       websocket.Upgrader      // upgrades a request to a WebSocket
	workers        workers                 // run the turns of waking subscriptions
	inputPoller    inputPoller             // nil: sockets wait in goroutines of their own
	backlog        answerBacklog           // counts the answers that wait for slow clients; shared with the handler
	sharedContexts sharedOperationContexts // the operation contexts that subscriptions share
	devices        connectedDevices        // counts the connections of each device

	// perUser and perAddress count the peers of this node. A peer is counted in perAddress before it exists, and in perUser by
	// peer.admit. remove undoes both.
	trustedProxies trustedProxies     // finds the address of a client
	perUser        concurrencyLimiter // peers of each user
	perAddress     concurrencyLimiter // peers of each address

	streamBaseContext context.Context // the parent context of every event stream: without end and without a viewer

	// mu guards openPeers, reservedStreams and draining. draining is never reset.
	mu              sync.Mutex
	openPeers       map[*peer]struct{} // the sockets and event streams from add to remove
	reservedStreams map[string]*stream // event streams of the single connection mode, by token
	draining        bool               // Drain was called
	// running counts peers, and operations that are starting or run in goroutines of their own. Drain returns when it is at zero.
	// running is raised under mu for a peer, and for an operation while its peer is counted.
	running sync.WaitGroup

	// Counters for SocketStats. They are read one by one, so together they may be a moment apart.
	operationCount, streamCount                                atomic.Int64  // the operations under way now, and the event streams now
	openedCount, refusedCount, sentEventCount, slowClientCount atomic.Uint64 // sums: see Opened, Refused, Events and SlowClients
}

// SocketStats are the counters of sockets and event streams: current numbers, and sums since the start. /metrics shows all but
// Operations: Open and Streams are the load, SlowClients and Refused count clients in trouble.
type SocketStats struct {
	Open        int    // sockets now
	Streams     int    // event streams now, reserved ones included
	Operations  int    // subscriptions, queries and mutations under way now
	Opened      uint64 // sockets and event streams ever
	Refused     uint64 // upgrades and event streams refused
	Events      uint64 // next messages written
	SlowClients uint64 // sockets and event streams cut off because they were not read in time
}

// NewSockets makes the transport for Config.Sockets. It starts nothing. There are several workers for each processor, because a
// turn may wait for an engine while it renders.
func NewSockets(cfg SocketConfig) *Sockets {
	cfg = cfg.withDefaults()
	sockets := &Sockets{
		cfg: cfg, backlog: answerBacklog{limitBytes: cfg.MaxBacklogBytes}, wakingFields: make(map[string]bool), origins: newOrigins(cfg.Origins, cfg.Identity), trustedProxies: trustedProxies{cfg.Proxies},
		perUser: concurrencyLimiter{limit: cfg.MaxPerUser}, perAddress: concurrencyLimiter{limit: cfg.MaxPerAddress},
		openPeers: make(map[*peer]struct{}), reservedStreams: make(map[string]*stream), streamBaseContext: context.Background(), workers: workers{limit: max(16, 4*runtime.GOMAXPROCS(0))}, inputPoller: newInputPoller(),
		upgrader: websocket.Upgrader{
			HandshakeTimeout: cfg.WriteTimeout, Subprotocols: []string{webSocketSubprotocol},
			CheckOrigin: func(*http.Request) bool { return true }, // checked before
			Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
				w.Header().Set("Sec-WebSocket-Version", "13")
				writeFault(w, status, services.Wrapf(services.Invalid, reason, "Upgrade: not a valid WebSocket handshake"))
			},
		},
	}
	// Without WithWakeConsumer nothing would wake a subscription, so each one gets a goroutine, whatever its field.
	if cfg.WithWakeConsumer != nil {
		for _, field := range cfg.WakingFields {
			sockets.wakingFields[field] = true
		}
	}
	return sockets
}

// Supports reports whether a request asks for an upgrade.
func (s *Sockets) Supports(r *http.Request) bool { return isUpgrade(r) }

// isUpgrade reports whether a request asks for a WebSocket. Other upgrades (h2c) are optional offers, which a server may
// ignore.
func isUpgrade(r *http.Request) bool { return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") }

// Do upgrades the connection and returns, so that the memory of the HTTP request is freed; the socket lives on by itself. It
// refuses an upgrade with 403 for a page of another site, 429 for an address at a limit, and 503 while draining and until the
// server is ready. The token is in the first message, so the viewer is known only after the upgrade.
func (s *Sockets) Do(writer http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) {
	w := newRequest(writer, r)
	if !s.origins.allows(r) {
		s.refusedCount.Add(1)
		writeFault(w, http.StatusForbidden, foreignPageError(r))
		return
	}
	if closed := s.refusalReason(); closed != "" {
		s.refusedCount.Add(1)
		writeFault(w, http.StatusServiceUnavailable, goingAwayError(closed))
		return
	}
	address := s.trustedProxies.clientAddress(r)
	if err := s.admit(address); err != nil {
		s.refusedCount.Add(1)
		writeFault(w, statusOf(err), err)
		return
	}
	conn, err := s.upgrader.Upgrade(hijacker{w}, r, nil)
	if err != nil {
		s.perAddress.leave(address)
		s.refusedCount.Add(1) // the upgrader has answered, if it could
		return
	}
	newSocket(s, conn.NetConn(), exec, r.Header, address).start(conn.Subprotocol())
}

// refusalReason is the reason why no socket is accepted now; "" if sockets are accepted. A drain may begin right after, so add checks
// again.
func (s *Sockets) refusalReason() string {
	switch {
	case s.isDraining():
		return "going away"
	case s.cfg.Ready != nil && !s.cfg.Ready():
		return "starting"
	}
	return ""
}

// goingAwayError is the error for a connection to a closed server. A second later a proxy may have found another node.
func goingAwayError(closed string) error {
	return &services.Error{
		Code: services.Unavailable, RetryAfter: time.Second, Message: "connections: the server is " + closed + ", connect again",
	}
}

// addressLimitError is the error for a connection of an address at its limit.
func (s *Sockets) addressLimitError() error {
	return services.Errorf(services.RateLimited, "connections: up to %d sockets and event streams of one address are allowed at a time", s.cfg.MaxPerAddress)
}

// admit counts a socket for its address, or returns RATE_LIMITED. Its count is given back by remove, or by Do after a failed
// upgrade.
func (s *Sockets) admit(address string) error {
	if err := s.cfg.Limits.ChargeAddress(address); err != nil {
		return err
	}
	if !s.perAddress.enter(address) {
		return s.addressLimitError()
	}
	return nil
}

// hijacker finds the Hijack of a wrapped ResponseWriter.
type hijacker struct{ *httpRequest }

// Hijack takes the connection over.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(h.ResponseWriter).Hijack()
}

// Stats returns the counters of sockets and event streams.
func (s *Sockets) Stats() SocketStats {
	s.mu.Lock()
	open, streams := len(s.openPeers), int(s.streamCount.Load()) // a stream is counted in streamCount shortly before it is in openPeers
	s.mu.Unlock()
	return SocketStats{
		Open: max(open-streams, 0), Streams: streams, Operations: int(s.operationCount.Load()), Opened: s.openedCount.Load(),
		Refused: s.refusedCount.Load(), Events: s.sentEventCount.Load(), SlowClients: s.slowClientCount.Load(),
	}
}

// add registers a peer; false while draining. The peer is registered even then, so that it ends like any other. A Drain that
// already waits for running waits for this peer too.
func (s *Sockets) add(one *peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openedCount.Add(1)
	s.running.Add(1)
	s.openPeers[one] = struct{}{}
	return !s.draining
}

// remove uncounts a peer. It is the last step of a peer's end, so that a drain that was waiting for the peer finds nothing open.
func (s *Sockets) remove(one *peer) {
	s.mu.Lock()
	delete(s.openPeers, one)
	s.mu.Unlock()
	s.perAddress.leave(one.address)
	if one.countedUserKey != "" {
		s.perUser.leave(one.countedUserKey)
	}
	s.running.Done()
}

// isDraining reports whether Drain was called.
func (s *Sockets) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}
