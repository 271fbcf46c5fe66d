package fanout

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/rdb"
	"tidings/services/store"
)

// The kinds of jobs of notifications.
const (
	jobNotify = "notify" // payload: cause. Something happened that may notify a recipient
	jobCounts = "counts" // key: user. Their notification counts changed in SQL
)

func (f *Fanout) notificationKinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobNotify, Class: jobs.Short, Batch: f.notifyEach, Changes: jobs.CountsOf(recipients, services.SourceNotifications)},
		{Name: jobCounts, Class: jobs.Short, Each: jobs.OfUser(f.projectCounts), Changes: jobs.CountsOf(jobs.FirstUser, services.SourceNotifications)},
	}
}

// recipients are the users whose notifications the causes of a job change.
func recipients(_ context.Context, job jobs.Job) (users []services.UserID, everyone bool, err error) {
	causes, err := causesOf(job)
	for _, cause := range causes {
		users = append(users, cause.Recipient)
	}
	return users, false, err
}

// CountsJob projects a user's notification counts into their document.
func CountsJob(user services.UserID) jobs.NewJob { return jobs.UserKeyed(jobCounts, user) }

// NotifyJob lets a cause count, or no longer count, for its recipient, according to the facts when it runs. Causes that are
// committed together become one job for each recipient.
func NotifyJob(cause store.Cause) (jobs.NewJob, error) {
	payload, err := json.Marshal(cause)
	if err != nil {
		return jobs.NewJob{}, fmt.Errorf("notify job: %w", err)
	}
	return jobs.NewJob{Kind: jobNotify, Group: services.UserIDText(cause.Recipient), Payload: payload}, nil
}

// NotifyJobs are the jobs of several causes.
func NotifyJobs(causes ...store.Cause) ([]jobs.NewJob, error) {
	made := make([]jobs.NewJob, len(causes))
	for i, cause := range causes {
		var err error
		if made[i], err = NotifyJob(cause); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// ProjectStates projects notification counts into their recipients' documents.
func (f *Fanout) ProjectStates(ctx context.Context, states []store.NotificationState) error {
	var registers Fields
	for _, state := range states {
		registers.Add(state.Recipient, rdb.CategoryRegisters(CountsOf(state))...)
	}
	return f.Put(ctx, registers.All)
}

func (f *Fanout) projectCounts(ctx context.Context, user services.UserID) error {
	return f.Project(ctx, user, f.notificationRegisters)
}

// causesAtOnce bounds how many causes one transaction applies. A single job may exceed it, because it holds all causes that
// were committed together.
const causesAtOnce = 1000

// notifyEach applies the causes together, about a thousand in each transaction. If that fails because of one job, it applies
// each job by itself, so that only that one fails.
func (f *Fanout) notifyEach(ctx context.Context, jobs []jobs.Job) (outcomes []error) {
	outcomes = make([]error, len(jobs))
	causes := make([][]store.Cause, len(jobs))
	var batch []int
	size := 0
	apply := func() {
		f.notifyTogether(ctx, jobs, causes, batch, outcomes)
		batch, size = nil, 0
	}
	for i, job := range jobs {
		if causes[i], outcomes[i] = causesOf(job); outcomes[i] != nil {
			continue
		}
		if size > 0 && size+len(causes[i]) > causesAtOnce {
			apply()
		}
		batch, size = append(batch, i), size+len(causes[i])
	}
	apply()
	return outcomes
}

// causesOf reads the payload of a job: one cause in each line.
func causesOf(job jobs.Job) (causes []store.Cause, err error) {
	for line := range bytes.Lines(job.Payload) {
		var cause store.Cause
		if err := json.Unmarshal(line, &cause); err != nil {
			return nil, fmt.Errorf("payload of %s: %w", job.Kind, err)
		}
		causes = append(causes, cause)
	}
	return causes, nil
}

// notifyTogether applies the causes of the jobs at some indexes, and stores their outcomes at the same indexes.
func (f *Fanout) notifyTogether(ctx context.Context, claimed []jobs.Job, causes [][]store.Cause, places []int, outcomes []error) {
	try := func(places []int) error {
		var those []jobs.Job
		var all []store.Cause
		for _, i := range places {
			those, all = append(those, claimed[i]), append(all, causes[i]...)
		}
		return f.notify(ctx, those, all)
	}
	err := try(places)
	for _, i := range places {
		if outcomes[i] = err; err != nil && !services.IsUnavailable(err) && len(places) > 1 {
			outcomes[i] = try([]int{i})
		}
		if outcomes[i] == nil {
			outcomes[i] = jobs.ErrFinished
		}
	}
}

// notify applies causes. One transaction writes the facts into the recipients' rows and leaves a job for each recipient that
// projects the counts, so that a crash between SQL and Redis loses nothing. Then it projects the counts at once.
func (f *Fanout) notify(ctx context.Context, claimed []jobs.Job, causes []store.Cause) error {
	if len(claimed) == 0 {
		return nil
	}
	var states []store.NotificationState
	err := f.store.Write(ctx, func(tx *store.Tx) (err error) {
		if states, err = tx.ApplyCauses(ctx, causes); err != nil {
			return err
		}
		if err := jobs.Finish(ctx, tx.Tx, claimed...); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx.Tx, projectLater(states, f.clock.Now())...)
	})
	if err != nil {
		return err
	}
	if err := f.ProjectStates(ctx, states); err != nil {
		f.log.Debug("counts were not projected at once; their jobs will do it", "error", err)
	}
	return nil
}

// projectLater are the jobs that repeat the projection of counts after it was tried at once.
func projectLater(states []store.NotificationState, now time.Time) []jobs.NewJob {
	const later = time.Second
	jobs := make([]jobs.NewJob, 0, len(states))
	for _, state := range states {
		job := CountsJob(state.Recipient)
		job.NotBefore = now.Add(later)
		jobs = append(jobs, job)
	}
	return jobs
}

func (f *Fanout) notificationRegisters(ctx context.Context, user services.UserID) (registers []rdb.Register, err error) {
	states, err := f.store.NotificationStates(ctx, user)
	for _, state := range states {
		registers = append(registers, rdb.CategoryRegisters(CountsOf(state))...)
	}
	return registers, err
}

// CountsOf is the part of a category's state that a document shows.
func CountsOf(state store.NotificationState) services.CategoryCounts {
	return services.CategoryCounts{
		Category: state.Category, Version: state.Version, Newest: state.Head,
		Older: state.Older, Day: state.Day, Days: state.Days,
	}
}
