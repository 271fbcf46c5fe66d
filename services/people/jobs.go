package people

import (
	"context"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/rdb"
	"tidings/services/sql"
)

const jobProjectProfile = "profile" // the kind of jobs that copy a profile to Redis; key: the user, whose profile changed

// ProfileProjector projects users' profiles into their copies in Redis. It is safe for concurrent use.
type ProfileProjector struct {
	db    *sql.DB
	redis *rdb.Projections
}

// NewProfileProjector makes the projection of profiles, and registers its kind of jobs.
func NewProfileProjector(engine *jobs.Engine, db *sql.DB, redis *rdb.Projections) *ProfileProjector {
	p := &ProfileProjector{db, redis}
	engine.Register(jobs.Kind{Name: jobProjectProfile, Class: jobs.ShortClass, Each: jobs.UserWork(p.Project), ChangedCounts: jobs.NoCounts(), NamesUser: jobs.UserInKey})
	return p
}

// Project projects a user's profile into its copy. It may run late or twice: the copy keeps the newer version. A user who is
// being erased has no profile and gets no copy.
func (p *ProfileProjector) Project(ctx context.Context, user services.UserID) error {
	users, err := ByID(ctx, p.db, []services.UserID{user})
	if err != nil || len(users) == 0 {
		return err
	}
	return p.redis.PutCopies(ctx, nil, []services.User{users[user]})
}

// ProjectProfileJob is the job that projects a user's profile into its copy, in case the command's own attempt fails.
func ProjectProfileJob(user services.UserID) jobs.NewJob {
	return jobs.UserJob(jobProjectProfile, user)
}
