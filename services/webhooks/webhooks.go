// Package webhooks sends the changes of badges to endpoints of the host application, as requests signed by the Standard Webhooks
// specification.
//
// The change stream is the queue: an endpoint has a position in it, and a letter for each user whose newest change failed, or waits
// until the user is away. Both are in SQL. One node at a time, by a lease, delivers an endpoint, with a bounded number of requests
// at once and a deadline for each; endpoints do not wait for each other, and no job worker takes part.
//
// It guarantees that each change of a user that the filter chooses is delivered once or more, or replaced by a newer one of the
// user; that a user's versions arrive in their order, because at most one request for a user is under way; that every attempt for a
// version has one webhook-id; and that no request goes to an address that is neither public nor allowed.
//
// The path of a change: the writer of the stream gives it a position. The node that holds the lease of an endpoint reads it in the
// next round (deliverer.Step, planRound), with the user's letter if there is one. setUnsentResults leaves out changes that the filter
// does not choose and, with OnlyAway, changes of users who are online. send posts the rest, outcomeOfRound turns the answers into a
// new position, letters and a pause, and save writes them in one transaction.
//
// On failure: a letter is tried again with growing pauses for a day, and is dead afterwards: it is shown, and can be replayed.
// After some failures in a row the endpoint is down: one request at a time is tried, and all else waits in the stream, where it
// costs nothing and the newest change replaces older ones. If the node dies, another one takes over after the lease, and repeats
// what was not recorded. Without an endpoint a node reads one empty table at intervals; with the change stream off not even that.
package webhooks

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

// Config has the dependencies and settings of webhooks.
type Config struct {
	DB *sql.DB
	// The stream that is read. While it is off, no endpoint is delivered.
	Stream *stream.Service
	// Online reports which of the users have an open socket.
	Online func(ctx context.Context, users []services.UserID) (map[services.UserID]bool, error)

	Node string // the name of this node, which operators see
	// The types of site messages in the settings: a filter cannot name another.
	SiteMessageTypes []string // for filters
	Clock            services.Clock
	Log              *slog.Logger

	Settings
}

const (
	// leaseMargin is how much longer a lease is than a request, so that a round ends within the lease. A lease is renewed after a
	// quarter, so at least three quarters of it are left when a round begins: enough for maxSendTime and one request more.
	leaseMargin = 15 * time.Second
	// pollInterval is how often an endpoint with nothing to send looks for new changes, or for the end of its pause.
	pollInterval = 500 * time.Millisecond
)

// Service is the webhooks on one node. It is safe for concurrent use.
type Service struct {
	cfg             Config
	db              *sql.DB
	pool            *leases.WorkerPool // runs a deliverer for each endpoint whose lease this node has
	sender          *sender            // posts the events
	changesPerRound int                // how many changes of the stream a round reads at most; tests set fewer

	// deliveredEvents counts events that receivers accepted, failedRequests requests that failed. Both are for metrics, since the
	// start of this node. The rows of endpoints have the numbers of all nodes.
	deliveredEvents, failedRequests atomic.Uint64
}

// New makes the webhooks of a node.
func New(cfg Config) *Service {
	cfg.Settings = services.WithDefaults(cfg.Settings)
	// One client for all endpoints: it keeps connections to each of their hosts.
	allow, _ := services.ParseNetworks(cfg.Allow) // Faults has checked them
	guard := outbound.Guard{Allow: allow, SettingName: "--webhooks-allow (TIDINGS_WEBHOOKS_ALLOW)"}
	s := &Service{cfg: cfg, db: cfg.DB, sender: &sender{guard: guard, client: outbound.NewClient(guard, cfg.Timeout, cfg.ParallelRequests)}, changesPerRound: changesPerRound}
	// The pool gives each endpoint to one node, and calls Step of its deliverer in a goroutine of its own.
	s.pool = leases.NewWorkerPool(leases.Config{
		DB: cfg.DB, Table: leaseTable, RowsName: "webhooks", Node: cfg.Node, Lease: cfg.Timeout + leaseMargin, Enabled: s.On, Log: cfg.Log,
		NewWorker: func(lease *leases.Lease) leases.Worker { return s.newDeliverer(lease) },
	})
	return s
}

// Stats are this node's numbers since its start, for its metrics.
type Stats struct {
	DeliveredEvents uint64 // events that receivers accepted
	FailedRequests  uint64 // requests that failed
	Endpoints       int    // that this node delivers now
}

// Stats reads the numbers of this node.
func (s *Service) Stats() Stats {
	return Stats{DeliveredEvents: s.deliveredEvents.Load(), FailedRequests: s.failedRequests.Load(), Endpoints: s.pool.RunningCount()}
}

// On reports whether this node delivers: it does while the change stream is on. Otherwise it holds no lease.
func (s *Service) On() bool { return s.cfg.Stream.On() }

// HasEndpoints reports whether there is an endpoint. Webhooks need the change stream only then.
func (s *Service) HasEndpoints(ctx context.Context) (bool, error) {
	count := 0
	_, err := s.db.One(ctx, countWebhooks, nil, &count)
	return count > 0, err
}

// wake makes this node look for endpoints now, rather than at its next look.
func (s *Service) wake() { s.pool.Wake() }

// Run delivers the endpoints that no other node delivers, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	defer s.sender.client.CloseIdle()
	s.warnWhileOff(ctx)
	return s.pool.Run(ctx)
}

// warnWhileOff warns the operator if this node was started without the stream although there are endpoints.
func (s *Service) warnWhileOff(ctx context.Context) {
	if s.On() {
		return
	}
	list, err := s.Endpoints(ctx, "")
	if err == nil && len(list) > 0 {
		s.cfg.Log.Warn("webhooks are not delivered by this node, because the change stream is off: start every node with --changes", "webhooks", len(list))
	}
}
