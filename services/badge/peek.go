package badge

import (
	"context"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/badge/source"
)

// Peek returns the badges of several users without a visit: nobody becomes active by it, and nothing is rebuilt. A document that
// is missing, or is from before a long absence, is counted in SQL. A user's error means that the badges cannot be read now; while
// Redis does not answer, nobody's can.
func (s *Service) Peek(ctx context.Context, users []services.UserID) (badges []*services.Badges, errs []error) {
	badges, errs = make([]*services.Badges, len(users)), make([]error, len(users))
	ctx = services.Observe(ctx)
	at := s.moment(ctx)
	documents, err := s.documents(ctx, users)
	// An answer without announcements would read as a change of them.
	if err == nil && at.Shared == nil {
		err = services.Errorf(services.Unavailable, "the data that all users share is not loaded")
	}
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return badges, errs
	}
	unaged := s.ageDocuments(ctx, users, documents, at.Today())
	s.withMemory(ctx, users, documents, false, at.Today())
	var group errgroup.Group
	group.SetLimit(cap(s.fallback))
	for i, user := range users {
		if documents[i].Ready && !s.projector.Away(documents[i]) && !unaged[user] {
			// Not by s.render: what others look at is neither remembered as shown nor raised later.
			badges[i] = s.view(documents[i], at).render()
			continue
		}
		group.Go(func() error {
			badges[i], errs[i] = s.peekFacts(ctx, user, at)
			return nil
		})
	}
	_ = group.Wait() // each function stores its error in errs
	return badges, errs
}

// peekFacts counts in SQL, all sources or none.
func (s *Service) peekFacts(ctx context.Context, user services.UserID, at source.Moment) (*services.Badges, error) {
	// Without a time limit of its own: nobody waits for this answer, and old badges are of no use here.
	if _, err := s.awaitTurn(ctx, false); err != nil {
		return nil, err
	}
	defer func() { <-s.fallback }()
	document, failed, err := s.countFacts(ctx, user, at.Today())
	if err != nil || len(failed) > 0 {
		return nil, services.Wrapf(services.Unavailable, err, "badges: the facts were not counted in time")
	}
	return s.view(document, at).render(), nil
}
