package jobs

import (
	"context"
	"time"

	"tidings/services/sql"
)

var (
	lastJob = sql.NewStatement("the last job", `SELECT COALESCE(max(id), 0) FROM jobs`)

	jobUpTo = sql.NewStatement("a job of before", `SELECT id FROM jobs WHERE id <= $1 AND due_at <= $2 ORDER BY id LIMIT 1`)
)

// Last is the ID of the newest job, 0 when there is none. Later jobs have greater IDs.
func Last(ctx context.Context, s *sql.DB) (id int64, err error) {
	_, err = s.One(ctx, lastJob, nil, &id)
	return id, err
}

// Waits reports whether a job with an ID of at most upTo is not done yet and is due by dueBy: claimable or leased. Jobs
// planned for later do not count.
func Waits(ctx context.Context, s *sql.DB, upTo int64, dueBy time.Time) (waits bool, err error) {
	var id int64
	return s.One(ctx, jobUpTo, []any{upTo, dueBy}, &id)
}
