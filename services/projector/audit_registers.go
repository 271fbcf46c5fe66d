package projector

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"tidings/services"
	"tidings/services/rdb"
)

// registersFromFacts returns the versioned fields that a user's document should have, in the order of their names. The audit reads
// the facts by statements of its own. If it used the readers of rebuilds, it would accept the output of a wrong reader.
func (p *Projector) registersFromFacts(ctx context.Context, user services.UserID) (facts []rdb.Register, err error) {
	for _, reader := range p.registerReaders {
		registers, err := reader.audit(ctx, user)
		if err != nil {
			return nil, fmt.Errorf("audited registers of %s: %w", reader.name, err)
		}
		facts = append(facts, registers...)
	}
	slices.SortFunc(facts, func(a, b rdb.Register) int { return cmp.Compare(a.Field, b.Field) })
	return facts, nil
}

// auditPolicy reads the display policy for the audit, by the statement by which rebuilds read it: there is nothing to compute that
// could be wrong.
func (p *Projector) auditPolicy(ctx context.Context, user services.UserID) ([]rdb.Register, error) {
	policy, err := Policy(ctx, p.store, user)
	if err != nil || policy.Version == 0 {
		return nil, err
	}
	return []rdb.Register{rdb.PolicyRegister(policy)}, nil
}
