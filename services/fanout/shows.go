package fanout

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/mirror"
	"tidings/services/store"
)

// The kinds of jobs of shows.
const (
	jobClose  = "show.close"  // key: show id. Nobody may have told of it any more
	jobRemind = "show.remind" // payload: reminding. It has started: who wanted to know is told
)

// remindersPerStep is how many are told of a show in one transaction, at most.
const remindersPerStep = 1000

func (f *Fanout) showKinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobClose, Class: jobs.Short, Batch: f.closeEach, Changes: jobs.CountsOf(jobs.Everyone, services.SourceLiveBoard)},
		{Name: jobRemind, Class: jobs.Bulk, Each: f.runRemind, Changes: jobs.CountsOf(jobs.Everyone, services.SourceNotifications)},
	}
}

// CloseJob closes a show at a time if nobody has told of it until then.
func CloseJob(show services.PostID, at time.Time) store.NewJob {
	job := jobs.Keyed(jobClose, show.String())
	job.NotBefore = at
	return job
}

// reminding is a part of those who want to be told that a show has started: the users after one by their numbers.
type reminding struct {
	Show  services.PostID `json:"show"`
	After services.UserID `json:"after,omitempty"`
}

// remindJob tells everybody who wanted to know that a show has started.
func remindJob(show services.PostID) store.NewJob { return reminding{Show: show}.job() }

func (r reminding) job() store.NewJob {
	payload, _ := json.Marshal(r) // two numbers, which cannot fail
	return store.NewJob{Kind: jobRemind, Payload: payload}
}

// AddShow writes a new show down, and its host if it is his first. Boards have it at once if all documents name him, else as
// soon as they do. The transaction has locked the log of shows before.
func (f *Fanout) AddShow(ctx context.Context, tx *store.Tx, show services.Show) (services.Show, error) {
	first, err := tx.PutHost(ctx, show.Host)
	if err != nil {
		return show, err
	}
	if show, _, err = f.tell(ctx, tx, services.Show{}, show); err != nil {
		return show, err
	}
	if err := tx.InsertShow(ctx, show, ""); err != nil {
		return show, err
	}
	jobs := f.showJobs(services.Show{}, show)
	if first {
		jobs = append(jobs, hostJob(show.Host))
	}
	return show, tx.Enqueue(ctx, jobs...)
}

// ChangeShow writes a show down that a transition has changed, where it stood before, what the nodes are to know of it, and
// the jobs that carry its effects, and answers it with its new version. The transaction has locked the log of shows before it
// read the show.
func (f *Fanout) ChangeShow(ctx context.Context, tx *store.Tx, before, after services.Show) (services.Show, error) {
	if after.Status == services.ShowReplay && before.Status != services.ShowReplay {
		mode, err := tx.AuthorMode(ctx, after.Host)
		if err != nil {
			return after, err
		}
		after.Pull = mode == services.AuthorHuge
	}
	if after.Status == services.ShowLive && before.Status != services.ShowLive {
		after.LiveStamp = tx.NewID(f.ids)
	}
	after, former, err := f.tell(ctx, tx, before, after)
	if err != nil {
		return after, err
	}
	if err := tx.UpdateShow(ctx, after, former); err != nil {
		return after, err
	}
	return after, tx.Enqueue(ctx, f.showJobs(before, after)...)
}

// tell appends a change of a show to the log, if boards have its host's shows, and answers the show with its version and where
// it stood before; nil when it has not moved, or was nowhere.
func (f *Fanout) tell(ctx context.Context, tx *store.Tx, before, after services.Show) (services.Show, *store.ShowFormer, error) {
	_, named, err := tx.Host(ctx, after.Host)
	if err != nil || !named {
		return after, nil, err
	}
	if !after.Moved(before) {
		change := mirror.ShowChange{Show: after}
		return after, nil, change.AppendTexts(ctx, tx)
	}
	change := mirror.ShowChange{Show: after, Live: (after.Status == services.ShowLive) != (before.Status == services.ShowLive)}
	version, err := change.Append(ctx, tx)
	if err == nil && change.Live {
		err = tx.SetHostVersion(ctx, after.Host, version)
	}
	if err != nil || before.Version == 0 {
		return change.Show, nil, err
	}
	return change.Show, &store.ShowFormer{
		Show: before.ID, Host: before.Host, Version: before.Version, Until: version, UntilAt: tx.Now,
		Status: before.Status, Score: before.Place().Score,
	}, nil
}

// showJobs are the jobs by which a change of a show has its effects.
func (f *Fanout) showJobs(before, after services.Show) (jobs []store.NewJob) {
	if at := f.cfg.Shows.ClosesAt(after); !at.IsZero() && !at.Equal(f.cfg.Shows.ClosesAt(before)) {
		jobs = append(jobs, CloseJob(after.ID, at))
	}
	if before.StartedAt.IsZero() && !after.StartedAt.IsZero() {
		jobs = append(jobs, remindJob(after.ID))
	}
	if after.Status == services.ShowReplay && before.Status != services.ShowReplay && after.Version > 0 && !after.Pull {
		jobs = append(jobs, endJob(after.ID))
	}
	return jobs
}

// closeEach looks at shows together: the times of those that are not due yet are set in one transaction, the others are closed
// each by itself.
func (f *Fanout) closeEach(ctx context.Context, claimed []store.Job) (outcomes []error) {
	outcomes = make([]error, len(claimed))
	ids := make([]services.PostID, len(claimed))
	for i, job := range claimed {
		if ids[i], outcomes[i] = services.ParsePostID(job.Key); outcomes[i] != nil {
			outcomes[i] = fmt.Errorf("key of %s: %w", job.Kind, outcomes[i])
		}
	}
	var early map[int]bool
	failed := f.store.Write(ctx, func(tx *store.Tx) (err error) {
		early, err = f.closeLater(ctx, tx, claimed, ids)
		return err
	})
	for i := range claimed {
		switch {
		case outcomes[i] != nil:
		case failed != nil:
			outcomes[i] = failed
		case early[i]:
			outcomes[i] = jobs.ErrFinished
		default:
			outcomes[i] = f.closeShow(ctx, ids[i])
		}
	}
	return outcomes
}

// closeLater leaves jobs for the times of those shows that are not due yet, in place of these, and says which.
func (f *Fanout) closeLater(ctx context.Context, tx *store.Tx, claimed []store.Job, ids []services.PostID) (early map[int]bool, err error) {
	if _, err := tx.LockLog(ctx, mirror.LogShow); err != nil {
		return nil, err
	}
	shows, err := tx.Shows(ctx, ids)
	if err != nil {
		return nil, err
	}
	var done []store.Job
	var later []store.NewJob
	early = map[int]bool{}
	for i, id := range ids {
		if at := f.cfg.Shows.ClosesAt(shows[id]); at.After(tx.Now) {
			early[i], done, later = true, append(done, claimed[i]), append(later, CloseJob(id, at))
		}
	}
	if len(done) == 0 {
		return early, nil
	}
	if err := jobs.Finish(ctx, tx, done...); err != nil {
		return nil, err
	}
	return early, tx.Enqueue(ctx, later...)
}

// closeShow closes a show if its time for that has come: one that nobody started, or nobody ended. Else it changes nothing.
func (f *Fanout) closeShow(ctx context.Context, id services.PostID) error {
	changed := false
	err := f.store.Write(ctx, func(tx *store.Tx) error {
		changed = false
		if _, err := tx.LockLog(ctx, mirror.LogShow); err != nil {
			return err
		}
		before, err := tx.ShowForUpdate(ctx, id)
		if err != nil {
			return err
		}
		var after services.Show
		if after, changed = f.cfg.Shows.Close(before, tx.Now); changed {
			_, err = f.ChangeShow(ctx, tx, before, after)
			return err
		}
		// The time that is set has grown, or another node's clock is ahead of this one's: it is looked at again.
		if at := f.cfg.Shows.ClosesAt(before); !at.IsZero() {
			return tx.Enqueue(ctx, CloseJob(id, at))
		}
		return nil
	})
	if err != nil || !changed {
		return err
	}
	f.Wake()
	return f.showMemory.Refresh(ctx)
}

// runRemind leaves a job for each of the next users who want to be told, and one for those after them, in the transaction in
// which it ends: nobody is told twice or forgotten, wherever the process dies.
func (f *Fanout) runRemind(ctx context.Context, job store.Job) error {
	var part reminding
	if err := jobs.ReadPayload(job, &part); err != nil {
		return err
	}
	found, err := f.store.Shows(ctx, []services.PostID{part.Show})
	if err != nil {
		return err
	}
	most := min(remindersPerStep, f.cfg.Chunk)
	users, err := f.store.Reminders(ctx, part.Show, part.After, most)
	if err != nil || len(users) == 0 {
		return err
	}
	causes := make([]store.Cause, len(users))
	for i, user := range users {
		causes[i] = store.Cause{Recipient: user, Category: services.CategoryReminder, Subject: part.Show, Actor: found[part.Show].Host}
	}
	jobs, err := NotifyJobs(causes...)
	if err != nil {
		return err
	}
	if len(users) == most {
		jobs = append(jobs, reminding{part.Show, users[len(users)-1]}.job())
	}
	return f.Replace(ctx, job, jobs)
}
