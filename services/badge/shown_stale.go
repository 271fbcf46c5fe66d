package badge

import (
	"sync"

	"tidings/services"
)

// shownStale remembers users whose badges were shown as STALE because updates were outstanding: a node died, or an engine did not
// answer. Once the work is done their badges need a newer version, whether a count or only its precision has changed.
type shownStale struct {
	mu       sync.Mutex
	versions map[services.UserID]uint64 // the user's half of the version
}

// markStale marks as STALE the counts that may lack an update.
func (s *Service) markStale(user services.UserID, v *view, badges *services.Badges) {
	// lag has, for each source, the time since which jobs for this user may be outstanding. It is nearly always nil.
	lag := s.jobs.Behind(user)
	if lag == nil {
		return
	}
	for _, source := range s.sources {
		since, lags := lag[source.Key()]
		if !lags {
			continue
		}
		for count := range s.sources.dependingOn(source, badges) {
			if count.Precision != services.Unknown {
				count.Precision, count.AsOf = services.Stale, since
			}
		}
	}
	v.sum(badges)
	s.shownStale.mu.Lock()
	defer s.shownStale.mu.Unlock()
	if s.shownStale.versions == nil {
		s.shownStale.versions = map[services.UserID]uint64{}
	}
	// Beyond this bound a user's badges become exact with their next change.
	if len(s.shownStale.versions) < maxFallbackVersions {
		s.shownStale.versions[user] = v.Document.N
	}
}

// queueShownStale queues the documents that were shown as STALE to be raised, once no work is outstanding: then the same content
// gets a newer version. With the old version, clients would keep the STALE badges.
func (s *Service) queueShownStale() {
	if s.jobs.SomeBehind() {
		return
	}
	s.shownStale.mu.Lock()
	shown := s.shownStale.versions
	// markStale makes a new map when it needs one: the old one may have grown large while an engine was away.
	s.shownStale.versions = nil
	s.shownStale.mu.Unlock()
	for user, version := range shown {
		s.fallbacks.note(user, version, maxFallbackVersions)
	}
}
