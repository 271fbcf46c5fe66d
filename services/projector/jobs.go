package projector

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/sql"
)

// The kinds of the projector's jobs.
const (
	jobDisplayPolicy = "policy" // key: user. Their display policy of badges changed
	jobRefillInbox   = "refill" // key: user. Their inbox has room for older posts
)

// kinds are the kinds of the projector's own jobs. A display policy decides about the total, so it may change every
// count.
func (p *Projector) kinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobDisplayPolicy, Class: jobs.ShortClass, Each: jobs.UserWork(p.ProjectDisplayPolicy),
			ChangedCounts: jobs.CountsOf(jobs.FirstUserOfKey, services.Sources...), NamesUser: jobs.UserInKey},
		{Name: jobRefillInbox, Class: jobs.ShortClass, Each: jobs.UserWork(p.RefillInbox),
			ChangedCounts: jobs.CountsOf(jobs.FirstUserOfKey, services.SourceHomeFeed), NamesUser: jobs.UserInKey},
	}
}

// DisplayPolicyJob projects a user's display policy into their document.
func DisplayPolicyJob(user services.UserID) jobs.NewJob { return jobs.UserJob(jobDisplayPolicy, user) }

// RefillInboxJob reads a user's inbox from the facts again, because it has room for older posts. It does nothing for an idle or
// dormant user, whose return brings the posts. See Projector.RefillInbox.
func RefillInboxJob(user services.UserID) jobs.NewJob { return jobs.UserJob(jobRefillInbox, user) }

// QueueRefillsAfterImport queues a job for every user who is not dormant, to read their feed from the facts again: Redis may still hold
// feeds that lack the imported data. activeFor counts where no thresholds are stored. Dormant users have no inbox to refill: it is built
// when they return.
func QueueRefillsAfterImport(ctx context.Context, db *sql.DB, activeFor time.Duration) error {
	// The thresholds are read from SQL, as nodes do, because an operator may have changed them. Without a row no node has run yet, and
	// the setting counts.
	thresholds, set, err := people.ActivityThresholds(ctx, db)
	if err != nil || !set {
		thresholds.DormantAfter = activeFor
	}
	_, err = queueInboxRefills(ctx, db, thresholds.DormantCutoff(services.SystemClock{}.Now()))
	return err
}

// queueInboxRefills queues a job for every user seen since a time, to read their feed from the facts again, and returns how many.
// An import needs it: its follows and posts come into SQL without jobs of their own. A user who was not seen since has no feed to
// mend. The refills are no visits: nobody becomes active by an import.
func queueInboxRefills(ctx context.Context, db *sql.DB, since time.Time) (queued int, err error) {
	// Each batch has a transaction of its own, so that no import holds up other writes.
	const batch = 1000
	for after := services.UserID(0); ; {
		users, err := people.ActiveUsers(ctx, db, after, batch, since)
		if err != nil || len(users) == 0 {
			return queued, err
		}
		refills := services.Map(users, RefillInboxJob)
		if err := db.Write(ctx, func(tx *sql.Tx) error { return jobs.Enqueue(ctx, tx, refills...) }); err != nil {
			return queued, err
		}
		queued += len(users)
		after = users[len(users)-1]
	}
}
