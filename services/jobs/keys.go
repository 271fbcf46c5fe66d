package jobs

import (
	"context"
	"fmt"
	"strings"

	"tidings/services"
)

// UserJob returns a job of a kind whose key is a user.
func UserJob(kind string, user services.UserID) NewJob {
	return KeyedJob(kind, services.UserIDText(user))
}

// PairKey is the key of a job that names two users.
func PairKey(a, b services.UserID) string {
	return services.UserIDText(a) + "/" + services.UserIDText(b)
}

// PairWork turns a function of two users into the work of a kind whose key names both.
func PairWork(do func(ctx context.Context, a, b services.UserID) error) func(context.Context, Job) error {
	return func(ctx context.Context, job Job) error {
		first, second, _ := strings.Cut(job.Key, "/")
		a, err := services.ParseUserIDText(first)
		if err != nil {
			return fmt.Errorf("key of %s: %w", job.Kind, err)
		}
		b, err := services.ParseUserIDText(second)
		if err != nil {
			return fmt.Errorf("key of %s: %w", job.Kind, err)
		}
		return do(ctx, a, b)
	}
}

// UserWork turns a function of a user into the work of a kind whose key names the user.
func UserWork(do func(ctx context.Context, user services.UserID) error) func(context.Context, Job) error {
	return func(ctx context.Context, job Job) error {
		user, err := services.ParseUserIDText(job.Key)
		if err != nil {
			return fmt.Errorf("key of %s: %w", job.Kind, err)
		}
		return do(ctx, user)
	}
}

// ObjectWork turns a function of an object into the work of a kind whose key names the object by its sortable ID.
func ObjectWork[ID ~uint64](do func(ctx context.Context, job Job, object ID) error) func(context.Context, Job) error {
	return func(ctx context.Context, job Job) error {
		id, err := services.ParseSortableID(job.Key)
		if err != nil {
			return fmt.Errorf("key of %s: %w", job.Kind, err)
		}
		return do(ctx, job, ID(id))
	}
}

// PayloadWork turns a function of a chunk into the work of a kind whose jobs ChunkJobs makes.
func PayloadWork[C any](do func(ctx context.Context, job Job, chunk C) error) func(context.Context, Job) error {
	return func(ctx context.Context, job Job) error {
		var chunk C
		if err := ReadPayload(job, &chunk); err != nil {
			return err
		}
		return do(ctx, job, chunk)
	}
}

// FirstUserOfKey is the UsersOf of jobs whose key is a user, or begins with one.
func FirstUserOfKey(_ context.Context, job Job) ([]services.UserID, bool, error) {
	text, _, _ := strings.Cut(job.Key, "/")
	user, err := services.ParseUserIDText(text)
	return []services.UserID{user}, false, err
}

// SecondUserOfKey is the UsersOf of jobs whose key ends with a user.
func SecondUserOfKey(_ context.Context, job Job) ([]services.UserID, bool, error) {
	_, text, _ := strings.Cut(job.Key, "/")
	user, err := services.ParseUserIDText(text)
	return []services.UserID{user}, false, err
}
