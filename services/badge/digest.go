package badge

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/people"
)

// maxDigestAuthors is the number of authors that a digest lists at most.
const maxDigestAuthors = 3

// Digest returns what arrived since a moment or, without one, since the user's last visit before the present one. Items that
// the user has seen since are included.
func (s *Service) Digest(ctx context.Context, user services.UserID, since time.Time) (*services.Digest, error) {
	// A time is refused only if it is in the future by both clocks, this node's own and the corrected one: a client may have
	// taken it from an ID that another node made.
	if since.After(s.clock.Now()) && since.After(s.projector.IDClock().Now()) {
		return nil, services.Errorf(services.Invalid, "since: %s is in the future", since.UTC().Format(time.RFC3339))
	}
	if since.IsZero() {
		var err error
		if since, err = people.PreviousVisit(ctx, s.db, user); err != nil {
			return nil, err
		}
	}
	digest := &services.Digest{Since: since, Parts: []services.DigestPart{}}
	// A user on their first visit has no earlier visit, so there is nothing to report.
	if since.IsZero() {
		return digest, nil
	}
	for _, source := range s.sources {
		if err := source.Digest(ctx, user, since, digest); err != nil {
			return nil, err
		}
	}
	return digest, nil
}
