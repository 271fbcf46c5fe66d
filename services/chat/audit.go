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

// membershipFact is a user's own state in a conversation according to the facts. If messages expire from the count, unexpiredUnread
// counts the unread messages that had not expired on the ExpiredAsOfDay of the document's state.
type membershipFact struct {
	services.Membership
	unexpiredUnread unreadCounts // the unread messages that had not expired; zero if messages never expire
}

// audit compares a user's states and sums in Redis with the facts. It reads the facts page by page.
func (s *Service) audit(ctx context.Context, user services.UserID, shown rdb.UserSnapshot) (any, []string, error) {
	var facts []membershipFact
	states := shown.Conversations
	for after := services.ConversationID(0); ; {
		page, err := MembershipsOf(ctx, s.DB, user, after, s.Clock.Now().Add(-leftConversationsKeptFor), membersPerPage)
		if err != nil {
			return nil, nil, err
		}
		for i := range page {
			// The setting MuteMentions is applied to the facts, as it is to documents.
			page[i] = s.applyMuteSetting(page[i])
		}
		counts, err := s.countUnexpiredAsOf(ctx, page, states)
		if err != nil {
			return nil, nil, err
		}
		for i, state := range page {
			facts = append(facts, membershipFact{state, counts[i]})
		}
		if len(page) < membersPerPage {
			differs := s.differences(facts, states, shown.Document.Conversations)
			return facts, slices.Compact(differs), nil
		}
		after = page[len(page)-1].Conversation
	}
}

// countUnexpiredAsOf counts unread messages in conversations one by one, as of the days of the shown states. It does not use the
// positions that expiry has moved, because the audit checks these.
func (s *Service) countUnexpiredAsOf(ctx context.Context, facts []services.Membership, shown map[services.ConversationID]services.Membership) ([]unreadCounts, error) {
	if !s.expiry.Expires(services.SourceConversations) {
		return make([]unreadCounts, len(facts)), nil
	}
	since := make([]time.Time, len(facts))
	for i, fact := range facts {
		// The count is as of the day on which messages were last taken out of the document's state: a message that expires later is
		// no error.
		since[i] = s.expiry.CountedSince(services.SourceConversations, shown[fact.Conversation].ExpiredAsOfDay)
	}
	counts, err := countUnread(ctx, s.DB, facts, since)
	for i, fact := range facts {
		switch {
		case fact.HasLeft || fact.IsOpen:
			counts[i] = unreadCounts{}
		case s.MuteMentions && fact.Muted:
			counts[i].Mentions = 0
		}
	}
	return counts, err
}

// sameState reports whether a state agrees with the facts. If messages expire, ReadUpTo, UnreadAdjustment and Mentions may differ,
// since removeExpired changes them: then the counts that result from them are compared with a count of the messages.
func (s *Service) sameState(state services.Membership, fact membershipFact) bool {
	if !s.expiry.Expires(services.SourceConversations) {
		return countedFields(state) == countedFields(fact.Membership)
	}
	shown := state
	shown.NewestMessageNumber = fact.NewestMessageNumber // it lags where it is not projected: in muted conversations and those counted on read
	state.ReadUpTo, state.UnreadAdjustment, state.Mentions = fact.ReadUpTo, fact.UnreadAdjustment, fact.Mentions
	// Everything but the position must be equal. The state of a member who left, or who has the conversation open, counts nothing, so that
	// its position is not compared at all.
	if countedFields(state) != countedFields(fact.Membership) || fact.HasLeft || fact.IsOpen || state.ExpiredAsOfDay > s.today() {
		return state.ExpiredAsOfDay <= s.today() && countedFields(state) == countedFields(fact.Membership)
	}
	// While a message waits, the state must name the day of the next expiry. It may not be after the day on which the oldest message
	// leaves. An earlier day is right too: it costs one check.
	waits := fact.unexpiredUnread.Unread > 0
	if fact.Muted {
		waits = fact.unexpiredUnread.Mentions > 0
	}
	leaves := s.expiry.ExpiryDay(services.SourceConversations, services.DayOf(fact.unexpiredUnread.OldestSentAt))
	return shown.Unread() == fact.unexpiredUnread.Unread && shown.UnreadMentions() == fact.unexpiredUnread.Mentions &&
		(!waits || shown.NextExpiryDay > shown.ExpiredAsOfDay && shown.NextExpiryDay <= leaves)
}

// differences names what differs between the facts and a user's states in Redis, and between these states and the sums in the document.
func (s *Service) differences(facts []membershipFact, states map[services.ConversationID]services.Membership, got services.ConversationSums) (differs []string) {
	// What remains of left after the loop over the facts is in Redis alone.
	left := maps.Clone(states)
	for _, fact := range facts {
		state, known := states[fact.Conversation]
		delete(left, fact.Conversation)
		if !known && !fact.HasLeft || known && !s.sameState(state, fact) {
			differs = append(differs, "conversations: states")
			break
		}
	}
	for _, state := range left {
		if !state.HasLeft { // the facts do not list conversations that the user left long ago
			differs = append(differs, "conversations: states")
			break
		}
	}
	var sums services.ConversationSums
	positions := map[services.ConversationID]int64{}
	leaves := got.NextExpiryDay
	for _, state := range states {
		if state.NextExpiryDay > 0 && (leaves == 0 || leaves > state.NextExpiryDay) {
			differs = append(differs, "conversations: the next item that expires")
			leaves = state.NextExpiryDay
		}
		unread, mentions, position := state.Unread(), state.UnreadMentions(), state.ReadUpTo-state.UnreadAdjustment
		switch {
		// The state of a user who has left, or who has the conversation open, is in no sum.
		case state.HasLeft || state.IsOpen:
		case state.Muted:
			sums.Unread += int(mentions)
		case state.CountedOnRead:
			positions[state.Conversation] = position
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
	for _, position := range got.CountedOnRead {
		list[position.Conversation] = position.ReadUpTo
	}
	if len(list) != len(got.CountedOnRead) || !maps.Equal(positions, list) {
		differs = append(differs, "conversations: read positions")
	}
	return differs
}

// countedFields is the part of a state that affects counts. The last sequence is projected only where it counts.
// CountedOnReadVersion is left out: it rises once more when all members have the new way of counting, and that rise is not
// projected.
func countedFields(state services.Membership) string {
	if state.HasLeft || state.IsOpen || state.Muted || state.CountedOnRead {
		state.NewestMessageNumber = 0
	}
	return fmt.Sprint(state.NewestMessageNumber, state.ReadUpTo, state.UnreadAdjustment, state.Version, state.Mentions, state.HasLeft, state.Muted, state.IsOpen, state.CountedOnRead)
}
