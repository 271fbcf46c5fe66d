package feed

import (
	"context"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/posts"
)

const jobProjectPostCopy = "post.copy" // key: post ID. Writes a post that was edited or erased into its copy in Redis

// kinds are the kinds of this package's own jobs. A copy changes no count.
func (s *Service) kinds() []jobs.Kind {
	return []jobs.Kind{{Name: jobProjectPostCopy, Class: jobs.ShortClass, Each: jobs.ObjectWork(s.runProjectPostCopy), ChangedCounts: jobs.NoCounts(), NamesUser: jobs.NoUser}}
}

// projectPostCopyJob is the job that writes a changed post into its copy in Redis. The command Edit writes the copy at once; the
// job makes up for a failure of that.
func projectPostCopyJob(post services.PostID) jobs.NewJob {
	return jobs.KeyedJob(jobProjectPostCopy, post.String())
}

// runProjectPostCopy runs a job of the kind jobProjectPostCopy.
func (s *Service) runProjectPostCopy(ctx context.Context, _ jobs.Job, post services.PostID) error {
	return s.projectPostCopy(ctx, post)
}

// projectPostCopy writes a post into its copy in Redis. Until the copy is written, a node that has read of the change in the changelog
// refuses the older copy and asks SQL. A post that is gone gets no copy, and its job ends: facts that were restored from a backup may
// lack the post.
func (s *Service) projectPostCopy(ctx context.Context, id services.PostID) error {
	found, err := posts.ByID(ctx, s.db, []services.PostID{id})
	if err != nil || len(found) == 0 {
		return err
	}
	return s.redis.PutCopies(ctx, []services.Post{found[id]}, nil)
}
