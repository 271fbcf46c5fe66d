package badge

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/rdb"
)

// displayPolicy is the user's display policy. Without it no total can be known, because the policy decides which counts enter
// it.
type displayPolicy struct {
	plain
	s *Service
}

func (displayPolicy) name() string         { return "display policy" }
func (displayPolicy) key() services.Source { return "" }

func (displayPolicy) part(*services.Badges, int) *services.Count { return nil }

func (displayPolicy) carry(v *view, badges *services.Badges, earlier known) {
	v.document.Policy, badges.Quiet = earlier.view.document.Policy, earlier.badges.Quiet
}

// explain has no items: the policy has no count.
func (displayPolicy) explain(context.Context, explained) ([]services.Explanation, error) {
	return nil, nil
}

// digest adds nothing: the policy brings no items.
func (displayPolicy) digest(context.Context, services.UserID, time.Time, *services.Digest) error {
	return nil
}

func (p displayPolicy) facts(ctx context.Context, user services.UserID, _ int64, document *rdb.Document) (err error) {
	document.Policy, err = p.s.store.Policy(ctx, user)
	return err
}

// render notes whether it is the user's quiet hours. The rest of the policy is applied with the totals.
func (displayPolicy) render(v *view, badges *services.Badges) {
	policy := v.document.Policy
	if policy.QuietFrom == policy.QuietTo {
		return
	}
	quiet, changesAt := policy.Quiet(v.risen)
	badges.Quiet = quiet
	v.changesAt(changesAt)
	for _, minute := range []int{policy.QuietFrom, policy.QuietTo} { // each passes once a day
		v.passed(v.risen.Add(time.Duration(policy.OffsetEast-minute)*time.Minute).Unix() / int64(day/time.Second))
	}
}
