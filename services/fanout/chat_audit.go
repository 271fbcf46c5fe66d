package fanout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/store"
)

// conversationFact is a user's own state in a conversation according to the facts. Where messages expire from the number, it
// also has the unread messages that had not expired as of the day of the state that is shown.
type conversationFact struct {
	services.Membership
	waiting store.Waiting
}

func (f *Fanout) auditConversations(ctx context.Context, user services.UserID, shown rdb.Snapshot) (any, []string, error) {
	var facts []conversationFact
	for after := services.ConversationID(0); ; {
		page, err := f.store.MembershipsOf(ctx, user, after, f.clock.Now().Add(-leftFor), membersPerPage)
		if err != nil {
			return nil, nil, err
		}
		for i := range page {
			page[i] = f.Counted(page[i])
		}
		waiting, err := f.waitingAsOf(ctx, page, shown.Conversations)
		if err != nil {
			return nil, nil, err
		}
		for i, state := range page {
			facts = append(facts, conversationFact{state, waiting[i]})
		}
		if len(page) < membersPerPage {
			return facts, f.conversationsDiffer(facts, shown), nil
		}
		after = page[len(page)-1].Conversation
	}
}

// waitingAsOf counts unread messages in conversations one by one, as of the days of the states that are shown. It does not
// use the positions that expiry has moved, because these are what the audit checks.
func (f *Fanout) waitingAsOf(ctx context.Context, facts []services.Membership, shown map[services.ConversationID]services.Membership) ([]store.Waiting, error) {
	if !f.cfg.Expiry.Expires(services.SourceConversations) {
		return make([]store.Waiting, len(facts)), nil
	}
	since := make([]time.Time, len(facts))
	for i, fact := range facts {
		since[i] = f.cfg.Expiry.Since(services.SourceConversations, shown[fact.Conversation].AgedOn)
	}
	waiting, err := f.store.CountWaiting(ctx, facts, since)
	for i, fact := range facts {
		switch {
		case fact.Left || fact.Inside:
			waiting[i] = store.Waiting{}
		case f.cfg.MuteMentions && fact.Muted:
			waiting[i].Mentions = 0
		}
	}
	return waiting, err
}

// sameState says whether a state agrees with the facts.
func (f *Fanout) sameState(state services.Membership, fact conversationFact) bool {
	if !f.cfg.Expiry.Expires(services.SourceConversations) {
		return counted(state) == counted(fact.Membership)
	}
	shown := state
	shown.Head = fact.Head // it lags where it is not projected: in muted conversations and those counted on read
	state.Base, state.K, state.Mentions = fact.Base, fact.K, fact.Mentions
	if counted(state) != counted(fact.Membership) || fact.Left || fact.Inside || state.AgedOn > f.today() {
		return state.AgedOn <= f.today() && counted(state) == counted(fact.Membership)
	}
	waits := fact.waiting.Unread > 0
	if fact.Muted {
		waits = fact.waiting.Mentions > 0
	}
	leaves := f.cfg.Expiry.LeavesOn(services.SourceConversations, services.DayOf(fact.waiting.Oldest))
	return shown.Unread() == fact.waiting.Unread && shown.UnreadMentions() == fact.waiting.Mentions &&
		(!waits || shown.LeavesOn > shown.AgedOn && shown.LeavesOn <= leaves)
}

// conversationsDiffer compares the states with the facts, and the sums with the states.
func (f *Fanout) conversationsDiffer(facts []conversationFact, shown rdb.Snapshot) (differs []string) {
	left := maps.Clone(shown.Conversations)
	for _, fact := range facts {
		state, known := shown.Conversations[fact.Conversation]
		delete(left, fact.Conversation)
		if !known && !fact.Left || known && !f.sameState(state, fact) {
			differs = append(differs, "conversations: states")
			break
		}
	}
	for _, state := range left {
		if !state.Left { // the facts do not list conversations that the user left long ago
			differs = append(differs, "conversations: states")
			break
		}
	}
	var sums services.ConversationSums
	places := map[services.ConversationID]int64{}
	leaves := shown.Document.Conversations.LeavesOn
	for _, state := range shown.Conversations {
		if state.LeavesOn > 0 && (leaves == 0 || leaves > state.LeavesOn) {
			differs = append(differs, "conversations: the next that leaves")
			leaves = state.LeavesOn
		}
		unread, mentions, place := state.Unread(), state.UnreadMentions(), state.Base-state.K
		switch {
		case state.Left || state.Inside:
		case state.Muted:
			sums.Unread += int(mentions)
		case state.ReadSide:
			places[state.Conversation] = place
		default:
			sums.Unread += int(unread)
		}
		sums.Mentions += int(mentions)
	}
	got := shown.Document.Conversations
	if got.Unread != sums.Unread || got.Mentions != sums.Mentions {
		differs = append(differs, "conversations: sums")
	}
	list := map[services.ConversationID]int64{}
	for _, place := range got.ReadSide {
		list[place.Conversation] = place.Base
	}
	if len(list) != len(got.ReadSide) || !maps.Equal(places, list) {
		differs = append(differs, "conversations: places")
	}
	return slices.Compact(differs)
}

// counted is the part of a state that affects counts. The last sequence is projected only where it counts. The version of
// the way of counting rises once more when all members have it, and that rise is not projected to anyone.
func counted(state services.Membership) string {
	if state.Left || state.Inside || state.Muted || state.ReadSide {
		state.Head = 0
	}
	return fmt.Sprint(state.Head, state.Base, state.K, state.Version, state.Mentions, state.Left, state.Muted, state.Inside, state.ReadSide)
}
