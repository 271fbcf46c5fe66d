package chat

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

	// recountMembers counts, for several members, the messages above a number that never count as unread for the member (their own,
	// and recalled ones of others), and the mentions. recountMember does the same for one member.
	recountMembers = sql.NewStatement("count members above a message", `SELECT c.i,
	(SELECT count(*) FROM conversation_messages m WHERE m.conversation = c.conversation AND m.author = c.user_number AND m.number > c.number) +
	(SELECT count(*) FROM conversation_messages m WHERE m.conversation = c.conversation AND m.number > c.number AND m.recalled_at > 0 AND m.author <> c.user_number),
	(SELECT count(*) FROM conversation_mentions m WHERE m.conversation = c.conversation AND m.user_number = c.user_number AND m.number > c.number)
		FROM {rows $1 i BIGINT, conversation BIGINT, user_number BIGINT, number BIGINT} AS c`)

	// countUnreadSince counts the messages above a position one by one, without the stored correction k
	// (Membership.UnreadAdjustment). The audit uses it to check the counts that removeExpired has computed.
	countUnreadSince = sql.NewStatement("count what waits since a time", `SELECT c.i,
	(SELECT count(*) FROM conversation_messages m WHERE m.conversation = c.conversation AND m.number > c.number
		AND m.sent_at >= c.since AND m.author <> c.user_number AND m.recalled_at = 0),
	(SELECT count(*) FROM conversation_mentions n CROSS JOIN conversation_messages m WHERE n.conversation = c.conversation
		AND n.user_number = c.user_number AND n.number > c.number AND m.conversation = n.conversation AND m.number = n.number AND m.sent_at >= c.since),
	COALESCE((SELECT min(m.sent_at) FROM conversation_messages m WHERE m.conversation = c.conversation AND m.number > c.number
		AND m.sent_at >= c.since AND m.author <> c.user_number AND m.recalled_at = 0), 0)
		FROM {rows $1 i BIGINT, conversation BIGINT, user_number BIGINT, number BIGINT, since BIGINT} AS c`)
)

// sentTimes reads when messages were sent; the zero time for an id without a message.
func sentTimes(ctx context.Context, db *sql.DB, ids []services.MessageID) ([]time.Time, error) {
	asked, times := make(sql.RowsParameter, len(ids)), make([]time.Time, len(ids))
	for i, id := range ids {
		// Rows come back in no order: each has the index i of its message.
		asked[i] = []any{i, int64(id.Conversation()), id.Number()}
	}
	if len(asked) == 0 {
		return times, nil
	}
	return times, db.Each(ctx, sentAt, []any{asked}, func(scan func(...any) error) error {
		var i int
		var at int64
		err := scan(&i, &at)
		times[i] = sql.FromMicros(at)
		return err
	})
}

// messageSearch is a search for the newest message of a conversation that was sent before a time. lastBefore is the number of a
// message from before the time; firstAfter is the number of a later message, or the number after the newest message. The search
// ends when nothing is between the two.
type messageSearch struct {
	conversation           services.ConversationID
	lastBefore, firstAfter int64
}

// searchNewestBefore finds for each search the newest message from before a time: afterwards lastBefore is its number. Times rise
// with numbers, so each round narrows the ranges, and few messages are read. Searches of several conversations share their
// statements.
func searchNewestBefore(ctx context.Context, db *sql.DB, searches []messageSearch, before time.Time) error {
	// Each round trip divides the ranges by 17: a million messages take five.
	const probes = 16
	for {
		var ids []services.MessageID
		var of []*messageSearch // of[i] is the search that asks for ids[i]
		for i := range searches {
			s := &searches[i]
			step := max(1, (s.firstAfter-s.lastBefore)/(probes+1))
			for probe := range int64(probes) {
				if number := s.lastBefore + (probe+1)*step; number < s.firstAfter {
					ids, of = append(ids, services.NewMessageID(s.conversation, number)), append(of, s)
				}
			}
		}
		if len(ids) == 0 {
			return nil
		}
		times, err := sentTimes(ctx, db, ids)
		if err != nil {
			return err
		}
		for i, at := range times {
			// Times rise with numbers: the first message that is too young ends the round of its search.
			switch number := ids[i].Number(); {
			case number >= of[i].firstAfter:
			case at.Before(before):
				of[i].lastBefore = number
			default:
				of[i].firstAfter = number
			}
		}
	}
}

// simulateReadUpTo sets states to what they would be if their users had read up to some numbers, by one statement. No number may be
// below its state's position. Only the copies change: nothing is written, because expiry depends on the day and is not a fact.
func simulateReadUpTo(ctx context.Context, db *sql.DB, states []services.Membership, numbers []int64) error {
	if len(states) == 0 {
		return nil
	}
	asked := make(sql.RowsParameter, len(states))
	for i, state := range states {
		asked[i] = []any{i, int64(state.Conversation), int64(state.User), numbers[i]}
	}
	return db.Each(ctx, recountMembers, []any{asked}, func(scan func(...any) error) error {
		var i int
		var skipped, mentions int64
		err := scan(&i, &skipped, &mentions)
		states[i].ReadUpTo, states[i].UnreadAdjustment, states[i].Mentions = numbers[i], -skipped, mentions
		return err
	})
}

// unreadCounts are how many unread messages a member has, and how many of them mention the member, as counted one by one.
type unreadCounts struct {
	Unread, Mentions int64
	OldestSentAt     time.Time // when the oldest unread message was sent
}

// countUnread counts, for each state, the messages above its position one by one. Messages that were sent before the state's time
// in since do not count.
func countUnread(ctx context.Context, db *sql.DB, states []services.Membership, since []time.Time) ([]unreadCounts, error) {
	asked, counts := make(sql.RowsParameter, len(states)), make([]unreadCounts, len(states))
	for i, state := range states {
		asked[i] = []any{i, int64(state.Conversation), int64(state.User), state.ReadUpTo, sql.Micros(since[i])}
	}
	if len(asked) == 0 {
		return counts, nil
	}
	return counts, db.Each(ctx, countUnreadSince, []any{asked}, func(scan func(...any) error) error {
		var i int
		var one unreadCounts
		var oldest int64
		err := scan(&i, &one.Unread, &one.Mentions, &oldest)
		one.OldestSentAt = sql.FromMicros(oldest)
		counts[i] = one
		return err
	})
}
