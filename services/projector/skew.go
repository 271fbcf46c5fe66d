package projector

import (
	"context"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/posts"
)

// clockSkew is how far this node's clock is ahead of the database's, according to its heartbeats. The latency of a heartbeat
// makes the clock look behind, so the greatest of the last few samples is the most accurate.
type clockSkew struct {
	mu          sync.Mutex        // guards the fields below
	recent      [16]time.Duration // the last samples
	sampleCount int               // how many samples were noted in all
}

// addSample adds a sample and returns the estimate with it. 16 samples are about three seconds of heartbeats, so the estimate soon
// follows a clock that was set.
func (s *clockSkew) addSample(ahead time.Duration) (estimate time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent[s.sampleCount%len(s.recent)] = ahead
	s.sampleCount++
	return s.estimate()
}

// estimate returns the greatest of the last samples. It requires mu and at least one sample.
func (s *clockSkew) estimate() time.Duration {
	greatest := s.recent[0]
	for _, ahead := range s.recent[:min(s.sampleCount, len(s.recent))] {
		greatest = max(greatest, ahead)
	}
	return greatest
}

// ClockAhead is how far this node's clock is ahead of the database's, negative when it is behind. It is known from the first
// heartbeat on, but never on SQLite, whose clock is this node's.
func (p *Projector) ClockAhead() (ahead time.Duration, known bool) {
	p.skew.mu.Lock()
	defer p.skew.mu.Unlock()
	if p.skew.sampleCount == 0 {
		return 0, false
	}
	return p.skew.estimate(), true
}

// IDClock makes this node's IDs. Its time is corrected by the database's clock, and never before any ID that it has made or seen.
func (p *Projector) IDClock() *services.IDClock { return p.ids }

// adjustIDClock lets this node's IDs follow the database's clock and the greatest post of any node. A node that is alone on its
// database has no heartbeats, and has made that post itself.
func (p *Projector) adjustIDClock(ctx context.Context, nodes []jobs.Node) error {
	for _, node := range nodes {
		if node.Self {
			p.ids.SetAheadOfDatabase(p.skew.addSample(node.ClockAhead))
		}
	}
	greatest, err := posts.Newest(ctx, p.db)
	p.ids.Observe(services.SortableID(greatest))
	return err
}
