package badge

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/rdb"
)

// conversations is the source of the unread messages of all conversations. The mentions among them are not added to a total
// again.
type conversations struct {
	source.Plain
	s *Service
}

func (conversations) Name() string         { return "conversations" }
func (conversations) Key() services.Source { return services.SourceConversations }

func (conversations) Part(badges *services.Badges, i int) *services.Count {
	return source.Single(&badges.Conversations.Total, i)
}

func (conversations) Within(badges *services.Badges) *services.Count {
	return &badges.Conversations.Mentions
}

func (c conversations) Follow(user services.UserID, document *rdb.Document) {
	c.s.conversations.Follow(user, document.Conversations.ReadSide)
}

// Facts counts every conversation from its rows, whether the document counts it when written or when read.
func (c conversations) Facts(ctx context.Context, user services.UserID, today int64, document *rdb.Document) error {
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

// HoldsAged reports whether a document counts messages that are too old: Redis counts them as of the day on which the next one
// leaves.
func (conversations) HoldsAged(document *rdb.Document, today int64) bool {
	leaves := document.Conversations.LeavesOn
	return leaves > 0 && leaves <= today
}

// Age takes the messages that are too old out of the counts of users, a few users at a time: each reads all their states.
func (c conversations) Age(ctx context.Context, users []services.UserID, today int64) error {
	const parallel = 8
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, user := range users {
		group.Go(func() error { return c.s.fanout.AgeConversations(ctx, user, today) })
	}
	return group.Wait()
}

// Render adds the counts made when a message is written to the counts made when a user reads.
func (conversations) Render(v *source.View, badges *services.Badges) {
	sums := v.Document.Conversations
	v.Learned(sums.ReadSequence)
	precision := services.Exact
	if sums.ReadBehind {
		precision = services.AtLeast
	}
	if sums.LeavesOn > 0 {
		v.ChangesAt(services.DayStart(sums.LeavesOn))
	}
	badges.Conversations.Total = services.NewCount(sums.Unread+sums.ReadUnread, precision, time.Time{})
	badges.Conversations.Mentions = source.Exact(sums.Mentions)
}

func (c conversations) Explain(ctx context.Context, of source.Explained) ([]services.Explanation, error) {
	explanation := services.Explanation{Source: services.SourceConversations, Count: of.Badges.Conversations.Total}
	err := c.each(ctx, of.User, func(state services.ConversationState) bool {
		if count := inBadge(c.s.fanout.Counted(state.Own)); count > 0 {
			id := state.ID.GlobalID()
			explanation.Items = append(explanation.Items, services.Item{
				ID: id, At: state.LastAt, Count: count, ClearedBy: source.ClearedBy("markConversationRead", "conversationId", id),
			})
		}
		return len(explanation.Items) < source.MostExplained
	})
	return []services.Explanation{explanation}, err
}

// Digest counts the conversations with new messages.
func (c conversations) Digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error {
	count := 0
	err := c.each(ctx, user, func(state services.ConversationState) bool {
		recent := !state.LastAt.Before(since)
		if recent && state.Head > 0 {
			count++
		}
		return recent && count < source.MostExplained
	})
	source.Brings(digest, services.SourceConversations, "", count, source.MostExplained)
	return err
}

// Remember adds to documents the node cache's state of the conversations that are counted when read, with one SELECT for those
// that this node has not cached.
func (c conversations) Remember(ctx context.Context, _ []services.UserID, documents []rdb.Document, _ int64) {
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

// each visits a user's conversations, the last active first, until do ends it.
func (c conversations) each(ctx context.Context, user services.UserID, do func(state services.ConversationState) bool) error {
	const page = 200
	before, last := c.s.clock.Now().Add(day), services.ConversationID(0) // this node's clock may be behind the writer's
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

// earlier is the earlier of two days, of which 0 means none.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// inBadge is a conversation's share of the badges: for a muted one its mentions.
func inBadge(state services.Membership) int {
	if state.Muted {
		return int(state.UnreadMentions())
	}
	return int(state.Unread())
}
