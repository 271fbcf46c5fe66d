package announcements

import (
	"context"
	"fmt"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// The kinds of jobs. Their names are in the database.
const (
	kindStart       = "announcement.start" // key: announcement ID; gives the announcement its position when it starts
	kindProjectUser = "notices"            // key: user ID; projects the user's changed position, segments or dots
)

// kinds are the jobs that New registers.
func (s *Service) kinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: kindStart, Class: jobs.ShortClass, Each: jobs.ObjectWork(s.runStart),
			ChangedCounts: jobs.CountsOf(jobs.Everyone, services.SourceAnnouncements), NamesUser: jobs.NoUser},
		{Name: kindProjectUser, Class: jobs.ShortClass, Each: jobs.UserWork(s.project),
			ChangedCounts: jobs.CountsOf(jobs.FirstUserOfKey, services.SourceAnnouncements), NamesUser: jobs.UserInKey},
	}
}

// StartJob returns the job that gives an announcement its position in the list when it starts.
func StartJob(a Announcement) jobs.NewJob {
	job := jobs.KeyedJob(kindStart, a.ID.String())
	job.NotBefore = a.StartsAt
	return job
}

// UserJob returns the job that projects a user's position in the announcements, segments and dots into their document.
func UserJob(user services.UserID) jobs.NewJob { return jobs.UserJob(kindProjectUser, user) }

// runStart starts an announcement whose time has come, and shows it on this node at once. The other nodes read it from the log.
func (s *Service) runStart(ctx context.Context, _ jobs.Job, id services.AnnouncementID) error {
	started := false
	err := s.db.Write(ctx, func(tx *sql.Tx) (err error) {
		started, err = startIfDue(ctx, tx, id)
		return err
	})
	if err != nil || !started {
		return err
	}
	return s.Memory.Refresh(ctx)
}

// startIfDue gives an announcement its position if its start time has come and it has none. It may be repeated, and the announcement
// may have changed since the job was queued.
func startIfDue(ctx context.Context, tx *sql.Tx, id services.AnnouncementID) (started bool, err error) {
	// This read does not lock the announcements' clock: most jobs that are late or repeated end here, and then nobody waits for them.
	found, err := Read(ctx, tx.Runner, []services.AnnouncementID{id})
	if err != nil {
		return false, err
	}
	switch a, known := found[id]; {
	case !known || !a.waitsToStart(tx.Now):
		return false, nil
	case a.StartsAt.After(tx.Now): // postponed, or the clock of another node is ahead of this one's
		return false, jobs.Enqueue(ctx, tx, StartJob(a))
	}
	// The lock of the announcements' clock comes first, then the row's: every change of an announcement takes the two locks in this order.
	stamp, err := nextStamp(ctx, tx)
	if err != nil {
		return false, err
	}
	a, err := lock(ctx, tx, id)
	if err != nil {
		return false, err
	}
	if !a.waitsToStart(tx.Now) || a.StartsAt.After(tx.Now) {
		return false, nil // it was changed between the two reads; that change has queued a job of its own
	}
	a.Position = stamp
	if err := update(ctx, tx, a); err != nil {
		return false, err
	}
	if err := trimList(ctx, tx, maxListedAnnouncements); err != nil {
		return false, err
	}
	return true, logChange(ctx, tx, a.GlobalID())
}

// project projects a user's position in the announcements, their segments and their dots into their document.
func (s *Service) project(ctx context.Context, user services.UserID) error {
	return s.projector.ProjectVersionedFields(ctx, user, s.versionedFields)
}

// versionedFields are a user's versioned fields according to the facts.
func (s *Service) versionedFields(ctx context.Context, user services.UserID) (fields []rdb.VersionedField, err error) {
	state, err := readUser(ctx, s.db.Runner, user)
	if err != nil {
		return nil, fmt.Errorf("announcements and dots of user %d: %w", user, err)
	}
	// Version 0 is a user without a position: their document gets none either, and shows nothing as new.
	if state.Version > 0 {
		fields = append(fields, rdb.AnnouncementVersionedField(state.AnnouncementState))
	}
	if state.Segments.Version > 0 {
		fields = append(fields, rdb.SegmentVersionedField(state.Segments))
	}
	for dot, seen := range state.DismissedUpToByDot {
		fields = append(fields, rdb.DotVersionedField(dot, seen))
	}
	return fields, nil
}
