package rdb

import (
	"context"
	"strconv"

	"tidings/services"
	"tidings/services/redis"
)

// conversationsPut is the script of PutMemberships and MembershipParts.
var conversationsPut = loadConversationScript("conversations_put")

// statesPerCall bounds how long one call of the script may block Redis.
const statesPerCall = 25

// PutMemberships writes users' own states in conversations into their documents: the newer of each state wins, and the sums change
// in the same step. For a user without a document, or whose states were lost, the result is Missing: their rebuild writes the
// states. Results are in the order of the states; consecutive states of one user share one result. clamped is the number of
// documents with a negative count, which happens only if another program wrote to Redis.
func (c *Projections) PutMemberships(ctx context.Context, states []services.Membership) (results []redis.Result, clamped int, err error) {
	calls, places := membershipCalls(states)
	answers, err := c.ChangeForResults(ctx, conversationsPut, calls)
	if err != nil {
		return nil, 0, err
	}
	results = make([]redis.Result, len(states))
	// The states of one call share its result, so only the first of them adds to clamped.
	for i, place := range places {
		results[i] = answers[place]
		if answers[place].Short && (i == 0 || places[i-1] != place) {
			clamped++
		}
		results[i].Short = false
	}
	return results, clamped, nil
}

// membershipCalls returns the calls that write states, and for each state the index of its call. A user with many states gets
// several calls. Each is complete in itself: the sums move with the states of that call.
func membershipCalls(states []services.Membership) (calls []redis.Call, places []int) {
	calls, places = make([]redis.Call, 0, len(states)), make([]int, len(states))
	for i, state := range states {
		last := len(calls) - 1
		// After its first argument a call has two arguments for each state, so a call is full at statesPerCall states.
		if i == 0 || states[i-1].User != state.User || len(calls[last].Args) > 2*statesPerCall {
			// In a rebuild the first argument is the step (redis.Chain); this call is part of no rebuild.
			calls = append(calls, redis.Call{
				Keys: []string{DocumentKey(state.User), conversationsKey(state.User), onlineKey(state.User)}, Args: []any{redis.NoStepNumber},
			})
			last++
		}
		calls[last].Args = append(calls[last].Args, redis.Digits(uint64(state.Conversation)), stateText(state))
		places[i] = last
	}
	return calls, places
}

// MembershipParts are the parts of a user's rebuild that write their own states in conversations. PutMemberships makes the same
// calls: the newer state wins, so a message that arrives meanwhile is not lost.
func MembershipParts(states []services.Membership) (parts []redis.Step) {
	calls, _ := membershipCalls(states)
	for _, call := range calls {
		parts = append(parts, redis.Step{Script: conversationsPut, Call: call})
	}
	return parts
}

// conversationsAged is the script of FindNextAged.
var conversationsAged = loadConversationScript("conversations_aged")

// FindNextAged looks at all states of the users, and computes when the next message leaves their counts because of its age. Call it
// after states of a new day were put: PutMemberships looks only at the states that it is given, and can only move that time earlier.
func (c *Projections) FindNextAged(ctx context.Context, users []services.UserID) error {
	calls := make([]redis.Call, len(users))
	for i, user := range users {
		calls[i] = redis.Call{Keys: []string{DocumentKey(user), conversationsKey(user)}}
	}
	_, err := c.ChangeForResults(ctx, conversationsAged, calls)
	return err
}

// stateText prints a state as "head,base,k,version,mentions,way version,flags". The way version is the version of ReadSide, which says
// whether messages are counted when they are written or when the badges are read. If messages leave the count because of their age,
// "aged on,leaves on" follows.
func stateText(state services.Membership) string {
	text := make([]byte, 0, 64)
	// The order is the same as in STATE of lib_conversations.lua.
	for _, number := range []int64{state.Head, state.Base, state.K, state.Version, state.Mentions, state.WayVersion} {
		text = append(strconv.AppendInt(text, number, 10), ',')
	}
	for _, flag := range []struct {
		set    bool
		letter byte
	}{{state.Left, 'l'}, {state.Muted, 'm'}, {state.Inside, 'i'}, {state.ReadSide, 'r'}} {
		if flag.set {
			text = append(text, flag.letter)
		}
	}
	if state.AgedOn > 0 {
		text = strconv.AppendInt(append(text, ','), state.AgedOn, 10)
		text = strconv.AppendInt(append(text, ','), state.LeavesOn, 10)
	}
	return string(text)
}
