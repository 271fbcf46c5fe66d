package badge

import (
	"context"
	"sync"

	"tidings/services"
)

// shownStaleVersions remembers users whose badges were shown as STALE because updates were outstanding: a node died, or an engine
// did not answer. Once the work is done their badges need a newer version, whether a count or only its precision has changed.
type shownStaleVersions struct {
	mu       sync.Mutex                       // guards versions
	versions map[services.UserID]staleVersion // the newest STALE version of the badges of each of these users
}

// staleVersion is the version of STALE badges.
type staleVersion struct {
	documentHalf    uint64 // the user's half of the version
	shownToHostOnly bool   // the user was not shown the version; others were, such as the host application
}

// remember remembers that a user's badges were shown as STALE. If it remembers version.maxUsers users already, it adds no user and
// only updates those it has: the badges of the others become exact with their next change.
func (r *shownStaleVersions) remember(user services.UserID, version staleVersion) {
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
		version = staleVersion{max(version.documentHalf, had.documentHalf), version.shownToHostOnly && had.shownToHostOnly}
	}
	r.versions[user] = version
}

// maxUsers is the number of remembered users from which on no user with this version is added. It is lower for a version that only the
// host application was shown, so that room is left for users who read their own badges.
func (v staleVersion) maxUsers() int {
	if v.shownToHostOnly {
		return maxHostFallbackVersions
	}
	return maxFallbackVersions
}

// markStale marks as STALE the counts that may lack an update.
func (s *Service) markStale(ctx context.Context, user services.UserID, v *rendering, badges *services.Badges) {
	// lag has, for each source, the time since which jobs for this user may be outstanding. It is nearly always nil.
	lag := s.jobs.CountsBehind(user)
	if lag == nil {
		return
	}
	for _, source := range s.sources {
		since, lags := lag[source.Key()]
		if !lags {
			continue
		}
		for count := range s.sources.countsDependingOn(source, badges) {
			if count.Precision != services.Unknown {
				count.Precision, count.RightAt = services.Stale, services.InstantOf(since)
			}
		}
	}
	v.writeTotals(badges)
	s.shownStaleVersions.remember(user, staleVersion{v.Document.Version, services.Observed(ctx)})
}

// queueStaleDocumentRaises queues the documents that were shown as STALE to be raised, once no work is outstanding: then the same
// content gets a newer version. With the old version, clients would keep the STALE badges.
func (s *Service) queueStaleDocumentRaises() {
	if s.jobs.AnyCountsBehind() {
		return
	}
	s.shownStaleVersions.mu.Lock()
	shown := s.shownStaleVersions.versions
	// remember makes a new map when it needs one: the old one may have grown large while an engine was away.
	s.shownStaleVersions.versions = nil
	s.shownStaleVersions.mu.Unlock()
	for user, version := range shown {
		s.fallbacks.remember(user, version.documentHalf, version.maxUsers())
	}
}
