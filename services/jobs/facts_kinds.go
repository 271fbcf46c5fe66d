package jobs

import (
	"context"
	"time"

	"tidings/services/sql"
)

// Both statements read a whole table: they are for operators.
var (
	jobsByKind = sql.NewStatement("count jobs by kind", `SELECT kind, count(*), count(CASE WHEN token <> '' THEN 1 END), count(CASE WHEN tries > 0 THEN 1 END),
			min(created_at) FROM jobs GROUP BY kind ORDER BY kind`)

	deadByKind = sql.NewStatement("count dead jobs by kind", `SELECT kind, count(*) FROM dead_jobs GROUP BY kind ORDER BY kind`)
)

// KindCounts are the jobs of one kind.
type KindCounts struct {
	Kind               string
	Waiting            int       // in the queue, including running and planned jobs
	Running            int       // a process holds a lease on them
	Failed             int       // waiting jobs that failed before and are tried again
	Dead               int       // given up
	OldestWaitingSince time.Time // when the oldest was made, or became due if it was planned for later; zero: none waits
}

// CountsByKind counts the jobs of each kind that has any. It reads the whole queue.
func CountsByKind(ctx context.Context, db *sql.DB) (list []KindCounts, err error) {
	indexes := map[string]int{}
	err = db.Each(ctx, jobsByKind, nil, func(scan func(...any) error) error {
		var one KindCounts
		var oldest int64
		err := scan(&one.Kind, &one.Waiting, &one.Running, &one.Failed, &oldest)
		one.OldestWaitingSince = sql.FromMicros(oldest)
		indexes[one.Kind] = len(list)
		list = append(list, one)
		return err
	})
	if err != nil {
		return nil, err
	}
	// A kind may have no jobs but dead ones.
	err = db.Each(ctx, deadByKind, nil, func(scan func(...any) error) error {
		var kind string
		var dead int
		err := scan(&kind, &dead)
		if at, waits := indexes[kind]; waits {
			list[at].Dead = dead
		} else {
			list = append(list, KindCounts{Kind: kind, Dead: dead})
		}
		return err
	})
	return list, err
}
