package fanout

import (
	"context"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/projector"
	"tidings/services/sql"
)

// dropFromInboxes removes the post from the readers' inboxes, and queues a refill of each inbox that is then too short. It takes no
// stamp: a deletion is final, so no read of SQL can be too old for it.
func (f *Fanout) dropFromInboxes(ctx context.Context, post services.Post, readers []services.UserID) error {
	results, err := f.redis.DeleteFromInboxes(ctx, readers, post.ID, post.Author)
	if err != nil {
		return err
	}
	if err := f.projector.HintAndMark(ctx, readers, results); err != nil {
		return err
	}
	var short []services.UserID
	for i, result := range results {
		if result.RefillDue {
			short = append(short, readers[i])
		}
	}
	return f.queueInboxRefills(ctx, short)
}

// queueInboxRefills queues a refill for each of the readers, whose inboxes are too short. A refill is a job of its own, because the
// deletion of a post that many followers have would otherwise wait for as many rebuilds.
//
// Idle readers are left out: a refill does nothing for them, so their inbox stays short until they return, and every deletion would
// queue a job for each of them. The visits are read after the removal: a reader who returns later rebuilds the inbox without the post.
func (f *Fanout) queueInboxRefills(ctx context.Context, readers []services.UserID) error {
	if len(readers) == 0 {
		return nil
	}
	visits, err := people.LastVisits(ctx, f.db, readers)
	if err != nil {
		return err
	}
	var refills []jobs.NewJob
	idle := f.projector.IdleBefore()
	for _, reader := range readers {
		if !visits[reader].Before(idle) {
			refills = append(refills, projector.RefillInboxJob(reader))
		}
	}
	if len(refills) == 0 {
		return nil
	}
	return f.db.Write(ctx, func(tx *sql.Tx) error { return jobs.Enqueue(ctx, tx, refills...) })
}
