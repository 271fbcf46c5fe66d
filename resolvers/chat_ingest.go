package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
)

// inTalk makes what happened in a conversation.
func (r *Resolver) inTalk(ctx context.Context, actor, conversation string, key *string, make func(services.UserNumber, services.ConversationID) (*jobs.Command, error)) (*happening, error) {
	cmd, err := as(ctx, r, actor, func(user services.UserNumber) (*jobs.Command, error) {
		id, err := services.ParseConversationID("conversationId", conversation)
		if err != nil {
			return nil, err
		}
		return make(user, id)
	})
	return &happening{cmd, conversation, key}, err
}

// sure makes of what cannot fail what could.
func sure(make func(services.UserNumber, services.ConversationID) *jobs.Command) func(services.UserNumber, services.ConversationID) (*jobs.Command, error) {
	return func(user services.UserNumber, id services.ConversationID) (*jobs.Command, error) {
		return make(user, id), nil
	}
}

// conversationEvent is about who is in a conversation.
func (r *Resolver) conversationEvent(ctx context.Context, event graph.IngestEvent) (*happening, error) {
	switch {
	case event.CreateConversation != nil:
		create := event.CreateConversation
		cmd, err := as(ctx, r, create.As, func(user services.UserNumber) (*jobs.Command, error) {
			return r.createConversation(ctx, user, create.Kind, create.Title, create.MemberIds)
		})
		return &happening{cmd, "", create.Key}, err
	case event.JoinConversation != nil:
		join := event.JoinConversation
		return r.inTalk(ctx, join.As, join.ConversationID, join.Key, sure(r.Chat.Join))
	case event.QuitConversation != nil:
		quit := event.QuitConversation
		return r.inTalk(ctx, quit.As, quit.ConversationID, quit.Key, sure(r.Chat.Quit))
	case event.AddMembers != nil:
		add := event.AddMembers
		return r.inTalk(ctx, add.As, add.ConversationID, add.Key, r.withUsers(ctx, add.UserIds, r.Chat.AddMembers))
	case event.RemoveMembers != nil:
		remove := event.RemoveMembers
		return r.inTalk(ctx, remove.As, remove.ConversationID, remove.Key, r.withUsers(ctx, remove.UserIds, r.Chat.RemoveMembers))
	}
	return nil, nil
}

// messageEvent is about what was said.
func (r *Resolver) messageEvent(ctx context.Context, event graph.IngestEvent) (*happening, error) {
	switch {
	case event.SendMessage != nil:
		send := event.SendMessage
		happened, err := r.inTalk(ctx, send.As, send.ConversationID, send.Key, r.send(ctx, send.Body, send.MentionIds))
		happened.id = "" // of the message, once it is made
		return happened, err
	case event.RecallMessage != nil:
		recall := event.RecallMessage
		return r.onMessage(ctx, recall.As, recall.MessageID, "messageId", recall.Key, r.Chat.Recall)
	case event.MarkConversationUnread != nil:
		unread := event.MarkConversationUnread
		return r.onMessage(ctx, unread.As, unread.FromMessageID, "fromMessageId", unread.Key, r.Chat.MarkUnread)
	}
	return nil, nil
}

// positionEvent is about one member's own state.
func (r *Resolver) positionEvent(ctx context.Context, event graph.IngestEvent) (*happening, error) {
	named := func(device *string) (string, error) {
		if device == nil {
			return "", nil
		}
		return *device, services.CheckUserKey(*device)
	}
	switch {
	case event.EnterConversation != nil:
		enter := event.EnterConversation
		return r.inTalk(ctx, enter.As, enter.ConversationID, enter.Key, func(user services.UserNumber, id services.ConversationID) (*jobs.Command, error) {
			device, err := named(enter.Device)
			return r.Chat.Enter(user, id, device), err
		})
	case event.LeaveConversation != nil:
		leave := event.LeaveConversation
		return r.inTalk(ctx, leave.As, leave.ConversationID, leave.Key, func(user services.UserNumber, id services.ConversationID) (*jobs.Command, error) {
			device, err := named(leave.Device)
			return r.Chat.Leave(user, id, device), err
		})
	case event.MarkConversationRead != nil:
		read := event.MarkConversationRead
		return r.inTalk(ctx, read.As, read.ConversationID, read.Key, r.markRead(read.UpTo, nil))
	case event.MuteConversation != nil:
		mute := event.MuteConversation
		return r.inTalk(ctx, mute.As, mute.ConversationID, mute.Key, func(user services.UserNumber, id services.ConversationID) (*jobs.Command, error) {
			return r.Chat.Mute(user, id, mute.Muted), nil
		})
	}
	return nil, nil
}

func (r *Resolver) onMessage(ctx context.Context, actor, message, field string, key *string, make func(services.UserNumber, services.MessageID) *jobs.Command) (*happening, error) {
	cmd, err := as(ctx, r, actor, func(user services.UserNumber) (*jobs.Command, error) {
		id, err := services.ParseMessageID(field, message)
		if err != nil {
			return nil, err
		}
		return make(user, id), nil
	})
	return &happening{cmd, message, key}, err
}

func (r *Resolver) createConversation(ctx context.Context, user services.UserNumber, kind services.ConversationKind, title *string, members []string) (*jobs.Command, error) {
	others, err := r.numbers(ctx, "memberIds", members)
	if err != nil {
		return nil, err
	}
	text := ""
	if title != nil {
		text = *title
	}
	return r.Chat.Create(user, kind, text, others)
}

func (r *Resolver) withUsers(ctx context.Context, userIDs []string, make func(services.UserNumber, services.ConversationID, []services.UserNumber) (*jobs.Command, error)) func(services.UserNumber, services.ConversationID) (*jobs.Command, error) {
	return func(user services.UserNumber, id services.ConversationID) (*jobs.Command, error) {
		users, err := r.numbers(ctx, "userIds", userIDs)
		if err != nil {
			return nil, err
		}
		return make(user, id, users)
	}
}

func (r *Resolver) send(ctx context.Context, body string, mentions []string) func(services.UserNumber, services.ConversationID) (*jobs.Command, error) {
	return func(user services.UserNumber, id services.ConversationID) (*jobs.Command, error) {
		users, err := r.numbers(ctx, "mentionIds", mentions)
		if err != nil {
			return nil, err
		}
		return r.Chat.Send(user, id, body, users)
	}
}

func (r *Resolver) markRead(upTo, token *string) func(services.UserNumber, services.ConversationID) (*jobs.Command, error) {
	return func(user services.UserNumber, id services.ConversationID) (*jobs.Command, error) {
		mark, err := mark(upTo, token)
		if err != nil {
			return nil, err
		}
		return r.Chat.MarkRead(user, id, mark)
	}
}
