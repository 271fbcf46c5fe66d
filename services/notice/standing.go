package notice

import (
	"context"

	"tidings/services"
	"tidings/services/mirror"
	"tidings/services/rdb"
)

// standing is the state that all users share at a moment, and one user's state in it.
type standing struct {
	notices *mirror.Notices
	state   services.NoticeState
	carries services.SegmentState
}

func (at standing) segments() services.SegmentBits { return services.SegmentBits(at.carries.Bits) }

// standing reads a user's state as the badge does: from their document, which is made if it is missing, or from SQL if Redis
// does not answer.
func (s *Service) standing(ctx context.Context, user services.UserID) (at standing, err error) {
	if at.notices, err = s.announcements.At(ctx, s.clock.Now()); err != nil {
		return at, err
	}
	if s.fanout.ViewsStale(ctx, user) {
		known, err := s.fanout.EnterNotices(ctx, user)
		at.state, at.carries = known.NoticeState, known.Segments
		return at, err
	}
	document, err := s.document(ctx, user)
	if err == nil && !document.Ready {
		if err = s.fanout.Rebuild(ctx, user); err == nil {
			document, err = s.document(ctx, user)
		}
	}
	if err == nil && document.Ready {
		at.state, at.carries = document.Notice, document.Segments
		return at, nil
	}
	if err != nil && !services.IsUnavailable(err) {
		return at, err
	}
	known, err := s.fanout.EnterNotices(ctx, user)
	at.state, at.carries = known.NoticeState, known.Segments
	return at, err
}

// document is a user's document. It is also not ready if the user was away for so long that they count as new.
func (s *Service) document(ctx context.Context, user services.UserID) (rdb.Document, error) {
	documents, err := s.redis.Documents(ctx, []services.UserID{user})
	if err != nil {
		return rdb.Document{}, err
	}
	if s.fanout.Dormant(documents[0]) {
		return rdb.Document{}, nil
	}
	return documents[0], nil
}
