package chat

import (
	"context"
	"slices"
	"sync"
	"time"

	"tidings/services"
)

// newestExpiredCache remembers for each conversation the number of the newest message sent before one day. An entry stays right once a
// later message has been sent, because times rise with numbers. Until then a message from before that day may still be reported.
type newestExpiredCache struct {
	mu             sync.Mutex // guards the fields below
	dayStart       time.Time  // the start of that day: messages from before it are too old
	byConversation map[services.ConversationID]newestExpired
}

// newestExpired is the number of the newest message sent before the day (expired), and the last sequence of the conversation when that
// was found.
type newestExpired struct{ expired, last int64 }

// get is the number of the newest message sent before a time, if it is remembered and still right: either a later message existed when
// it was found, or no message was sent since.
func (a *newestExpiredCache) get(id services.ConversationID, before time.Time, last int64) (newest int64, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, known := a.byConversation[id]
	return found.expired, known && a.dayStart.Equal(before) && (found.expired < found.last || found.last == last)
}

// keep remembers the result of a search. Entries of an earlier day are of no use any more.
func (a *newestExpiredCache) keep(id services.ConversationID, before time.Time, newest, last int64) {
	const many = 100_000
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.dayStart.Equal(before) || len(a.byConversation) > many { // a forgotten entry costs one search
		a.dayStart, a.byConversation = before, map[services.ConversationID]newestExpired{}
	}
	a.byConversation[id] = newestExpired{newest, last}
}

// removeExpired takes messages that are too old on a day out of the counts of states, as if they had been read, and sets
// when the next one expires. Without an expiry of conversations it changes nothing.
func (s *Service) removeExpired(ctx context.Context, states []services.Membership, today int64) error {
	if !s.expiry.Expires(services.SourceConversations) {
		return nil
	}
	// Messages from before this moment do not count today.
	since := s.expiry.CountedSince(services.SourceConversations, today)
	var waiting, old []int
	for i := range states {
		state := &states[i]
		state.ExpiredAsOfDay, state.NextExpiryDay = today, s.earliestExpiryDay(*state, today)
		// Something waits, so the first message above the position tells whether any is too old.
		if !state.HasLeft && !state.IsOpen && state.ReadUpTo < state.NewestMessageNumber {
			waiting = append(waiting, i)
		}
	}
	times, err := s.readOldestUnreadTimes(ctx, states, waiting)
	if err != nil {
		return err
	}
	for i, at := range times {
		if at.Before(since) {
			old = append(old, waiting[i])
		}
	}
	if len(old) == 0 {
		return nil
	}
	aged := services.Map(old, func(index int) services.Membership { return states[index] })
	// The first waiting message is too old: find the newest message that is too old, and count from there, as if the user had read
	// up to it.
	numbers, err := s.newestNumbersBefore(ctx, aged, since)
	if err != nil {
		return err
	}
	if err := simulateReadUpTo(ctx, s.DB, aged, numbers); err != nil {
		return err
	}
	// The first unread message after the newest too old one decides when the next message expires.
	waiting = waiting[:0]
	for i, index := range old {
		states[index] = aged[i]
		states[index].NextExpiryDay = s.earliestExpiryDay(aged[i], today)
		if aged[i].ReadUpTo < aged[i].NewestMessageNumber {
			waiting = append(waiting, index)
		}
	}
	_, err = s.readOldestUnreadTimes(ctx, states, waiting)
	return err
}

// earliestExpiryDay is the first day on which a message may expire from a state without unread messages. Where counting happens on
// read, messages sent from now on are not projected, so the state must be checked again on that day. The day is counted from
// yesterday, because the day may have changed since the state was read.
func (s *Service) earliestExpiryDay(state services.Membership, today int64) int64 {
	if !state.CountedOnRead {
		return 0
	}
	return s.expiry.ExpiryDay(services.SourceConversations, today-1)
}

// removeExpiredFromStates takes messages that are too old on a day out of the counts of one user's states in conversations, as
// removeExpired does.
func (s *Service) removeExpiredFromStates(ctx context.Context, states []MemberState, today int64) error {
	if !s.expiry.Expires(services.SourceConversations) {
		return nil
	}
	own := services.Map(states, func(item MemberState) services.Membership { return item.Membership })
	err := s.removeExpired(ctx, own, today)
	for i := range states {
		states[i].Membership = own[i]
	}
	return err
}

// readOldestUnreadTimes reads when the first message above the position of each state was sent, and records when it expires. That
// message may be the user's own or recalled, and the first one to expire may be a later one: a day that is too early costs one
// check.
func (s *Service) readOldestUnreadTimes(ctx context.Context, states []services.Membership, indexes []int) ([]time.Time, error) {
	ids := services.Map(indexes, func(index int) services.MessageID {
		return services.NewMessageID(states[index].Conversation, states[index].ReadUpTo+1)
	})
	times, err := sentTimes(ctx, s.DB, ids)
	if err != nil {
		return nil, err
	}
	for i, index := range indexes {
		states[index].NextExpiryDay = s.expiry.ExpiryDay(services.SourceConversations, services.DayOf(times[i]))
	}
	return times, nil
}

// searchBatchSize is how many conversations are searched by the same statements, at most. Each search reads up to 16 messages at once.
const searchBatchSize = 500

// newestNumbersBefore returns, for each state, the number of the newest message of its conversation from before a time.
func (s *Service) newestNumbersBefore(ctx context.Context, states []services.Membership, before time.Time) ([]int64, error) {
	newest, sequences := make(map[services.ConversationID]int64, len(states)), map[services.ConversationID]int64{}
	var searches []messageSearch
	for _, state := range states {
		id := state.Conversation
		if _, found := newest[id]; found {
			continue // found for another member's state
		}
		var known bool
		if newest[id], known = s.newestExpiredMessages.get(id, before, state.NewestMessageNumber); !known {
			// ReadUpTo+1 is too old, as readOldestUnreadTimes has found, and NewestMessageNumber+1 is not there yet.
			searches, sequences[id] = append(searches, messageSearch{id, state.ReadUpTo + 1, state.NewestMessageNumber + 1}), state.NewestMessageNumber
		}
	}
	for some := range slices.Chunk(searches, searchBatchSize) {
		if err := searchNewestBefore(ctx, s.DB, some, before); err != nil {
			return nil, err
		}
		for _, done := range some {
			newest[done.conversation] = done.lastBefore
			s.newestExpiredMessages.keep(done.conversation, before, done.lastBefore, sequences[done.conversation])
		}
	}
	numbers := make([]int64, len(states))
	for i, state := range states {
		// The message may have been found for a member who had read less, or at a moment with another last sequence.
		numbers[i] = min(max(newest[state.Conversation], state.ReadUpTo+1), state.NewestMessageNumber)
	}
	return numbers, nil
}

// removeExpiredOfUser takes messages that are too old on a day out of the counts of a user's document, and finds the day on
// which the next one expires.
func (s *Service) removeExpiredOfUser(ctx context.Context, user services.UserID, today int64) error {
	for after := services.ConversationID(0); ; {
		states, err := MembershipsOf(ctx, s.DB, user, after, s.Clock.Now().Add(-leftConversationsKeptFor), membersPerPage)
		if err != nil {
			return err
		}
		if len(states) > 0 {
			after = states[len(states)-1].Conversation
			// Among states of one version, the state of the later day is the newer one: see lib_conversations.lua.
			if _, err := s.projectStatesOn(ctx, states, today); err != nil {
				return err
			}
		}
		if len(states) < membersPerPage {
			// The document's next day is the least of all its states', so all of them have to be read.
			return s.Redis.UpdateNextMessageExpiry(ctx, []services.UserID{user})
		}
	}
}
