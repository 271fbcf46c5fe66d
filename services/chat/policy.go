package chat

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// GroupPolicy reads which users may add this user to a GROUP or ROOM.
func (s *Service) GroupPolicy(ctx context.Context, user services.UserID) (GroupPolicy, error) {
	return readGroupPolicy(ctx, s.DB, user)
}

// SetGroupPolicy is the command by which a user decides who may add them to a GROUP or ROOM. It applies to every Create and
// AddMembers that begins after its commit, and changes no conversation. INVALID for a policy that is none of groupPolicies.
func (s *Service) SetGroupPolicy(user services.UserID, policy GroupPolicy) (*jobs.Command, error) {
	if !slices.Contains(groupPolicies, policy) {
		return nil, services.Errorf(services.Invalid, "policy: one of %v is allowed, got %s", groupPolicies, services.Quote(string(policy)))
	}
	return &jobs.Command{
		Name: "setGroupPolicy", Actor: user,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			return nil, putGroupPolicy(ctx, tx, user, policy)
		},
	}, nil
}
