package jobs

import (
	"context"
	"time"

	"tidings/services/sql"
)

var (
	lastJob = sql.NewStatement("the last job", `SELECT COALESCE(max(id), 0) FROM jobs`)

	// jobOfKey finds a waiting or leased job of a kind and key. It reads the jobs of the kind one by one. A kind whose jobs are revived
	// has few.
	jobOfKey = sql.NewStatement("a job of a key", `SELECT id FROM jobs WHERE kind = $1 AND key = $2 LIMIT 1`)

	forgetDead = sql.NewStatement("forget dead jobs of a key", `DELETE FROM dead_jobs WHERE kind = $1 AND key = $2`)

	// jobUpTo finds a job with an ID of at most $1 that was made by $2 and is due by $3.
	jobUpTo = sql.NewStatement("a job of before", `SELECT id FROM jobs WHERE id <= $1 AND created_at <= $2 AND due_at <= $3 ORDER BY id LIMIT 1`)
)

// LastID is the ID of the newest job, 0 when there is none. Later jobs have greater IDs.
func LastID(ctx context.Context, db *sql.DB) (id int64, err error) {
	_, err = db.One(ctx, lastJob, nil, &id)
	return id, err
}

// AnyJobWaits reports whether a job with an ID of at most upTo is not done yet, was made by madeBy, and is due by dueBy: claimable
// or leased. A job that was planned for later counts as made when it is first due, and keeps that time through leases and tries. So
// madeBy leaves out the jobs that are planned for a later time, and not those that are leased, or tried again, until a later time.
func AnyJobWaits(ctx context.Context, db *sql.DB, upTo int64, madeBy, dueBy time.Time) (waits bool, err error) {
	var id int64
	return db.One(ctx, jobUpTo, []any{upTo, madeBy, dueBy}, &id)
}

// Revive enqueues a job with a key in place of a dead one. It does nothing while the queue has a job of this kind and key,
// waiting or leased.
func Revive(ctx context.Context, tx *sql.Tx, job NewJob) error {
	var id int64
	if found, err := tx.One(ctx, jobOfKey, []any{job.Kind, job.Key}, &id); err != nil || found {
		return err
	}
	if _, err := tx.Run(ctx, forgetDead, job.Kind, job.Key); err != nil {
		return err
	}
	return Enqueue(ctx, tx, job)
}
