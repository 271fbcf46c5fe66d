package badge

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/rdb"
)

// Source is one part of the badges: its facts, its rendering, its explanation and its digest. Each has a file of its own, in its
// feature's package or here, and is listed once: see Config. What a rebuild writes into a document, the versioned fields, its feature
// registers at the projector; the audit recounts from SQL by statements of its own, so that it finds an error of either.
type Source interface {
	// Name is for logs. No two sources have the same name.
	Name() string
	// Key is the source's key in display policies, caps and the total; "" for a source that affects all the others and has no
	// count of its own.
	Key() services.Source

	// Facts fills the source's part of the documents of users from SQL, for when Redis does not answer. It counts all users by the
	// same statements. If it fails, the caller drops the documents.
	Facts(ctx context.Context, users []services.UserID, today int64, documents []rdb.Document) error
	// Empty fills the source's part of the document for a user without items, if that is not the zero value.
	Empty(document *rdb.Document)
	// CopyNonCounts copies from earlier badges, if the facts are unknown, everything that is not a count.
	CopyNonCounts(v *source.Rendering, badges *services.Badges, earlier source.ShownBadges)

	// Follow makes this node's cache report changes of the counts of a user with subscriptions here.
	Follow(user services.UserID, document *rdb.Document)
	// AddCached adds to documents the state of this node's cache.
	AddCached(ctx context.Context, users []services.UserID, documents []rdb.Document, today int64)

	// Render writes the source's part of the badges from the document, without the sum, and notes when time alone changes it.
	Render(v *source.Rendering, badges *services.Badges)
	// Part is the i-th of the counts that make up the source's share of the total, nil beyond the last. Their order is fixed.
	Part(badges *services.Badges, i int) *services.Count
	// Sum is the count that is the sum of the parts, nil if the source has only one part.
	Sum(badges *services.Badges) *services.Count
	// Within is a count of items that the parts already include and that no total adds again, nil if there is none.
	Within(badges *services.Badges) *services.Count

	// Explain lists the items behind each count, from the facts.
	Explain(ctx context.Context, of source.ExplainRequest) ([]services.Explanation, error)
	// Digest adds the source's items since a moment to a digest.
	Digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error
}

// newSources is the list of the sources: the sources in Config and the sources of this package. The display policy comes last,
// because it affects all others.
func (s *Service) newSources(features ...Source) sourceList {
	return newSourceList(append(features, homeFeed{service: s}, displayPolicy{service: s})...)
}

// sourceList is the registered sources.
type sourceList []Source

// newSourceList makes a list of sources, in the order of services.Sources; sources without a key come last. It panics if a name or a
// key is taken, if a key of services.Sources has no source, or if two sources are a source.SharedStateSource: those are errors of the
// program.
func newSourceList(sources ...Source) sourceList {
	names, indexes, sharers := map[string]bool{}, map[services.Source]int{"": len(services.Sources)}, 0
	for i, key := range services.Sources {
		indexes[key] = i
	}
	keys := map[services.Source]bool{}
	for _, one := range sources {
		if names[one.Name()] || one.Key() != "" && keys[one.Key()] {
			panic(fmt.Sprintf("badge: the source %q is registered twice", one.Name()))
		}
		names[one.Name()], keys[one.Key()] = true, true
		if _, shares := one.(source.SharedStateSource); shares {
			sharers++
		}
	}
	for _, key := range services.Sources {
		if !keys[key] {
			panic(fmt.Sprintf("badge: no source is registered for %s", key))
		}
	}
	if sharers > 1 {
		panic("badge: more than one source shares state")
	}
	// The order is that of the API, whatever the order of registration: totals, explanations and digests follow it.
	slices.SortStableFunc(sources, func(a, b Source) int { return cmp.Compare(indexes[a.Key()], indexes[b.Key()]) })
	return sources
}

// sharedState returns the state that all users share at a moment; nil if no source is a SharedStateSource.
func (l sourceList) sharedState(ctx context.Context, now time.Time) (any, error) {
	for _, one := range l {
		if sharer, shares := one.(source.SharedStateSource); shares {
			return sharer.SharedState(ctx, now)
		}
	}
	return nil, nil
}

// CountsBySource yields the count of each source in badges, in the order of services.Sources. For a source with several counts it
// is their sum.
func (s *Service) CountsBySource(badges *services.Badges) iter.Seq2[services.Source, *services.Count] {
	return func(yield func(services.Source, *services.Count) bool) {
		for _, one := range s.sources {
			// The display policy has no count.
			if one.Key() == "" {
				continue
			}
			count := one.Sum(badges)
			if count == nil {
				count = one.Part(badges, 0)
			}
			if !yield(one.Key(), count) {
				return
			}
		}
	}
}

// counts yields the counts of all sources, without the sums, which are computed from them.
func (l sourceList) counts(badges *services.Badges) iter.Seq[*services.Count] {
	return func(yield func(*services.Count) bool) {
		for _, source := range l {
			if count := source.Within(badges); count != nil && !yield(count) {
				return
			}
			// The number of parts differs between sources, and for one source it depends on the settings: nil ends the parts.
			for i := 0; ; i++ {
				count := source.Part(badges, i)
				if count == nil {
					break
				}
				if !yield(count) {
					return
				}
			}
		}
	}
}

// countsDependingOn yields the counts that depend on a source: its own, or every count if the source affects all others.
func (l sourceList) countsDependingOn(source Source, badges *services.Badges) iter.Seq[*services.Count] {
	if source.Key() == "" {
		return l.counts(badges)
	}
	return sourceList{source}.counts(badges)
}

// addCached adds to documents the node cache's state for the counts that are computed when read. For watched users it also
// follows changes of that state.
func (s *Service) addCached(ctx context.Context, users []services.UserID, documents []rdb.Document, watched bool, today int64) {
	// Follow is called first for all documents, and then AddCached. A change in between notifies the push hub, which reads the badges again;
	// an earlier change is in the state that AddCached reads.
	for i := range documents {
		if watched && documents[i].Ready {
			for _, source := range s.sources {
				source.Follow(users[i], &documents[i])
			}
		}
	}
	for _, source := range s.sources {
		source.AddCached(ctx, users, documents, today)
	}
}
