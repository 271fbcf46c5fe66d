package badge

import (
	"cmp"
	"context"
	"slices"
	"time"

	"tidings/services"
)

// digestAuthors is how many authors a digest names.
const digestAuthors = 3

// digester counts what one source brought since a moment.
type digester func(ctx context.Context, user services.UserNumber, since time.Time, digest *services.Digest) error

// Digest is what came since a moment, or, without one, since the user was here before his present visit. What came is
// counted whether it has been seen meanwhile or not.
func (s *Service) Digest(ctx context.Context, user services.UserNumber, since time.Time) (*services.Digest, error) {
	if since.After(s.clock.Now()) {
		return nil, services.Errorf(services.Invalid, "since: %s lies ahead", since.UTC().Format(time.RFC3339))
	}
	if since.IsZero() {
		var err error
		if since, err = s.store.VisitedBefore(ctx, user); err != nil {
			return nil, err
		}
	}
	digest := &services.Digest{Since: since, Parts: []services.DigestPart{}}
	if since.IsZero() {
		return digest, nil
	}
	for _, source := range []digester{s.digestHomeFeed} {
		if err := source(ctx, user, since, digest); err != nil {
			return nil, err
		}
	}
	return digest, nil
}

func (s *Service) digestHomeFeed(ctx context.Context, user services.UserNumber, since time.Time, digest *services.Digest) error {
	entries, err := s.store.HomeFeed(ctx, user, services.MaxPostID, services.Retention)
	if err != nil {
		return err
	}
	posts := map[services.UserNumber]int{}
	count := 0
	for _, entry := range entries {
		if entry.Counts && entry.Post >= services.PostIDAt(since) {
			posts[entry.Author]++
			count++
		}
	}
	precision := services.Exact
	if count == services.Retention {
		precision = services.AtLeast
	}
	digest.Parts = append(digest.Parts, services.DigestPart{Source: services.SourceHomeFeed, Count: services.NewCount(count, precision, time.Time{})})
	for author := range posts {
		digest.Authors = append(digest.Authors, author)
	}
	slices.SortFunc(digest.Authors, func(a, b services.UserNumber) int { return cmp.Or(cmp.Compare(posts[b], posts[a]), cmp.Compare(a, b)) })
	digest.Authors = digest.Authors[:min(digestAuthors, len(digest.Authors))]
	return nil
}
