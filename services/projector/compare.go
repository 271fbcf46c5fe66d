package projector

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/redis"
)

// AuditPart compares one part of a user's projection (their document and inbox) with the facts. It returns the facts, in a form that
// prints the same for equal facts, and the names of the differences.
type AuditPart func(ctx context.Context, user services.UserID, shown rdb.UserSnapshot) (facts any, differs []string, err error)

// namedAuditPart is an AuditPart and the name under which it is registered.
type namedAuditPart struct {
	name    string
	compare AuditPart
}

// RegisterAuditPart adds a part that audits compare. Call it before the first audit. It panics when the name is taken.
func (p *Projector) RegisterAuditPart(name string, part AuditPart) {
	for _, other := range p.auditParts {
		if other.name == name {
			panic(fmt.Sprintf("projector: the audit of %q is registered twice", name))
		}
	}
	p.auditParts = append(p.auditParts, namedAuditPart{name, part})
}

// FactsComparison is the result of one comparison of a user's projection (their document and inbox) with the facts.
type FactsComparison struct {
	DifferingParts []string         // the parts that differ
	snapshot       rdb.UserSnapshot // the projection as it was read
	facts          []any            // the facts of each part
}

// Digest is equal for equal projections and equal facts. The audit compares a user twice: only a difference whose projection and facts
// stayed the same in between is an error; any other may be a change under way.
func (c FactsComparison) Digest() [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%+v\n%+v", c.snapshot, c.facts))
}

// CompareWithFacts compares a user's projection (their document and inbox) with the facts as they are now. shown is the projection, and
// stamp is a time of Redis' clock after it was read.
func (p *Projector) CompareWithFacts(ctx context.Context, user services.UserID, shown rdb.UserSnapshot, stamp redis.ClockStamp) (FactsComparison, error) {
	seen := FactsComparison{snapshot: shown}
	if shown.Wholeness == rdb.DocumentWrongType {
		seen.DifferingParts = []string{"a key that cannot be read"}
		return seen, nil
	}
	seen.DifferingParts = p.auditStamps(shown, stamp)
	for _, part := range p.auditParts {
		facts, differs, err := part.compare(ctx, user, shown)
		if err != nil {
			return seen, fmt.Errorf("audit of %s: %w", part.name, err)
		}
		seen.facts, seen.DifferingParts = append(seen.facts, facts), append(seen.DifferingParts, differs...)
	}
	return seen, nil
}

// EmptyAndRestore empties a user's projection (their document and inbox) and restores it. Restore alone would merge the facts into a
// projection that cannot be trusted. It is no visit: the projection of an idle or dormant user stays empty until they return.
func (p *Projector) EmptyAndRestore(ctx context.Context, user services.UserID) error {
	if err := p.redis.ResetUserData(ctx, user); err != nil {
		return err
	}
	_, err := p.Restore(ctx, user)
	return err
}

// Recount makes a user's projection (their document and inbox) anew from the facts, even a correct one, and returns the parts in which
// it differed. Changes that had not reached the projection yet count as differences too. Unlike EmptyAndRestore it is a visit.
func (p *Projector) Recount(ctx context.Context, user services.UserID) (differed []string, err error) {
	snapshots, err := p.redis.ReadUserSnapshots(ctx, []services.UserID{user})
	if err != nil {
		return nil, err
	}
	stamp, err := p.redis.Client.Now(ctx)
	if err != nil {
		return nil, err
	}
	// A projection that is missing or being built is known to lack facts: that is no difference.
	if snapshots[0].Wholeness == rdb.DocumentWhole || snapshots[0].Wholeness == rdb.DocumentWrongType {
		found, err := p.CompareWithFacts(ctx, user, snapshots[0], stamp)
		if err != nil {
			return nil, err
		}
		differed = found.DifferingParts
	}
	if err := p.redis.ResetUserData(ctx, user); err != nil {
		return differed, err
	}
	return differed, p.Rebuild(ctx, user)
}

// auditStamps finds stamps that lie in the future. A removal in the future would make the projection refuse every post; a visit in
// the future would keep later visits from being recorded, so that the user would become dormant although they visit.
func (p *Projector) auditStamps(shown rdb.UserSnapshot, stamp redis.ClockStamp) (differs []string) {
	const slack = time.Minute // between the clocks of nodes and masters
	if shown.LastInboxRemovalAt.After(time.UnixMicro(int64(stamp)).Add(slack)) {
		differs = append(differs, "stamp of the last removal")
	}
	if shown.Document.LastActiveDay > p.today()+1 {
		differs = append(differs, "day of the last visit")
	}
	return differs
}

// auditVersionedFields compares the versioned fields. Each field of the document must have the value of the facts, or its initial value
// if the facts have none. Dots are compared on their own, because a document has fields only for dots that the user dismissed.
func (p *Projector) auditVersionedFields(ctx context.Context, user services.UserID, shown rdb.UserSnapshot) (any, []string, error) {
	facts, err := p.versionedFieldsFromFacts(ctx, user)
	if err != nil {
		return nil, nil, err
	}
	want := map[string]string{}
	for _, field := range facts {
		want[field.Name] = field.Value
	}
	var differs []string
	for _, field := range p.redis.VersionedFieldNames() {
		if !sameVersionedField(field, cmp.Or(want[field], rdb.InitialValue), cmp.Or(shown.Fields[field], rdb.InitialValue)) {
			differs = append(differs, "versioned field "+field)
		}
	}
	// A dot that the user dismissed before they became dormant has no effect any more, whether or not the document has it.
	_, from, _ := strings.Cut(want[rdb.AnnouncementField], ";")
	_, from, _ = strings.Cut(from, ";")
	for _, field := range slices.Sorted(maps.Keys(shown.Fields)) {
		if strings.HasPrefix(field, rdb.DotPrefix) && want[field] == "" && parseNumber(withoutVersion(shown.Fields[field])) <= parseNumber(from) {
			want[field] = shown.Fields[field]
		}
		if strings.HasPrefix(field, rdb.DotPrefix) && want[field] != shown.Fields[field] {
			differs = append(differs, "versioned field "+field)
		}
	}
	// The document may lack a dot of the facts.
	for field := range want {
		if _, has := shown.Fields[field]; strings.HasPrefix(field, rdb.DotPrefix) && !has {
			differs = append(differs, "versioned field "+field)
		}
	}
	slices.Sort(differs)
	return facts, slices.Compact(differs), nil
}

// withoutVersion is the part of a versioned field after its version.
func withoutVersion(value string) string {
	_, rest, _ := strings.Cut(value, ";")
	return rest
}

// parseNumber parses the number in a text. A text that is no number counts as the greatest number, so that no comparison takes it for
// right.
func parseNumber(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil && text != "" {
		return ^uint64(0)
	}
	return n
}

// sameVersionedField reports whether two values mean the same. Counts by day contain the day on which they were counted, and change by
// themselves as days pass.
func sameVersionedField(field, want, got string) bool {
	if want == got {
		return true
	}
	a, errA := rdb.ParseCounts(want)
	b, errB := rdb.ParseCounts(got)
	if !strings.HasPrefix(field, rdb.CategoryCountsPrefix) || errA != nil || errB != nil {
		return false
	}
	// today is the later of the two days: counts move forward and never back.
	today := max(a.NewestDay, b.NewestDay)
	return ageCounts(a, today) == ageCounts(b, today)
}

// ageCounts returns counts as they are on a later day: each moves to an older index, and counts that have passed the last index are
// added to OlderUnseen.
func ageCounts(counts services.CategoryCounts, today int64) services.CategoryCounts {
	passed := today - counts.NewestDay
	moved := counts
	moved.NewestDay, moved.CountByDay = today, [len(counts.CountByDay)]int{}
	for i, count := range counts.CountByDay {
		if index := int64(i) + passed; index < int64(len(moved.CountByDay)) {
			moved.CountByDay[index] = count
		} else {
			moved.OlderUnseen += count
		}
	}
	return moved
}
