package projector

import (
	"context"

	"tidings/services"
	"tidings/services/rdb"
)

// ProjectDisplayPolicy projects a user's display policy into their document. The command that changes it calls this, and so
// does its job.
func (p *Projector) ProjectDisplayPolicy(ctx context.Context, user services.UserID) error {
	return p.ProjectVersionedFields(ctx, user, p.policyVersionedFields)
}

// policyVersionedFields reads a user's display policy as a versioned field, for rebuilds and for ProjectDisplayPolicy. It returns none for
// a user who never set a policy.
func (p *Projector) policyVersionedFields(ctx context.Context, user services.UserID) ([]rdb.VersionedField, error) {
	policy, err := Policy(ctx, p.db, user)
	if err != nil || policy.Version == 0 {
		return nil, err
	}
	return []rdb.VersionedField{rdb.PolicyVersionedField(policy)}, nil
}
