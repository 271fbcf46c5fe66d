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
)

// dueOfKind lists what is due of one kind, in the order of the index, and takes hold of it: what another
// transaction holds is passed over.
const dueOfKind = `SELECT * FROM (SELECT id, kind, key, payload, tries, created_at, due_at FROM jobs
	WHERE kind = $%d AND due_at <= $1 ORDER BY due_at, id LIMIT $2 {skip locked}) AS of_%d`

var (
	leaseJobs = sql.NewStatement("lease jobs", `UPDATE jobs SET token = $2, due_at = $3, node = $4 WHERE {in id $1 BIGINT}`)

	dropJobs = sql.NewStatement("drop collapsed jobs", `DELETE FROM jobs WHERE {in id $1 BIGINT}`)

	firstDueStatement = sql.NewStatement("first due jobs", `SELECT k.kind, (SELECT min(j.due_at) FROM jobs j WHERE j.kind = k.kind) FROM {rows $1 kind TEXT} AS k`)
)

// claimJobs is the statement that takes hold of what is due of so many kinds. It is made once.
func claimJobs(kinds int) sql.Statement {
	if made, found := claims.Load(kinds); found {
		return made.(sql.Statement)
	}
	parts := make([]string, kinds)
	for i := range parts {
		parts[i] = fmt.Sprintf(dueOfKind, i+3, i) // after the time and the limit
	}
	st := sql.NewStatement(fmt.Sprintf("claim jobs of %d kinds", kinds), strings.Join(parts, " UNION ALL "))
	claims.Store(kinds, st)
	return st
}

var claims sync.Map // int: statement

// Claim takes up to limit jobs of some kinds that are due and that nobody holds, those that have been due for
// longest first, and holds them for the lease. Of several with one kind and key it returns the last made and
// deletes the others. On PostgreSQL several nodes claim side by side and never the same job. With an error the jobs are
// those that this node may hold all the same, because the answer to its commit was lost: Release gives them back.
func Claim(ctx context.Context, s *sql.DB, kinds []string, limit int, lease time.Duration) ([]Job, error) {
	if len(kinds) == 0 || limit <= 0 {
		return nil, nil
	}
	// Asking first spares the writer, and the disk, a transaction for nothing.
	now := s.Now()
	kinds, err := firstDue(ctx, s, kinds, func(due time.Time) bool { return !due.After(now) })
	if err != nil || len(kinds) == 0 {
		return nil, err
	}
	var claimed []Job
	err = s.Write(ctx, func(tx *sql.Tx) error {
		due, err := due(ctx, tx, kinds, limit)
		if err != nil || len(due) == 0 {
			claimed = nil
			return err
		}
		var collapsed []int64
		claimed, collapsed = collapse(due)
		if len(collapsed) > 0 {
			if _, err := tx.Run(ctx, dropJobs, collapsed); err != nil {
				return err
			}
		}
		token := s.Tokens + rand.Text()
		ids := make([]int64, len(claimed))
		for i := range claimed {
			claimed[i].Token = token
			ids[i] = claimed[i].ID
		}
		_, err = tx.Run(ctx, leaseJobs, ids, token, tx.Now.Add(lease), s.Node)
		return err
	})
	return claimed, err
}

// due lists and locks the jobs that are due, the longest due first.
func due(ctx context.Context, tx *sql.Tx, kinds []string, limit int) ([]Job, error) {
	args := []any{tx.Now, limit}
	for _, kind := range kinds {
		args = append(args, kind)
	}
	st := claimJobs(len(kinds))
	type dueJob struct {
		Job
		due int64
	}
	var due []dueJob
	err := tx.Each(ctx, st, args, func(scan func(...any) error) error {
		var job dueJob
		var created int64
		err := scan(&job.ID, &job.Kind, &job.Key, &job.Payload, &job.Tries, &created, &job.due)
		job.CreatedAt = sql.FromMicros(created)
		due = append(due, job)
		return err
	})
	slices.SortFunc(due, func(a, b dueJob) int { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.ID, b.ID)) })
	jobs := make([]Job, min(len(due), limit))
	for i := range jobs {
		jobs[i] = due[i].Job
	}
	return jobs, err
}

// collapse keeps of each kind and key the last made, in the place of the first, and lists the ids of the others.
func collapse(due []Job) (kept []Job, dropped []int64) {
	type name struct{ kind, key string }
	places := make(map[name]int)
	for _, job := range due {
		place, seen := places[name{job.Kind, job.Key}]
		if job.Key == "" || !seen {
			places[name{job.Kind, job.Key}] = len(kept)
			kept = append(kept, job)
			continue
		}
		if job.ID > kept[place].ID {
			kept[place], job = job, kept[place]
		}
		dropped = append(dropped, job.ID)
	}
	return kept, dropped
}

// firstDue asks, of those of the kinds that have jobs, when the first is due, and answers the kinds that are kept.
func firstDue(ctx context.Context, s *sql.DB, kinds []string, keep func(due time.Time) bool) (kept []string, err error) {
	list := make(sql.Rows, len(kinds))
	for i, kind := range kinds {
		list[i] = []any{kind}
	}
	err = s.Each(ctx, firstDueStatement, []any{list}, func(scan func(...any) error) error {
		var kind string
		var due sql.NullInt64
		if err := scan(&kind, &due); err != nil {
			return err
		}
		if due.Valid && keep(sql.FromMicros(due.Int64)) {
			kept = append(kept, kind)
		}
		return nil
	})
	return kept, err
}
