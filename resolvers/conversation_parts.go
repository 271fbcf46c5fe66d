package resolvers

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/chat"
)

// conversationParts are the parts of conversations that are read beside their states. They are gathered for all conversations of a
// response, and then read together. A part may be in it twice: the loader reads it once.
type conversationParts struct {
	messages []services.MessageID
	members  []chat.MembersPage
}

// add adds the parts of a conversation that some fields select. It ignores a wrong argument: the field itself reports it. It computes
// the keys of the parts, and reads nothing.
func (p *conversationParts) add(state chat.MemberState, fields selectedFields, variables map[string]any) {
	if len(fields["Conversation.lastMessage"]) > 0 {
		// The messages of a conversation are numbered from 1, so their IDs follow from the state, without a statement.
		newest, _ := chat.MessagesBefore(state, services.MaxMessageNumber+1, 1)
		p.messages = append(p.messages, newest...)
	}
	for _, field := range fields["Conversation.messages"] {
		size, before, err := requestedPage(field, variables, messageCursorKind, state.ID, services.MaxMessageNumber+1)
		if err == nil {
			ids, _ := chat.MessagesBefore(state, int64(before), size)
			p.messages = append(p.messages, ids...)
		}
	}
	for _, field := range fields["Conversation.members"] {
		size, after, err := requestedPage(field, variables, memberCursorKind, state.ID, 0)
		if err == nil {
			p.members = append(p.members, membersPage(state.ID, after, size))
		}
	}
}

// membersPage is the key of a page of members. It requests one member more than the page shows, to know whether another page follows.
// Size is part of the key, so two fields with different sizes read two pages.
func membersPage(id services.ConversationID, after uint64, size int) chat.MembersPage {
	return chat.MembersPage{Conversation: id, After: services.UserID(after), Size: size + 1}
}

// requestedPage is the page of a conversation's list that a field requests. The field itself computes the same page from its
// arguments, and then finds it in the loader.
func requestedPage(field *ast.Field, variables map[string]any, kind byte, id services.ConversationID, start uint64) (size int, position uint64, err error) {
	after := argument(field.ArgumentMap(variables), "after", graphql.UnmarshalString, &err)
	if err != nil {
		return 0, 0, err
	}
	if size, err = requestedSize(field, variables); err != nil {
		return 0, 0, err
	}
	position, err = conversationListPosition(kind, id, after, start)
	return size, position, err
}

// readConversationParts reads messages and members, with one query for each kind, and returns the people in them. The caller still has
// to read these people themselves, perhaps together with others.
func (r *Resolver) readConversationParts(ctx context.Context, parts conversationParts) (people []services.UserID, err error) {
	loader := dataloader.From(ctx)
	messages, err := loader.Messages(ctx, parts.messages, r.Chat.MessagesByID)
	if err != nil {
		return nil, err
	}
	mentioned, err := loader.Mentions(ctx, parts.messages, r.Chat.MentionedUsers)
	if err != nil {
		return nil, err
	}
	members, err := loader.Members(ctx, parts.members, r.Chat.Members)
	if err != nil {
		return nil, err
	}
	for id, message := range messages {
		people = append(append(people, message.Author), mentioned[id]...)
	}
	for page, ids := range members {
		// The extra member is left out: it only tells whether another page follows.
		people = append(people, ids[:min(page.Size-1, len(ids))]...)
	}
	return people, nil
}

// readPartsAndPeople reads messages, members and the people in both. Afterwards the resolvers of the fields find them in the loader.
func (r *Resolver) readPartsAndPeople(ctx context.Context, parts conversationParts) error {
	people, err := r.readConversationParts(ctx, parts)
	if err == nil {
		_, err = dataloader.From(ctx).Users(ctx, people)
	}
	return err
}

// selectedPartsKey is a key for dataloader.ReadShared: it stands for the parts of one conversation that an operation selects. It is
// a type of its own, so that it never equals the key of another shared value.
type selectedPartsKey services.ConversationID

// readSelectedParts reads all selected parts of one conversation, unless a list has read them together with others. The resolvers of
// all these fields call it, and the first call reads.
func (r *Resolver) readSelectedParts(ctx context.Context, shown *graph.Conversation) error {
	if shown.PartsRead {
		return nil
	}
	_, err := dataloader.ReadShared(ctx, selectedPartsKey(shown.State.ID), func(ctx context.Context) (struct{}, error) {
		var parts conversationParts
		parts.add(shown.State, selectedFieldsOf(ctx), graphql.GetOperationContext(ctx).Variables)
		return struct{}{}, r.readPartsAndPeople(ctx, parts)
	})
	return err
}

// readConversations makes a page of the viewer's conversations, and reads the parts that fields select of them. after is
// chat.ListStart for the first page.
func (r *Resolver) readConversations(ctx context.Context, viewer *graph.Viewer, askers []pageRequest, after chat.ListPosition, size int) (*graph.ConversationConnection, error) {
	states, more, err := r.Chat.List(ctx, viewer.UserID, after, size)
	if err != nil {
		return nil, err
	}
	return r.conversationPage(ctx, viewer, askers, states, more)
}

// conversationPage makes a page of conversations, and reads the parts that fields select of them: for each asker, which is a field
// that requests the page, as many conversations as that field shows. A subscription has one asker, its own field.
func (r *Resolver) conversationPage(ctx context.Context, viewer *graph.Viewer, askers []pageRequest, states []chat.MemberState, more bool) (*graph.ConversationConnection, error) {
	var parts conversationParts
	variables := graphql.GetOperationContext(ctx).Variables
	// Two fields may show the same conversations with different selections and sizes.
	for _, asker := range askers {
		fields := selectedFieldsBelow(asker.field.SelectionSet, variables)
		for _, state := range states[:min(asker.size, len(states))] {
			parts.add(state, fields, variables)
		}
	}
	if err := r.readPartsAndPeople(ctx, parts); err != nil {
		return nil, err
	}
	edges := make([]graph.ConversationEdge, len(states))
	for i, state := range states {
		edges[i] = graph.ConversationEdge{Cursor: conversationCursorText(viewer.UserID, state), Node: graphConversation(state)}
		edges[i].Node.PartsRead = true
	}
	dataloader.From(ctx).RecordObjects(idsOf(edges, func(edge *graph.ConversationEdge) string { return edge.Node.ID }))
	info := chatPageInfo(edges, func(e graph.ConversationEdge) string { return e.Cursor }, more)
	return &graph.ConversationConnection{Edges: edges, PageInfo: info}, nil
}
