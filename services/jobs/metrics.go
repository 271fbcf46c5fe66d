package jobs

import (
	"context"
	"time"

	"tidings/services/metrics"
)

// Metrics describes the queue, on all nodes together. While SQL does not answer there are none: a 0 would look like an empty queue.
func (e *Engine) Metrics() []metrics.Group {
	return []metrics.Group{metrics.FromQuery(e.readQueueCounts,
		metrics.Gauge("jobs_waiting", "Jobs that wait or run, including those planned for later.", func(q queueCounts) int { return q.waiting }),
		metrics.Gauge("jobs_dead", "Jobs given up after five failures of their own.", func(q queueCounts) int { return q.dead }),
		metrics.Gauge("jobs_oldest_seconds", "Time since the oldest waiting job was due.", func(q queueCounts) float64 { return q.oldest.Seconds() }),
	)}
}

// queueCounts are the numbers of the queue.
type queueCounts struct {
	waiting, dead int
	oldest        time.Duration // how long the oldest waiting job has been due
}

// readQueueCounts reads the numbers of the queue. The age is zero for an empty queue, and for a job whose time is ahead of this clock.
func (e *Engine) readQueueCounts(ctx context.Context) (q queueCounts, err error) {
	waiting, dead, oldest, err := JobCounts(ctx, e.db)
	q.waiting, q.dead = waiting, dead
	if !oldest.IsZero() {
		q.oldest = max(0, e.clock.Now().Sub(oldest))
	}
	return q, err
}
