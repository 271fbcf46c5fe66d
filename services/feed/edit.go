package feed

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/mirror"
	"tidings/services/sql"
	"tidings/services/store"
)

// Edit is the command by which an author changes the body of a post of his, and whom it mentions: those whom it names no longer
// are no longer notified, those whom it names now are. The post stays in its place, in every feed and every count; what it
// answers stays too. Parent is not looked at. NOT_FOUND when the post never was, is deleted or hidden from them, FORBIDDEN when it is another's.
func (s *Service) Edit(author services.UserID, id services.PostID, draft Draft) (*jobs.Command, error) {
	if err := draft.check(); err != nil {
		return nil, err
	}
	var post services.Post
	return &jobs.Command{
		Name: "editPost", Actor: author,
		Apply: func(ctx context.Context, in *sql.Tx) ([]string, error) {
			tx := store.In(in)
			before, err := editable(ctx, tx, author, id)
			if err != nil {
				return nil, err
			}
			mentioned, err := mentionedBy(ctx, tx, author, draft)
			if err != nil {
				return nil, err
			}
			were, err := tx.PostMentions(ctx, id)
			if err != nil {
				return nil, err
			}
			if post, err = tx.EditPost(ctx, id, draft.Body, mentioned); err != nil {
				return nil, err
			}
			if _, err := changelog.AppendLog(ctx, tx.Tx, mirror.LogPost, id.String(), nil); err != nil {
				return nil, err
			}
			queued, err := retold(ctx, tx, before, were, mentioned)
			if err != nil {
				return nil, err
			}
			return []string{post.GlobalID()}, jobs.Enqueue(ctx, tx.Tx, append(queued, fanout.CopyJob(id))...)
		},
		AfterCommit: func(ctx context.Context) error {
			if post.ID == 0 {
				return nil // answered from the idempotency key
			}
			s.posts.Keep(post.ID, post)
			return s.fanout.ProjectCopy(ctx, id)
		},
	}, nil
}

// editable reads a post that its author may change.
func editable(ctx context.Context, tx *store.Tx, author services.UserID, id services.PostID) (services.Post, error) {
	post, err := tx.PostForUpdate(ctx, id)
	if err = tx.OwnPost(ctx, author, "postId", id, post.Author, err); err == nil && post.Deleted {
		err = services.Errorf(services.NotFound, "postId: %s is deleted", post.GlobalID())
	}
	return post, err
}

// retold are the jobs by which everyone is told of a post as it is now: whom it mentions or has mentioned, and whom it
// answers, who is told of a mention instead.
func retold(ctx context.Context, tx *store.Tx, post services.Post, were, mentioned []services.UserID) ([]jobs.NewJob, error) {
	everyone := slices.Concat(were, mentioned)
	slices.Sort(everyone)
	causes := causesOf(services.Post{ID: post.ID, Author: post.Author}, services.Post{}, slices.Compact(everyone))
	if post.Parent != 0 {
		parent, err := tx.PostForShare(ctx, post.Parent)
		if err != nil {
			return nil, err
		}
		causes = append(causes, causesOf(post, parent, nil)...)
	}
	return fanout.NotifyJobs(causes...)
}
