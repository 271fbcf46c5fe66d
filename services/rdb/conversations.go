package rdb

import (
	"context"
	"strconv"

	"tidings/services"
	"tidings/services/redis"
)

// conversationsPut is the script of PutMemberships and MembershipRebuildSteps.
var conversationsPut = loadConversationScript("conversations_put")

// membershipsPerCall is how many states one call of conversationsPut writes, at most: it bounds how long a call blocks Redis.
const membershipsPerCall = 25

// PutMemberships writes users' own states in conversations into their documents: the newer of each state wins, and the sums change
// in the same step. For a user without a document, or whose states were lost, the result is Missing: their rebuild writes the
// states. Results are in the order of the states; consecutive states of one user share one result. clamped is the number of
// documents with a negative count, which happens only if another program wrote to Redis.
func (c *Projections) PutMemberships(ctx context.Context, states []services.Membership) (results []redis.Result, clamped int, err error) {
	calls, indexes := membershipCalls(states)
	answers, err := c.Client.ChangeForResults(ctx, conversationsPut, calls)
	if err != nil {
		return nil, 0, err
	}
	results = make([]redis.Result, len(states))
	// The states of one call share its result, so only the first of them adds to clamped.
	for i, index := range indexes {
		results[i] = answers[index]
		if answers[index].RefillDue && (i == 0 || indexes[i-1] != index) {
			clamped++
		}
		results[i].RefillDue = false
	}
	return results, clamped, nil
}

// membershipCalls returns the calls that write states, and for each state the index of its call. A user with many states gets
// several calls. Each is complete in itself: the sums move with the states of that call.
func membershipCalls(states []services.Membership) (calls []redis.ScriptCall, indexes []int) {
	calls, indexes = make([]redis.ScriptCall, 0, len(states)), make([]int, len(states))
	for i, state := range states {
		last := len(calls) - 1
		// After its first argument a call has two arguments for each state, so a call is full at membershipsPerCall states.
		if i == 0 || states[i-1].User != state.User || len(calls[last].Args) > 2*membershipsPerCall {
			// In a rebuild the first argument is the step (redis.NumberSteps); this call is part of no rebuild.
			calls = append(calls, redis.ScriptCall{
				Keys: []string{DocumentKey(state.User), conversationsKey(state.User), onlineKey(state.User)}, Args: []any{redis.NoStepNumber},
			})
			last++
		}
		calls[last].Args = append(calls[last].Args, redis.FormatInteger(uint64(state.Conversation)), membershipText(state))
		indexes[i] = last
	}
	return calls, indexes
}

// MembershipRebuildSteps are the steps of a user's rebuild that write their own states in conversations. PutMemberships makes the same
// calls: the newer state wins, so a message that arrives meanwhile is not lost.
func MembershipRebuildSteps(states []services.Membership) (parts []redis.SequenceStep) {
	calls, _ := membershipCalls(states)
	for _, call := range calls {
		parts = append(parts, redis.SequenceStep{Script: conversationsPut, ScriptCall: call})
	}
	return parts
}

// nextMessageExpiryScript is the script of UpdateNextMessageExpiry.
var nextMessageExpiryScript = loadConversationScript("conversations_aged")

// UpdateNextMessageExpiry looks at all states of the users, and computes when the next message leaves their counts because of its age.
// Call it after states of a new day were put: PutMemberships looks only at the states that it is given, and can only move that time
// earlier.
func (c *Projections) UpdateNextMessageExpiry(ctx context.Context, users []services.UserID) error {
	calls := services.Map(users, func(user services.UserID) redis.ScriptCall {
		return redis.ScriptCall{Keys: []string{DocumentKey(user), conversationsKey(user)}}
	})
	_, err := c.Client.ChangeForResults(ctx, nextMessageExpiryScript, calls)
	return err
}

// membershipText prints a state as the scripts take it: NewestMessageNumber, ReadUpTo, UnreadAdjustment, Version, Mentions,
// CountedOnReadVersion and the flags, between commas. The scripts call them last, base, k, version, mentions, way and flags. If
// messages leave the count because of their age, ExpiredAsOfDay and NextExpiryDay follow.
func membershipText(state services.Membership) string {
	text := make([]byte, 0, 64)
	// The order is the same as in STATE of lib_conversations.lua.
	for _, number := range []int64{state.NewestMessageNumber, state.ReadUpTo, state.UnreadAdjustment, state.Version, state.Mentions, state.CountedOnReadVersion} {
		text = append(strconv.AppendInt(text, number, 10), ',')
	}
	for _, flag := range []struct {
		set    bool
		letter byte
	}{{state.HasLeft, 'l'}, {state.Muted, 'm'}, {state.IsOpen, 'i'}, {state.CountedOnRead, 'r'}} {
		if flag.set {
			text = append(text, flag.letter)
		}
	}
	if state.ExpiredAsOfDay > 0 {
		text = strconv.AppendInt(append(text, ','), state.ExpiredAsOfDay, 10)
		text = strconv.AppendInt(append(text, ','), state.NextExpiryDay, 10)
	}
	return string(text)
}
