package badge

import (
	"sync"

	"tidings/services"
)

// behind remembers whose badges were shown as STALE because a node died with work in its hands. Once that is done they are
// news again, whether a number changed by it or only how far it can be trusted.
type behind struct {
	mu    sync.Mutex
	shown map[services.UserID]uint64 // the own half of the version
}

// markBehind says of the counts that may lack something that they are STALE.
func (s *Service) markBehind(user services.UserID, v *view, badges *services.Badges) {
	lag := s.fanout.Behind(user)
	if lag == nil {
		return
	}
	for _, source := range s.sources {
		since, lags := lag[source.key()]
		if !lags {
			continue
		}
		for count := range s.sources.restingOn(source, badges) {
			if count.Precision != services.Unknown {
				count.Precision, count.AsOf = services.Stale, since
			}
		}
	}
	v.sum(badges)
	s.behind.mu.Lock()
	defer s.behind.mu.Unlock()
	if s.behind.shown == nil {
		s.behind.shown = map[services.UserID]uint64{}
	}
	if len(s.behind.shown) < maxFallbackVersions {
		s.behind.shown[user] = v.document.N
	}
}

// passBehind notes whose documents are to be raised because they were shown as STALE, once nobody is behind any more.
func (s *Service) passBehind() {
	if s.fanout.SomeBehind() {
		return
	}
	s.behind.mu.Lock()
	shown := s.behind.shown
	s.behind.shown = nil
	s.behind.mu.Unlock()
	for user, version := range shown {
		s.fallbacks.note(user, version)
	}
}
