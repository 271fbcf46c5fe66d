package badge

import (
	"context"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/badge/source"
)

// Peek returns the badges of several users without a visit: nobody becomes active by it, and nothing is rebuilt. A user whose
// document is missing, or is from before a long absence, is counted in SQL. A user's error means that their badges cannot be read
// now; while Redis does not answer, every user has an error.
func (s *Service) Peek(ctx context.Context, users []services.UserID) (badges []*services.Badges, errs []error) {
	badges, errs = make([]*services.Badges, len(users)), make([]error, len(users))
	ctx = services.Observe(ctx)
	at := s.moment(ctx)
	documents, err := s.documents(ctx, users)
	// Badges without announcements would look as if the announcements had changed.
	if err == nil && at.SharedState == nil {
		err = services.Errorf(services.Unavailable, "the data that all users share is not loaded")
	}
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return badges, errs
	}
	withExpired := s.removeExpiredItems(ctx, users, documents, at.Today())
	s.addCached(ctx, users, documents, false, at.Today())
	var counted []int // indexes of users
	for i, user := range users {
		if documents[i].Ready && !s.projector.IsOfIdleUser(documents[i]) && !withExpired[user] {
			// s.render is not used here: badges that others look at are neither remembered as shown nor raised later.
			badges[i] = s.rendering(documents[i], at).render()
		} else {
			counted = append(counted, i)
		}
	}
	var group errgroup.Group
	group.SetLimit(cap(s.sqlCountSlots))
	for indexes := range countingGroups(counted) {
		group.Go(func() (err error) {
			defer services.Recover(&err)
			s.peekFacts(ctx, indexes, users, at, badges, errs)
			return nil
		})
	}
	_ = services.Repanic(group.Wait()) // each function stores its errors in errs
	return badges, errs
}

// peekFacts counts the badges of the users at some indexes in SQL. If one source of a user cannot be counted, the user gets an error.
func (s *Service) peekFacts(ctx context.Context, indexes []int, users []services.UserID, at source.Moment, badges []*services.Badges, errs []error) {
	// The wait for a slot ends only with ctx: no user waits for this answer, and there are no older badges that could be returned in its
	// place.
	if _, err := s.acquireSQLCountSlot(ctx, false); err != nil {
		for _, i := range indexes {
			errs[i] = err
		}
		return
	}
	defer func() { <-s.sqlCountSlots }()
	documents, failed, err := s.documentsFromFacts(ctx, elementsAt(users, indexes), at.Today())
	for k, i := range indexes {
		if len(failed[k]) > 0 {
			errs[i] = services.Wrapf(services.Unavailable, err, "badges: the facts were not counted in time")
		} else {
			badges[i] = s.rendering(documents[k], at).render()
		}
	}
}
