// Package feed is posts and home feeds: publishing, deleting, looking, and pages that neither repeat nor skip.
//
// A post and the job that carries it are one transaction; the author's own feed has it before the answer. Pages come
// from the reader's inbox in at most two round trips. When the inbox is lost it is rebuilt first; when Redis does not
// answer, pages come from SQL.
package feed

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/mirror"
	"tidings/services/rdb"
	"tidings/services/store"
)

// Config is what the service needs.
type Config struct {
	Store  *store.Store
	Redis  *rdb.Client
	Mirror *mirror.Mirror
	Fanout *fanout.Fanout
	IDs    *services.IDClock
	Clock  services.Clock
}

// Service knows posts and feeds. It is safe for concurrent use.
type Service struct {
	store  *store.Store
	redis  *rdb.Client
	mirror *mirror.Mirror
	fanout *fanout.Fanout
	ids    *services.IDClock
	clock  services.Clock
}

// New makes the service.
func New(cfg Config) *Service {
	return &Service{store: cfg.Store, redis: cfg.Redis, mirror: cfg.Mirror, fanout: cfg.Fanout, ids: cfg.IDs, clock: cfg.Clock}
}

// Publish is the op by which a user publishes; its one id is the post's.
func (s *Service) Publish(author services.UserNumber, body string) (*fanout.Op, error) {
	if err := services.CheckText("body", body, 1, services.MaxBodyCharacters); err != nil {
		return nil, err
	}
	if strings.TrimSpace(body) == "" {
		return nil, services.Errorf(services.Invalid, "body: nothing but white space")
	}
	var post services.Post
	return &fanout.Op{
		Name: "publishPost", Actor: author, Input: body,
		Apply: func(ctx context.Context, tx *store.Tx) ([]string, error) {
			post = services.Post{ID: s.ids.Next(), Author: author, Kind: services.PostKindPost, Body: body, UpdatedAt: tx.Now}
			if err := tx.InsertPost(ctx, post); err != nil {
				return nil, err
			}
			return []string{post.GlobalID()}, tx.Enqueue(ctx, fanout.FanOutJob(post.ID))
		},
		Own: func(ctx context.Context) error {
			if post.ID == 0 {
				return nil // answered from the idempotency key
			}
			s.mirror.Keep(post)
			return s.fanout.AddOwn(ctx, post)
		},
	}, nil
}

// Delete is the op by which an author deletes his post. NOT_FOUND when it never was, FORBIDDEN when it is another's,
// CONFLICT when it is deleted already.
func (s *Service) Delete(author services.UserNumber, id services.PostID) *fanout.Op {
	var changedAt time.Time
	return &fanout.Op{
		Name: "deletePost", Actor: author, Input: id.String(),
		Apply: func(ctx context.Context, tx *store.Tx) ([]string, error) {
			changedAt = tx.Now
			post, deleted, err := tx.DeletePost(ctx, id)
			if err != nil {
				return nil, err
			}
			if post.Author != author {
				return nil, services.Errorf(services.Forbidden, "postId: %s is not your post", post.GlobalID())
			}
			if !deleted {
				return nil, services.Errorf(services.Conflict, "postId: %s is deleted already", post.GlobalID())
			}
			if _, err := tx.AppendLog(ctx, mirror.LogPost, id.String(), nil); err != nil {
				return nil, err
			}
			likes, err := fanout.NotifyJob(store.Cause{Recipient: author, Category: services.CategoryLike, Subject: id})
			if err != nil {
				return nil, err
			}
			return []string{post.GlobalID()}, tx.Enqueue(ctx, fanout.RemoveJob(id), likes)
		},
		Own: func(ctx context.Context) error {
			s.mirror.PostChanged(id, changedAt)
			return s.fanout.DropOwn(ctx, author, id)
		},
	}
}

// maxSkew is how far ahead of this node's clock a place may lie: other nodes' clocks differ.
const maxSkew = time.Minute

// MarkSeen is the op by which a reader has looked at his feed up to a place; 0 is the newest that is in it now. The
// mark only grows. INVALID when the place is in the future.
func (s *Service) MarkSeen(reader services.UserNumber, upTo services.PostID) *fanout.Op {
	return &fanout.Op{
		Name: "markHomeFeedSeen", Actor: reader, Input: upTo.String(),
		Apply: func(ctx context.Context, tx *store.Tx) ([]string, error) {
			if limit := services.PostIDAt(s.clock.Now().Add(maxSkew)); upTo > limit {
				return nil, services.Errorf(services.Invalid, "upTo: %s is in the future", services.GlobalID(services.PostType, upTo.String()))
			}
			if _, err := tx.RaisePosition(ctx, reader, store.HomePage, "", upTo); err != nil {
				return nil, err
			}
			return nil, tx.Enqueue(ctx, fanout.SeenJob(reader))
		},
		Own: func(ctx context.Context) error { return s.fanout.CarrySeen(ctx, reader) },
	}
}

// Newest is the newest place in a reader's feed, 0 when it is empty.
func (s *Service) Newest(ctx context.Context, reader services.UserNumber) (services.PostID, error) {
	raw, err := s.raw(ctx, reader, services.MaxPostID, 1)
	if err != nil || len(raw.Entries) == 0 {
		return 0, err
	}
	return raw.Entries[0].Post, nil
}

// Post reads one post. NOT_FOUND when it never was or is deleted.
func (s *Service) Post(ctx context.Context, id services.PostID) (services.Post, error) {
	posts, _, err := s.mirror.Read(ctx, []services.PostID{id}, nil)
	if err != nil {
		return services.Post{}, err
	}
	post, ok := posts[id]
	if !ok || post.Deleted {
		return services.Post{}, fmt.Errorf("post %s: %w", id, services.Errorf(services.NotFound, "there is no post:%s", id))
	}
	return post, nil
}
