package feed

import (
	"context"
	"errors"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/erase"
	"tidings/services/jobs"
	"tidings/services/posts"
	"tidings/services/sql"
)

// EraseSteps are the steps that take back a user's likes and delete their posts, as the commands do.
func (s *Service) EraseSteps() []erase.Step {
	// Each post is deleted by the Apply of the command Delete, so that its facts, jobs and changelog entries are the same as when its author
	// deletes the post.
	return []erase.Step{posts.EraseLikes(), posts.ErasePosts(func(ctx context.Context, tx *sql.Tx, author services.UserID, id services.PostID) (bool, error) {
		_, err := s.Delete(author, id).Apply(ctx, tx)
		if errors.Is(err, jobs.ErrUnchanged) {
			return false, nil
		}
		return err == nil, err
	}, func(ctx context.Context, tx *sql.Tx, id services.PostID, at time.Time) error {
		if _, err := changelog.AppendChange(ctx, tx, posts.ChangelogKind, id.String(), at); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, projectPostCopyJob(id))
	})}
}
