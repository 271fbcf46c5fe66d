package fanout

import (
	"context"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/rdb"
	"tidings/services/store"
)

const jobPolicy = "policy" // key: user. How he wants his badges shown changed

func (f *Fanout) policyKinds() []jobs.Kind {
	return []jobs.Kind{{Name: jobPolicy, Class: jobs.Short, Each: ofUser(f.CarryPolicy), Changes: jobs.CountsOf(firstUser, services.Sources...)}}
}

// PolicyJob brings a user's display policy into his document.
func PolicyJob(user services.UserNumber) store.NewJob {
	return userJob(jobPolicy, user)
}

// CarryPolicy brings a user's display policy into his document.
func (f *Fanout) CarryPolicy(ctx context.Context, user services.UserNumber) error {
	return f.carry(ctx, user, f.policyRegisters)
}

func (f *Fanout) policyRegisters(ctx context.Context, user services.UserNumber) ([]rdb.Register, error) {
	policy, err := f.store.Policy(ctx, user)
	if err != nil || policy.Version == 0 {
		return nil, err
	}
	return []rdb.Register{rdb.PolicyRegister(policy)}, nil
}
