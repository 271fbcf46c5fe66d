package notifications

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// The kinds of jobs of notifications.
const (
	jobNotify        = "notify" // payload: cause. A cause may notify its recipient
	jobProjectCounts = "counts" // key: user. Their notification counts changed in SQL
	jobRecountActor  = "actor"  // key: recipient/actor. The actor's actions no longer count for the recipient, or count again
)

// jobKinds are the kinds of jobs of this package.
func (s *Service) jobKinds() []jobs.Kind {
	return append([]jobs.Kind{
		{Name: jobNotify, Class: jobs.ShortClass, Batch: s.notifyEach,
			ChangedCounts: jobs.CountsOf(recipientsOf, services.SourceNotifications), NamesUser: jobs.UserInPayload(Cause.namedUsers)},
		{Name: jobProjectCounts, Class: jobs.ShortClass, Each: jobs.UserWork(s.projectCounts),
			ChangedCounts: jobs.CountsOf(jobs.FirstUserOfKey, services.SourceNotifications), NamesUser: jobs.UserInKey},
		{Name: jobRecountActor, Class: jobs.BulkClass, Each: jobs.PairWork(s.RecountActor),
			ChangedCounts: jobs.CountsOf(jobs.FirstUserOfKey, services.SourceNotifications), NamesUser: jobs.UserInKey},
	}, s.hostJobKinds()...)
}

// recipientsOf are the users whose notifications a job of the kind jobNotify changes: the recipients of its causes.
func recipientsOf(_ context.Context, job jobs.Job) (users []services.UserID, everyone bool, err error) {
	causes, err := decodeCauses(job)
	for _, cause := range causes {
		users = append(users, cause.Recipient)
	}
	return users, false, err
}

// ProjectCountsJob projects a user's notification counts, and their modes of categories, into their document.
func ProjectCountsJob(user services.UserID) jobs.NewJob { return jobs.UserJob(jobProjectCounts, user) }

// NotifyJob returns the job that makes a cause count for its recipient, or no longer count, according to the facts when it runs: so
// the same job serves a like and its end, and the order of the two does not matter. Causes that are committed together become
// one job for each recipient.
func NotifyJob(cause Cause) (jobs.NewJob, error) {
	payload, err := json.Marshal(cause)
	if err != nil {
		return jobs.NewJob{}, fmt.Errorf("notify job: %w", err)
	}
	return jobs.NewJob{Kind: jobNotify, MergeGroup: services.UserIDText(cause.Recipient), Payload: payload}, nil
}

// NotifyJobs returns the jobs of several causes, one for each: see NotifyJob.
func NotifyJobs(causes ...Cause) ([]jobs.NewJob, error) { return NotifyJobsAt(0, causes...) }

// NotifyJobsAt returns the jobs of several causes, as NotifyJobs does. moment is an ID of the time at which the causes happened if they
// are reported only now, else 0: see Cause.Moment.
func NotifyJobsAt(moment services.SortableID, causes ...Cause) ([]jobs.NewJob, error) {
	made := make([]jobs.NewJob, len(causes))
	for i, cause := range causes {
		cause.Moment = moment
		var err error
		if made[i], err = NotifyJob(cause); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// RecountActorJob makes a recipient's notifications of one actor agree with the recipient's blocks and with the items hidden from the
// recipient. Every change of a block or a hide enqueues it.
func RecountActorJob(recipient, actor services.UserID) jobs.NewJob {
	return jobs.KeyedJob(jobRecountActor, jobs.PairKey(recipient, actor))
}

// projectCounts writes a user's counts and modes into their document, from the facts. It may run late and twice: the fields are
// versioned.
func (s *Service) projectCounts(ctx context.Context, user services.UserID) error {
	return s.projector.ProjectVersionedFields(ctx, user, func(ctx context.Context, user services.UserID) ([]rdb.VersionedField, error) {
		counts, err := s.countVersionedFields(ctx, user)
		if err != nil {
			return nil, err
		}
		modes, err := s.modeVersionedFields(ctx, user)
		return append(counts, modes...), err
	})
}

// maxCausesPerTransaction bounds how many causes one transaction applies. A single job may exceed it, because it holds all causes
// that were committed together. Large batches make a popular post cheap: its many likes lock its author's row once.
const maxCausesPerTransaction = 1000

// maxCausesOfShortWrite is the most causes that a short write applies. A write that applies more is marked as long: see
// sql.WithBulkWrites.
const maxCausesOfShortWrite = 20

// notifyEach applies the causes together, about a thousand in each transaction. If that fails because of one job, it applies each
// job by itself, so that only the bad one fails. The outcome of each job is ErrFinished when its transaction has deleted it.
func (s *Service) notifyEach(ctx context.Context, jobs []jobs.Job) (outcomes []error) {
	outcomes = make([]error, len(jobs))
	causes := make([][]Cause, len(jobs))
	var batch []int
	size := 0
	apply := func() {
		s.notifyTogether(ctx, jobs, causes, batch, outcomes)
		batch, size = nil, 0
	}
	// A job whose payload is broken fails alone, before it is in a batch.
	for i, job := range jobs {
		if causes[i], outcomes[i] = decodeCauses(job); outcomes[i] != nil {
			continue
		}
		if size > 0 && size+len(causes[i]) > maxCausesPerTransaction {
			apply()
		}
		batch, size = append(batch, i), size+len(causes[i])
	}
	apply()
	return outcomes
}

// decodeCauses reads the payload of a job: one cause in each line. A category that this node does not know fails the job; a newer
// node may do the job at the next try.
func decodeCauses(job jobs.Job) (causes []Cause, err error) {
	for line := range bytes.Lines(job.Payload) {
		var cause Cause
		if err := json.Unmarshal(line, &cause); err != nil {
			return nil, fmt.Errorf("payload of %s: %w", job.Kind, err)
		}
		if _, known := factsByCategory[cause.Category]; !known {
			return nil, fmt.Errorf("the category %s is unknown", services.Quote(string(cause.Category)))
		}
		causes = append(causes, cause)
	}
	return causes, nil
}

// notifyTogether applies the causes of the jobs at some indexes, and stores their outcomes at the same indexes. Without jobs it
// does nothing.
func (s *Service) notifyTogether(ctx context.Context, claimed []jobs.Job, causes [][]Cause, indexes []int, outcomes []error) {
	try := func(indexes []int) error {
		var those []jobs.Job
		var all []Cause
		for _, i := range indexes {
			those, all = append(those, claimed[i]), append(all, causes[i]...)
		}
		return s.notify(ctx, those, all)
	}
	err := try(indexes)
	for _, i := range indexes {
		// When the database does not answer, no job is to blame, and a single job would fail too.
		if outcomes[i] = err; err != nil && !services.IsUnavailable(err) && len(indexes) > 1 {
			outcomes[i] = try([]int{i})
		}
		if outcomes[i] == nil {
			outcomes[i] = jobs.ErrFinished
		}
	}
}

// notify applies causes. One transaction writes the facts into the recipients' rows, ends the claimed jobs, and leaves a job for
// each recipient that projects the counts, so that a crash between SQL and Redis loses nothing. Then it projects the counts at
// once, and ignores a failure of this projection, because the jobs repeat it.
func (s *Service) notify(ctx context.Context, claimed []jobs.Job, causes []Cause) error {
	if len(claimed) == 0 {
		return nil
	}
	var states []categoryState
	writing := ctx
	if len(causes) > maxCausesOfShortWrite {
		writing = sql.WithBulkWrites(ctx)
	}
	err := s.db.Write(writing, func(tx *sql.Tx) (err error) {
		if states, err = applyCauses(ctx, tx, causes); err != nil {
			return err
		}
		// The jobs end in the same transaction: if a job lost its lease, Finish fails and nothing is written twice.
		if err := jobs.Finish(ctx, tx, claimed...); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, projectionJobs(states, s.db.Now())...)
	})
	if err != nil {
		return err
	}
	if err := s.project(ctx, states); err != nil {
		s.log.Debug("counts were not projected at once; their jobs will do it", "error", err)
	}
	return nil
}

// projectionJobs are the jobs that repeat the projection of counts after it was tried at once. They are delayed, so that usually
// one of them serves many causes of a user: jobs of one key become one.
func projectionJobs(states []categoryState, now time.Time) []jobs.NewJob {
	const later = time.Second
	jobs := make([]jobs.NewJob, 0, len(states))
	for _, state := range states {
		job := ProjectCountsJob(state.Recipient)
		job.NotBefore = now.Add(later)
		jobs = append(jobs, job)
	}
	return jobs
}

// causesPerPage is how many causes of one actor one transaction handles, while the recipient's other transactions wait.
const causesPerPage = 1000

// RecountActor makes all notifications that one actor caused for a recipient agree with the facts, and projects the counts. A
// repetition changes no rows and still projects the counts. If the actor liked everything, it takes many pages.
func (s *Service) RecountActor(ctx context.Context, recipient, actor services.UserID) error {
	for after, more := (Cause{}), true; more; {
		var last Cause
		err := s.db.Write(ctx, func(tx *sql.Tx) (err error) { // the function may run again, so after is set only when it is committed
			_, last, more, err = applyStoredCausesPage(ctx, tx, s.Memory.allCategories(), recipient, actor, after, s.causesPerPage)
			return err
		})
		if err != nil {
			return err
		}
		after = last
	}
	// The counts are projected once for all pages, and read anew: the states of each page are older by now.
	return s.projectCounts(ctx, recipient)
}
