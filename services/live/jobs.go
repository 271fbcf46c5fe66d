package live

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/notifications"
	"tidings/services/posts"
	"tidings/services/sql"
)

// The kinds of jobs of shows.
const (
	jobClose  = "show.close"  // key: show id. Closes the show if no report about it came in time
	jobRemind = "show.remind" // payload: reminderPayload. The show has started: users with a reminder are notified
)

// remindersPerStep is the most reminders that one transaction sends.
const remindersPerStep = 1000

// kinds are all kinds of jobs of shows, hosts and replays.
func (s *Service) kinds() []jobs.Kind {
	return slices.Concat(s.hostKinds(), s.replayKinds(), []jobs.Kind{
		// Closing comes in bursts, since shows are planned for the full hour: a batch reads all of them by one statement.
		{Name: jobClose, Class: jobs.ShortClass, Batch: s.closeShows, ChangedCounts: jobs.CountsOf(jobs.Everyone, services.SourceLiveBoard), NamesUser: jobs.NoUser},
		{Name: jobRemind, Class: jobs.BulkClass, Each: jobs.PayloadWork(s.runRemind),
			ChangedCounts: jobs.CountsOf(jobs.Everyone, services.SourceNotifications), NamesUser: jobs.NoUser},
	})
}

// closeShowJob returns the job that closes a show at a time, unless the show is started or ended before. The due time may have moved
// when the job runs: the job reads the show, and goes back into the queue if it runs too early. With the zero time the job runs
// at once, and finds the due time itself.
func closeShowJob(show services.ShowID, at time.Time) jobs.NewJob {
	job := jobs.KeyedJob(jobClose, show.String())
	job.NotBefore = at
	return job
}

// reminderPayload is the payload of a job that sends the remaining reminders of a started show, to users with IDs above After. The
// payload is stored in the queue, so its JSON names must stay.
type reminderPayload struct {
	Show  services.ShowID `json:"show"`
	After services.UserID `json:"after,omitempty"`

	StartedAt services.SortableID `json:"moment,omitempty"` // an ID of the time of the start, if it was reported late: see notifications.Cause
}

// remindJob returns the job that sends all reminders of a show that has started. moment is an ID of the time of a past start; 0
// means now.
func remindJob(show services.ShowID, moment services.SortableID) jobs.NewJob {
	return reminderPayload{Show: show, StartedAt: moment}.job()
}

// job returns the job that has this payload.
func (r reminderPayload) job() jobs.NewJob {
	payload, _ := json.Marshal(r) // JSON of numbers cannot fail
	return jobs.NewJob{Kind: jobRemind, Payload: payload}
}

// addShow stores a new show, and its host if this is their first show. Boards have the show at once if all documents name the
// host, otherwise as soon as all documents name the host. The caller's transaction locked the log of shows before.
func (s *Service) addShow(ctx context.Context, tx *sql.Tx, show Show) (Show, error) {
	first, err := putHost(ctx, tx, show.Host)
	if err != nil {
		return show, err
	}
	// The row contains the version of the log entry, so the entry comes before the insert.
	if show, _, err = s.logChange(ctx, tx, Show{}, show); err != nil {
		return show, err
	}
	if err := putShow(ctx, tx, show); err != nil {
		return show, err
	}
	queued := s.jobsForShowChange(tx, Show{}, show)
	if first {
		queued = append(queued, hostIntoDocumentsJob(show.Host))
	}
	return show, jobs.Enqueue(ctx, tx, queued...)
}

// changeShow stores a show that a transition has changed, its former position, the log entry for the nodes, and the jobs that
// project its effects. It returns the show with its new version. The caller's transaction locked the log of shows before it
// read the show.
func (s *Service) changeShow(ctx context.Context, tx *sql.Tx, before, after Show) (Show, error) {
	if after.Status == ShowReplay && before.Status != ShowReplay {
		// The host's mode is read in the transaction of the end. The mode decides for good whether the replay is in lists.
		mode, err := posts.ModeOf(ctx, tx.Runner, after.Host)
		if err != nil {
			return after, err
		}
		after.Pull = mode == services.AuthorHuge
	}
	if after.Status == ShowLive && before.Status != ShowLive {
		// The ID has the time of the report and not of StartedAt, so that the show counts for all users who followed the host
		// before the report.
		after.LiveStamp = tx.NewID(s.ids)
	}
	after, former, err := s.logChange(ctx, tx, before, after)
	if err != nil {
		return after, err
	}
	if err := rewriteShow(ctx, tx, after, former); err != nil {
		return after, err
	}
	return after, jobs.Enqueue(ctx, tx, s.jobsForShowChange(tx, before, after)...)
}

// logChange appends a change of a show to the log of shows if boards have its host's shows. It returns the show with its version, and its
// former position on boards: nil if the position did not change or there was none.
func (s *Service) logChange(ctx context.Context, tx *sql.Tx, before, after Show) (Show, *formerPosition, error) {
	_, named, err := readHost(ctx, tx.Runner, after.Host)
	if err != nil || !named {
		return after, nil, err
	}
	if !after.moved(before) {
		// Open boards show new texts at once, so changes of texts are in the log too.
		change := loggedChange{Show: after}
		return after, nil, change.appendTexts(ctx, tx)
	}
	change := loggedChange{Show: after, Live: (after.Status == ShowLive) != (before.Status == ShowLive)}
	version, err := change.appendMove(ctx, tx)
	if err == nil && change.Live {
		err = recordHostLiveVersion(ctx, tx, after.Host, version)
	}
	// No board had the show before, so there is no position to keep.
	if err != nil || before.Version == 0 {
		return change.Show, nil, err
	}
	return change.Show, &formerPosition{
		Show: before.ID, Host: before.Host, FromVersion: before.Version, UntilVersion: version, UntilAt: tx.Now,
		Status: before.Status, Score: before.Position().Score,
	}, nil
}

// jobsForShowChange are the jobs that project the effects of a change of a show.
func (s *Service) jobsForShowChange(tx *sql.Tx, before, after Show) (queued []jobs.NewJob) {
	// A new plan or a start moves the time of closing. A job for the former time may remain: it closes nothing too early.
	if at := s.limits.closesAt(after); !at.IsZero() && !at.Equal(s.limits.closesAt(before)) {
		queued = append(queued, closeShowJob(after.ID, tx.JobDueAt(at)))
	}
	// A show that is over as soon as its start is reported gets this job too: users with a reminder are still notified.
	if before.StartedAt.IsZero() && !after.StartedAt.IsZero() {
		queued = append(queued, remindJob(after.ID, tx.EventMoment()))
	}
	if after.Status == ShowReplay && before.Status != ShowReplay && after.Version > 0 && !after.Pull {
		queued = append(queued, fanOutReplayJob(after.ID))
	}
	return queued
}

// closeShows runs jobs of the kind jobClose together: one transaction reschedules the jobs of all shows that are not due yet. Each of the
// other shows is closed in its own transaction.
func (s *Service) closeShows(ctx context.Context, claimed []jobs.Job) (outcomes []error) {
	outcomes = make([]error, len(claimed))
	ids := make([]services.ShowID, len(claimed))
	for i, job := range claimed {
		id, err := services.ParseSortableID(job.Key)
		if ids[i] = services.ShowID(id); err != nil {
			outcomes[i] = fmt.Errorf("key of %s: %w", job.Kind, err)
		}
	}
	var early map[int]bool
	failed := s.db.Write(ctx, func(tx *sql.Tx) (err error) {
		early, err = s.postponeEarlyCloses(ctx, tx, claimed, ids)
		return err
	})
	for i := range claimed {
		switch {
		case outcomes[i] != nil:
		// All jobs are tried again: no job of the batch was rescheduled.
		case failed != nil:
			outcomes[i] = failed
		case early[i]:
			outcomes[i] = jobs.ErrFinished
		default:
			outcomes[i] = s.closeShow(ctx, ids[i])
		}
	}
	return outcomes
}

// postponeEarlyCloses replaces the jobs of shows that are not due yet by jobs at their due times. early has the indexes of these
// shows.
func (s *Service) postponeEarlyCloses(ctx context.Context, tx *sql.Tx, claimed []jobs.Job, ids []services.ShowID) (early map[int]bool, err error) {
	if err := s.lockLog(ctx, tx); err != nil {
		return nil, err
	}
	shows, err := readShows(ctx, tx.Runner, ids)
	if err != nil {
		return nil, err
	}
	var done []jobs.Job
	var later []jobs.NewJob
	early = map[int]bool{}
	for i, id := range ids {
		// A show that is over, cancelled or erased has the zero time, so it is not early: closeShow finds nothing to do.
		if at := s.limits.closesAt(shows[id]); at.After(tx.Now) {
			early[i], done, later = true, append(done, claimed[i]), append(later, closeShowJob(id, at))
		}
	}
	if len(done) == 0 {
		return early, nil
	}
	if err := jobs.Finish(ctx, tx, done...); err != nil {
		return nil, err
	}
	return early, jobs.Enqueue(ctx, tx, later...)
}

// closeShow closes a show that was not started or ended in time, and leaves any other show unchanged.
func (s *Service) closeShow(ctx context.Context, id services.ShowID) error {
	changed := false
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		changed = false
		before, err := s.lockAndRead(ctx, tx, id)
		if services.CodeOf(err) == services.NotFound {
			return nil // the show's host was erased
		}
		if err != nil {
			return err
		}
		var after Show
		if after, changed = s.limits.close(before, tx.Now); changed {
			_, err = s.changeShow(ctx, tx, before, after)
			return err
		}
		// The configured time has grown, or another node's clock is ahead of this one's: check again later.
		if at := s.limits.closesAt(before); !at.IsZero() {
			return jobs.Enqueue(ctx, tx, closeShowJob(id, at))
		}
		return nil
	})
	if err != nil || !changed {
		return err
	}
	s.jobs.Wake()
	// This node's own boards show the change at once; the other nodes read it from the log.
	return s.Memory.Refresh(ctx)
}

// runRemind leaves a notification job for each of the next users to remind, and a job for the users after them, in the
// transaction that ends this job: no user is notified twice or missed, whenever the process dies.
func (s *Service) runRemind(ctx context.Context, job jobs.Job, part reminderPayload) error {
	found, err := readShows(ctx, s.db.Runner, []services.ShowID{part.Show})
	if err != nil {
		return err
	}
	most := min(remindersPerStep, s.fanout.ChunkSize)
	users, err := readReminders(ctx, s.db, part.Show, part.After, most)
	if err != nil || len(users) == 0 {
		return err
	}
	causes := make([]notifications.Cause, len(users))
	for i, user := range users {
		causes[i] = notifications.Cause{Recipient: user, Category: services.CategoryReminder, Subject: services.SortableID(part.Show), Actor: found[part.Show].Host}
	}
	queued, err := notifications.NotifyJobsAt(part.StartedAt, causes...)
	if err != nil {
		return err
	}
	// The page is full, so there may be more users. The next job begins after the last user of this job.
	if len(users) == most {
		queued = append(queued, reminderPayload{part.Show, users[len(users)-1], part.StartedAt}.job())
	}
	return s.jobs.Replace(ctx, job, queued)
}
