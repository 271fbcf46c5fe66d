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

// SocketConfig configures sockets. Identity is required; for everything else, zero means the default.
type SocketConfig struct {
	Identity *Identity
	// Wake and Waking belong together. A subscription to a field in Waking gets its context from Wake, and is read only when
	// the callback reports an event, so that it costs no goroutine. The resolver of such a field must return the very channel
	// that the callback is about. Subscriptions to other fields, and all of them if Wake is nil, cost a goroutine each.
	Wake   WakeFunc
	Waking []string

	// Gone is called when the last socket or event stream of a device with a name has ended, by its last goroutine. It is not
	// called while draining, because the client is about to reconnect to another node. nil: it is not called.
	Gone func(viewer services.Viewer)

	// Ready reports whether sockets are accepted: not before the server has loaded the data that it serves from memory. nil:
	// always.
	Ready func() bool

	Origins []string // as in Config

	// Limits bounds the requests of clients; nil: no limits. Proxies are as in Config.
	Limits  Limits
	Proxies []netip.Prefix

	PerUser    int // sockets and event streams of one user at a time on this node; 0 bounds nothing
	PerAddress int // sockets and event streams of one address at a time on this node; 0 bounds nothing

	InitTimeout       time.Duration // the time for connection_init to arrive; default 3 s
	OperationTimeout  time.Duration // the time for a query, a mutation or the start of a subscription; default 5 s
	WriteTimeout      time.Duration // the time for the client to take a frame; default 10 s
	MessageTimeout    time.Duration // the time for a message to be complete once it has begun; default 10 s
	PingInterval      time.Duration // between two pings, give or take a tenth; default 25 s
	MessageLimit      int64         // bytes of a message; default 64 KB
	AnswerLimit       int           // bytes of an answer or an event; default 4 MB
	Backlog           int64         // bytes of answers that may wait to be taken before clients get a shorter deadline; default 128 MB
	Subscriptions     int           // operations at a time on one socket or event stream; default 20
	MessagesPerSecond int           // from one socket, on average; default 20

	Clock services.Clock // default the machine's
	Log   *slog.Logger   // default slog.Default()
}

func (c SocketConfig) withDefaults() SocketConfig {
	c.InitTimeout = cmp.Or(c.InitTimeout, 3*time.Second)
	c.OperationTimeout = cmp.Or(c.OperationTimeout, 5*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 10*time.Second)
	c.MessageTimeout = cmp.Or(c.MessageTimeout, 10*time.Second)
	c.PingInterval = cmp.Or(c.PingInterval, 25*time.Second)
	c.MessageLimit = cmp.Or(c.MessageLimit, 64<<10)
	c.AnswerLimit = cmp.Or(c.AnswerLimit, answerLimit)
	c.Backlog = cmp.Or(c.Backlog, backlogLimit)
	c.Subscriptions = cmp.Or(c.Subscriptions, 20)
	c.MessagesPerSecond = cmp.Or(c.MessagesPerSecond, 20)
	c.Clock = cmp.Or[services.Clock](c.Clock, services.SystemClock{})
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Limits = cmp.Or[Limits](c.Limits, noLimits{})
	return c
}

const (
	protocol = "graphql-transport-ws"

	readBuffer  = 512     // bytes, kept by each socket
	writeBuffer = 4 << 10 // bytes, borrowed for one write

	drainStep = 10 * time.Millisecond // sockets are closed in groups this far apart
)

// Sockets serves graphql-transport-ws by its specification, and holds the event streams of GraphQL over SSE beside its sockets:
// both have the same limits, hub and workers. It starts no goroutine of its own: each socket has one, which ends with it. It is
// safe for concurrent use.
type Sockets struct {
	cfg       SocketConfig
	documents *documents // of the handler
	waking    map[string]bool
	origins   origins
	upgrader  websocket.Upgrader
	workers   workers
	backlog   backlog // of the handler
	shared    shared
	devices   devices

	addresses  addresses
	perUser    occupancy
	perAddress occupancy

	base context.Context // the parent context of every event stream: without end and without a viewer

	mu       sync.Mutex
	open     map[*peer]struct{}
	reserved map[string]*stream // event streams of the single connection mode, by token
	draining bool
	running  sync.WaitGroup // sockets, and the starts of their operations

	operations, streaming         atomic.Int64
	opened, refused, events, slow atomic.Uint64
}

// SocketStats are the counters of sockets and event streams since the start.
type SocketStats struct {
	Open       int    // sockets now
	Streams    int    // event streams now, reserved ones included
	Operations int    // subscriptions, queries and mutations under way now
	Opened     uint64 // sockets and event streams ever
	Refused    uint64 // upgrades and event streams refused
	Events     uint64 // next messages written
	Slow       uint64 // sockets and event streams cut off because they were not read in time
}

// NewSockets makes the transport for Config.Sockets. It starts nothing.
func NewSockets(cfg SocketConfig) *Sockets {
	cfg = cfg.withDefaults()
	sockets := &Sockets{
		cfg: cfg, backlog: backlog{limit: cfg.Backlog}, waking: make(map[string]bool), origins: newOrigins(cfg.Origins, cfg.Identity), addresses: addresses{cfg.Proxies},
		perUser: occupancy{limit: cfg.PerUser}, perAddress: occupancy{limit: cfg.PerAddress},
		open: make(map[*peer]struct{}), reserved: make(map[string]*stream), base: context.Background(), workers: workers{limit: max(16, 4*runtime.GOMAXPROCS(0))},
		upgrader: websocket.Upgrader{
			HandshakeTimeout: cfg.WriteTimeout, Subprotocols: []string{protocol},
			ReadBufferSize: readBuffer, WriteBufferSize: writeBuffer, WriteBufferPool: &sync.Pool{},
			CheckOrigin: func(*http.Request) bool { return true }, // checked before
			Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
				w.Header().Set("Sec-WebSocket-Version", "13")
				writeFault(w, status, services.Wrapf(services.Invalid, reason, "Upgrade: not a valid WebSocket handshake"))
			},
		},
	}
	if cfg.Wake != nil {
		for _, field := range cfg.Waking {
			sockets.waking[field] = true
		}
	}
	return sockets
}

// Supports takes the requests for an upgrade.
func (s *Sockets) Supports(r *http.Request) bool { return isUpgrade(r) }

// isUpgrade reports whether a request asks for a WebSocket. Other upgrades (h2c) are optional offers, which a server may
// ignore.
func isUpgrade(r *http.Request) bool { return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") }

// Do upgrades the connection and returns, so that the memory of the HTTP request is freed; the socket lives on by itself. It
// refuses an upgrade with 403 for a page of another site, 429 for an address at a limit, and 503 while draining and until the
// server is ready.
func (s *Sockets) Do(writer http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) {
	w := newRequest(writer, r)
	if !s.origins.allows(r) {
		s.refused.Add(1)
		writeFault(w, http.StatusForbidden, foreignPage(r))
		return
	}
	if closed := s.closed(); closed != "" {
		s.refused.Add(1)
		writeFault(w, http.StatusServiceUnavailable, goingAway(closed))
		return
	}
	address := s.addresses.of(r)
	if err := s.admit(address); err != nil {
		s.refused.Add(1)
		writeFault(w, statusOf(err), err)
		return
	}
	conn, err := s.upgrader.Upgrade(hijacker{w}, r, nil)
	if err != nil {
		s.perAddress.leave(address)
		s.refused.Add(1) // the upgrader has answered, if it could
		return
	}
	newSocket(s, conn, exec, r.Header, address).start()
}

// closed is the reason why no socket is accepted now; "" if sockets are accepted.
func (s *Sockets) closed() string {
	switch {
	case s.isDraining():
		return "going away"
	case s.cfg.Ready != nil && !s.cfg.Ready():
		return "starting"
	}
	return ""
}

// goingAway is the error for a connection to a closed server.
func goingAway(closed string) error {
	return &services.Error{
		Code: services.Unavailable, RetryAfter: time.Second, Message: "connections: the server is " + closed + ", connect again",
	}
}

// fullAddress is the error for a connection of an address at its limit.
func (s *Sockets) fullAddress() error {
	return services.Errorf(services.RateLimited, "connections: up to %d sockets and event streams of one address are allowed at a time", s.cfg.PerAddress)
}

// admit counts a socket for its address, or returns RATE_LIMITED.
func (s *Sockets) admit(address string) error {
	if err := s.cfg.Limits.Address(address); err != nil {
		return err
	}
	if !s.perAddress.enter(address) {
		return s.fullAddress()
	}
	return nil
}

// hijacker finds the Hijack of a wrapped ResponseWriter.
type hijacker struct{ *httpRequest }

// Hijack takes the connection over.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(h.ResponseWriter).Hijack()
}

// Drain refuses new connections with 503, closes every socket with 1012 and ends every event stream. It spreads these over
// the given time so that the clients do not reconnect all at once. It returns when all are gone; when ctx ends first, the
// rest are cut off. Draining twice is the same as once.
func (s *Sockets) Drain(ctx context.Context, spread time.Duration) {
	s.mu.Lock()
	s.draining = true
	peers := make([]line, 0, len(s.open))
	for one := range s.open {
		peers = append(peers, one.line)
	}
	s.mu.Unlock()

	ticker := time.NewTicker(drainStep)
	defer ticker.Stop()
	began := time.Now()
	closeSpread(ctx, peers, ticker.C, func() float64 { return float64(time.Since(began)) / float64(max(spread, 1)) })
	gone := make(chan struct{})
	go func() {
		s.running.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-ctx.Done():
		for _, one := range peers {
			one.cut()
		}
	}
}

// CloseUser ends every socket, with 4403, and event stream of a user, by key. Their next request is refused.
func (s *Sockets) CloseUser(key string) (closed int) {
	s.mu.Lock()
	var peers []line
	for one := range s.open {
		one.mu.Lock()
		if one.holder == key {
			peers = append(peers, one.line)
		}
		one.mu.Unlock()
	}
	s.mu.Unlock()
	for _, one := range peers {
		go one.dismiss() // may wait for a slow reader
	}
	return len(peers)
}

// closeSpread asks peers to reconnect: at each tick, as many as are due by then, because a busy machine loses ticks. passed is
// the part of the time that has passed. If ctx ends, the rest are closed at once.
func closeSpread(ctx context.Context, peers []line, ticks <-chan time.Time, passed func() float64) {
	for from := 0; from < len(peers); {
		to := len(peers)
		if part := passed(); part < 1 && ctx.Err() == nil {
			to = max(from, int(float64(len(peers))*part))
		}
		for _, one := range peers[from:to] {
			go one.restart() // may wait for a slow reader
		}
		if from = to; from == len(peers) {
			return
		}
		select {
		case <-ticks:
		case <-ctx.Done():
		}
	}
}

// Stats returns the counters of sockets and event streams.
func (s *Sockets) Stats() SocketStats {
	s.mu.Lock()
	open, streams := len(s.open), int(s.streaming.Load()) // a stream is counted in streaming shortly before it is in open
	s.mu.Unlock()
	return SocketStats{
		Open: max(open-streams, 0), Streams: streams, Operations: int(s.operations.Load()), Opened: s.opened.Load(),
		Refused: s.refused.Load(), Events: s.events.Load(), Slow: s.slow.Load(),
	}
}

// add registers a peer; false while draining.
func (s *Sockets) add(one *peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened.Add(1)
	s.running.Add(1)
	s.open[one] = struct{}{}
	return !s.draining
}

func (s *Sockets) remove(one *peer) {
	s.mu.Lock()
	delete(s.open, one)
	s.mu.Unlock()
	s.perAddress.leave(one.address)
	if one.holder != "" {
		s.perUser.leave(one.holder)
	}
	s.running.Done()
}

func (s *Sockets) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}
