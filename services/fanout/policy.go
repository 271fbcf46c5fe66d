package fanout

import (
	"context"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/rdb"
)

const jobPolicy = "policy" // key: user. Their display policy of badges changed

func (f *Fanout) policyKinds() []jobs.Kind {
	return []jobs.Kind{{Name: jobPolicy, Class: jobs.Short, Each: jobs.OfUser(f.ProjectPolicy), Changes: jobs.CountsOf(jobs.FirstUser, services.Sources...)}}
}

// PolicyJob projects a user's display policy into their document.
func PolicyJob(user services.UserID) jobs.NewJob {
	return jobs.UserKeyed(jobPolicy, user)
}

// ProjectPolicy projects a user's display policy into their document.
func (f *Fanout) ProjectPolicy(ctx context.Context, user services.UserID) error {
	return f.Project(ctx, user, f.policyRegisters)
}

func (f *Fanout) policyRegisters(ctx context.Context, user services.UserID) ([]rdb.Register, error) {
	policy, err := f.store.Policy(ctx, user)
	if err != nil || policy.Version == 0 {
		return nil, err
	}
	return []rdb.Register{rdb.PolicyRegister(policy)}, nil
}
