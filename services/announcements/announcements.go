// Package announcements implements announcements and dots: one list and some dots that all users share, and each user's position
// in them.
//
// A change by the host application costs the same whatever the number of users: a row and a changelog entry that every node
// reads, and nothing per user. The stored state of a user is a position in the list, a stamp for each dot that the user
// dismissed, and the segments that the application set. Count and list both come from the node cache, so that they cannot
// disagree. Positions never go back. Without Redis everything works from SQL; without SQL the node cache is still shown, and
// nothing can change.
//
// One clock orders all changes: a row of the table counters. Each stamp is the present time in microseconds, or more if the last
// stamp is not lower. A change takes its stamp first (nextStamp), which locks the row until its transaction ends, so stamps are
// committed in their order: a reader who has read up to a stamp has seen every change up to it. A position is such a stamp, and
// so is the time of a dot.
//
// An announcement takes this way: Publish takes a stamp, inserts the row with it as its position, and appends a log entry; each
// node loads the list and the dots anew (Memory.load) and notifies the hub that a change concerns all users; Render counts, for each
// watched user, the entries after the user's position that are for their segments. An announcement that starts later gets its
// position from a job at that time.
package announcements

import (
	"context"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/jobs"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// Config is the configuration of announcements and dots.
type Config struct {
	DB        *sql.DB
	Redis     *rdb.Projections
	Jobs      *jobs.Engine         // New registers its kinds of jobs
	Changelog *changelog.Follower  // the node cache follows it
	Projector *projector.Projector // New registers its part of each user's document
	IDs       *services.IDClock    // makes the IDs of announcements
	Clock     services.Clock
}

// Service is the commands and pages of announcements, dots and segments. It is safe for concurrent use.
type Service struct {
	Memory *Memory // this node's cache

	db        *sql.DB
	redis     *rdb.Projections
	jobs      *jobs.Engine
	projector *projector.Projector
	ids       *services.IDClock
	clock     services.Clock
}

// New makes the service, and registers its kinds of jobs, its kind of log entry, and its part of each user's document.
func New(cfg Config) *Service {
	s := &Service{
		Memory: newMemory(cfg.Changelog, sqlReader{cfg.DB}, cfg.Redis.SetDots),
		db:     cfg.DB, redis: cfg.Redis, jobs: cfg.Jobs, projector: cfg.Projector, ids: cfg.IDs, clock: cfg.Clock,
	}
	cfg.Jobs.Register(s.kinds()...)
	cfg.Projector.AddVersionedFields("announcements and dots", s.versionedFields, s.auditVersionedFields)
	cfg.Projector.OnVisit(s.initPosition)
	cfg.Projector.RegisterExpiringRows("positions of dormant users", (&dormantPositionRemover{service: s}).forget)
	return s
}

// sharedStateCommand is a host application's command that changes state that all users share. change receives the stamp of the change, a
// new value of the announcements' clock. It returns the ID of the announcement, "" for a dot, and the key of the changelog entry, which
// names what has changed. The host's next read on this node shows the change, since AfterApply loads it.
func (s *Service) sharedStateCommand(name string, change func(ctx context.Context, tx *sql.Tx, stamp uint64) (id, changed string, err error)) *jobs.Command {
	var stamp uint64
	return &jobs.Command{
		Name: name,
		Apply: func(ctx context.Context, tx *sql.Tx) (_ []string, err error) {
			if stamp, err = nextStamp(ctx, tx); err != nil {
				return nil, err
			}
			// The ID may come with ErrUnchanged: the answer is then the unchanged object.
			id, changed, err := change(ctx, tx, stamp)
			var ids []string
			if id != "" {
				ids = []string{id}
			}
			if err != nil {
				return ids, err
			}
			return ids, logChange(ctx, tx, changed)
		},
		AfterApply: func(ctx context.Context) error { return s.Memory.catchUp(ctx, stamp) },
	}
}

// ownStateCommand is a command that changes one user's state, and queues the job that projects it into their document. It takes no
// stamp: other users do not see the change, and many users mark at once.
func (s *Service) ownStateCommand(name string, user services.UserID, change func(ctx context.Context, tx *sql.Tx) error) *jobs.Command {
	return &jobs.Command{
		Name: name, Actor: user,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			if err := change(ctx, tx); err != nil {
				return nil, err
			}
			return nil, jobs.Enqueue(ctx, tx, UserJob(user))
		},
		AfterCommit: func(ctx context.Context) error { return s.project(ctx, user) },
	}
}
