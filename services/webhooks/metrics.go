package webhooks

import (
	"context"

	"tidings/services/metrics"
)

// Metrics describes this node's work for webhooks, and the state of each webhook. Each node counts only its own work, so a sum over
// the nodes is right. The state is of the whole database, so each node shows the same; its label is the name of the webhook, which
// operators chose, and there are few. While the change stream is off, or without webhooks, there is no state.
func (s *Service) Metrics() []metrics.Group {
	return []metrics.Group{
		metrics.FromStats(s.Stats,
			metrics.Counter("webhooks_failed_total", "Requests of this node to webhooks that failed.", func(s Stats) uint64 { return s.FailedRequests }),
			metrics.Gauge("webhooks_delivering", "Webhooks that this node delivers.", func(s Stats) int { return s.Endpoints }),
		),
		metrics.FromRows("webhook", func(e Endpoint) string { return e.Name }, s.endpointsIfOn,
			metrics.Counter("webhook_delivered_total", "Events that the receiver accepted, from all nodes.", func(e Endpoint) int { return e.DeliveredEvents }),
			metrics.Gauge("webhook_waiting", "Users whose newest change failed, or waits until they are away.", func(e Endpoint) int { return e.WaitingUsers }),
			metrics.Gauge("webhook_dead", "Users whose newest change was given up after a day.", func(e Endpoint) int { return e.DeadLetters }),
			metrics.Gauge("webhook_lag_seconds", "Age of the oldest change that was not sent yet.", s.lagSeconds),
			// A webhook that is down and one that was halted both need an operator to look, so one alarm covers them.
			metrics.Flag("webhook_down", "1 while the receiver fails as a whole, or has answered 410 Gone.", func(e Endpoint) bool { return e.Down() || !e.ReceiverGoneAt.IsZero() }),
		),
	}
}

// endpointsIfOn reads all endpoints together, and none while the change stream is off.
func (s *Service) endpointsIfOn(ctx context.Context) ([]Endpoint, error) {
	if !s.On() {
		return nil, nil
	}
	return s.Endpoints(ctx, "")
}

// lagSeconds is the age of the oldest change that an endpoint has not read, 0 if it has read all.
func (s *Service) lagSeconds(e Endpoint) float64 {
	if e.OldestUnsentAt.IsZero() {
		return 0
	}
	return max(0, s.cfg.Clock.Now().Sub(e.OldestUnsentAt).Seconds())
}
