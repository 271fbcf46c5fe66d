// Package notice is announcements and dots: one list and some lights that all users share, and each user's position in them.
//
// A change by the host application costs the same whatever the number of users: a row and a changelog entry that every node
// reads, and nothing per user. A user is a position in the list and a stamp for each dot that they dismissed; count and list
// both come from the node cache, so that they cannot disagree. Positions never go back. Without Redis everything works from
// SQL; without SQL the node cache is still shown and nothing changes.
package notice

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/mirror"
	"tidings/services/rdb"
	"tidings/services/sql"
	"tidings/services/store"
)

// Config is the configuration of announcements and dots.
type Config struct {
	Store         *store.Store
	Redis         *rdb.Projections
	Announcements *mirror.Announcements
	Fanout        *fanout.Fanout
	IDs           *services.IDClock
	Clock         services.Clock
}

// Service knows announcements, dots and segments. It is safe for concurrent use.
type Service struct {
	store         *store.Store
	redis         *rdb.Projections
	announcements *mirror.Announcements
	fanout        *fanout.Fanout
	ids           *services.IDClock
	clock         services.Clock
}

// New makes the service.
func New(cfg Config) *Service {
	return &Service{store: cfg.Store, redis: cfg.Redis, announcements: cfg.Announcements, fanout: cfg.Fanout, ids: cfg.IDs, clock: cfg.Clock}
}

// shared is a host application's command that changes state that all users share. change receives the stamp of the change and
// returns the ID that it made, "" for none, and the changed state.
func (s *Service) shared(name string, change func(ctx context.Context, tx *store.Tx, stamp uint64) (id, changed string, err error)) *jobs.Command {
	var stamp uint64
	return &jobs.Command{
		Name: name,
		Apply: func(ctx context.Context, in *sql.Tx) (_ []string, err error) {
			tx := store.In(in)
			if stamp, err = tx.NextNotice(ctx); err != nil {
				return nil, err
			}
			id, changed, err := change(ctx, tx, stamp)
			var ids []string
			if id != "" {
				ids = []string{id}
			}
			if err != nil {
				return ids, err
			}
			return ids, fanout.NoticeChanged(ctx, tx, changed)
		},
		AfterCommit: func(ctx context.Context) error { return s.announcements.CatchUp(ctx, stamp) },
	}
}

// target is the set of users that the named segments reach: everyone if none are named.
func target(ctx context.Context, tx *store.Tx, segments []string) (services.SegmentBits, error) {
	if segments == nil {
		return 0, nil
	}
	return tx.SegmentBits(ctx, segments)
}

// checkTarget checks the names of a target. nil is everyone; an empty list would be nobody, which is a mistake.
func checkTarget(segments []string) error {
	if segments != nil && len(segments) == 0 {
		return services.Errorf(services.Invalid, "segments: name at least one, or leave it out for everyone")
	}
	return checkSegments(segments)
}

func checkSegments(segments []string) error {
	for _, name := range segments {
		if err := services.CheckNoticeName("segments", name); err != nil {
			return err
		}
	}
	return nil
}

// RaiseDot is the command by which the host application lights a dot, for everyone or for segments. The first raise makes the
// dot. CONFLICT if there are too many dots or segments.
func (s *Service) RaiseDot(name string, segments []string) (*jobs.Command, error) {
	if err := services.CheckNoticeName("name", name); err != nil {
		return nil, err
	}
	if err := checkTarget(segments); err != nil {
		return nil, err
	}
	return s.shared("raiseDot", func(ctx context.Context, tx *store.Tx, stamp uint64) (string, string, error) {
		bits, err := target(ctx, tx, segments)
		if err != nil {
			return "", "", err
		}
		return "", name, tx.RaiseDot(ctx, name, bits, stamp)
	}), nil
}

// ClearDot is the command by which a user dismisses a dot in its present state. NOT_FOUND if it was never raised.
func (s *Service) ClearDot(user services.UserID, name string) (*jobs.Command, error) {
	if err := services.CheckNoticeName("name", name); err != nil {
		return nil, err
	}
	return s.own("clearDot", user, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.ClearDot(ctx, user, name)
		return err
	}), nil
}

// SetSegments is the command by which the host application sets a user's segments, replacing all earlier ones. CONFLICT if
// there are too many.
func (s *Service) SetSegments(user services.UserID, segments []string) (*jobs.Command, error) {
	if err := checkSegments(segments); err != nil {
		return nil, err
	}
	segments = slices.Compact(slices.Sorted(slices.Values(segments)))
	return s.own("setSegments", user, func(ctx context.Context, tx *store.Tx) error {
		bits, err := tx.SegmentBits(ctx, segments)
		if err != nil {
			return err
		}
		_, err = tx.SetSegments(ctx, user, bits)
		return err
	}), nil
}

// own is a command that changes one user's state, and queues the job that projects it into their document.
func (s *Service) own(name string, user services.UserID, change func(ctx context.Context, tx *store.Tx) error) *jobs.Command {
	return &jobs.Command{
		Name: name, Actor: user,
		Apply: func(ctx context.Context, in *sql.Tx) ([]string, error) {
			tx := store.In(in)
			if err := change(ctx, tx); err != nil {
				return nil, err
			}
			return nil, jobs.Enqueue(ctx, tx.Tx, fanout.NoticesJob(user))
		},
		AfterCommit: func(ctx context.Context) error { return s.fanout.ProjectNotices(ctx, user) },
	}
}
