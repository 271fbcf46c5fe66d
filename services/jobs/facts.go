package jobs

import (
	"context"
	"fmt"
	"time"

	"tidings/services/sql"
	"tidings/services/trace"
)

// NewJob is work to be done later. Jobs of one kind and key that are claimed together collapse to the last one; an empty key
// never collapses. A zero NotBefore means now.
type NewJob struct {
	Kind, Key string // the name of a registered Kind, and what the job is about, such as a user
	Payload   []byte // what the job's work needs, in the kind's own form
	NotBefore time.Time
	// MergeGroup merges jobs of a kind that are committed together into one: its payload has one line for each. Such a job has no
	// key and no NotBefore. "" keeps the job separate.
	MergeGroup string

	cause       trace.Cause // the span in which it is enqueued
	prioritized bool        // it goes ahead of waiting bulk work, see priorityHeadStart
}

// Job is work that this process holds a lease on. Tries is how often it has failed. LeaseToken guards the lease: after it has
// expired and another process has claimed the job, writes of the former holder have no effect.
type Job struct {
	ID          int64
	Kind, Key   string
	Payload     []byte
	Tries       int
	LeaseToken  string
	CreatedAt   time.Time   // when it was made, or due if planned for later; the earliest among the jobs that collapsed into it
	Cause       trace.Cause // the span in which it was enqueued
	Prioritized bool        // it goes ahead of waiting bulk work, and so do the jobs that it enqueues: see priorityHeadStart
}

// Every statement with which a holder ends or moves its lease names the token or runs after lockJob, so that it changes nothing if
// the lease was taken over.
var (
	// due_at orders the queue. While a job is leased, due_at is the end of the lease, so a job whose lease has expired is due
	// again.
	insertJobs = sql.NewInsertion("enqueue jobs", "jobs", "kind TEXT, key TEXT, payload BYTEA, due_at BIGINT, created_at BIGINT, cause TEXT", "")

	extendJobs = sql.NewStatement("extend leases", `UPDATE jobs SET due_at = $3 WHERE {in id $1 BIGINT} AND token = $2`)

	finishStatement = sql.NewStatement("finish jobs", `DELETE FROM jobs WHERE {in id $1 BIGINT} AND token = $2`)

	// The conditions on the token make late writes harmless: a worker whose lease was taken over changes nothing.
	releaseJobs = sql.NewStatement("release jobs", `UPDATE jobs SET due_at = $3, token = '', node = '' WHERE {in id $1 BIGINT} AND token = $2`)

	// freeJobs ends every lease whose token lacks the prefix $2 of this process. It is for SQLite, which serves one process.
	freeJobs = sql.NewStatement("free the jobs of a dead process", `UPDATE jobs SET due_at = $1, token = '', node = '' WHERE token <> '' AND token NOT LIKE $2`)

	// lockJob finds the job only while its lease still has the token.
	lockJob = sql.NewStatement("lock a job", `SELECT tries FROM jobs WHERE id = $1 AND token = $2 {for update}`)

	retryJob = sql.NewStatement("retry a job", `UPDATE jobs SET tries = $2, due_at = $3, token = '', node = '' WHERE id = $1`)

	// buryJob copies a job into the table of dead jobs; deleteJob then removes it from the queue.
	buryJob = sql.NewStatement("bury a job", `INSERT INTO dead_jobs (id, kind, key, payload, tries, error, created_at, died_at)
		SELECT id, kind, key, payload, $2, $3, created_at, $4 FROM jobs WHERE id = $1`)

	deleteJob = sql.NewStatement("delete a job", `DELETE FROM jobs WHERE id = $1`)

	countJobsOf = sql.NewStatement("count jobs of some kinds", `SELECT count(*), min(created_at) FROM jobs WHERE {in kind $1 TEXT}`)

	waitingKeys = sql.NewStatement("keys of waiting jobs", `SELECT key FROM jobs WHERE kind = $1 AND created_at <= $2 ORDER BY due_at, id LIMIT $3`)

	countJobs = sql.NewStatement("count jobs", `SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM dead_jobs), (SELECT min(created_at) FROM jobs)`)
)

// Enqueue adds jobs, in the transaction of the fact that causes them: those with a MergeGroup at the end of the transaction, the
// others now.
func Enqueue(ctx context.Context, tx *sql.Tx, jobs ...NewJob) error {
	single := make([]NewJob, 0, len(jobs))
	cause, ahead := trace.CauseOf(ctx), isPrioritized(ctx)
	for _, job := range jobs {
		job.cause, job.prioritized = cause, ahead
		// The end of the transaction knows all jobs of the group, from all commands that share it.
		if job.MergeGroup != "" {
			tx.KeepForEndHook(mergeGroupHook, job)
			continue
		}
		single = append(single, job)
	}
	return addJobs(ctx, tx, single)
}

// addJobs inserts jobs. They are due at tx.Began, which is never ahead of the clock, unless they are planned for later or go ahead of
// bulk work. If they were due at tx.Now, the last jobs of a batch would not be due yet when the workers are woken.
func addJobs(ctx context.Context, tx *sql.Tx, jobs []NewJob) error {
	all := make([][]any, 0, len(jobs))
	for _, job := range jobs {
		due := job.NotBefore
		made := tx.Began
		switch {
		case !due.IsZero():
			// A job planned for later counts as created when it is due, so that the planned delay is not measured as waiting.
			if due.After(made) {
				made = due
			}
		case job.prioritized:
			due = made.Add(-priorityHeadStart)
		default:
			due = made
		}
		// The column allows no NULL.
		payload := job.Payload
		if payload == nil {
			payload = []byte{}
		}
		all = append(all, []any{job.Kind, job.Key, payload, due, made, job.cause.Text()})
	}
	_, err := tx.Insert(ctx, insertJobs, all)
	return err
}

// mergeGroupHook merges the jobs of a transaction that have a MergeGroup. It adds one job for each group, in the order of the groups'
// first jobs.
var mergeGroupHook = sql.NewTxEndHook(func(ctx context.Context, tx *sql.Tx, grouped []any) error {
	type group struct{ kind, name string }
	indexes := map[group]int{}
	var jobs []NewJob
	for _, value := range grouped {
		job := value.(NewJob)
		of := group{job.Kind, job.MergeGroup}
		index, known := indexes[of]
		if !known {
			index = len(jobs)
			indexes[of] = index
			jobs = append(jobs, NewJob{Kind: job.Kind, cause: job.cause, prioritized: job.prioritized})
		} else {
			jobs[index].Payload = append(jobs[index].Payload, '\n')
		}
		jobs[index].Payload = append(jobs[index].Payload, job.Payload...)
	}
	return addJobs(ctx, tx, jobs)
})

// extend makes the leases end after the duration lease, counted from now. Jobs that this process no longer holds are left alone.
func extend(ctx context.Context, db *sql.DB, jobs []Job, lease time.Duration) error {
	return db.Write(ctx, func(tx *sql.Tx) error {
		_, err := runOnHeldJobs(ctx, tx, extendJobs, jobs, tx.Now.Add(lease))
		return err
	})
}

// FinishIfHeld deletes jobs that are done and returns how many it deleted. It does not delete jobs whose lease was lost: they will be
// done again.
func FinishIfHeld(ctx context.Context, db *sql.DB, jobs []Job) (finished int, err error) {
	err = db.Write(ctx, func(tx *sql.Tx) error {
		finished, err = finishInTx(ctx, tx, jobs)
		return err
	})
	return finished, err
}

// finishInTx deletes jobs that are done, in the transaction of their effect. If it deletes fewer than were given, a lease was lost:
// return an error from the transaction, because another process does the rest.
func finishInTx(ctx context.Context, tx *sql.Tx, jobs []Job) (int, error) {
	return runOnHeldJobs(ctx, tx, finishStatement, jobs)
}

// release returns jobs to the queue undone. They can be claimed from notBefore on, and no try is counted.
func release(ctx context.Context, db *sql.DB, jobs []Job, notBefore time.Time) error {
	return db.Write(ctx, func(tx *sql.Tx) error {
		_, err := runOnHeldJobs(ctx, tx, releaseJobs, jobs, notBefore)
		return err
	})
}

// runOnHeldJobs runs a statement on the given jobs, as far as this process still holds their leases: $1 their ids, $2 their token.
func runOnHeldJobs(ctx context.Context, tx *sql.Tx, st sql.Statement, jobs []Job, more ...any) (changed int, err error) {
	ids := make(map[string][]int64)
	var tokens []string
	// One claim has one token, so this is one statement, unless jobs of several claims are given back together.
	for _, job := range jobs {
		if ids[job.LeaseToken] == nil {
			tokens = append(tokens, job.LeaseToken)
		}
		ids[job.LeaseToken] = append(ids[job.LeaseToken], job.ID)
	}
	for _, token := range tokens {
		if token == "" {
			continue // never claimed: the empty token would match every job without a lease
		}
		n, err := tx.Run(ctx, st, append([]any{ids[token], token}, more...)...)
		if err != nil {
			return changed, err
		}
		changed += n
	}
	return changed, nil
}

// fail records that a job failed with its own error. It is tried again from retryAt on, unless this was the last of
// maxTries: then it becomes a dead job, with the error's text. It does nothing if the lease was lost.
func fail(ctx context.Context, db *sql.DB, job Job, cause error, retryAt time.Time, maxTries int) (dead bool, err error) {
	err = db.Write(ctx, func(tx *sql.Tx) error {
		dead = false
		var tries int
		if job.LeaseToken == "" {
			return nil
		}
		// Another worker may have taken the job over, and failed or finished it.
		held, err := tx.One(ctx, lockJob, []any{job.ID, job.LeaseToken}, &tries)
		if err != nil || !held {
			return err
		}
		tries++
		if tries < maxTries {
			_, err := tx.Run(ctx, retryJob, job.ID, tries, retryAt)
			return err
		}
		if _, err := tx.Run(ctx, buryJob, job.ID, tries, fmt.Sprint(cause), tx.Now); err != nil {
			return err
		}
		dead = true
		_, err = tx.Run(ctx, deleteJob, job.ID)
		return err
	})
	return dead && err == nil, err
}

// JobCounts returns how many jobs wait (leased and planned ones included), how many are dead, and since when the oldest
// waiting job has waited: the time when it was made, or became due if it was planned for later. The time is zero when there
// is none.
func JobCounts(ctx context.Context, db *sql.DB) (waiting, dead int, oldest time.Time, err error) {
	var created sql.NullInt64
	if _, err := db.One(ctx, countJobs, nil, &waiting, &dead, &created); err != nil {
		return 0, 0, time.Time{}, err
	}
	if created.Valid {
		oldest = sql.FromMicros(created.Int64)
	}
	return waiting, dead, oldest, nil
}

// JobCountsOf returns how many jobs of some kinds are not done yet, and since when the oldest has waited: the time when it was
// made, or became due if it was planned for later. The time is zero when there is none.
func JobCountsOf(ctx context.Context, db *sql.DB, kinds []string) (waiting int, oldest time.Time, err error) {
	var created sql.NullInt64
	if _, err := db.One(ctx, countJobsOf, []any{kinds}, &waiting, &created); err != nil {
		return 0, time.Time{}, err
	}
	if created.Valid {
		oldest = sql.FromMicros(created.Int64)
	}
	return waiting, oldest, nil
}

// WaitingKeys lists the keys of up to limit jobs of a kind that were made by a time and are not done yet, those due longest
// first. A key occurs once for each of its jobs.
func WaitingKeys(ctx context.Context, db *sql.DB, kind string, madeBy time.Time, limit int) (keys []string, err error) {
	return sql.ReadColumn[string](ctx, db, waitingKeys, kind, madeBy, limit)
}
