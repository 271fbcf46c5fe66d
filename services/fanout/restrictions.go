package fanout

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/sql"
)

// jobMuteEnd is the only job of restrictions (mutes, hides and blocks) that waits for a time. No other part of the program notices that a
// mute is over, because no statement of feeds reads the column of its end.
const jobMuteEnd = "mute.end" // key: muter/muted. The mute may be over

// restrictionKinds are the kinds of jobs in this file. Every other change of a restriction is a command of services/social, with
// FollowJob.
func (f *Fanout) restrictionKinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobMuteEnd, Class: jobs.ShortClass, Each: jobs.PairWork(f.endMute),
			ChangedCounts: jobs.CountsOf(jobs.FirstUserOfKey, services.SourceHomeFeed), NamesUser: jobs.UserInKey},
	}
}

// MuteEndJob is the job that ends a mute at the time until, unless the mute changes before. The job stays when the mute changes: endMute
// checks the mute.
func MuteEndJob(muter, muted services.UserID, until time.Time) jobs.NewJob {
	job := jobs.KeyedJob(jobMuteEnd, jobs.PairKey(muter, muted))
	job.NotBefore = until
	return job
}

// endMute ends an expired mute. A mute with a new end stays, because it has another job. The feed is reconciled even if the mute
// is gone: an earlier run may have ended the mute and then failed.
func (f *Fanout) endMute(ctx context.Context, muter, muted services.UserID) error {
	err := f.db.Write(ctx, func(tx *sql.Tx) error {
		// The lock keeps a command that extends the mute from committing between the read and the removal.
		if err := people.LockRestrictions(ctx, tx, muter, muted); err != nil {
			return err
		}
		until, found, err := people.MuteUntil(ctx, tx, muter, muted)
		if err != nil || !found || until.IsZero() || until.After(tx.Now) {
			return err
		}
		// The removal is a fact of its own: without the mute the follow counts again, which ReconcileFollow then projects.
		_, err = people.Unrestrict(ctx, tx, services.Restriction{Kind: services.Mute, Owner: muter, Other: muted})
		return err
	})
	if err != nil {
		return err
	}
	return f.ReconcileFollow(ctx, muter, muted)
}
