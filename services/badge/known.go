package badge

import (
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"tidings/services"
	"tidings/services/badge/source"
)

// lastKnown remembers the badges that this node last showed to the most recent readers. If a source cannot be read, its last
// value is shown as STALE.
type lastKnown struct {
	// mu is held for one lookup or one insertion only: the badges inside are shared and never change.
	mu    sync.Mutex
	users *lru.LRU[services.UserID, known]
}

// known is the badges shown to a user at a moment, with the sources and their settings, which all users share.
type known struct {
	sources  sourceList
	settings *source.Settings
	source.Shown
}

func newLastKnown(capacity int) *lastKnown {
	users, err := lru.NewLRU[services.UserID, known](capacity, nil)
	if err != nil {
		panic("badge: capacity " + err.Error()) // happens only for capacities below 1, which New excludes
	}
	return &lastKnown{users: users}
}

// keep remembers shown badges, unless it has newer ones or one of these counts is UNKNOWN.
func (l *lastKnown) keep(user services.UserID, shown known) {
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

// of returns the badges shown to a user last, if this node still has them.
func (l *lastKnown) of(user services.UserID) (known, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.users.Get(user)
}

// stale returns a STALE copy of the remembered badges, with their version.
func (k known) stale() *services.Badges {
	// Other goroutines read the remembered badges at the same time: all that is changed below is a copy.
	badges := *k.Badges
	badges.SiteMessages.Types = slices.Clone(badges.SiteMessages.Types)
	badges.Notifications.Hosts = slices.Clone(badges.Notifications.Hosts)
	for count := range k.sources.counts(&badges) {
		k.makeStale(count)
	}
	badges.Notifications.Version, badges.Conversations.List = 0, services.ListVersion{} // the lists may have changed since
	v := view{sources: k.sources, View: source.View{Settings: k.settings}}
	v.Document.Policy = k.Policy
	v.sum(&badges)
	return &badges
}

// makeStale makes a count STALE, as of the time at which it was right.
func (k known) makeStale(count *services.Count) {
	if count.AsOf.IsZero() {
		// The count was shown without an age, so it was right when it was shown.
		count.AsOf = k.At
	}
	count.Precision = services.Stale
}

// fillIn fills the part of a missing source with its last value as STALE, or UNKNOWN without one: no source is ever missing
// from a total silently.
func (k known) fillIn(v *view, badges *services.Badges, source Source) {
	counts := slices.Collect(v.sources.dependingOn(source, badges))
	var had []*services.Count
	if k.Badges != nil && k.Badges.Notifications.Defined.At() == badges.Notifications.Defined.At() { // the remembered badges have the same categories
		had = slices.Collect(v.sources.dependingOn(source, k.Badges))
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
		source.CopyNonCounts(&v.View, badges, k.Shown)
	}
}
