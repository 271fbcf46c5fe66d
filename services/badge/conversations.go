package badge

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/rdb"
)

// withHeads adds to documents what this node knows of their conversations that are counted when somebody reads: memory,
// and one SELECT for what nobody here has asked for lately.
func (s *Service) withHeads(ctx context.Context, documents []rdb.Document) {
	var lists [][]services.ReadSidePlace
	for _, document := range documents {
		if len(document.Conversations.ReadSide) > 0 {
			lists = append(lists, document.Conversations.ReadSide)
		}
	}
	if len(lists) == 0 {
		return
	}
	s.mirror.LearnHeads(ctx, lists...)
	for i := range documents {
		sums := &documents[i].Conversations
		counted := s.mirror.ReadSide(sums.ReadSide, s.clock.Now())
		sums.ReadUnread, sums.ReadSince, sums.ReadBehind = counted.Unread, counted.Stamp, !counted.Known
	}
}

// conversations are the unread messages of all conversations, counted in either way.
func (v *view) conversations(badges *services.Badges) {
	sums := v.document.Conversations
	v.since(sums.ReadSince)
	precision := services.Exact
	if sums.ReadBehind {
		precision = services.AtLeast
	}
	badges.Conversations.Total = services.NewCount(sums.Unread+sums.ReadUnread, precision, time.Time{})
	badges.Conversations.Mentions = exact(sums.Mentions)
}

// conversationFacts counts every conversation from its rows, whichever way it is counted otherwise.
func (s *Service) conversationFacts(ctx context.Context, user services.UserNumber, document *rdb.Document) error {
	const page = 1000
	for after := services.ConversationID(0); ; {
		states, err := s.store.MembershipsOf(ctx, user, after, s.clock.Now(), page)
		if err != nil {
			return err
		}
		for _, state := range states {
			after, state = state.Conversation, s.fanout.Counted(state)
			document.Conversations.Mentions += int(state.UnreadMentions())
			if state.Muted {
				document.Conversations.Unread += int(state.UnreadMentions())
			} else {
				document.Conversations.Unread += int(state.Unread())
			}
		}
		if len(states) < page {
			return nil
		}
	}
}
