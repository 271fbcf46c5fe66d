package jobs

import (
	"context"
	"math"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/erase"
	"tidings/services/sql"
)

// jobRange and deadJobRange read all jobs in a range of IDs, in the order of the IDs. eraseJobs leaves a job with a token alone,
// because it is running: its worker deletes it, or the job is released and the next pass finds it.
var (
	jobRange = sql.NewStatement("jobs to erase", `SELECT id, kind, key, payload, due_at FROM jobs WHERE id > $1 AND id <= $2 ORDER BY id`)

	deadJobRange = sql.NewStatement("dead jobs to erase", `SELECT id, kind, key, payload, 0 FROM dead_jobs WHERE id > $1 AND id <= $2 ORDER BY id`)

	eraseJobs = sql.NewStatement("erase jobs", `DELETE FROM jobs WHERE {in id $1 BIGINT} AND token = ''`)

	eraseDeadJobs = sql.NewStatement("erase dead jobs", `DELETE FROM dead_jobs WHERE {in id $1 BIGINT}`)

	eraseIdempotency = sql.NewStatement("erase idempotency keys", `DELETE FROM idempotency
		WHERE scope = $1 AND key IN (SELECT key FROM idempotency WHERE scope = $1 LIMIT $2)`)

	// Refusals that the idempotency keys of other users remember may name the user in their text.
	rememberedRefusals = sql.NewStatement("refusals to erase a name from", `SELECT scope, key, message FROM idempotency WHERE at > $1 AND at <= $2 AND message <> ''`)

	setRefusal = sql.NewStatement("erase a name from a refusal", `UPDATE idempotency SET message = $3 WHERE scope = $1 AND key = $2`)
)

// eraseJobsDueAfter separates two kinds of planned jobs. Those that are due within this time are left to run before the next pass.
// Those that are planned for later, such as the ends of mutes, are deleted.
const eraseJobsDueAfter = time.Minute

// eraseUnknownJobsAfter is how long an erasure waits for jobs of unknown kinds: longer than the upgrade of all nodes takes.
const eraseUnknownJobsAfter = 24 * time.Hour

// EraseSteps are the steps that remove the idempotency keys of a user, the user's name in the keys of others, and the jobs that
// name the user. Due jobs still update projections, so they run: a pass that finds such a job is followed by another one.
func (e *Engine) EraseSteps() []erase.Step {
	return []erase.Step{
		{Name: "idempotency", Run: func(ctx context.Context, tx *sql.Tx, at erase.StepPosition) (erase.StepResult, error) {
			n, err := tx.Run(ctx, eraseIdempotency, idempotencyScope(at.User), erase.RowsPerRun)
			return erase.StepResult{More: n == erase.RowsPerRun}, err
		}},
		{Name: "idempotency_refusals", Run: eraseKeyFromRefusals},
		e.eraseJobsStep("jobs", jobRange, eraseJobs), e.eraseJobsStep("dead_jobs", deadJobRange, eraseDeadJobs),
	}
}

// findRefusalsPartEnd finds the end of the part of the table that one run of eraseKeyFromRefusals goes through.
var findRefusalsPartEnd = erase.ScanPartEndFinder("idempotency", "at")

// eraseKeyFromRefusals is the step that removes the user's key from the refusals that the idempotency keys of others remember.
func eraseKeyFromRefusals(ctx context.Context, tx *sql.Tx, at erase.StepPosition) (erase.StepResult, error) {
	end, last, err := findRefusalsPartEnd(ctx, tx, at.ResumeAfter)
	if err == nil {
		err = eraseKeyFromRefusalsBetween(ctx, tx, at.UserKey, at.ResumeAfter, end)
	}
	return erase.StepResult{ResumeAfter: end, More: !last}, err
}

// EraseKeyFromRefusalsSince is the erase.KeyRemover that removes a user's key from remembered refusals.
func EraseKeyFromRefusalsSince(ctx context.Context, tx *sql.Tx, key string, since time.Time) error {
	return eraseKeyFromRefusalsBetween(ctx, tx, key, sql.Micros(since), math.MaxInt64)
}

// eraseKeyFromRefusalsBetween removes a user's key from the texts of the refusals that were remembered later than after, and not later
// than end. Such a refusal names a user that its request did not find. The code and the rest of the text stay, so a repetition is refused
// as before.
func eraseKeyFromRefusalsBetween(ctx context.Context, tx *sql.Tx, key string, after, end int64) error {
	name := services.Quote(key)
	var found [][3]any
	err := tx.Each(ctx, rememberedRefusals, []any{after, end}, func(scan func(...any) error) error {
		var scope, key, message string
		err := scan(&scope, &key, &message)
		if err == nil && strings.Contains(message, name) {
			found = append(found, [3]any{scope, key, strings.ReplaceAll(message, name, `""`)})
		}
		return err
	})
	for i := 0; err == nil && i < len(found); i++ {
		_, err = tx.Run(ctx, setRefusal, found[i][:]...)
	}
	return err
}

// eraseJobsStep is the step that goes through all jobs of a table, because no index finds those that name a user. Of the jobs that
// name the user, it deletes dead jobs and jobs that are planned for later than eraseJobsDueAfter, and waits for the others. It
// waits for every job of an unknown kind that has the user's ID, because the number may mean something else: during an upgrade of the
// nodes, a later pass knows the kind. After eraseUnknownJobsAfter it deletes such jobs, since no node may ever know their kind.
func (e *Engine) eraseJobsStep(table string, find, remove sql.Statement) erase.Step {
	bound := erase.ScanPartEndFinder(table, "id")
	return erase.Step{Name: table, Run: func(ctx context.Context, tx *sql.Tx, at erase.StepPosition) (done erase.StepResult, err error) {
		end, last, err := bound(ctx, tx, at.ResumeAfter)
		if err != nil {
			return done, err
		}
		var gone []int64
		waiting := 0
		err = tx.Each(ctx, find, []any{at.ResumeAfter, end}, func(scan func(...any) error) error {
			var job Job
			var due int64
			if err := scan(&job.ID, &job.Kind, &job.Key, &job.Payload, &due); err != nil {
				return err
			}
			_, known := e.kinds[job.Kind]
			switch {
			case !e.namesUser(job, at.User):
			case !known && tx.Now.Before(at.Began.Add(eraseUnknownJobsAfter)):
				waiting++
			// Dead jobs have no time: the statement gives them 0.
			case !known || due == 0 || due > sql.Micros(tx.Now.Add(eraseJobsDueAfter)):
				gone = append(gone, job.ID)
			default:
				waiting++
			}
			return nil
		})
		if err == nil && len(gone) > 0 {
			var removed int
			removed, err = tx.Run(ctx, remove, gone)
			waiting += len(gone) - removed // the others are running
		}
		return erase.StepResult{ResumeAfter: end, More: !last, NeedsLaterPass: waiting > 0}, err
	}}
}

// idempotencyScope is the scope that SQL stores with the idempotency keys of a user: users may use the same keys.
func idempotencyScope(user services.UserID) string { return "u" + services.UserIDText(user) }
