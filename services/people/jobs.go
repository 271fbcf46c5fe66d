package people

import (
	"context"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/rdb"
	"tidings/services/sql"
)

const jobProfile = "profile" // key: user. Their profile changed

// Profiles projects users' profiles into their copies in Redis. It is safe for concurrent use.
type Profiles struct {
	db    *sql.DB
	redis *rdb.Projections
}

// NewProfiles makes the projection of profiles, and registers its kind of jobs.
func NewProfiles(engine *jobs.Engine, db *sql.DB, redis *rdb.Projections) *Profiles {
	p := &Profiles{db, redis}
	engine.Register(jobs.Kind{Name: jobProfile, Class: jobs.Short, Each: jobs.UserWork(p.Project), Changes: jobs.NoCounts()})
	return p
}

// Project projects a user's profile into its copy. It may run late or twice: the copy keeps the newer version. A user who is
// being erased has no profile and gets no copy.
func (p *Profiles) Project(ctx context.Context, user services.UserID) error {
	users, err := ByID(ctx, p.db, []services.UserID{user})
	if err != nil || len(users) == 0 {
		return err
	}
	return p.redis.PutCopies(ctx, nil, []services.User{users[user]})
}

// ProfileJob is the job that projects a user's profile into its copy, in case the command's own attempt fails.
func ProfileJob(user services.UserID) jobs.NewJob { return jobs.UserJob(jobProfile, user) }
