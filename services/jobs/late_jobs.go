package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"tidings/services"
)

// BehindSince is, for each source, the time since which its counts may lack acknowledged changes.
type BehindSince map[services.Source]time.Time

// add merges the times of more into l. It keeps the earlier time of each source.
func (l BehindSince) add(more BehindSince) {
	for source, since := range more {
		if had, known := l[source]; !known || since.Before(had) {
			l[source] = since
		}
	}
}

// CountsBehind returns which counts of a user's document may lack a change, because a node died that held one of their jobs, or
// because an engine did not answer such a job. It is nil in normal operation and then costs one atomic read.
func (e *Engine) CountsBehind(user services.UserID) BehindSince {
	shown := e.lateJobs.summary.Load()
	if shown == nil {
		return nil
	}
	lag := BehindSince{}
	lag.add(shown.everybody)
	lag.add(shown.users[user])
	if len(lag) == 0 {
		return nil
	}
	return lag
}

// AnyCountsBehind reports whether CountsBehind names a count of any user.
func (e *Engine) AnyCountsBehind() bool { return e.lateJobs.summary.Load() != nil }

// lateJobs holds, until they are done, the jobs that nodes held when they fell silent, and jobs that have waited long
// because a node hung or an engine did not answer. Only the heartbeat changes it.
type lateJobs struct {
	jobs    affectedCountsByJob           // the counts that each late job changes
	summary atomic.Pointer[behindSummary] // what CountsBehind reads; nil: there are no jobs
}

// behindSummary is the summary that CountsBehind reads.
type behindSummary struct {
	everybody BehindSince                     // of all users
	users     map[services.UserID]BehindSince // of single users, besides everybody
}

// affectedCounts are the counts that one job changes.
type affectedCounts struct {
	everybody   bool              // the counts of all users
	users       []services.UserID // the users whose counts change, unless everybody is set
	sources     []services.Source // the sources of the counts
	behindSince time.Time         // when the counts may first have lacked the job's effect
}

// These keys in lateJobs.jobs are not IDs of jobs. They stand for jobs that were not read yet and may change any count.
const (
	heldJobsNotReadKey    = 0  // the key for jobs of silent nodes that were not read
	overdueJobsNotReadKey = -1 // the key for overdue jobs that were not read
)

// The limits of reading overdue jobs.
const (
	// overdueReadBatch is how many overdue jobs are read at once.
	overdueReadBatch = 500
	// overdueReadTimeout bounds the time to read overdue jobs in one beat: with more time this node would fall silent.
	overdueReadTimeout = 400 * time.Millisecond
)

// addHeldJobs adds the jobs that silent nodes hold now. Jobs that are done stay until refreshWithTimeout removes them. On an error
// it keeps the jobs found so far.
func (j *lateJobs) addHeldJobs(ctx context.Context, e *Engine, held []Job) error {
	if len(held) == 0 {
		delete(j.jobs, heldJobsNotReadKey) // refreshWithTimeout of this beat finds these jobs if they still wait
		return nil
	}
	next := maps.Clone(j.jobs)
	if next == nil {
		next = affectedCountsByJob{}
	}
	delete(next, heldJobsNotReadKey)
	err := next.add(ctx, e, held)
	if err != nil || len(held) >= maxLateJobsRead { // there may be more
		next[heldJobsNotReadKey] = allCounts(held[0].CreatedAt)
	}
	j.setJobs(next)
	return err
}

// remaining returns the jobs that are not done yet.
func (j *lateJobs) remaining(ctx context.Context, e *Engine) (affectedCountsByJob, error) {
	remaining := make(affectedCountsByJob, len(j.jobs))
	if len(j.jobs) == 0 {
		return remaining, nil
	}
	ids, err := remainingJobIDs(ctx, e.db, slices.Collect(maps.Keys(j.jobs)))
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		remaining[id] = j.jobs[id]
	}
	return remaining, nil
}

// refreshWithTimeout removes the jobs that are done and adds all overdue ones, a part at a time, claimed or not: a node that hangs
// in the middle of a claim has locked jobs that do not show as claimed yet, and while an engine does not answer, jobs are
// claimed and released again and again. Until all are read, every count may lack the effect of one of them.
func (j *lateJobs) refreshWithTimeout(ctx context.Context, e *Engine) error {
	bounded, cancel := context.WithTimeout(ctx, overdueReadTimeout)
	defer cancel()
	err := j.refresh(bounded, e)
	if bounded.Err() != nil && ctx.Err() == nil {
		return nil // the next beat continues
	}
	return err
}

// refresh is refreshWithTimeout without its limit of time. It sets the jobs found so far, also on an error.
func (j *lateJobs) refresh(ctx context.Context, e *Engine) error {
	now := e.clock.Now()
	dueBy := now.Add(-nodeSilentAfter)
	// The remaining jobs are read before the overdue ones: a job that replaces another one in between is then among the overdue.
	next, err := j.remaining(ctx, e)
	if err != nil {
		next = affectedCountsByJob{}
		maps.Copy(next, j.jobs)
	}
	if more, some := j.jobs[heldJobsNotReadKey]; some {
		next[heldJobsNotReadKey] = more
	}
	var ids []int64
	if err == nil {
		ids, err = overdueIDs(ctx, e.db, e.Kinds(), dueBy, now.Add(e.cfg.Lease+nodeLocksGoneAfter), maxLateJobsRead)
	}
	// Read only the jobs that next lacks: the counts that a job changes stay the same.
	unknown := slices.DeleteFunc(slices.Clone(ids), func(id int64) bool {
		_, known := next[id]
		return known
	})
	for part := range slices.Chunk(unknown, overdueReadBatch) {
		var overdue []Job
		if overdue, err = selectJobs(ctx, e.db, jobsByID, part); err == nil {
			err = next.add(ctx, e, overdue)
		}
		if err != nil {
			break
		}
	}
	delete(next, overdueJobsNotReadKey)
	if err != nil || len(ids) >= maxLateJobsRead {
		next[overdueJobsNotReadKey] = allCounts(dueBy)
	}
	j.setJobs(next)
	return err
}

// setJobs sets the jobs from which CountsBehind answers.
func (j *lateJobs) setJobs(jobs affectedCountsByJob) {
	j.jobs = jobs
	j.summary.Store(j.summarize())
}

// affectedCountsByJob are the counts that jobs change, by job ID.
type affectedCountsByJob map[int64]affectedCounts

// add adds the given jobs with the counts that they change. Jobs that are there already stay as they are.
func (a affectedCountsByJob) add(ctx context.Context, e *Engine, some []Job) error {
	for _, job := range some {
		if _, known := a[job.ID]; known {
			continue
		}
		change, err := e.affectedBy(ctx, job)
		if err != nil {
			return err
		}
		a[job.ID] = change
	}
	return nil
}

// allCounts returns all counts of all users.
func allCounts(since time.Time) affectedCounts {
	return affectedCounts{everybody: true, sources: services.Sources, behindSince: since}
}

// summarize makes the summary of all jobs; nil if there are none.
func (j *lateJobs) summarize() *behindSummary {
	b := &behindSummary{everybody: BehindSince{}, users: map[services.UserID]BehindSince{}}
	// A user's own entry and the entry for everybody are kept apart, and CountsBehind joins the two. The entry for everybody is
	// usually empty.
	for _, change := range j.jobs {
		lag := BehindSince{}
		for _, source := range change.sources {
			lag[source] = change.behindSince
		}
		if change.everybody {
			b.everybody.add(lag)
			continue
		}
		for _, user := range change.users {
			if b.users[user] == nil {
				b.users[user] = BehindSince{}
			}
			b.users[user].add(lag)
		}
	}
	maps.DeleteFunc(b.users, func(_ services.UserID, lag BehindSince) bool { return len(lag) == 0 })
	if len(b.everybody)+len(b.users) == 0 {
		return nil
	}
	return b
}

// affectedBy finds the counts that a job changes. A job that cannot be read may change the counts of any user.
func (e *Engine) affectedBy(ctx context.Context, job Job) (affectedCounts, error) {
	// A job of a newer version of this program may change anything.
	kind, known := e.kinds[job.Kind]
	change := affectedCounts{sources: kind.ChangedCounts.sources, behindSince: job.CreatedAt, everybody: !known}
	if !known {
		change.sources = services.Sources
	}
	if kind.ChangedCounts.users == nil {
		return change, nil
	}
	// An engine that does not answer is asked again at the next beat. Any other error means a job that nobody can read.
	users, everyone, err := kind.ChangedCounts.usersOf(ctx, job)
	if services.IsUnavailable(err) {
		return affectedCounts{}, fmt.Errorf("users whose counts a job changes: %w", err)
	}
	change.users, change.everybody = users, everyone || err != nil
	return change, nil
}
