package chat

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/rdb"
)

// fact is a user's own state in a conversation according to the facts. If messages expire from the count, waiting counts the unread
// messages that had not expired on the day up to which the document's state was aged.
type fact struct {
	services.Membership
	waiting unreadCounts
}

// audit compares a user's states and sums in Redis with the facts. It reads the facts page by page.
func (s *Service) audit(ctx context.Context, user services.UserID, shown rdb.UserSnapshot) (any, []string, error) {
	var facts []fact
	states := shown.Conversations
	for after := services.ConversationID(0); ; {
		page, err := MembershipsOf(ctx, s.Store, user, after, s.Clock.Now().Add(-leftFor), membersPerPage)
		if err != nil {
			return nil, nil, err
		}
		for i := range page {
			// The setting MuteMentions is applied to the facts, as it is to documents.
			page[i] = s.applyMuteSetting(page[i])
		}
		counts, err := s.waitingAsOf(ctx, page, states)
		if err != nil {
			return nil, nil, err
		}
		for i, state := range page {
			facts = append(facts, fact{state, counts[i]})
		}
		if len(page) < membersPerPage {
			differs := s.differences(facts, states, shown.Document.Conversations)
			return facts, slices.Compact(differs), nil
		}
		after = page[len(page)-1].Conversation
	}
}

// waitingAsOf counts unread messages in conversations one by one, as of the days of the shown states. It does not use the
// positions that expiry has moved, because the audit checks these.
func (s *Service) waitingAsOf(ctx context.Context, facts []services.Membership, shown map[services.ConversationID]services.Membership) ([]unreadCounts, error) {
	if !s.expiry.Expires(services.SourceConversations) {
		return make([]unreadCounts, len(facts)), nil
	}
	since := make([]time.Time, len(facts))
	for i, fact := range facts {
		// The count is as of the day up to which the document's state was aged: a message that expires later is no error.
		since[i] = s.expiry.Since(services.SourceConversations, shown[fact.Conversation].AgedOn)
	}
	counts, err := countUnread(ctx, s.Store, facts, since)
	for i, fact := range facts {
		switch {
		case fact.Left || fact.Inside:
			counts[i] = unreadCounts{}
		case s.MuteMentions && fact.Muted:
			counts[i].Mentions = 0
		}
	}
	return counts, err
}

// sameState reports whether a state agrees with the facts. If messages expire, Base, K and Mentions may differ, since age moves
// them: then the counts that result from them are compared with a count of the messages.
func (s *Service) sameState(state services.Membership, fact fact) bool {
	if !s.expiry.Expires(services.SourceConversations) {
		return countedPart(state) == countedPart(fact.Membership)
	}
	shown := state
	shown.Head = fact.Head // it lags where it is not projected: in muted conversations and those counted on read
	state.Base, state.K, state.Mentions = fact.Base, fact.K, fact.Mentions
	// Everything but the position must be equal. The state of a member who left or is inside counts nothing, so that its position
	// is not compared at all.
	if countedPart(state) != countedPart(fact.Membership) || fact.Left || fact.Inside || state.AgedOn > s.today() {
		return state.AgedOn <= s.today() && countedPart(state) == countedPart(fact.Membership)
	}
	// While a message waits, the state must name the day of the next expiry. It may not be after the day on which the oldest message
	// leaves. An earlier day is right too: it costs one check.
	waits := fact.waiting.Unread > 0
	if fact.Muted {
		waits = fact.waiting.Mentions > 0
	}
	leaves := s.expiry.LeavesOn(services.SourceConversations, services.DayOf(fact.waiting.Oldest))
	return shown.Unread() == fact.waiting.Unread && shown.UnreadMentions() == fact.waiting.Mentions &&
		(!waits || shown.LeavesOn > shown.AgedOn && shown.LeavesOn <= leaves)
}

// differences compares the states with the facts, and the sums with the states.
func (s *Service) differences(facts []fact, states map[services.ConversationID]services.Membership, got services.ConversationSums) (differs []string) {
	// The states that remain after all facts are in the document alone.
	left := maps.Clone(states)
	for _, fact := range facts {
		state, known := states[fact.Conversation]
		delete(left, fact.Conversation)
		if !known && !fact.Left || known && !s.sameState(state, fact) {
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
	leaves := got.LeavesOn
	for _, state := range states {
		if state.LeavesOn > 0 && (leaves == 0 || leaves > state.LeavesOn) {
			differs = append(differs, "conversations: the next item that expires")
			leaves = state.LeavesOn
		}
		unread, mentions, place := state.Unread(), state.UnreadMentions(), state.Base-state.K
		switch {
		// The state of a user who has left or is inside is in no sum.
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
	// The sums move by differences, so an error in one of them would never go away.
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
	return differs
}

// countedPart is the part of a state that affects counts. The last sequence is projected only where it counts. WayVersion is
// left out: it rises once more when all members have the new way of counting, and that rise is not projected.
func countedPart(state services.Membership) string {
	if state.Left || state.Inside || state.Muted || state.ReadSide {
		state.Head = 0
	}
	return fmt.Sprint(state.Head, state.Base, state.K, state.Version, state.Mentions, state.Left, state.Muted, state.Inside, state.ReadSide)
}
