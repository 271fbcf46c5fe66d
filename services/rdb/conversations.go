package rdb

import (
	"context"
	"strconv"

	"tidings/services"
	"tidings/services/redis"
)

var conversationsPut = loadConversationScript("conversations_put")

// statesPerCall bounds how long one call of the script may keep Redis.
const statesPerCall = 25

// PutMemberships brings users' own states in conversations into their documents: of each state the newer wins, and the
// sums move in the same step. A user without a document, or whose states were lost, is Missing: his rebuild brings them.
// Results are in the order of the states; those of one user in one stretch share one. clamped is how many documents had a
// number below nought, which never happens unless Redis was changed by other hands.
func (c *Projections) PutMemberships(ctx context.Context, states []services.Membership) (results []Result, clamped int, err error) {
	calls := make([]redis.Call, 0, len(states))
	places := make([]int, len(states))
	for i, state := range states {
		last := len(calls) - 1
		if i == 0 || states[i-1].User != state.User || len(calls[last].Args) >= 2*statesPerCall {
			calls = append(calls, redis.Call{Keys: []string{badgeKey(state.User), conversationsKey(state.User), onlineKey(state.User)}})
			last++
		}
		calls[last].Args = append(calls[last].Args, digits(uint64(state.Conversation)), stateText(state))
		places[i] = last
	}
	answers, err := c.results(ctx, conversationsPut, calls)
	if err != nil {
		return nil, 0, err
	}
	results = make([]Result, len(states))
	for i, place := range places {
		results[i] = answers[place]
		if answers[place].Short && (i == 0 || places[i-1] != place) {
			clamped++
		}
		results[i].Short = false
	}
	return results, clamped, nil
}

var conversationsAged = loadConversationScript("conversations_aged")

// FindNextAged finds out of the users' states when the next message leaves their numbers because of its age, once they were put as
// of a day: until then PutMemberships knows only of the states that it was given.
func (c *Projections) FindNextAged(ctx context.Context, users []services.UserID) error {
	calls := make([]redis.Call, len(users))
	for i, user := range users {
		calls[i] = redis.Call{Keys: []string{badgeKey(user), conversationsKey(user)}}
	}
	_, err := c.results(ctx, conversationsAged, calls)
	return err
}

// stateText prints a state as "head,base,k,version,mentions,way version,flags", and where messages leave the number because of
// their age "aged on,leaves on" after that.
func stateText(state services.Membership) string {
	text := make([]byte, 0, 64)
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
