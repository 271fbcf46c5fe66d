// Package notify is notifications, what others did around a user and his posts, and site messages, what the host application wrote.
//
// A fact and the job that tells its recipient are one transaction, which never touches the recipient's row, so that a post
// that everybody likes slows nobody. The count of a category is absolute and versioned: told twice or late, it is the
// same. An undone cause stops counting. The list and the number come from one predicate: what is in the number is what the
// list shows as unseen and not older.
package notify

import (
	"cmp"
	"context"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/store"
)

// Config is what the service needs.
type Config struct {
	Store  *store.Store
	Fanout *fanout.Fanout
	Expiry services.Expiry // of each category; nil means the default
}

// Service knows likes, the list of notifications and its marks. It is safe for concurrent use.
type Service struct {
	store  *store.Store
	fanout *fanout.Fanout
	expiry services.Expiry
}

// New makes the service.
func New(cfg Config) *Service {
	return &Service{store: cfg.Store, fanout: cfg.Fanout, expiry: cfg.Expiry}
}

// Like is the op by which a user likes a post. NOT_FOUND when it is not there or deleted, CONFLICT when liked already,
// FORBIDDEN when its author blocks him.
func (s *Service) Like(user services.UserNumber, post services.PostID) *fanout.Op {
	return s.op("likePost", user, post, func(ctx context.Context, tx *store.Tx, author services.UserNumber) error {
		if _, blocks, err := tx.Blocked(ctx, author, user); err != nil || blocks {
			return cmp.Or(err, services.Errorf(services.Forbidden, "postId: the author of %s blocks you", services.GlobalID(services.PostType, post.String())))
		}
		created, err := tx.InsertLike(ctx, post, user)
		if err == nil && !created {
			err = services.Errorf(services.Conflict, "postId: liked already")
		}
		return err
	})
}

// Unlike is the op by which a user takes his like back. CONFLICT when there is none.
func (s *Service) Unlike(user services.UserNumber, post services.PostID) *fanout.Op {
	return s.op("unlikePost", user, post, func(ctx context.Context, tx *store.Tx, _ services.UserNumber) error {
		deleted, err := tx.DeleteLike(ctx, post, user)
		if err == nil && !deleted {
			err = services.Errorf(services.Conflict, "postId: not liked")
		}
		return err
	})
}

// op changes the like and leaves the job that brings the author's notifications in line.
func (s *Service) op(name string, user services.UserNumber, id services.PostID, change func(ctx context.Context, tx *store.Tx, author services.UserNumber) error) *fanout.Op {
	return &fanout.Op{
		Name: name, Actor: user, Input: id.String(),
		Apply: func(ctx context.Context, tx *store.Tx) ([]string, error) {
			post, err := tx.PostForShare(ctx, id)
			if services.CodeOf(err) == services.NotFound {
				err = services.Errorf(services.NotFound, "postId: there is no %s", services.GlobalID(services.PostType, id.String()))
			}
			if err != nil {
				return nil, err
			}
			if post.Deleted {
				return nil, services.Errorf(services.NotFound, "postId: %s is deleted", post.GlobalID())
			}
			if err := change(ctx, tx, post.Author); err != nil {
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
