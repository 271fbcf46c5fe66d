package announcements

import (
	"context"
	"maps"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// initPosition gives a new user their position in the announcements and dots, in the transaction of their first action. Announcements
// from before that do not count as unread for them.
func (s *Service) initPosition(ctx context.Context, tx *sql.Tx, user services.UserID) error {
	return ensurePosition(ctx, tx, user, tx.ReadClock(s.projector.DormantBefore))
}

// userState returns a user's state from SQL. A new user is recorded as seen now, unless the context is observed: see userStates.
func (s *Service) userState(ctx context.Context, user services.UserID) (userState, error) {
	states, err := s.userStates(ctx, []services.UserID{user})
	if err != nil {
		return userState{}, err
	}
	return *states[user], nil
}

// userStates are the states of users, from SQL. A new user starts at the present end of the list, and is recorded as seen now. If
// the context is observed, a new user gets the state that they would start with, and nothing is stored.
func (s *Service) userStates(ctx context.Context, users []services.UserID) (map[services.UserID]*userState, error) {
	states, err := readUsers(ctx, s.db.Runner, users)
	if err != nil {
		return nil, err
	}
	var arrived []services.UserID
	for user, state := range states {
		if state.isNew(s.projector.DormantBefore()) {
			arrived = append(arrived, user)
		}
	}
	if len(arrived) == 0 {
		return states, nil
	}
	if services.Observed(ctx) {
		var end int64
		_, err := s.db.One(ctx, currentListEnd, nil, &end)
		for _, user := range arrived {
			// max is used because positions never go back, not even where they are only shown and not stored.
			state := states[user]
			state.Position, state.DotsDismissedUpTo, state.DismissedUpToByDot = max(state.Position, uint64(end)), max(state.DotsDismissedUpTo, uint64(end)), nil
		}
		return states, err
	}
	// Each user has their own transaction: a user arrives only once, and others must not wait for the rows of all of them.
	for _, user := range arrived {
		// projector.RecordVisit runs the VisitWriter of every feature, initPosition among them, in one transaction. So the
		// states are read again below.
		if err := s.projector.RecordVisit(ctx, user); err != nil {
			return nil, err
		}
	}
	read, err := readUsers(ctx, s.db.Runner, arrived)
	maps.Copy(states, read)
	return states, err
}

// isDormant reports whether a document belongs to a user who was away so long that they count as new; such a document is rebuilt
// before it is shown. Redis expires such documents too, but by its own clock.
func (s *Service) isDormant(document rdb.Document) bool {
	lastSeen := services.DayStart(document.LastActiveDay + 1) // the latest that the last visit can have been
	return document.Ready && lastSeen.Before(s.projector.DormantBefore())
}

// positionsCheckedPerTurn is how many users' positions one turn of the janitor of package projector checks.
const positionsCheckedPerTurn = 20_000

// dormantPositionRemover deletes the positions of dormant users, some of them in each turn.
type dormantPositionRemover struct {
	service *Service
	// The janitor runs one turn at a time, so walkedUpTo needs no lock. A node that restarts begins anew, and several nodes walk
	// beside each other.
	walkedUpTo services.UserID // the user ID that the walk has reached
}

// forget checks the next users, and deletes the positions of the dormant ones. After an error it tries the same users again.
func (d *dormantPositionRemover) forget(ctx context.Context) (dropped int, err error) {
	walked, dropped, err := dropDormantPositions(ctx, d.service.db, d.service.projector.DormantBefore(), d.walkedUpTo, positionsCheckedPerTurn)
	if err == nil {
		d.walkedUpTo = walked
	}
	return dropped, err
}

// userView is a snapshot of the state that all users share, together with the state of one user.
type userView struct {
	shared    *SharedState
	userState services.AnnouncementState // the user's positions in the list and in the dots
	segments  Segments
}

// userView reads a user's state as the badge does: from their document, which is made if it is missing, or from SQL if Redis does
// not answer. The shared state is read first: with a newer document the count is too low for a moment, never too high.
func (s *Service) userView(ctx context.Context, user services.UserID) (at userView, err error) {
	// UNAVAILABLE on a node that has never loaded the list.
	if at.shared, err = s.Memory.At(ctx, s.clock.Now()); err != nil {
		return at, err
	}
	// If the user's projections in Redis are stale, the user's last mark is in SQL and not in the document yet.
	if !s.jobs.ProjectionsStale(ctx, user) {
		document, err := s.document(ctx, user)
		if err == nil && !document.Ready && !services.Observed(ctx) {
			if err = s.projector.Rebuild(ctx, user); err == nil {
				document, err = s.document(ctx, user)
			}
		}
		if err == nil && document.Ready {
			at.userState, at.segments = document.Announcements, Segments(document.Segments.Bits)
			return at, nil
		}
		if err != nil && !services.IsUnavailable(err) {
			return at, err
		}
	}
	state, err := s.userState(ctx, user)
	at.userState, at.segments = state.AnnouncementState, Segments(state.Segments.Bits)
	return at, err
}

// document is a user's document. It is also not ready if the user was away for so long that they count as new.
func (s *Service) document(ctx context.Context, user services.UserID) (rdb.Document, error) {
	documents, err := s.redis.Documents(ctx, []services.UserID{user})
	if err != nil {
		return rdb.Document{}, err
	}
	if s.isDormant(documents[0]) {
		return rdb.Document{}, nil
	}
	return documents[0], nil
}
