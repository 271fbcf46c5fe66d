package fanout

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/store"
)

// The kinds of jobs of what users put between themselves and others.
const (
	jobMuteEnd = "mute.end" // key: muter/muted. The mute may be over
	jobActor   = "actor"    // key: recipient/actor. What the actor does counts for the recipient no longer, or again
)

// causesPerPage is how many causes of one actor are looked at in one transaction, which holds up their recipient.
const causesPerPage = 1000

func (f *Fanout) restrictionKinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobMuteEnd, Class: jobs.Short, Each: ofPair(f.endMute), Changes: jobs.CountsOf(firstUser, services.SourceHomeFeed)},
		{Name: jobActor, Class: jobs.Bulk, Each: ofPair(f.RecountActor), Changes: jobs.CountsOf(firstUser, services.SourceNotifications)},
	}
}

// MuteEndJob ends a mute at its time, unless it was changed until then.
func MuteEndJob(muter, muted services.UserID, until time.Time) jobs.NewJob {
	job := jobs.Keyed(jobMuteEnd, pairKey(muter, muted))
	job.NotBefore = until
	return job
}

// ActorJob brings a recipient's notifications of one actor in line with what they block and what is hidden from them.
func ActorJob(recipient, actor services.UserID) jobs.NewJob {
	return jobs.Keyed(jobActor, pairKey(recipient, actor))
}

// endMute ends a mute whose time is over. One that was given another time has another job, one that was ended none. The
// feed is brought in line in any case: a former run may have ended the mute and no more.
func (f *Fanout) endMute(ctx context.Context, muter, muted services.UserID) error {
	err := f.store.Write(ctx, func(tx *store.Tx) error {
		if err := tx.LockRestrictions(ctx, muter, muted); err != nil {
			return err
		}
		until, found, err := tx.MuteUntil(ctx, muter, muted)
		if err != nil || !found || until.IsZero() || until.After(tx.Now) {
			return err
		}
		_, err = tx.Unrestrict(ctx, services.Restriction{Kind: services.Mute, Owner: muter, Other: muted})
		return err
	})
	if err != nil {
		return err
	}
	return f.Reconcile(ctx, muter, muted)
}

// RecountActor brings everything that a recipient was notified of by one actor in line with the facts, and carries the
// counts. What it has done it finds done when it is repeated, and the counts are carried all the same.
func (f *Fanout) RecountActor(ctx context.Context, recipient, actor services.UserID) error {
	for after, more := (store.Cause{}), true; more; {
		err := f.store.Write(ctx, func(tx *store.Tx) error {
			_, last, further, err := tx.ApplyCausesOf(ctx, recipient, actor, after, causesPerPage)
			if err == nil {
				after, more = last, further
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return f.projectCounts(ctx, recipient)
}
