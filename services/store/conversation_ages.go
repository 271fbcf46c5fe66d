package store

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

var (
	sentAt = sql.NewStatement("when messages were sent", `SELECT c.i, m.sent_at
		FROM {rows $1 i BIGINT, conversation BIGINT, number BIGINT} AS c CROSS JOIN conversation_messages m
		WHERE m.conversation = c.conversation AND m.number = c.number`)

	// The rows that this counts are ranges of the indexes that recountMember uses.
	countAbove = sql.NewStatement("count members above a message", `SELECT c.i,
	(SELECT count(*) FROM conversation_messages m WHERE m.conversation = c.conversation AND m.author = c.user_number AND m.number > c.number) +
	(SELECT count(*) FROM conversation_messages m WHERE m.conversation = c.conversation AND m.number > c.number AND m.recalled_at > 0 AND m.author <> c.user_number),
	(SELECT count(*) FROM conversation_mentions m WHERE m.conversation = c.conversation AND m.user_number = c.user_number AND m.number > c.number)
		FROM {rows $1 i BIGINT, conversation BIGINT, user_number BIGINT, number BIGINT} AS c`)

	countWaiting = sql.NewStatement("count what waits since a time", `SELECT c.i,
	(SELECT count(*) FROM conversation_messages m WHERE m.conversation = c.conversation AND m.number > c.number
		AND m.sent_at >= c.since AND m.author <> c.user_number AND m.recalled_at = 0),
	(SELECT count(*) FROM conversation_mentions n CROSS JOIN conversation_messages m WHERE n.conversation = c.conversation
		AND n.user_number = c.user_number AND n.number > c.number AND m.conversation = n.conversation AND m.number = n.number AND m.sent_at >= c.since),
	COALESCE((SELECT min(m.sent_at) FROM conversation_messages m WHERE m.conversation = c.conversation AND m.number > c.number
		AND m.sent_at >= c.since AND m.author <> c.user_number AND m.recalled_at = 0), 0)
		FROM {rows $1 i BIGINT, conversation BIGINT, user_number BIGINT, number BIGINT, since BIGINT} AS c`)
)

// SentAt reads when messages were sent; the zero time for an id without a message.
func (s *Store) SentAt(ctx context.Context, ids []services.MessageID) ([]time.Time, error) {
	asked, times := make(sql.Rows, len(ids)), make([]time.Time, len(ids))
	for i, id := range ids {
		asked[i] = []any{i, int64(id.Conversation()), id.Number()}
	}
	if len(asked) == 0 {
		return times, nil
	}
	return times, s.Each(ctx, sentAt, []any{asked}, func(scan func(...any) error) error {
		var i int
		var at int64
		err := scan(&i, &at)
		times[i] = sql.FromMicros(at)
		return err
	})
}

// NewestBefore is the number of the newest message of a conversation that was sent before a time. past is the number of a
// message that was sent before it. notYet is one that was not, or the number after the newest. A binary search between the two
// reads few messages, because times rise with numbers.
func (s *Store) NewestBefore(ctx context.Context, id services.ConversationID, past, notYet int64, before time.Time) (int64, error) {
	const probes = 16
	for notYet-past > 1 {
		step := max(1, (notYet-past)/(probes+1))
		var ids []services.MessageID
		for number := past + step; number < notYet && len(ids) < probes; number += step {
			ids = append(ids, services.NewMessageID(id, number))
		}
		times, err := s.SentAt(ctx, ids)
		if err != nil {
			return 0, err
		}
		for i, at := range times {
			if !at.Before(before) {
				notYet = ids[i].Number()
				break
			}
			past = ids[i].Number()
		}
	}
	return past, nil
}

// ReadAs returns states as they would be if their users had read up to numbers. No number may be below its state's own
// position.
func (s *Store) ReadAs(ctx context.Context, states []services.Membership, numbers []int64) error {
	if len(states) == 0 {
		return nil
	}
	asked := make(sql.Rows, len(states))
	for i, state := range states {
		asked[i] = []any{i, int64(state.Conversation), int64(state.User), numbers[i]}
	}
	return s.Each(ctx, countAbove, []any{asked}, func(scan func(...any) error) error {
		var i int
		var skipped, mentions int64
		err := scan(&i, &skipped, &mentions)
		states[i].Base, states[i].K, states[i].Mentions = numbers[i], -skipped, mentions
		return err
	})
}

// Waiting is how many unread messages a member has, and how many of them mention the member.
type Waiting struct {
	Unread, Mentions int64
	Oldest           time.Time // when the oldest unread message was sent
}

// CountWaiting counts messages one by one for each state: those above its position that were sent at its time in since or
// later.
func (s *Store) CountWaiting(ctx context.Context, states []services.Membership, since []time.Time) ([]Waiting, error) {
	asked, counts := make(sql.Rows, len(states)), make([]Waiting, len(states))
	for i, state := range states {
		asked[i] = []any{i, int64(state.Conversation), int64(state.User), state.Base, sql.Micros(since[i])}
	}
	if len(asked) == 0 {
		return counts, nil
	}
	return counts, s.Each(ctx, countWaiting, []any{asked}, func(scan func(...any) error) error {
		var i int
		var one Waiting
		var oldest int64
		err := scan(&i, &one.Unread, &one.Mentions, &oldest)
		one.Oldest = sql.FromMicros(oldest)
		counts[i] = one
		return err
	})
}
