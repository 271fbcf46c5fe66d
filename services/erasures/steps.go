package erasures

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/erase"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// erasureProgress is how far an erasure has come: its row in the table erasures, as lockProgress has read it, and passEnded.
type erasureProgress struct {
	id, key, step     string         // the erasure's ID, the key of its user, and the name of the present step
	began             time.Time      // when the erasure began
	pass, foundInPass int            // foundInPass: how much the pass has found so far
	stepPosition      int64          // where the step goes on
	removedCounts     map[string]int // of removed things, by kind
	passEnded         bool           // the pass came to its end
}

const (
	stepsPerJob = 200 // in one run of the job: other bulk work runs between the runs
	// A pass that follows at once would often find data that the jobs of the previous pass are about to remove.
	minPassWait = time.Second // the least time between two passes, so that the jobs of the first pass are done
	// The wait after a pass grows with the number of passes, up to maxRequeueWait: if something adds data again and again, the
	// erasure must not keep a worker busy.
	maxRequeueWait = time.Minute // the longest wait between two jobs of an erasure
)

// run does the work of a job: it runs the next steps of the user's erasure. The job ends with the erasure. A long erasure takes several
// jobs, one after the other: a job holds a worker of its class and has a lease that must be renewed.
func (s *Service) run(ctx context.Context, job jobs.Job) error {
	user, err := services.ParseUserIDText(job.Key)
	if err != nil {
		return fmt.Errorf("key of %s: %w", job.Kind, err)
	}
	// Each run of the job deletes the keys again, because the job of another user may have written a key meanwhile.
	if err := s.cfg.Redis.EraseUser(ctx, user); err != nil {
		return err
	}
	for range stepsPerJob {
		at, done, err := s.runNextStep(ctx, user)
		wait := time.Duration(0)
		// runNextStep leaves the steps of the scrub alone, because they need more than one transaction.
		if err == nil && at.atScrubStep() && !at.passEnded && !done {
			done, wait, err = s.runScrubStep(ctx, user, at)
		}
		// Another worker has ended the erasure, or this job is a late copy.
		if errors.Is(err, errErasureDone) {
			done, err = true, nil
		}
		switch {
		case err != nil:
			return err
		case done:
			if s.cfg.Logger != nil && at.id != "" {
				s.cfg.Logger.Info("a user is erased", "erasure", at.id, "removed", at.removedCounts)
			}
			return s.cfg.Redis.EraseUser(ctx, user) // if this fails, the job is repeated
		case at.passEnded:
			wait = min(minPassWait*time.Duration(at.pass), maxRequeueWait)
		}
		if wait > 0 {
			return s.requeue(ctx, job, user, wait)
		}
	}
	return s.requeue(ctx, job, user, 0)
}

// requeue replaces the job by a job that continues the erasure after wait.
func (s *Service) requeue(ctx context.Context, job jobs.Job, user services.UserID, wait time.Duration) error {
	next := jobs.UserJob(JobKind, user)
	if wait > 0 {
		next.NotBefore = s.cfg.DB.Now().Add(wait)
	}
	return s.cfg.Jobs.Replace(ctx, job, []jobs.NewJob{next})
}

// errErasureDone says that there is no erasure of the user any more. For run this is success.
var errErasureDone = errors.New("the erasure is done")

// runNextStep runs one step of a feature and saves the new position, in one transaction. It leaves the steps of the scrub alone.
// done is true when the erasure is done. at is where the erasure is afterwards.
func (s *Service) runNextStep(ctx context.Context, user services.UserID) (at erasureProgress, done bool, err error) {
	err = s.cfg.DB.Write(ctx, func(tx *sql.Tx) error {
		done = false
		if at, err = s.lockProgress(ctx, tx, user); err != nil {
			return err
		}
		if at.atScrubStep() {
			return nil
		}
		index := s.stepIndex[at.step] // 0 for a step of another release: all steps then run again, which does no harm
		result, err := s.cfg.Steps[index].Run(ctx, tx, erase.StepPosition{User: user, UserKey: at.key, Began: at.began, ResumeAfter: at.stepPosition, LaterPass: at.pass > 1})
		if err != nil {
			return fmt.Errorf("step %s: %w", at.step, err)
		}
		for kind, n := range result.Removed {
			at.removedCounts[kind] += n
			at.foundInPass += n
		}
		// A step that needs a later pass counts as if it had found something, so that this pass cannot be the last.
		if result.NeedsLaterPass {
			at.foundInPass++
		}
		switch {
		case result.More:
			at.stepPosition = result.ResumeAfter
		case index+1 < len(s.cfg.Steps):
			at.step, at.stepPosition = s.cfg.Steps[index+1].Name, 0
		case at.foundInPass == 0 && at.pass > 2 && !tx.Now.Before(at.began.Add(s.cfg.RequestGrace)):
			if s.cfg.DB.CanScrub() {
				at.step, at.stepPosition, at.passEnded = stepScrubFile, 0, true // run waits then, so that erasures that began together come to the same round
				break
			}
			done = true
			if err := s.freeKeys(ctx, tx, []string{at.id}); err != nil {
				return err
			}
			return s.end(ctx, tx, at)
		default:
			return s.nextPass(ctx, tx, &at)
		}
		return s.save(ctx, tx, at)
	})
	return at, done, err
}

// freeKeys removes users' keys from their erasures and from what requests have written, so that other users can have the keys.
func (s *Service) freeKeys(ctx context.Context, tx *sql.Tx, erasures []string) error {
	freed, err := sql.ReadRows(ctx, tx, keysToFree, []any{erasures}, func(scan sql.Scan, one *erasureProgress) error {
		var began int64
		err := scan(&one.key, &began)
		one.began = sql.FromMicros(began)
		return err
	})
	if err != nil {
		return err
	}
	for _, one := range freed {
		for _, unname := range s.cfg.KeyRemovers {
			if err := unname(ctx, tx, one.key, one.began); err != nil {
				return err
			}
		}
	}
	_, err = tx.Run(ctx, dropKeys, erasures)
	return err
}

// end records that an erasure is done.
func (s *Service) end(ctx context.Context, tx *sql.Tx, at erasureProgress) error {
	_, err := tx.Run(ctx, endErasure, at.id, tx.Now)
	return err
}

// nextPass begins the next pass, and makes all nodes forget the user again: a request that had read the user's ID before the
// erasure began may have given it back to the cache. A pass that begins before the grace is over is not the last one, even if it
// finds nothing: a request may still add something after it.
func (s *Service) nextPass(ctx context.Context, tx *sql.Tx, at *erasureProgress) error {
	at.pass, at.step, at.stepPosition, at.foundInPass, at.passEnded = at.pass+1, s.cfg.Steps[0].Name, 0, 0, true
	if tx.Now.Before(at.began.Add(s.cfg.RequestGrace)) {
		at.foundInPass = 1
	}
	if _, err := changelog.AppendLog(ctx, tx, logKind, "", nil); err != nil {
		return err
	}
	return s.save(ctx, tx, *at)
}
