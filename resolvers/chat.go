package resolvers

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"time"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/chat"
	"tidings/services/fanout"
)

// The kinds and forms of the cursors of conversations; the home feed's is 1.
const (
	conversationCursor = 16 + iota
	messageCursor
	memberCursor

	placeLength = 1 + 8 + 8
)

// placeText prints a place in a list: kind, of what, where. It holds nothing that must be kept secret.
func placeText(kind byte, of, at uint64) string {
	bytes := make([]byte, 0, placeLength)
	bytes = binary.BigEndian.AppendUint64(append(bytes, kind), of)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(bytes, at))
}

func parsePlace(kind byte, text string) (of, at uint64, err error) {
	bytes, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(bytes) != placeLength || bytes[0] != kind {
		return 0, 0, services.Errorf(services.Invalid, "after: %s is not a cursor of this list", services.Quote(text))
	}
	of, at = binary.BigEndian.Uint64(bytes[1:]), binary.BigEndian.Uint64(bytes[9:])
	if of > 1<<62 || at > 1<<62 {
		return 0, 0, services.Errorf(services.Invalid, "after: %s is not a cursor of this list", services.Quote(text))
	}
	return of, at, nil
}

// placeIn is the place in the list of one conversation, or start without a cursor.
func placeIn(kind byte, id services.ConversationID, after *string, start uint64) (uint64, error) {
	if after == nil {
		return start, nil
	}
	of, at, err := parsePlace(kind, *after)
	if err == nil && of != uint64(id) {
		err = services.Errorf(services.Invalid, "after: the cursor is of another conversation")
	}
	return at, err
}

// chatPage is where a page of edges stands.
func chatPage[E any](edges []E, cursor func(E) string, more bool) graph.PageInfo {
	info := graph.PageInfo{HasNextPage: more}
	if len(edges) > 0 {
		first, last := cursor(edges[0]), cursor(edges[len(edges)-1])
		info.StartCursor, info.EndCursor = &first, &last
	}
	return info
}

// graphMessages makes messages with their authors and whom they mention: one query for each kind.
func (r *Resolver) graphMessages(ctx context.Context, messages []services.Message) ([]graph.Message, error) {
	mentioned, err := r.Chat.Mentioned(ctx, messages)
	if err != nil {
		return nil, err
	}
	var people []services.UserNumber
	for _, message := range messages {
		people = append(append(people, message.Author), mentioned[message.ID]...)
	}
	users, err := dataloader.From(ctx).Users(ctx, people)
	if err != nil {
		return nil, err
	}
	list := make([]graph.Message, len(messages))
	for i, message := range messages {
		list[i] = graph.Message{
			ID: message.ID.GlobalID(), ConversationID: message.ID.Conversation().GlobalID(), Author: graphUser(users[message.Author]),
			SentAt: message.SentAt, Recalled: message.Recalled, Mentions: []graph.User{},
		}
		if !message.Recalled {
			list[i].Body = &messages[i].Body
		}
		for _, user := range mentioned[message.ID] {
			list[i].Mentions = append(list[i].Mentions, graphUser(users[user]))
		}
	}
	return list, nil
}

// graphConversations makes conversations with their last messages, all of them at once.
func (r *Resolver) graphConversations(ctx context.Context, states []services.ConversationState) ([]graph.Conversation, error) {
	var ids []services.MessageID
	for _, state := range states {
		if state.Head > 0 {
			ids = append(ids, services.NewMessageID(state.ID, state.Head))
		}
	}
	var last []services.Message
	if len(ids) > 0 {
		found, err := r.Chat.Store.Messages(ctx, ids)
		if err != nil {
			return nil, err
		}
		for _, message := range found {
			last = append(last, message)
		}
	}
	messages, err := r.graphMessages(ctx, last)
	if err != nil {
		return nil, err
	}
	list := make([]graph.Conversation, len(states))
	for i, state := range states {
		list[i] = graphConversation(state)
		for k, message := range last {
			if message.ID.Conversation() == state.ID {
				list[i].LastMessage = &messages[k]
			}
		}
	}
	return list, nil
}

func graphConversation(state services.ConversationState) graph.Conversation {
	c := graph.Conversation{
		ID: state.ID.GlobalID(), Kind: state.Kind, Title: orNull(state.Title), MemberCount: state.Members,
		Unread:   services.NewCount(int(state.Own.Unread()), services.Exact, time.Time{}),
		Mentions: services.NewCount(int(state.Own.UnreadMentions()), services.Exact, time.Time{}),
		Muted:    state.Own.Muted, ReadToken: chat.ReadToken(state.Own), State: state,
	}
	c.Unread.InTotal, c.Mentions.InTotal = !state.Own.Muted, state.Own.Muted
	return c
}

// conversation reads one conversation for a payload.
func (r *Resolver) conversation(ctx context.Context, viewer *graph.Viewer, id services.ConversationID) (graph.Conversation, error) {
	state, err := r.Chat.One(ctx, viewer.Number, id)
	if err != nil {
		return graph.Conversation{}, err
	}
	list, err := r.graphConversations(ctx, []services.ConversationState{state})
	if err != nil {
		return graph.Conversation{}, err
	}
	return list[0], nil
}

// message reads one message for a payload.
func (r *Resolver) message(ctx context.Context, viewer *graph.Viewer, id services.MessageID) (graph.Message, error) {
	found, err := r.Chat.ReadMessages(ctx, viewer.Number, []services.MessageID{id})
	if err != nil {
		return graph.Message{}, err
	}
	message, ok := found[id]
	if !ok {
		return graph.Message{}, services.Errorf(services.NotFound, "messageId: there is no %s for you", id.GlobalID())
	}
	list, err := r.graphMessages(ctx, []services.Message{message})
	if err != nil {
		return graph.Message{}, err
	}
	return list[0], nil
}

// inConversation does what the viewer does in a conversation, and answers it as it is afterwards.
func (r *Resolver) inConversation(ctx context.Context, conversationID string, key *string, make func(user services.UserNumber, id services.ConversationID) (*fanout.Op, error)) (*graph.ConversationPayload, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	id, err := services.ParseConversationID("conversationId", conversationID)
	if err != nil {
		return nil, err
	}
	op, err := make(viewer.Number, id)
	if err != nil {
		return nil, err
	}
	badges, err := r.commit(ctx, viewer, key, op)
	if err != nil {
		return nil, err
	}
	conversation, err := r.conversation(ctx, viewer, id)
	return &graph.ConversationPayload{Conversation: conversation, Badges: badges}, err
}

// numbers are the users of global ids, who exist once they are named.
func (r *Resolver) numbers(ctx context.Context, field string, ids []string) ([]services.UserNumber, error) {
	const most = 500
	if len(ids) > most {
		return nil, services.Errorf(services.Invalid, "%s: up to %d are allowed, got %d", field, most, len(ids))
	}
	users := make([]services.UserNumber, len(ids))
	for i, id := range ids {
		var err error
		if users[i], err = r.number(ctx, field, id); err != nil {
			return nil, err
		}
	}
	return users, nil
}

// mark is what markConversationRead says.
func mark(upTo, token *string) (mark chat.Mark, err error) {
	if token != nil {
		if mark.Token = *token; mark.Token == "" {
			return mark, services.Errorf(services.Invalid, "readToken: \"\" is not a token of a conversation")
		}
	}
	if upTo != nil {
		mark.UpTo, err = services.ParseMessageID("upTo", *upTo)
	}
	return mark, err
}

// device is the one that the viewer's request came from; those without a name are one.
func device(ctx context.Context) string {
	viewer, err := services.ViewerFrom(ctx)
	if err != nil {
		return "" // who asks was looked at before
	}
	return viewer.Device
}

// chatNodes fetches conversations and messages by global id, for a viewer: nil where there is none for him, and at the
// places of other kinds.
func (r *Resolver) chatNodes(ctx context.Context, viewer *graph.Viewer, ids []string) ([]graph.Node, error) {
	conversations, messages := make([]services.ConversationID, len(ids)), make([]services.MessageID, len(ids))
	for i, id := range ids {
		kind, _, err := services.SplitGlobalID(id)
		switch {
		case err != nil:
		case kind == services.ConversationType:
			conversations[i], err = services.ParseConversationID("id", id)
		case kind == services.MessageType:
			messages[i], err = services.ParseMessageID("id", id)
		}
		if err != nil {
			return nil, err
		}
	}
	states, err := r.Chat.ByID(ctx, viewer.Number, nonZero(conversations))
	if err != nil {
		return nil, err
	}
	found, err := r.Chat.ReadMessages(ctx, viewer.Number, nonZero(messages))
	if err != nil {
		return nil, err
	}
	nodes := make([]graph.Node, len(ids))
	for i := range ids {
		if state, ok := states[conversations[i]]; ok {
			list, err := r.graphConversations(ctx, []services.ConversationState{state})
			if err != nil {
				return nil, err
			}
			nodes[i] = list[0]
		} else if message, ok := found[messages[i]]; ok {
			list, err := r.graphMessages(ctx, []services.Message{message})
			if err != nil {
				return nil, err
			}
			nodes[i] = list[0]
		}
	}
	return nodes, nil
}
