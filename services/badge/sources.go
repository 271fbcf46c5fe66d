package badge

import (
	"context"
	"fmt"
	"iter"
	"time"

	"tidings/services"
	"tidings/services/rdb"
)

// Source is everything that the badges need of one part of them. Each has its own file, source_*.go, and one entry in the list
// of sources.
type Source interface {
	// name is for logs. No two sources have the same.
	name() string
	// key is the source's key in display policies, caps and the total; "" for a source that affects all the others and has no
	// count of its own.
	key() services.Source

	// facts fills the source's part of the document from SQL, for when Redis does not answer. If it fails, the caller drops
	// what it wrote.
	facts(ctx context.Context, user services.UserID, today int64, document *rdb.Document) error
	// carry copies from earlier badges, if the facts are unknown, everything that is not a count.
	carry(v *view, badges *services.Badges, earlier known)

	// follow makes this node's cache report changes of the counts of a user with subscriptions here.
	follow(user services.UserID, document *rdb.Document)
	// remember adds to documents the state of this node's cache.
	remember(ctx context.Context, users []services.UserID, documents []rdb.Document, today int64)

	// render writes the source's part of the badges from the document, without the sum, and notes when time alone changes it.
	render(v *view, badges *services.Badges)
	// part is the i-th of the counts that make up the source's share of the total, nil beyond the last. Their order is fixed.
	part(badges *services.Badges, i int) *services.Count
	// sum is the count that is the sum of the parts, nil if the source has only one part.
	sum(badges *services.Badges) *services.Count
	// within is a count of items that the parts already include and that no total adds again, nil if there is none.
	within(badges *services.Badges) *services.Count

	// explain lists the items behind each count, from the facts.
	explain(ctx context.Context, of explained) ([]services.Explanation, error)
	// digest adds the source's items since a moment to a digest.
	digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error
}

// newSources is the list of the sources, in the order in which the badges show them. The display policy comes last, because it
// affects all others.
func (s *Service) newSources() sourceList {
	return register(homeFeed{s: s}, notifications{s: s}, siteMessages{s: s}, announcements{s: s}, conversations{s: s}, liveBoard{s: s}, displayPolicy{s: s})
}

// sourceList is the registered sources.
type sourceList []Source

// register makes a list of sources. It panics if a name or a key is taken, or if a key of services.Sources has no source: those
// are errors of the program.
func register(sources ...Source) sourceList {
	names, keys := map[string]bool{}, map[services.Source]bool{}
	for _, source := range sources {
		if names[source.name()] || source.key() != "" && keys[source.key()] {
			panic(fmt.Sprintf("badge: the source %q is registered twice", source.name()))
		}
		names[source.name()], keys[source.key()] = true, true
	}
	for _, key := range services.Sources {
		if !keys[key] {
			panic(fmt.Sprintf("badge: no source is registered for %s", key))
		}
	}
	return sources
}

// counts are the counts of all sources that are read, without the sums.
func (l sourceList) counts(badges *services.Badges) iter.Seq[*services.Count] {
	return func(yield func(*services.Count) bool) {
		for _, source := range l {
			if count := source.within(badges); count != nil && !yield(count) {
				return
			}
			for i := 0; ; i++ {
				count := source.part(badges, i)
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

// restingOn are the counts that depend on a source: its own, or every count if the source affects all others.
func (l sourceList) restingOn(source Source, badges *services.Badges) iter.Seq[*services.Count] {
	if source.key() == "" {
		return l.counts(badges)
	}
	return sourceList{source}.counts(badges)
}

// single is the one part of a source with one count.
func single(count *services.Count, i int) *services.Count {
	if i > 0 {
		return nil
	}
	return count
}

// plain is the default for a source without special needs: it copies nothing except counts, has nothing in the node cache, and
// has neither a sum nor a count within its parts.
type plain struct{}

func (plain) carry(*view, *services.Badges, known)                               {}
func (plain) follow(services.UserID, *rdb.Document)                              {}
func (plain) remember(context.Context, []services.UserID, []rdb.Document, int64) {}
func (plain) sum(*services.Badges) *services.Count                               { return nil }
func (plain) within(*services.Badges) *services.Count                            { return nil }

// withMemory adds to documents the node cache's state for the counts that are computed when read. For watched users it also
// follows changes of that state.
func (s *Service) withMemory(ctx context.Context, users []services.UserID, documents []rdb.Document, watched bool, today int64) {
	for i := range documents {
		if watched && documents[i].Ready {
			for _, source := range s.sources {
				source.follow(users[i], &documents[i])
			}
		}
	}
	for _, source := range s.sources {
		source.remember(ctx, users, documents, today)
	}
}
