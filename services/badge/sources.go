package badge

import (
	"context"
	"fmt"
	"iter"
	"time"

	"tidings/services"
	"tidings/services/rdb"
)

// Source is one part of the badges: everything that the badges know of it. Each has a file of its own, source_*.go, and stands
// in the list of sources once.
type Source interface {
	// name is for logs. No two sources have the same.
	name() string
	// key is the source's place in display policies, caps and the total; "" for one that concerns all the others and has no
	// number of its own.
	key() services.Source

	// facts fills the source's part of the document from SQL, for when Redis does not answer. When it fails, the caller drops
	// what it wrote.
	facts(ctx context.Context, user services.UserID, today int64, document *rdb.Document) error
	// carry takes over from earlier badges, when the facts are unknown, what is no count.
	carry(v *view, badges *services.Badges, earlier known)

	// follow asks this node's memory to report changes of what counts for a user who is watched here.
	follow(user services.UserID, document *rdb.Document)
	// remember adds to documents what this node's memory knows.
	remember(ctx context.Context, users []services.UserID, documents []rdb.Document, today int64)

	// render writes the source's part of the badges from the document, without the sum, and notes when time alone changes it.
	render(v *view, badges *services.Badges)
	// part is the i-th of the counts that make the source's share of the total, nil beyond the last. Their order is fixed.
	part(badges *services.Badges, i int) *services.Count
	// sum is the count that is the sum of the parts, nil where the source has one part alone.
	sum(badges *services.Badges) *services.Count
	// within is a count of items that are in the parts already and so in no total, nil where there is none.
	within(badges *services.Badges) *services.Count

	// explain lists the items behind each count, from the facts.
	explain(ctx context.Context, of explained) ([]services.Explanation, error)
	// digest adds to a digest what the source brought since a moment.
	digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error
}

// newSources is the list of the sources, in the order in which the badges show them. The display policy comes last: it is about
// all others.
func (s *Service) newSources() sourceList {
	return register(homeFeed{s: s}, notifications{s: s}, siteMessages{s: s}, announcements{s: s}, conversations{s: s}, liveBoard{s: s}, displayPolicy{s: s})
}

// sourceList is the registered sources.
type sourceList []Source

// register makes a list of sources. It panics when a name or a key is taken, and when a key of services.Sources has no source:
// those are errors of the program.
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

// counts are the counts of all sources that are read, and not sums.
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

// restingOn are the counts that cannot be known without a source: its own, and without one that concerns all the others every
// count.
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

// plain is what a source does that needs nothing more: it takes nothing over but its counts, has nothing in memory, and neither
// a sum nor a count within its parts.
type plain struct{}

func (plain) carry(*view, *services.Badges, known)                               {}
func (plain) follow(services.UserID, *rdb.Document)                              {}
func (plain) remember(context.Context, []services.UserID, []rdb.Document, int64) {}
func (plain) sum(*services.Badges) *services.Count                               { return nil }
func (plain) within(*services.Badges) *services.Count                            { return nil }

// withMemory adds to documents what this node knows of what is counted when somebody reads. Of users who are watched it
// hears when that changes.
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
