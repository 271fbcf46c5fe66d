package fanout

import (
	"cmp"
	"context"
	"slices"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/store"
)

// registerFacts are the versioned fields that a user's document should have, in the order of their names. The audit reads
// the facts on its own and not through the registered readers: through these it would take the output of a wrong reader for
// right.
func (f *Fanout) registerFacts(ctx context.Context, user services.UserID) (facts []rdb.Register, err error) {
	notifications, err := f.store.NotificationStates(ctx, user)
	if err != nil {
		return nil, err
	}
	for _, state := range notifications {
		facts = append(facts, rdb.CategoryRegisters(services.CategoryCounts{
			Category: state.Category, Version: state.Version, Newest: state.Head, Older: state.Older, Day: state.Day, Days: state.Days,
		})...)
	}
	messages, err := f.store.MessageStates(ctx, user)
	if err != nil {
		return nil, err
	}
	for _, state := range messages {
		register := rdb.MessagesRegister
		if f.cfg.Expiry.Expires(services.SourceSiteMessages) {
			register = rdb.MessageDaysRegister
		}
		facts = append(facts, register(services.MessageTypeState{Type: state.Type, Version: state.Version, Unread: state.Unread, Days: state.Days}))
	}
	notices, err := f.store.UserNotices(ctx, user)
	if err != nil {
		return nil, err
	}
	if notices.Version > 0 {
		facts = append(facts, rdb.NoticeRegister(notices.NoticeState))
	}
	if notices.Segments.Version > 0 {
		facts = append(facts, rdb.SegmentRegister(notices.Segments))
	}
	for dot, seen := range notices.Dots {
		facts = append(facts, rdb.DotRegister(dot, seen))
	}
	policy, err := f.store.Policy(ctx, user)
	if err != nil {
		return nil, err
	}
	if policy.Version > 0 {
		facts = append(facts, rdb.PolicyRegister(policy))
	}
	seen, err := f.store.Position(ctx, user, store.LiveBoard, "")
	if err != nil {
		return nil, err
	}
	if seen > 0 {
		facts = append(facts, rdb.LiveSeenRegister(uint64(seen)))
	}
	slices.SortFunc(facts, func(a, b rdb.Register) int { return cmp.Compare(a.Field, b.Field) })
	return facts, nil
}
