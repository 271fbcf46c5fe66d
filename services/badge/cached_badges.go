package badge

import (
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"tidings/services"
	"tidings/services/badge/source"
)

// badgeCache remembers the badges that this node last showed to the most recent readers. If a source cannot be read, its last
// value is shown as STALE.
type badgeCache struct {
	// mu is held for one lookup or one insertion only: the badges inside are shared and never change.
	mu    sync.Mutex
	users *lru.LRU[services.UserID, cachedBadges]
}

// cachedBadges are the badges shown to a user at a moment, with the sources and their settings, which all users share.
type cachedBadges struct {
	sources  sourceList
	settings *source.Settings
	source.ShownBadges
}

func newBadgeCache(capacity int) *badgeCache {
	users, err := lru.NewLRU[services.UserID, cachedBadges](capacity, nil)
	if err != nil {
		panic("badge: capacity " + err.Error()) // happens only for capacities below 1, which New excludes
	}
	return &badgeCache{users: users}
}

// keep remembers shown badges, unless it has newer ones or one of these counts is UNKNOWN.
func (l *badgeCache) keep(user services.UserID, shown cachedBadges) {
	for count := range shown.sources.counts(shown.Badges) {
		// An UNKNOWN count must not replace the last value that was known.
		if count.Precision == services.Unknown {
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// Concurrent reads may end in another order than their versions.
	if had, ok := l.users.Peek(user); ok && had.Badges.Version > shown.Badges.Version {
		return
	}
	l.users.Add(user, shown)
}

// get returns the badges shown to a user last, if this node still has them.
func (l *badgeCache) get(user services.UserID) (cachedBadges, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.users.Get(user)
}

// staleCopy returns a STALE copy of the remembered badges, with their version.
func (k cachedBadges) staleCopy() *services.Badges {
	// Other goroutines read the remembered badges at the same time: all that is changed below is a copy.
	badges := *k.Badges
	badges.SiteMessages.Types = slices.Clone(badges.SiteMessages.Types)
	badges.Notifications.HostCounts = slices.Clone(badges.Notifications.HostCounts)
	for count := range k.sources.counts(&badges) {
		k.makeStale(count)
	}
	badges.Notifications.Version, badges.Conversations.List = 0, services.ConversationListVersion{} // the lists may have changed since
	v := rendering{sources: k.sources, Rendering: source.Rendering{Settings: k.settings}}
	v.Document.Policy = k.Policy
	v.writeTotals(&badges)
	return &badges
}

// makeStale makes a count STALE, as of the time at which it was right.
func (k cachedBadges) makeStale(count *services.Count) {
	if count.RightAt == 0 {
		// The count was shown without an age, so it was right when it was shown.
		count.RightAt = services.InstantOf(k.At)
	}
	count.Precision = services.Stale
}

// fillIn fills the part of a missing source with its last value as STALE, or UNKNOWN without one: no source is ever missing
// from a total silently.
func (k cachedBadges) fillIn(v *rendering, badges *services.Badges, source Source) {
	counts := slices.Collect(v.sources.countsDependingOn(source, badges))
	var had []*services.Count
	// The remembered badges are of use only if they have the same categories.
	if k.Badges != nil && k.Badges.Notifications.HostCategories.VersionOrZero() == badges.Notifications.HostCategories.VersionOrZero() {
		had = slices.Collect(v.sources.countsDependingOn(source, k.Badges))
	}
	for i, count := range counts {
		// Nothing was shown before, or with other categories: UNKNOWN is better than the number of another category.
		if len(had) != len(counts) {
			*count = services.NewCount(0, services.Unknown, time.Time{})
			continue
		}
		*count = *had[i]
		k.makeStale(count)
	}
	if k.Badges != nil {
		// This copies everything that is not a count, such as the dots.
		source.CopyNonCounts(&v.Rendering, badges, k.ShownBadges)
	}
}
