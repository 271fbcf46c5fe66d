package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tidings/services/sql"
	"tidings/services/trace"
)

// dueOfKind lists and locks the due jobs of one kind, in the order of the index. It skips rows that another transaction has
// locked.
const dueOfKind = `SELECT * FROM (SELECT id, kind, key, payload, tries, created_at, due_at, cause FROM jobs
	WHERE kind = $%d AND due_at <= $1 ORDER BY due_at, id LIMIT $2 {skip locked}) AS of_%d`

// The statements of a claim, in the order in which it runs them.
var (
	leaseJobs = sql.NewStatement("lease jobs", `UPDATE jobs SET token = $2, due_at = $3, node = $4 WHERE {in id $1 BIGINT}`)

	// backdateJobs gives each job that a claim keeps the creation time of the oldest job that collapsed into it.
	backdateJobs = sql.NewStatement("backdate collapsed jobs", `UPDATE jobs AS j SET created_at = r.created_at
		FROM {rows $1 id BIGINT, created_at BIGINT} AS r WHERE j.id = r.id`)

	// dropJobs deletes the jobs that collapsed into a newer job of their kind and key.
	dropJobs = sql.NewStatement("drop collapsed jobs", `DELETE FROM jobs WHERE {in id $1 BIGINT}`)

	// firstDueStatement lists the kinds that have jobs, and when the first job of each is due. It steps from one kind to the next in an
	// index: few kinds have jobs, and the statement runs before each claim.
	firstDueStatement = sql.NewStatement("first due jobs", `WITH RECURSIVE k (kind) AS (SELECT min(kind) FROM jobs
			UNION ALL SELECT (SELECT min(j.kind) FROM jobs j WHERE j.kind > k.kind) FROM k WHERE k.kind IS NOT NULL)
		SELECT k.kind, (SELECT min(j.due_at) FROM jobs j WHERE j.kind = k.kind) FROM k WHERE k.kind IS NOT NULL`)
)

// claimStatementFor returns the statement that locks the due jobs of a number of kinds. It is built once for each number of kinds.
func claimStatementFor(kinds int) sql.Statement {
	if made, found := claimStatements.Load(kinds); found {
		return made.(sql.Statement)
	}
	parts := make([]string, kinds)
	for i := range parts {
		parts[i] = fmt.Sprintf(dueOfKind, i+3, i) // $1 and $2 are the time and the limit
	}
	st := sql.NewStatement(fmt.Sprintf("claim jobs of %d kinds", kinds), strings.Join(parts, " UNION ALL "))
	claimStatements.Store(kinds, st)
	return st
}

// claimStatements are the statements of claimStatementFor by the number of kinds: int -> Statement.
var claimStatements sync.Map

// Claim leases up to limit jobs of some kinds that have been due for at least waited, those due longest first. A job that goes ahead of
// bulk work is due priorityHeadStart before it is made: with that as waited, such a job is claimed at once, and any other job after it
// has been due for that long. Of several jobs with one kind and key Claim returns the newest, with the age of the oldest, and deletes
// the others. On PostgreSQL several nodes claim concurrently and never get the same job. An error may come with jobs: the answer to the
// commit was lost, and this node may hold them. release returns them to the queue.
//
// Claim and FinishIfHeld are exported for the tests of other packages, which play a slow or a crashed worker with them.
func Claim(ctx context.Context, db *sql.DB, kinds []string, limit int, lease, waited time.Duration) ([]Job, error) {
	if len(kinds) == 0 || limit <= 0 {
		return nil, nil
	}
	// The due kinds are read first, to save the writer and the disk an empty transaction.
	now := db.Now().Add(-waited)
	kinds, err := filterKindsByFirstDue(ctx, db, kinds, func(due time.Time) bool { return !due.After(now) })
	if err != nil || len(kinds) == 0 {
		return nil, err
	}
	var claimed []Job
	err = db.Write(ctx, func(tx *sql.Tx) error {
		// The jobs are read again under locks, because another node may have claimed them since.
		due, err := lockDue(ctx, tx, kinds, limit, tx.Now.Add(-waited))
		if err != nil || len(due) == 0 {
			claimed = nil
			return err
		}
		var collapsed []int64
		var backdated sql.RowsParameter
		claimed, collapsed, backdated = collapse(due)
		if len(collapsed) > 0 {
			if _, err := tx.Run(ctx, dropJobs, collapsed); err != nil {
				return err
			}
		}
		if len(backdated) > 0 {
			if _, err := tx.Run(ctx, backdateJobs, backdated); err != nil {
				return err
			}
		}
		// The token begins with the text of this process, so that the next process recognizes the jobs that this process left.
		token := db.LeaseTokenPrefix + rand.Text()
		ids := make([]int64, len(claimed))
		for i := range claimed {
			claimed[i].LeaseToken = token
			ids[i] = claimed[i].ID
		}
		_, err = tx.Run(ctx, leaseJobs, ids, token, tx.Now.Add(lease), db.Node)
		return err
	})
	return claimed, err
}

// lockDue lists and locks the jobs that are due by a time, the longest due first.
func lockDue(ctx context.Context, tx *sql.Tx, kinds []string, limit int, by time.Time) ([]Job, error) {
	args := []any{by, limit}
	for _, kind := range kinds {
		args = append(args, kind)
	}
	st := claimStatementFor(len(kinds))
	type dueJob struct {
		Job
		due int64
	}
	due, err := sql.ReadRows(ctx, tx, st, args, func(scan sql.Scan, job *dueJob) error {
		var created int64
		var cause string
		err := scan(&job.ID, &job.Kind, &job.Key, &job.Payload, &job.Tries, &created, &job.due, &cause)
		job.Cause = trace.ParseCause(cause)
		job.CreatedAt = sql.FromMicros(created)
		// Only priorityHeadStart makes a job due before it was made.
		job.Prioritized = job.due < created
		return err
	})
	// Each kind was limited on its own: the oldest of all are claimed, and the end of the transaction unlocks the others.
	slices.SortFunc(due, func(a, b dueJob) int { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.ID, b.ID)) })
	jobs := make([]Job, min(len(due), limit))
	for i := range jobs {
		jobs[i] = due[i].Job
	}
	return jobs, err
}

// minBackdate is the least difference in age that a claim stores when jobs collapse. Jobs of one burst then need no further
// statement. A job that was released before is older than its successor by at least its pause, so its age is stored.
const minBackdate = unavailablePause / 2

// collapse keeps the newest job of each kind and key, in the position of the first and with the time of the oldest, and lists the
// ids of the others. backdated has the IDs and the new times of the kept jobs that become much older.
func collapse(due []Job) (kept []Job, dropped []int64, backdated sql.RowsParameter) {
	type name struct{ kind, key string }
	// A job without a key never collapses. Of jobs with one key the newest stays: its payload is the latest, though most have
	// none.
	indexes := make(map[name]int)
	oldest := make(map[int]time.Time)
	for _, job := range due {
		index, seen := indexes[name{job.Kind, job.Key}]
		if job.Key == "" || !seen {
			indexes[name{job.Kind, job.Key}] = len(kept)
			kept = append(kept, job)
			continue
		}
		if _, some := oldest[index]; !some {
			oldest[index] = kept[index].CreatedAt
		}
		if job.CreatedAt.Before(oldest[index]) {
			oldest[index] = job.CreatedAt
		}
		if job.ID > kept[index].ID {
			kept[index], job = job, kept[index]
		}
		dropped = append(dropped, job.ID)
	}
	// A kept job has the age of the oldest: a key that is queued again and again must not look fresh.
	for index := range kept {
		made, some := oldest[index]
		if !some {
			continue
		}
		if kept[index].CreatedAt.Sub(made) >= minBackdate {
			backdated = append(backdated, []any{kept[index].ID, made.UnixMicro()})
		}
		kept[index].CreatedAt = made
	}
	return kept, dropped, backdated
}

// filterKindsByFirstDue looks up when the first job of each kind is due, and returns the kinds that keep accepts. A kind without
// jobs is left out.
func filterKindsByFirstDue(ctx context.Context, db *sql.DB, kinds []string, keep func(due time.Time) bool) (kept []string, err error) {
	err = db.Each(ctx, firstDueStatement, nil, func(scan func(...any) error) error {
		var kind string
		var due int64
		err := scan(&kind, &due)
		if err == nil && slices.Contains(kinds, kind) && keep(sql.FromMicros(due)) {
			kept = append(kept, kind)
		}
		return err
	})
	return kept, err
}
