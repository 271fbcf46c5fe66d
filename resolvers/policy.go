package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/badge"
	"tidings/services/jobs"
)

func (r *Resolver) policyEvent(ctx context.Context, event graph.IngestEvent) (*happening, error) {
	if group := event.SetGroupPolicy; group != nil {
		cmd, err := as(ctx, r, group.As, func(actor services.UserNumber) (*jobs.Command, error) {
			return r.Chat.SetGroupPolicy(actor, group.Policy)
		})
		return &happening{cmd, "", group.Key}, err
	}
	set := event.SetDisplayPolicy
	if set == nil {
		return nil, nil
	}
	cmd, err := as(ctx, r, set.As, func(actor services.UserNumber) (*jobs.Command, error) {
		change, err := policyChange(set.Sources, set.QuietHours)
		if err != nil {
			return nil, err
		}
		return r.Badge.SetPolicy(actor, change)
	})
	return &happening{cmd, "", set.Key}, err
}

// policyChange reads what shall change. INVALID when a source is named twice.
func policyChange(sources []graph.SourcePolicyInput, hours *graph.QuietHoursInput) (badge.PolicyChange, error) {
	change := badge.PolicyChange{InTotal: map[services.Source]bool{}, AsDot: map[services.Source]bool{}}
	named := map[services.Source]bool{}
	for _, source := range sources {
		if named[source.Source] {
			return change, services.Errorf(services.Invalid, "sources: %s is named twice", source.Source)
		}
		named[source.Source] = true
		if source.InTotal != nil {
			change.InTotal[source.Source] = *source.InTotal
		}
		if source.Style != nil {
			change.AsDot[source.Source] = *source.Style == graph.BadgeStyleDot
		}
	}
	if hours != nil {
		change.Quiet = &badge.QuietHours{From: hours.From, To: hours.To, OffsetEast: hours.OffsetMinutes}
	}
	return change, nil
}

func graphPolicy(policy services.DisplayPolicy) *graph.DisplayPolicy {
	shown := &graph.DisplayPolicy{Sources: make([]graph.SourcePolicy, len(services.Sources))}
	for i, source := range services.Sources {
		shown.Sources[i] = graph.SourcePolicy{Source: source, InTotal: !policy.OutOfTotal[source], Style: graph.BadgeStyleNumber}
		if policy.AsDot[source] {
			shown.Sources[i].Style = graph.BadgeStyleDot
		}
	}
	if policy.QuietFrom != policy.QuietTo {
		shown.QuietHours = &graph.QuietHours{
			From: badge.MinuteText(policy.QuietFrom), To: badge.MinuteText(policy.QuietTo), OffsetMinutes: policy.OffsetEast,
		}
	}
	return shown
}
