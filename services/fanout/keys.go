package fanout

import (
	"context"
	"fmt"
	"strings"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/mirror"
	"tidings/services/store"
)

// userJob is a job of a kind whose key is a user.
func userJob(kind string, user services.UserNumber) store.NewJob {
	return jobs.Keyed(kind, mirror.UserNumberText(user))
}

func pairKey(a, b services.UserNumber) string {
	return mirror.UserNumberText(a) + "/" + mirror.UserNumberText(b)
}

// ofPair makes a kind's work of what is done for the two users of its key.
func ofPair(do func(ctx context.Context, a, b services.UserNumber) error) func(context.Context, store.Job) error {
	return func(ctx context.Context, job store.Job) error {
		first, second, _ := strings.Cut(job.Key, "/")
		a, err := mirror.ParseUserNumber(first)
		if err != nil {
			return fmt.Errorf("key of %s: %w", job.Kind, err)
		}
		b, err := mirror.ParseUserNumber(second)
		if err != nil {
			return fmt.Errorf("key of %s: %w", job.Kind, err)
		}
		return do(ctx, a, b)
	}
}

// ofUser makes a kind's work of what is done for the user of its key.
func ofUser(do func(ctx context.Context, user services.UserNumber) error) func(context.Context, store.Job) error {
	return func(ctx context.Context, job store.Job) error {
		user, err := mirror.ParseUserNumber(job.Key)
		if err != nil {
			return fmt.Errorf("key of %s: %w", job.Kind, err)
		}
		return do(ctx, user)
	}
}

// ofPost makes a kind's work of what is done for the post of its key.
func ofPost(do func(ctx context.Context, job store.Job, post services.PostID) error) func(context.Context, store.Job) error {
	return func(ctx context.Context, job store.Job) error {
		id, err := services.ParsePostID(job.Key)
		if err != nil {
			return fmt.Errorf("key of %s: %w", job.Kind, err)
		}
		return do(ctx, job, id)
	}
}

// firstUser is the UsersOf of jobs whose key is a user, or begins with one.
func firstUser(_ context.Context, job store.Job) ([]services.UserNumber, bool, error) {
	text, _, _ := strings.Cut(job.Key, "/")
	user, err := mirror.ParseUserNumber(text)
	return []services.UserNumber{user}, false, err
}

// secondUser is the UsersOf of jobs whose key ends with a user.
func secondUser(_ context.Context, job store.Job) ([]services.UserNumber, bool, error) {
	_, text, _ := strings.Cut(job.Key, "/")
	user, err := mirror.ParseUserNumber(text)
	return []services.UserNumber{user}, false, err
}
