package fanout

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/store"
)

// The kinds of jobs of restrictions between users.
const (
	jobMuteEnd = "mute.end" // key: muter/muted. The mute may be over
	jobActor   = "actor"    // key: recipient/actor. The actor's deeds count for the recipient no longer, or again
)

// causesPerPage is how many causes of one actor one transaction handles. Its recipient's other transactions wait for it.
const causesPerPage = 1000

func (f *Fanout) restrictionKinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobMuteEnd, Class: jobs.Short, Each: jobs.OfPair(f.endMute), Changes: jobs.CountsOf(jobs.FirstUser, services.SourceHomeFeed)},
		{Name: jobActor, Class: jobs.Bulk, Each: jobs.OfPair(f.RecountActor), Changes: jobs.CountsOf(jobs.FirstUser, services.SourceNotifications)},
	}
}

// MuteEndJob ends a mute at its time, unless the mute changes before.
func MuteEndJob(muter, muted services.UserID, until time.Time) jobs.NewJob {
	job := jobs.Keyed(jobMuteEnd, jobs.PairKey(muter, muted))
	job.NotBefore = until
	return job
}

// ActorJob brings a recipient's notifications of one actor in line with the recipient's blocks and the items hidden from
// them.
func ActorJob(recipient, actor services.UserID) jobs.NewJob {
	return jobs.Keyed(jobActor, jobs.PairKey(recipient, actor))
}

// endMute ends an expired mute. A mute with a new end has another job, and one that was ended early has none. It reconciles
// the feed in any case, because an earlier run may have ended the mute and then failed.
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

// RecountActor brings all notifications of a recipient that one actor caused in line with the facts, and projects the
// counts. A repetition finds the rows done and projects the counts all the same.
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
