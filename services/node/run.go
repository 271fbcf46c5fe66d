package node

import (
	"context"
	"errors"
	"time"

	"tidings/services/projector"
	"tidings/services/redis"
	"tidings/services/trace"
)

// exitTimeout is the time after SIGTERM at which the process ends, even if the drain waits for something. Acknowledged data is on
// disk by then, and the other nodes, or the next start, free the jobs that this process holds. The help promises 15 s, which is
// half of the time that orchestrators give.
const exitTimeout = 14 * time.Second

// runWithExitTimeout serves until ctx ends and then drains the node, by Run, but does not wait for a drain that hangs, as when an
// engine blocks a job or a request. The timeout counts from the end of ctx, so it never ends a node that serves.
func (s *Server) runWithExitTimeout(ctx context.Context, at Listeners) error {
	over, end := context.WithCancel(context.Background())
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(exitTimeout, end) })()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, at) }()
	select {
	case err := <-ended:
		return err
	case <-over.Done():
	}
	// Only Redis is closed, because a private Redis server is a process of its own. The rest ends with this process, and nothing in
	// it is lost.
	s.Log.Warn("the drain has taken too long: requests in progress are ended", "after", exitTimeout)
	closed := make(chan error, 1)
	go func() { closed <- s.Redis.Close() }() // a private server must not be left behind
	select {
	case <-closed:
	case <-time.After(exitTimeout / 50):
	}
	return nil
}

// Run serves until ctx ends or a part fails for good, and drains in this order: first the parts that bring new work, then those
// that finish work, and the engines last.
//
//	not ready, and no new connections; workers stop claiming and finish what they hold; subscriptions are refused and sockets closed
//	with 1012, spread over the drain time; HTTP requests on both listeners end; the hub takes this node out of Redis; SQL is flushed
//	and closed; Redis, with the private server, is last.
//
// Loops have contexts of their own, which ctx does not end: the drain ends each at its turn.
func (s *Server) Run(ctx context.Context, at Listeners) error {
	workers, stopWorkers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorkers()
	// Loops live longer than workers: a job in progress may need the hub, the log or the heartbeat.
	loops, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()
	failed := s.serveAt(at)
	// The heartbeat begins before the workers, so that a restart under the same name takes back its own jobs first.
	heart := s.Jobs.Heartbeat()
	if err := heart.Begin(ctx); err != nil {
		s.Log.Warn("jobs of the previous process may wait until their leases end", "error", err)
	}
	working := startLoops(workers, s.Log, s.workerLoops()...)
	looping := startLoops(loops, s.Log,
		heart.Run, s.DB.WatchWrites, s.Redis.Client.WatchMasters, s.Caches.Changelog.Run, s.receiveHints, s.Hub.Run, s.Badge.Run,
		projector.NewJanitor(s.Projector).Run, s.cleaner.Run, s.audit.Run, s.Limiter.Run, s.stream.Run, s.webhooks.Run, s.devices.Run)
	s.Ready.Set(true)
	var failure error
	select {
	case <-ctx.Done():
		open := s.sockets.Stats()
		s.Log.Info("draining", "sockets", open.Open, "eventStreams", open.Streams)
	case failure = <-failed:
	}
	// A load balancer needs to see this before connections end, so nothing else happens first.
	s.Ready.Set(false)
	s.Front.Drain(min(s.Config.Drain, minIdleConnectionTime))
	// Workers end beside the drain of the sockets, which takes most of the time.
	stopWorkers()
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(s.Config.Drain+4*time.Second, exitTimeout-time.Second))
	defer cancel()
	s.sockets.Drain(deadline, s.Config.Drain)
	// The sockets are gone. Now the hub's subscriptions may end: earlier, clients would have taken the end of a subscription for
	// the end of their operation.
	s.Hub.Drain()
	if err := s.shutdown(deadline); err != nil {
		s.Log.Warn("the drain ended requests that were in progress", "error", err)
	}
	// The loops end after the jobs in progress, which may leave work to the loops.
	<-working
	stopLoops()
	<-looping
	failure = errors.Join(failure, s.DB.Close(), s.Redis.Close())
	s.spans.Close()
	s.Log.Info("gone")
	return failure
}

// minIdleConnectionTime is the least time for which idle connections stay open after SIGTERM, unless the drain time is shorter. A
// proxy that keeps using such a connection gets an answer that closes the connection within that time.
const minIdleConnectionTime = time.Second

// receiveHints receives the other nodes' hints until ctx ends. A hint may be lost, so for each kind of hint the node also polls.
func (s *Server) receiveHints(ctx context.Context) error {
	return s.Redis.Client.RunHints(ctx, redis.HintReceiver{
		DocumentsChanged: func(hints []redis.Hint, cause trace.Cause) {
			for _, hint := range hints {
				s.Hub.Hint(hint.User, hint.Version, cause)
			}
		},
		ChangelogGrown: s.Caches.Changelog.Wake,
		// The connection to Redis was lost for a while: any hint may have been missed.
		Resync: func() {
			s.Hub.ReconcileAll()
			s.Caches.Changelog.Wake()
		},
	})
}
