package badge

import (
	"sync"

	"tidings/services"
)

// behind remembers users whose badges were shown as STALE because updates of them were outstanding: a node died, or an
// engine did not answer. Once the work is done their badges need a newer version, whether a count or only its precision has
// changed.
type behind struct {
	mu    sync.Mutex
	shown map[services.UserID]uint64 // the user's half of the version
}

// markBehind marks as STALE the counts that may lack an update.
func (s *Service) markBehind(user services.UserID, v *view, badges *services.Badges) {
	// For each source, the time since which jobs for this user may be outstanding. It is nearly always nil.
	lag := s.jobs.Behind(user)
	if lag == nil {
		return
	}
	for _, source := range s.sources {
		since, lags := lag[source.Key()]
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
	// Beyond this bound a user's badges become exact with their next change.
	if len(s.behind.shown) < maxFallbackVersions {
		s.behind.shown[user] = v.Document.N
	}
}

// passBehind queues the documents that were shown as STALE to be raised, once no work is outstanding: then the same content
// gets a newer version, without which clients would keep STALE.
func (s *Service) passBehind() {
	if s.jobs.SomeBehind() {
		return
	}
	s.behind.mu.Lock()
	shown := s.behind.shown
	// markBehind makes a new map when it needs one: the old one may have grown large while an engine was away.
	s.behind.shown = nil
	s.behind.mu.Unlock()
	for user, version := range shown {
		s.fallbacks.note(user, version)
	}
}
