// Package devices brings the number on the application's icon to browsers whose page is closed, by Web Push.
//
// A device is a subscription of a browser, which its user registers. Devices are a consumer of the change stream: a position in
// it says up to where changes have made devices due, and each row says which version the device has and which one it wants. Both
// are in SQL. One node at a time holds a lease and sends: every device gets the newest badges of its user, encrypted for the
// browser (RFC 8291) and signed (VAPID, RFC 8292).
//
// The package guarantees that each device is sent the newest badges of its user once changes stop; that the versions of a device
// rise, because at most one request for a device is under way; that a burst of changes is one message, and the next message
// replaces one that a push service still holds; that a device belongs to the user who registered it last, and nobody else sees or
// removes it; that a push service does not wait for another one, unless it is minor and very many hang; and that the requests of a node
// at once are bounded, whatever hosts its users name.
//
// The parts: Register writes the rows. checkDevices keeps the change stream on while there are devices. The deviceSender follows
// the stream and sends; pushServices bound what each push service and all of them get at once, and message says what a device gets.
// See deviceSender for the path of a message.
//
// On failure: a device is tried again with growing pauses for a day, and given up until its user's next change. A push service
// that fails for several devices in a row gets one request at a time until one succeeds. A device that its push service does not
// know any more (404, 410) is removed. If the node dies, another node takes over when the lease has ended, and repeats the
// requests that were not recorded. Without keys nothing can be registered and nothing runs; without a device a node reads one
// empty table at intervals.
package devices

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"tidings/services"
	"tidings/services/leases"
	"tidings/services/outbound"
	"tidings/services/sql"
	"tidings/services/stream"
)

// Config has the dependencies and settings of devices.
type Config struct {
	DB     *sql.DB
	Stream *stream.Service // the change stream
	// Online reports which users have an open socket.
	Online func(ctx context.Context, users []services.UserID) (map[services.UserID]bool, error)
	// StreamNeeded reports whether another reader needs the change stream. If none does, the stream is on only while there are
	// devices.
	StreamNeeded func(ctx context.Context) (bool, error)

	Node  string // the name of this node
	Clock services.Clock
	Log   *slog.Logger

	Settings
}

const (
	// leaseMargin is how much longer a lease is than the timeout of a request. A node renews its lease after a quarter of the
	// lease, so a request has three quarters of it: a margin of 15 s is enough for timeouts up to 45 s.
	leaseMargin         = 15 * time.Second
	pollInterval        = 500 * time.Millisecond // between two looks for new changes
	busyPollInterval    = 50 * time.Millisecond  // the same, while requests are under way
	deviceCheckInterval = 2 * time.Second        // between two looks for the first device
)

// Service sends Web Push from one node. It is safe for concurrent use.
type Service struct {
	cfg        Config
	keys       VAPIDKeys // the zero value: nothing can be registered, and nothing is sent
	db         *sql.DB
	pool       *leases.WorkerPool // runs the deviceSender while this node has the lease
	guard      outbound.Guard     // refuses addresses that are not public
	client     *outbound.Client   // sends the requests to push services
	maxPerStep int                // the most changes, or devices, in one step
	// hasDevices says whether checkDevices found devices the last time; Register sets it at once.
	hasDevices            atomic.Bool
	firstDeviceRegistered chan struct{} // wakes Run for the first device

	// Only the goroutine of Run uses checkedOnce and streamOn.
	checkedOnce, streamOn bool // checkedOnce: checkDevices has run; streamOn: checkDevices has left the stream on

	deliveredMessages, failedRequests, removedDevices atomic.Uint64 // see Stats
}

// New makes the Web Push of a node.
func New(cfg Config) *Service {
	cfg.Settings = services.WithDefaults(cfg.Settings)
	allow, _ := services.ParseNetworks(cfg.Allow) // Faults has checked them
	guard := outbound.Guard{Allow: allow, SettingName: "--web-push-allow (TIDINGS_WEB_PUSH_ALLOW)"}
	s := &Service{cfg: cfg, keys: cfg.keys(), db: cfg.DB, guard: guard, client: outbound.NewClient(guard, cfg.Timeout, cfg.RequestsPerService), maxPerStep: 500, firstDeviceRegistered: make(chan struct{}, 1)}
	if s.On() {
		cfg.Stream.SetHasReaders(true) // until checkDevices has run: otherwise jobs before it would mark no user
	}
	s.pool = leases.NewWorkerPool(leases.Config{
		DB: cfg.DB, Table: leaseTable, RowsName: "devices", Node: cfg.Node, Lease: cfg.Timeout + leaseMargin, Log: cfg.Log,
		Enabled:   func() bool { return s.On() && s.hasDevices.Load() && cfg.Stream.On() },
		NewWorker: func(lease *leases.Lease) leases.Worker { return s.newDeviceSender(lease) },
	})
	return s
}

// On reports whether Web Push is on: this node has VAPID keys. A node without keys takes no lease, because it can sign no message.
func (s *Service) On() bool { return s.keys.Public != "" }

// PublicKey is the key that browsers subscribe with, "" while Web Push is off. A browser that subscribed with another key has to
// subscribe again: until then nothing is sent to it, and its device counts as failing.
func (s *Service) PublicKey() string { return s.keys.Public }

// Stats are this node's numbers since its start.
type Stats struct {
	DeliveredMessages uint64 // messages that push services accepted
	FailedRequests    uint64 // requests that failed
	RemovedDevices    uint64 // devices that their push service did not know any more
	SendsHere         bool   // this node holds the lease, and sends
}

// Stats reads the numbers of this node.
func (s *Service) Stats() Stats {
	return Stats{DeliveredMessages: s.deliveredMessages.Load(), FailedRequests: s.failedRequests.Load(), RemovedDevices: s.removedDevices.Load(), SendsHere: s.pool.RunningCount() > 0}
}

// Run sends while this node holds the lease, until ctx ends. While there are devices it keeps the change stream on.
func (s *Service) Run(ctx context.Context) error {
	defer s.client.CloseIdle()
	if !s.On() {
		<-ctx.Done()
		return ctx.Err()
	}
	// The pool ends before the client's connections are closed: requests may be under way.
	sending := make(chan struct{})
	defer func() { <-sending }()
	ctx, cancel := context.WithCancel(ctx) // a panic of checkDevices ends the pool too
	defer cancel()
	go func() { defer close(sending); _ = services.KeepRunning(ctx, s.cfg.Log, s.pool.Run) }() // its error is that of ctx
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-s.firstDeviceRegistered:
		}
		if err := s.checkDevices(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("devices wait", "error", err)
		}
		timer.Reset(deviceCheckInterval)
	}
}

// checkDevices finds out whether there are devices, and switches the change stream on or off. Without devices and webhooks the
// stream is off, and jobs need not mark anybody. If nothing changed since its last run, it does nothing more.
func (s *Service) checkDevices(ctx context.Context) error {
	some, err := s.anyDevices(ctx)
	if err != nil {
		return err
	}
	// Another reader may need the stream: then it stays on.
	read := some
	if !read && s.cfg.StreamNeeded != nil {
		if read, err = s.cfg.StreamNeeded(ctx); err != nil {
			return err
		}
	}
	s.hasDevices.Store(some)
	if s.checkedOnce && s.streamOn == read {
		return nil
	}
	s.cfg.Stream.SetHasReaders(read)
	if s.checkedOnce && read {
		if err := s.markUsersOfFirstDevices(ctx); err != nil {
			return err // the next run tries again
		}
	}
	s.checkedOnce, s.streamOn = true, read
	s.pool.Wake()
	return nil
}

// markUsersOfFirstDevices marks the users of the first devices, because the jobs of this node have marked no user until now.
// Otherwise a change between the registration and this call would be lost until the next lap of the stream.
func (s *Service) markUsersOfFirstDevices(ctx context.Context) error {
	users, err := sql.ReadColumn[services.UserID](ctx, s.db, firstUsers)
	if err != nil {
		return err
	}
	return s.cfg.Stream.Mark(ctx, users)
}
