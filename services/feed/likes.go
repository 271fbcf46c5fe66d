package feed

import (
	"context"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/notifications"
	"tidings/services/posts"
	"tidings/services/sql"
)

// Like is the command by which a user likes a post. NOT_FOUND if it does not exist, is deleted, or is hidden from them. Liking
// again changes nothing.
func (s *Service) Like(user services.UserID, post services.PostID) *jobs.Command {
	return changeLike("likePost", user, post, func(ctx context.Context, tx *sql.Tx) (changed bool, err error) {
		// The times of all causes come from the clock of IDs, so that lists of causes have one order.
		return posts.InsertLike(ctx, tx, post, user, tx.NewID(s.ids).OrderedTime())
	})
}

// Unlike is the command by which a user takes their like back. NOT_FOUND as for Like. Without a like it changes nothing.
func (s *Service) Unlike(user services.UserID, post services.PostID) *jobs.Command {
	return changeLike("unlikePost", user, post, func(ctx context.Context, tx *sql.Tx) (changed bool, err error) {
		return posts.DeleteLike(ctx, tx, post, user)
	})
}

// changeLike makes the command that changes the like, and queues the job that updates the author's notifications.
func changeLike(name string, user services.UserID, id services.PostID, change func(ctx context.Context, tx *sql.Tx) (bool, error)) *jobs.Command {
	return &jobs.Command{
		Name: name, Actor: user,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			// LockVisibleShared keeps the post from being deleted meanwhile, so that no like of a deleted post is notified.
			post, err := posts.LockVisibleShared(ctx, tx, user, "postId", id)
			if err != nil {
				return nil, err
			}
			changed, err := change(ctx, tx)
			switch {
			case err != nil:
				return nil, err
			case !changed:
				return nil, jobs.ErrUnchanged
			case post.Author == user:
				return nil, nil // a user who likes their own post is not notified
			}
			// The job names the like, and not whether it was added or removed: it brings the notification in line with the facts.
			job, err := notifications.NotifyJob(notifications.Cause{Recipient: post.Author, Category: services.CategoryLike, Subject: services.SortableID(id), Actor: user, Moment: tx.EventMoment()})
			if err != nil {
				return nil, err
			}
			return nil, jobs.Enqueue(ctx, tx, job)
		},
	}
}
