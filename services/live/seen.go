package live

import (
	"context"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/store"
)

// MarkSeen is the command by which a viewer has looked at the board: at that of a session, nil for the board as it is now. What
// went live since still counts. The mark only grows. INVALID for a session of somebody else's, and for one of the future.
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
		Apply: func(ctx context.Context, in *sql.Tx) ([]string, error) {
			tx := store.In(in)
			if _, err := tx.RaisePosition(ctx, viewer, store.LiveBoard, "", services.PostID(session.Version)); err != nil {
				return nil, err
			}
			return nil, jobs.Enqueue(ctx, tx.Tx, seenJob(viewer))
		},
		AfterCommit: func(ctx context.Context) error { return s.projectSeen(ctx, viewer) },
	}, nil
}
