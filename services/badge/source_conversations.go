package badge

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/rdb"
)

// conversations is the unread messages of all conversations; the mentions among them are in no total again.
type conversations struct {
	plain
	s *Service
}

func (conversations) name() string         { return "conversations" }
func (conversations) key() services.Source { return services.SourceConversations }

func (conversations) part(badges *services.Badges, i int) *services.Count {
	return single(&badges.Conversations.Total, i)
}

func (conversations) within(badges *services.Badges) *services.Count {
	return &badges.Conversations.Mentions
}

func (c conversations) follow(user services.UserID, document *rdb.Document) {
	c.s.conversations.Follow(user, document.Conversations.ReadSide)
}

// facts counts every conversation from its rows, whichever way it is counted otherwise.
func (c conversations) facts(ctx context.Context, user services.UserID, today int64, document *rdb.Document) error {
	const page = 1000
	for after := services.ConversationID(0); ; {
		states, err := c.s.store.MembershipsOf(ctx, user, after, c.s.clock.Now(), page)
		if err != nil {
			return err
		}
		if err := c.s.fanout.AgeMemberships(ctx, states, today); err != nil {
			return err
		}
		for _, state := range states {
			after, state = state.Conversation, c.s.fanout.Counted(state)
			document.Conversations.LeavesOn = earlier(document.Conversations.LeavesOn, state.LeavesOn)
			document.Conversations.Mentions += int(state.UnreadMentions())
			document.Conversations.Unread += inBadge(state)
		}
		if len(states) < page {
			return nil
		}
	}
}

// render adds what is counted when a message is written to what is counted when somebody reads.
func (conversations) render(v *view, badges *services.Badges) {
	sums := v.document.Conversations
	v.learned(sums.ReadSequence)
	precision := services.Exact
	if sums.ReadBehind {
		precision = services.AtLeast
	}
	if sums.LeavesOn > 0 {
		v.changesAt(services.DayStart(sums.LeavesOn))
	}
	badges.Conversations.Total = services.NewCount(sums.Unread+sums.ReadUnread, precision, time.Time{})
	badges.Conversations.Mentions = exact(sums.Mentions)
}

func (c conversations) explain(ctx context.Context, of explained) ([]services.Explanation, error) {
	explanation := services.Explanation{Source: services.SourceConversations, Count: of.badges.Conversations.Total}
	err := c.each(ctx, of.user, func(state services.ConversationState) bool {
		if count := inBadge(c.s.fanout.Counted(state.Own)); count > 0 {
			id := state.ID.GlobalID()
			explanation.Items = append(explanation.Items, services.Item{
				ID: id, At: state.LastAt, Count: count, ClearedBy: clearedBy("markConversationRead", "conversationId", id),
			})
		}
		return len(explanation.Items) < mostExplained
	})
	return []services.Explanation{explanation}, err
}

// digest counts the conversations in which something was said.
func (c conversations) digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error {
	count := 0
	err := c.each(ctx, user, func(state services.ConversationState) bool {
		recent := !state.LastAt.Before(since)
		if recent && state.Head > 0 {
			count++
		}
		return recent && count < mostExplained
	})
	brings(digest, services.SourceConversations, "", count, mostExplained)
	return err
}

// remember adds to documents what this node knows of their conversations that are counted when somebody reads: memory,
// and one SELECT for what nobody here has asked for lately.
func (c conversations) remember(ctx context.Context, _ []services.UserID, documents []rdb.Document, _ int64) {
	var lists [][]services.ReadSidePlace
	for _, document := range documents {
		if len(document.Conversations.ReadSide) > 0 {
			lists = append(lists, document.Conversations.ReadSide)
		}
	}
	if len(lists) == 0 {
		return
	}
	c.s.conversations.Learn(ctx, lists...)
	for i := range documents {
		sums := &documents[i].Conversations
		counted := c.s.conversations.ReadSide(sums.ReadSide, c.s.clock.Now())
		sums.ReadUnread, sums.ReadSequence, sums.ReadBehind = counted.Unread, counted.Sequence, !counted.Known
	}
}

// each goes through a user's conversations, the last active first, until do says that it is enough.
func (c conversations) each(ctx context.Context, user services.UserID, do func(state services.ConversationState) bool) error {
	const page = 200
	before, last := c.s.clock.Now().Add(day), services.ConversationID(0) // a node's clock may be behind the one that wrote
	for {
		states, err := c.s.store.ConversationsOf(ctx, user, before, last, page)
		if err != nil {
			return err
		}
		if err := c.s.fanout.AgeConversationStates(ctx, states, services.DayOf(c.s.clock.Now())); err != nil {
			return err
		}
		for _, state := range states {
			before, last = state.LastAt, state.ID
			if !do(state) {
				return nil
			}
		}
		if len(states) < page {
			return nil
		}
	}
}

// earlier is the earlier of two days, of which 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// inBadge is how much of a conversation is in the badges: of a muted one its mentions.
func inBadge(state services.Membership) int {
	if state.Muted {
		return int(state.UnreadMentions())
	}
	return int(state.Unread())
}
