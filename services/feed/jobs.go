package feed

import (
	"context"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/posts"
)

const jobCopy = "post.copy" // key: post id. The post was edited or erased: writes it into its copy in Redis

// kinds are the kinds of this package's own jobs. A copy changes no count.
func (s *Service) kinds() []jobs.Kind {
	return []jobs.Kind{{Name: jobCopy, Class: jobs.Short, Each: jobs.PostWork(s.runCopy), Changes: jobs.NoCounts()}}
}

// copyJob is the job that writes a changed post into its copy in Redis. The command Edit writes the copy at once; the job makes up
// for a failure of that.
func copyJob(post services.PostID) jobs.NewJob { return jobs.KeyedJob(jobCopy, post.String()) }

// runCopy is projectCopy as a job.
func (s *Service) runCopy(ctx context.Context, _ jobs.Job, post services.PostID) error {
	return s.projectCopy(ctx, post)
}

// projectCopy writes a post into its copy in Redis. Until the copy is written, a node that has applied the log's entry refuses
// the older copy and asks SQL. A post that is gone gets no copy, and its job ends: facts that were restored from a backup may
// lack the post.
func (s *Service) projectCopy(ctx context.Context, id services.PostID) error {
	found, err := posts.ByID(ctx, s.store, []services.PostID{id})
	if err != nil || len(found) == 0 {
		return err
	}
	return s.redis.PutCopies(ctx, []services.Post{found[id]}, nil)
}
