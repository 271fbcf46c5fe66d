package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/badge"
)

// displayPolicy is the viewer's display policy, read once for a response. A page of conversations shows up to 100 counts, and
// each of them needs it.
func (r *Resolver) displayPolicy(ctx context.Context, viewer *graph.Viewer) (services.DisplayPolicy, error) {
	return dataloader.ReadShared(ctx, policyKey{}, func(ctx context.Context) (services.DisplayPolicy, error) {
		return r.Badge.Policy(ctx, viewer.UserID)
	})
}

// displayedPart is a part of a source's count, displayed by the viewer's policy. The policy is read only if the operation requests a
// field that depends on it: the policy costs a statement, and clients rarely show these two fields of a part.
func (r *Resolver) displayedPart(ctx context.Context, source services.Source, part services.Count) (*services.Count, error) {
	if fields := selectedFieldsOf(ctx); fields["BadgeCount.inTotal"] == nil && fields["BadgeCount.display"] == nil {
		return &part, nil
	}
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	policy, err := r.displayPolicy(ctx, viewer)
	if err != nil {
		return nil, err
	}
	part = r.Badge.ShowPart(policy, source, part)
	return &part, nil
}

// graphPolicy is a policy as the API shows it: all sources in their order, also those at their defaults. Equal times mean that
// there are no quiet hours. A client can draw its settings from the answer alone, and need not know the defaults.
func graphPolicy(policy services.DisplayPolicy) *graph.DisplayPolicy {
	shown := &graph.DisplayPolicy{Sources: make([]graph.SourcePolicy, len(services.Sources))}
	for i, source := range services.Sources {
		shown.Sources[i] = graph.SourcePolicy{Source: source, InTotal: policy.InTotal(source), Style: graph.BadgeStyleNumber}
		if policy.AsDot[source] {
			shown.Sources[i].Style = graph.BadgeStyleDot
		}
	}
	if policy.QuietFromMinute != policy.QuietToMinute {
		shown.QuietHours = &graph.QuietHours{
			From: badge.FormatMinuteOfDay(policy.QuietFromMinute), To: badge.FormatMinuteOfDay(policy.QuietToMinute), OffsetMinutes: policy.UTCOffsetMinutes,
		}
	}
	return shown
}
