package chat

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/store"
)

// GroupPolicy is a user's policy of who may add them to a GROUP or ROOM.
func (s *Service) GroupPolicy(ctx context.Context, user services.UserID) (services.GroupPolicy, error) {
	return s.Store.GroupPolicy(ctx, user)
}

// SetGroupPolicy is the command by which a user sets who may add them to a GROUP or ROOM. It applies to every Create and
// AddMembers that begins after its commit, and changes no conversation. INVALID for a policy that is none of
// services.GroupPolicies.
func (s *Service) SetGroupPolicy(user services.UserID, policy services.GroupPolicy) (*jobs.Command, error) {
	if !slices.Contains(services.GroupPolicies, policy) {
		return nil, services.Errorf(services.Invalid, "policy: one of %v is allowed, got %s", services.GroupPolicies, services.Quote(string(policy)))
	}
	return &jobs.Command{
		Name: "setGroupPolicy", Actor: user,
		Apply: func(ctx context.Context, in *sql.Tx) ([]string, error) {
			tx := store.In(in)
			return nil, tx.SetGroupPolicy(ctx, user, policy)
		},
	}, nil
}
