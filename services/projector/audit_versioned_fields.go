package projector

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// versionedFieldsFromFacts returns the versioned fields that a user's document should have, in the order of their names. The audit reads
// the facts by statements of its own. If it used the readers of rebuilds, it would accept the output of a wrong reader.
func (p *Projector) versionedFieldsFromFacts(ctx context.Context, user services.UserID) (facts []rdb.VersionedField, err error) {
	for _, reader := range p.versionedFieldReaders {
		fields, err := reader.audit(ctx, user)
		if err != nil {
			return nil, fmt.Errorf("audited versioned fields of %s: %w", reader.name, err)
		}
		facts = append(facts, fields...)
	}
	slices.SortFunc(facts, func(a, b rdb.VersionedField) int { return cmp.Compare(a.Name, b.Name) })
	return facts, nil
}

// CountUnchanged counts for the audit what several statements read: it reads the version of what it counts, counts, and reads the version
// again. If both are equal, nothing has changed in between; otherwise it begins again, a few times. A count that changes all the time is
// returned as it is: the audit compares it again before it believes a difference. count returns false if there is nothing to count.
func CountUnchanged[V any](version func() (V, error), count func(V) (found bool, err error), equal func(before, after V) bool) (found bool, err error) {
	const tries = 3
	before, err := version()
	if err != nil {
		return false, err
	}
	for range tries {
		if found, err := count(before); err != nil || !found {
			return false, err
		}
		after, err := version()
		if err != nil || equal(before, after) {
			return err == nil, err
		}
		before = after
	}
	return true, nil
}

// auditedPolicy is not readPolicies: the audit would then agree with a wrong reader of rebuilds.
var auditedPolicy = sql.NewStatement("audit a display policy", `
SELECT p.offset_east, p.quiet_to, p.quiet_from, p.as_dot, p.out_of_total, p.ver FROM display_policies p WHERE p.user_number = $1`)

// auditPolicy reads the display policy for the audit. It shares neither the statement nor the assembling with policyVersionedFields.
func (p *Projector) auditPolicy(ctx context.Context, user services.UserID) ([]rdb.VersionedField, error) {
	var offset, quietTo, quietFrom int
	var dots, inverted, version int64
	found, err := p.db.One(ctx, auditedPolicy, []any{user}, &offset, &quietTo, &quietFrom, &dots, &inverted, &version)
	if err != nil || !found || version == 0 {
		return nil, err
	}
	policy := services.DisplayPolicy{
		Version: uint64(version), InTotalInverted: map[services.Source]bool{}, AsDot: map[services.Source]bool{},
		QuietFromMinute: quietFrom, QuietToMinute: quietTo, UTCOffsetMinutes: offset,
	}
	for i, source := range services.Sources {
		policy.InTotalInverted[source], policy.AsDot[source] = inverted>>i&1 == 1, dots>>i&1 == 1
	}
	return []rdb.VersionedField{rdb.PolicyVersionedField(policy)}, nil
}
