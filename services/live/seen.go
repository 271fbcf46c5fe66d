package live

import (
	"context"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/positions"
	"tidings/services/sql"
)

// MarkSeen is the command that marks the board as seen by a viewer: the board of a session, or nil for the present board.
// Shows that went live since still count. The mark only grows. INVALID for another user's session and for one in the future.
func (s *Service) MarkSeen(ctx context.Context, viewer services.UserID, text *string) (*jobs.Command, error) {
	session := Session{Version: s.Memory.Version()}
	if text != nil {
		var err error
		if session, err = ParseSession("sessionId", viewer, *text); err != nil {
			return nil, err
		}
		if err := s.reach(ctx, "sessionId", session); err != nil {
			return nil, err
		}
	}
	return &jobs.Command{
		Name: "markLiveBoardSeen", Actor: viewer,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			if _, err := positions.Raise(ctx, tx, viewer, positions.LiveBoard, "", services.PostID(session.Version)); err != nil {
				return nil, err
			}
			return nil, jobs.Enqueue(ctx, tx, seenJob(viewer))
		},
		AfterCommit: func(ctx context.Context) error { return s.projectSeen(ctx, viewer) },
	}, nil
}
