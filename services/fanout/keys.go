package fanout

import (
	"context"
	"fmt"
	"strings"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/mirror"
)

// userJob is a job of a kind whose key is a user.
func userJob(kind string, user services.UserID) jobs.NewJob {
	return jobs.Keyed(kind, mirror.UserIDText(user))
}

func pairKey(a, b services.UserID) string {
	return mirror.UserIDText(a) + "/" + mirror.UserIDText(b)
}

// ofPair turns a function of two users into the work of a kind whose key names both.
func ofPair(do func(ctx context.Context, a, b services.UserID) error) func(context.Context, jobs.Job) error {
	return func(ctx context.Context, job jobs.Job) error {
		first, second, _ := strings.Cut(job.Key, "/")
		a, err := mirror.ParseUserID(first)
		if err != nil {
			return fmt.Errorf("key of %s: %w", job.Kind, err)
		}
		b, err := mirror.ParseUserID(second)
		if err != nil {
			return fmt.Errorf("key of %s: %w", job.Kind, err)
		}
		return do(ctx, a, b)
	}
}

// ofUser turns a function of a user into the work of a kind whose key names the user.
func ofUser(do func(ctx context.Context, user services.UserID) error) func(context.Context, jobs.Job) error {
	return func(ctx context.Context, job jobs.Job) error {
		user, err := mirror.ParseUserID(job.Key)
		if err != nil {
			return fmt.Errorf("key of %s: %w", job.Kind, err)
		}
		return do(ctx, user)
	}
}

// ofPost turns a function of a post into the work of a kind whose key names the post.
func ofPost(do func(ctx context.Context, job jobs.Job, post services.PostID) error) func(context.Context, jobs.Job) error {
	return func(ctx context.Context, job jobs.Job) error {
		id, err := services.ParsePostID(job.Key)
		if err != nil {
			return fmt.Errorf("key of %s: %w", job.Kind, err)
		}
		return do(ctx, job, id)
	}
}

// firstUser is the UsersOf of jobs whose key is a user, or begins with one.
func firstUser(_ context.Context, job jobs.Job) ([]services.UserID, bool, error) {
	text, _, _ := strings.Cut(job.Key, "/")
	user, err := mirror.ParseUserID(text)
	return []services.UserID{user}, false, err
}

// secondUser is the UsersOf of jobs whose key ends with a user.
func secondUser(_ context.Context, job jobs.Job) ([]services.UserID, bool, error) {
	_, text, _ := strings.Cut(job.Key, "/")
	user, err := mirror.ParseUserID(text)
	return []services.UserID{user}, false, err
}
