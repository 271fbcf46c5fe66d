package fanout

import (
	"context"

	"tidings/services"
	"tidings/services/mirror"
	"tidings/services/rdb"
	"tidings/services/store"
)

const jobPolicy = "policy" // key: user. How he wants his badges shown changed

func (f *Fanout) policyKinds() map[string]kind {
	return map[string]kind{jobPolicy: {lane: laneQuick, each: ofUser(f.CarryPolicy)}}
}

// PolicyJob brings a user's display policy into his document.
func PolicyJob(user services.UserNumber) store.NewJob {
	return keyed(jobPolicy, mirror.UserNumberText(user))
}

// CarryPolicy brings a user's display policy into his document.
func (f *Fanout) CarryPolicy(ctx context.Context, user services.UserNumber) error {
	return f.carryRegisters(ctx, user, f.policyRegisters)
}

func (f *Fanout) policyRegisters(ctx context.Context, user services.UserNumber) ([]rdb.Register, error) {
	policy, err := f.store.Policy(ctx, user)
	if err != nil || policy.Version == 0 {
		return nil, err
	}
	return []rdb.Register{rdb.PolicyRegister(policy)}, nil
}

// carryRegisters writes what one source says of a user into his document, and hints where it changed.
func (f *Fanout) carryRegisters(ctx context.Context, user services.UserNumber, source func(context.Context, services.UserNumber) ([]rdb.Register, error)) error {
	registers, err := source(ctx, user)
	if err != nil || len(registers) == 0 {
		return err
	}
	results, err := f.redis.PutRegisters(ctx, []rdb.Registers{{User: user, Fields: registers}})
	if err != nil {
		return err
	}
	f.hint(ctx, []services.UserNumber{user}, results)
	return nil
}
