// Package notify is notifications, what others did around a user's posts, and site messages, what the host application wrote.
//
// A like and the job that tells the author are one transaction, which never touches the author's row, so that a post
// that everybody likes slows nobody. The count of a category is absolute and versioned: told twice or late, it is the
// same. An undone cause stops counting.
package notify

import (
	"context"
	"fmt"
	"slices"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/store"
)

// Service knows likes and the marks of the notification panel. It is safe for concurrent use.
type Service struct {
	fanout *fanout.Fanout
}

// New makes the service.
func New(f *fanout.Fanout) *Service { return &Service{fanout: f} }

// Like is the op by which a user likes a post. NOT_FOUND when it is not there or deleted, CONFLICT when liked already.
func (s *Service) Like(user services.UserNumber, post services.PostID) *fanout.Op {
	return s.op("likePost", user, post, func(ctx context.Context, tx *store.Tx) error {
		created, err := tx.InsertLike(ctx, post, user)
		if err == nil && !created {
			err = services.Errorf(services.Conflict, "postId: liked already")
		}
		return err
	})
}

// Unlike is the op by which a user takes his like back. CONFLICT when there is none.
func (s *Service) Unlike(user services.UserNumber, post services.PostID) *fanout.Op {
	return s.op("unlikePost", user, post, func(ctx context.Context, tx *store.Tx) error {
		deleted, err := tx.DeleteLike(ctx, post, user)
		if err == nil && !deleted {
			err = services.Errorf(services.Conflict, "postId: not liked")
		}
		return err
	})
}

// op changes the like and leaves the job that brings the author's notifications in line.
func (s *Service) op(name string, user services.UserNumber, id services.PostID, change func(context.Context, *store.Tx) error) *fanout.Op {
	return &fanout.Op{
		Name: name, Actor: user, Input: id.String(),
		Apply: func(ctx context.Context, tx *store.Tx) ([]string, error) {
			post, err := tx.PostForShare(ctx, id)
			if err != nil {
				return nil, err
			}
			if post.Deleted {
				return nil, services.Errorf(services.NotFound, "postId: %s is deleted", post.GlobalID())
			}
			if err := change(ctx, tx); err != nil {
				return nil, err
			}
			if post.Author == user {
				return nil, nil // one's own actions raise no badge
			}
			cause := store.Cause{Recipient: post.Author, Category: services.CategoryLike, Subject: id, Actor: user}
			job, err := fanout.NotifyJob(cause)
			if err != nil {
				return nil, err
			}
			return nil, tx.Enqueue(ctx, job)
		},
	}
}

// MarkSeen is the op by which the panel was opened: what is in the categories up to a place counts no longer. No
// categories means all; upTo 0 means everything until now. INVALID when the place is beyond the newest.
func (s *Service) MarkSeen(user services.UserNumber, categories []services.Category, upTo services.PostID) *fanout.Op {
	if len(categories) == 0 {
		categories = services.Categories
	}
	categories = slices.Compact(slices.Sorted(slices.Values(categories)))
	var states []store.NotificationState
	return &fanout.Op{
		Name: "markNotificationsSeen", Actor: user, Input: fmt.Sprint(categories, upTo),
		Apply: func(ctx context.Context, tx *store.Tx) (ids []string, err error) {
			if states, err = tx.RaiseNotificationsSeen(ctx, user, categories, upTo); err != nil {
				return nil, err
			}
			return nil, tx.Enqueue(ctx, fanout.CountsJob(user))
		},
		Own: func(ctx context.Context) error { return s.fanout.CarryStates(ctx, states) },
	}
}
