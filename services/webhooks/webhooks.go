// Package webhooks sends the changes of badges to endpoints of the host application, as requests signed by the Standard Webhooks
// specification.
//
// The change stream is the queue: an endpoint is a position in it, and has a letter for each user whose newest change failed, or
// waits until the user is away. Both are in SQL. One node at a time, by a lease, delivers an endpoint, with a bounded number of
// requests at once and a deadline for each; endpoints do not wait for each other, and no job worker takes part.
//
// It guarantees that each change of a user that the filter chooses is delivered once or more, or replaced by a newer one of the
// user; that a user's versions arrive in their order, because at most one request for a user is under way; that every attempt
// for a version has one webhook-id; and that no request goes to an address that is neither public nor allowed.
//
// On failure: a letter is tried again with growing pauses for a day, and is dead afterwards: it is shown, and can be replayed. After
// some failures in a row the endpoint is down: one request at a time is tried, and all else waits in the stream, where it costs
// nothing and the newest change replaces older ones. If the node dies, another one takes over after the lease, and repeats what
// was not recorded. Without an endpoint a node reads one empty table at intervals; with the change stream off not even that.
package webhooks

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/stream"
)

// Config is what webhooks need.
type Config struct {
	DB     *sql.DB
	Stream *stream.Service
	// Online reports which users have an open socket.
	Online func(ctx context.Context, users []services.UserID) (map[services.UserID]bool, error)

	Node  string   // the name of this node
	Types []string // of site messages, for filters
	Clock services.Clock
	Log   *slog.Logger

	Allow    []netip.Prefix // networks that may be called though they are not public
	Timeout  time.Duration  // of one request; 0 means 10 s
	Requests int            // at once to one endpoint; 0 means 8
}

const (
	// leaseBeside is how much longer a lease is than a request: a round of requests ends within it.
	leaseBeside = 15 * time.Second
	lookEvery   = 2 * time.Second        // for endpoints that no node delivers
	poll        = 500 * time.Millisecond // for new changes
	pauseFor    = time.Second            // after an engine did not answer
)

// Service is the webhooks on one node. It is safe for concurrent use.
type Service struct {
	cfg    Config
	db     *sql.DB
	token  string // of this node
	sender *sender
	wake   chan struct{}
	batch  int // changes of one round

	mu      sync.Mutex
	running map[string]bool // endpoints that this node delivers

	delivered, failed atomic.Uint64
}

// New makes the webhooks of a node.
func New(cfg Config) *Service {
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Requests == 0 {
		cfg.Requests = 8
	}
	return &Service{
		cfg: cfg, db: cfg.DB, token: rand.Text(), sender: newSender(cfg.Allow, cfg.Timeout, cfg.Requests), wake: make(chan struct{}, 1), batch: batch,
		running: map[string]bool{},
	}
}

// Stats are this node's numbers since its start.
type Stats struct {
	Delivered uint64 // events that receivers accepted
	Failed    uint64 // requests that failed
	Endpoints int    // that this node delivers now
}

// Stats reads the numbers of this node.
func (s *Service) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Delivered: s.delivered.Load(), Failed: s.failed.Load(), Endpoints: len(s.running)}
}

// On reports whether this node delivers: it does while the change stream is on.
func (s *Service) On() bool { return s.cfg.Stream.On() }

// Wake makes this node look for endpoints now.
func (s *Service) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run delivers the endpoints that no other node does, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var deliverers sync.WaitGroup
	defer s.sender.closeIdle()
	defer deliverers.Wait()
	s.warnWhileOff(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-s.wake:
		}
		names, err := s.free(ctx)
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("webhooks wait", "error", err)
		}
		for _, name := range names {
			if s.begin(name) {
				deliverers.Go(func() { defer s.end(name); s.deliver(ctx, name) })
			}
		}
		timer.Reset(lookEvery)
	}
}

func (s *Service) warnWhileOff(ctx context.Context) {
	if s.On() {
		return
	}
	list, err := s.Endpoints(ctx, "")
	if err == nil && len(list) > 0 {
		s.cfg.Log.Warn("webhooks are not delivered by this node, because the change stream is off: start every node with --changes", "webhooks", len(list))
	}
}

// free lists the endpoints that this node may deliver.
func (s *Service) free(ctx context.Context) ([]string, error) {
	if !s.On() {
		return nil, nil
	}
	return sql.Column[string](ctx, s.db, freeWebhooks, s.token)
}

// begin reports whether this node was not delivering an endpoint until now.
func (s *Service) begin(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[name] {
		return false
	}
	s.running[name] = true
	return true
}

func (s *Service) end(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, name)
}

// deliver delivers an endpoint until ctx ends or another node does.
func (s *Service) deliver(ctx context.Context, name string) {
	d := s.deliverer(name)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait, err := d.step(ctx)
		switch {
		case ctx.Err() != nil:
			d.resign(context.WithoutCancel(ctx))
			return
		case err == errDeposed:
			return
		case err != nil:
			s.cfg.Log.Warn("a webhook waits", "webhook", name, "error", err)
			wait = pauseFor
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
}
