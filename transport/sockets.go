package transport

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"tidings/services"
)

// SocketConfig says how sockets are served. Identity is needed; for everything else zero is the default.
type SocketConfig struct {
	Identity *Identity
	// Wake and Waking belong together: a subscription to one of the fields in Waking is asked for with a
	// context from Wake, and read only when the callback says that there is an event: it costs no goroutine.
	// Subscriptions to other fields, and all of them when Wake is nil, cost one each.
	Wake   WakeFunc
	Waking []string

	Origins []string // as in Config

	InitTimeout       time.Duration // connection_init must come within this; default 3 s
	OperationTimeout  time.Duration // a query, a mutation and the start of a subscription end after this; default 5 s
	WriteTimeout      time.Duration // a frame must be taken within this; default 10 s
	PingInterval      time.Duration // between two pings, give or take a tenth; default 25 s
	MessageLimit      int64         // bytes of a message; default 64 KB
	Subscriptions     int           // operations at a time on one socket; default 20
	MessagesPerSecond int           // from one socket, on average; default 20

	Clock services.Clock // default the machine's
	Log   *slog.Logger   // default slog.Default()
}

// Sockets serves graphql-transport-ws.
type Sockets struct{ cfg SocketConfig }

// SocketStats counts what the sockets did since the start.
type SocketStats struct {
	Open       int    // sockets now
	Operations int    // subscriptions, queries and mutations under way now
	Opened     uint64 // sockets ever
	Refused    uint64 // upgrades refused
	Events     uint64 // next frames written
	Slow       uint64 // sockets cut off because they did not read
}

// NewSockets makes the transport; it starts nothing.
func NewSockets(cfg SocketConfig) *Sockets { return &Sockets{cfg: cfg} }

// Supports takes the requests for an upgrade.
func (s *Sockets) Supports(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }

// Do upgrades the connection and returns; the socket lives on by itself.
func (s *Sockets) Do(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) {
	writeFault(w, http.StatusServiceUnavailable, services.Errorf(services.Unavailable, "socket: not served yet"))
}

// Drain refuses new upgrades with 503 and closes every socket with 1012, spread evenly over that time so that
// the clients do not come back all at once. It returns when all are gone; when ctx ends first, the rest are cut off.
func (s *Sockets) Drain(ctx context.Context, spread time.Duration) {}

// Stats says how many sockets there are and what they did.
func (s *Sockets) Stats() SocketStats { return SocketStats{} }
