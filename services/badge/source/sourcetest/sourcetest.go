// Package sourcetest completes the sources of the badges of a test: a service of badges refuses a list that lacks a source, and a test
// need not make the features that it does not look at.
package sourcetest

import (
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/rdb"
)

// Complete adds an empty source for each of services.Sources that is not among the sources. The home feed is left out: services/badge has
// it. S is badge.Source, which this package cannot import.
func Complete[S interface{ Key() services.Source }](sources ...S) []S {
	for _, key := range services.Sources {
		given := slices.ContainsFunc(sources, func(one S) bool { return one.Key() == key })
		if !given && key != services.SourceHomeFeed {
			sources = append(sources, any(emptySource{key: key}).(S))
		}
	}
	return sources
}

// emptySource is a source without items.
type emptySource struct {
	source.DefaultMethods
	key services.Source
}

// Name is the source's key.
func (e emptySource) Name() string { return string(e.key) }

// Key is the source's key.
func (e emptySource) Key() services.Source { return e.key }

// Facts finds nothing.
func (emptySource) Facts(context.Context, []services.UserID, int64, []rdb.Document) error { return nil }

// Render counts nothing.
func (e emptySource) Render(_ *source.Rendering, badges *services.Badges) {
	*e.count(badges) = source.ExactCount(0)
}

// Part is the only count of the source.
func (e emptySource) Part(badges *services.Badges, i int) *services.Count {
	return source.SinglePart(e.count(badges), i)
}

// count is the source's field in badges. A source of several counts has none: its count is shown nowhere.
func (e emptySource) count(badges *services.Badges) *services.Count {
	for _, field := range services.CountFields {
		if field.Source == e.key {
			return field.CountIn(badges)
		}
	}
	return new(services.Count)
}

// Explain lists nothing.
func (emptySource) Explain(context.Context, source.ExplainRequest) ([]services.Explanation, error) {
	return nil, nil
}

// Digest adds nothing.
func (emptySource) Digest(context.Context, services.UserID, time.Time, *services.Digest) error {
	return nil
}
