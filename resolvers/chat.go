package resolvers

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math"
	"time"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/chat"
)

// The kinds of the cursors of conversations. Each kind is the first byte of a cursor. The numbers differ from those of cursorKind and
// of the cursors of other lists, so that no cursor is taken for one of another list.
const (
	conversationCursorKind = 16 + iota // the second part of a cursor of the list of conversations; the first is a conversationsCursor
	messageCursorKind                  // a cursor of the messages of a conversation
	memberCursorKind                   // a cursor of the members of a conversation

	listCursorBytes = 1 + 8 + 8 // bytes: kind, object, position
)

// listCursorText prints a position in a list: the kind of the list, the object that the list belongs to (of), and the position
// (at). It contains no secret. of has 64 bits, because it may be a user, a conversation or, in the list of conversations, a time.
func listCursorText(kind byte, of, at uint64) string {
	bytes := make([]byte, 0, listCursorBytes)
	bytes = binary.BigEndian.AppendUint64(append(bytes, kind), of)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(bytes, at))
}

// parseListCursor reads the output of listCursorText. The caller must compare of with the object whose list it reads. Both numbers are
// bounded, so that they fit into SQL's signed integers. Strict decoding refuses a second spelling of one position.
func parseListCursor(kind byte, text string) (of, at uint64, err error) {
	bytes, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(bytes) != listCursorBytes || bytes[0] != kind {
		return 0, 0, services.Errorf(services.Invalid, "after: %s is not a cursor of this list", services.Quote(text))
	}
	of, at = binary.BigEndian.Uint64(bytes[1:]), binary.BigEndian.Uint64(bytes[9:])
	// Beyond these bounds an SQL driver would fail, and the client would get INTERNAL for a text that it made up.
	if of > math.MaxInt64 || at > math.MaxInt64 {
		return 0, 0, services.Errorf(services.Invalid, "after: %s is not a cursor of this list", services.Quote(text))
	}
	return of, at, nil
}

// conversationCursorText prints a position in a viewer's list of conversations: the viewer, and then the output of
// listCursorText. The list is in the order of the last messages. Two conversations of one microsecond differ by their IDs, so a
// page neither skips nor repeats one.
func conversationCursorText(viewer services.UserID, state chat.MemberState) string {
	position := listCursorText(conversationCursorKind, uint64(state.LastActiveAt.UnixMicro()), uint64(state.ID))
	return conversationsCursor.text(viewer, 0) + position
}

// parseConversationCursor reads the output of conversationCursorText for this viewer. The position of another viewer is INVALID.
func parseConversationCursor(viewer services.UserID, text string) (chat.ListPosition, error) {
	owner := min(base64.RawURLEncoding.EncodedLen(cursorBytes), len(text))
	if _, err := conversationsCursor.parse("after", viewer, text[:owner]); err != nil {
		return chat.ListPosition{}, err
	}
	at, id, err := parseListCursor(conversationCursorKind, text[owner:])
	return chat.ListPosition{LastMessageAt: time.UnixMicro(int64(at)), ID: services.ConversationID(id)}, err
}

// conversationListPosition is the position of a cursor in the list of one conversation, or start without a cursor. The cursor names
// the conversation, because the messages of each conversation are numbered from 1: without the name, a cursor would be valid in all
// of them.
func conversationListPosition(kind byte, id services.ConversationID, after *string, start uint64) (uint64, error) {
	if after == nil {
		return start, nil
	}
	of, at, err := parseListCursor(kind, *after)
	if err == nil && of != uint64(id) {
		err = services.Errorf(services.Invalid, "after: the cursor is of another conversation")
	}
	return at, err
}

// chatPageInfo makes the PageInfo of a page of edges. cursor returns an edge's cursor, and more says whether another page follows.
func chatPageInfo[E any](edges []E, cursor func(E) string, more bool) graph.PageInfo {
	info := graph.PageInfo{HasNextPage: more}
	if len(edges) > 0 {
		first, last := cursor(edges[0]), cursor(edges[len(edges)-1])
		info.StartCursor, info.EndCursor = &first, &last
	}
	return info
}

// graphMessages makes messages with their authors and the users they mention, in the order of their IDs; unknown ones are
// omitted. The caller has checked that the viewer is a member. All reads go through the loader, which already has the data if a
// list has read ahead. Pages, last messages, nodes and payloads all use graphMessages, so a message looks the same wherever it
// is shown.
func (r *Resolver) graphMessages(ctx context.Context, ids []services.MessageID) ([]graph.Message, error) {
	loader := dataloader.From(ctx)
	// The users in the messages are known only after the messages are read. Then all of them are read at once.
	people, err := r.readConversationParts(ctx, conversationParts{messages: ids})
	if err != nil {
		return nil, err
	}
	users, err := loader.Users(ctx, people)
	if err != nil {
		return nil, err
	}
	messages, err := loader.Messages(ctx, ids, r.Chat.MessagesByID)
	if err != nil {
		return nil, err
	}
	mentioned, err := loader.Mentions(ctx, ids, r.Chat.MentionedUsers)
	if err != nil {
		return nil, err
	}
	list := make([]graph.Message, 0, len(ids))
	for _, id := range ids {
		message, ok := messages[id]
		if !ok {
			continue
		}
		shown := graph.Message{
			ID: id.GlobalID(), ConversationID: id.Conversation().GlobalID(), Author: graphUser(users[message.Author]),
			SentAt: message.SentAt, Recalled: message.Recalled, Mentions: graphUsers(users, mentioned[id]),
		}
		// A recalled message keeps its position and loses its text.
		if !message.Recalled {
			shown.Body = &message.Body
		}
		list = append(list, shown)
	}
	return list, nil
}

// graphConversation makes a conversation from its state alone. The counts are those of the member, before the display policy. Unread
// does not come from the badge document: the count and the list come from one read of SQL, so they cannot differ.
func graphConversation(state chat.MemberState) graph.Conversation {
	c := graph.Conversation{
		ID: state.ID.GlobalID(), Kind: state.Kind, Title: orNull(state.Title), MemberCount: state.Members,
		Unread:   services.NewCount(int(state.Membership.Unread()), services.Exact, time.Time{}),
		Mentions: services.NewCount(int(state.Membership.UnreadMentions()), services.Exact, time.Time{}),
		Muted:    state.Membership.Muted, ReadToken: chat.NewReadToken(state.Membership), State: state,
		ViewerCanRemoveMembers: state.Kind != chat.Direct && state.Creator == state.Membership.User,
	}
	// A muted conversation counts in the total by its mentions only.
	c.Unread.InTotal, c.Mentions.InTotal = !state.Membership.Muted, state.Membership.Muted
	return c
}

// readConversation reads one conversation for a payload. The error is NOT_FOUND if the viewer is not a member, for example after
// quitConversation. It reads SQL, which has the change that was just committed.
func (r *Resolver) readConversation(ctx context.Context, viewer *graph.Viewer, id services.ConversationID) (graph.Conversation, error) {
	state, err := r.Chat.ReadConversation(ctx, viewer.UserID, id)
	if err != nil {
		return graph.Conversation{}, err
	}
	return graphConversation(state), nil
}

// readMessage reads the message of an operation for its payload. It checks the viewer's own right to see the message, as any read
// does. The message is read again and not made from the input, because mentions and recalls change it.
func (r *Resolver) readMessage(ctx context.Context, done *committedOperation) (graph.Message, error) {
	id, err := services.ParseMessageID("messageId", done.objectID)
	if err != nil {
		return graph.Message{}, err
	}
	// The viewer may have been removed since the commit.
	found, err := r.Chat.ReadMessages(ctx, done.viewer.UserID, []services.MessageID{id})
	if err != nil {
		return graph.Message{}, err
	}
	if _, ok := found[id]; !ok {
		return graph.Message{}, services.Errorf(services.NotFound, "messageId: there is no %s for you", id.GlobalID())
	}
	list, err := r.graphMessages(ctx, []services.MessageID{id})
	if err != nil {
		return graph.Message{}, err
	}
	return list[0], nil
}

// runInConversation runs an operation in a conversation, and returns the conversation as it is then. The mutations that return a
// ConversationPayload differ only in their inputs.
func runInConversation[I any](ctx context.Context, r *Resolver, o *operation[I], input I) (*graph.ConversationPayload, error) {
	done, err := o.runMutation(ctx, r, input)
	if err != nil {
		return nil, err
	}
	return r.conversationPayload(ctx, done, done.call.subjectConversation), nil
}

// conversationPayload is the payload of an operation in a conversation. A part that cannot be read after the commit is null. So the
// conversation is null if the viewer has quit it by then; the badges count the remaining conversations.
func (r *Resolver) conversationPayload(ctx context.Context, done *committedOperation, id services.ConversationID) *graph.ConversationPayload {
	conversation := readIfSelected(ctx, r, func() (graph.Conversation, error) { return r.readConversation(ctx, done.viewer, id) }, "conversation")
	return &graph.ConversationPayload{Changed: done.changed, Conversation: conversation, Badges: done.badges, Viewer: done.viewerAfter()}
}

// deviceName is the name of the device that sent the request. All devices without a name count as one. The name comes with the
// request and not with the token, because one user has several devices.
func deviceName(ctx context.Context) string {
	viewer, err := services.ViewerFrom(ctx)
	if err != nil {
		return "" // the viewer was checked before
	}
	return viewer.Device
}
