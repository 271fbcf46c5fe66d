package badge

import (
	"context"
	"sync"

	"tidings/services"
)

// shownStale remembers users whose badges were shown as STALE because updates were outstanding: a node died, or an engine did not
// answer. Once the work is done their badges need a newer version, whether a count or only its precision has changed.
type shownStale struct {
	mu       sync.Mutex
	versions map[services.UserID]staleVersion
}

// staleVersion is the version of STALE badges.
type staleVersion struct {
	own             uint64 // the user's half of it
	shownToHostOnly bool   // only others than the user were shown it, such as the host application
}

// note remembers that a user's badges were shown as STALE. If it remembers version.maxUsers users already, it adds no user and only updates
// those it has: the badges of the others become exact with their next change.
func (r *shownStale) note(user services.UserID, version staleVersion) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.versions == nil {
		r.versions = map[services.UserID]staleVersion{}
	}
	had, known := r.versions[user]
	if !known && len(r.versions) >= version.maxUsers() {
		return
	}
	if known {
		version = staleVersion{max(version.own, had.own), version.shownToHostOnly && had.shownToHostOnly}
	}
	r.versions[user] = version
}

// maxUsers is the number of users above which this version adds no user. Reads for the host leave room for users, as in noteFallback.
func (v staleVersion) maxUsers() int {
	if v.shownToHostOnly {
		return maxHostFallbackVersions
	}
	return maxFallbackVersions
}

// markStale marks as STALE the counts that may lack an update.
func (s *Service) markStale(ctx context.Context, user services.UserID, v *view, badges *services.Badges) {
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
	s.shownStale.note(user, staleVersion{v.Document.N, services.Observed(ctx)})
}

// queueShownStale queues the documents that were shown as STALE to be raised, once no work is outstanding: then the same content
// gets a newer version. With the old version, clients would keep the STALE badges.
func (s *Service) queueShownStale() {
	if s.jobs.SomeBehind() {
		return
	}
	s.shownStale.mu.Lock()
	shown := s.shownStale.versions
	// note makes a new map when it needs one: the old one may have grown large while an engine was away.
	s.shownStale.versions = nil
	s.shownStale.mu.Unlock()
	for user, version := range shown {
		s.fallbacks.note(user, version.own, version.maxUsers())
	}
}
