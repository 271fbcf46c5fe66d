package badge

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/projector"
	"tidings/services/rdb"
)

// displayPolicy is the user's display policy. Without it no total can be known, because the policy decides which counts enter
// it.
type displayPolicy struct {
	source.DefaultMethods
	service *Service
}

func (displayPolicy) Name() string         { return "display policy" }
func (displayPolicy) Key() services.Source { return "" } // none: the policy has no count

// Part is nil: the policy has no count.
func (displayPolicy) Part(*services.Badges, int) *services.Count { return nil }

// CopyNonCounts takes the earlier policy, because under another policy the earlier counts would have another total.
func (displayPolicy) CopyNonCounts(v *source.Rendering, badges *services.Badges, earlier source.ShownBadges) {
	v.Document.Policy, badges.Quiet = earlier.Policy, earlier.Badges.Quiet
}

// Explain has no items: the policy has no count.
func (displayPolicy) Explain(context.Context, source.ExplainRequest) ([]services.Explanation, error) {
	return nil, nil
}

// Digest adds nothing: the policy brings no items.
func (displayPolicy) Digest(context.Context, services.UserID, time.Time, *services.Digest) error {
	return nil
}

// Facts reads the policies.
func (p displayPolicy) Facts(ctx context.Context, users []services.UserID, _ int64, documents []rdb.Document) error {
	policies, err := projector.Policies(ctx, p.service.db, users)
	for i, user := range users {
		documents[i].Policy = policies[user]
	}
	return err
}

// Render sets whether the moment is in the user's quiet hours. The rest of the policy is applied with the totals.
func (displayPolicy) Render(v *source.Rendering, badges *services.Badges) {
	policy := v.Document.Policy
	if policy.QuietFromMinute == policy.QuietToMinute {
		return
	}
	quiet, changesAt := policy.Quiet(v.MonotonicNow)
	badges.Quiet = quiet
	v.RecordChangeAt(changesAt)
	for _, minute := range []int{policy.QuietFromMinute, policy.QuietToMinute} { // each is a boundary once a day
		v.AddTimeBoundaries(v.MonotonicNow.Add(time.Duration(policy.UTCOffsetMinutes-minute)*time.Minute).Unix() / int64(day/time.Second))
	}
}
