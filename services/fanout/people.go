package fanout

import (
	"context"

	"tidings/services"
	"tidings/services/jobs"
)

const jobProfile = "profile" // key: user. Their profile changed

func (f *Fanout) peopleKinds() []jobs.Kind {
	return []jobs.Kind{{Name: jobProfile, Class: jobs.Short, Each: jobs.OfUser(f.ProjectProfile), Changes: jobs.NoCounts()}}
}

// ProfileJob projects a user's profile into its copy.
func ProfileJob(user services.UserID) jobs.NewJob { return jobs.UserKeyed(jobProfile, user) }

// ProjectProfile projects a user's profile into its copy in Redis.
func (f *Fanout) ProjectProfile(ctx context.Context, user services.UserID) error {
	users, err := f.store.Users(ctx, []services.UserID{user})
	if err != nil {
		return err
	}
	return f.redis.PutCopies(ctx, nil, []services.User{users[user]})
}
