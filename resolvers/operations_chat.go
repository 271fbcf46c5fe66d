package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/chat"
	"tidings/services/jobs"
)

// createConversation makes a conversation, or finds the DIRECT one of two users. An empty title counts as none. If the DIRECT one
// exists, a create by either user returns it, and Created is false.
var createConversation = &operation[graph.CreateConversationInput]{
	operationSpec: operationSpec{name: "createConversation", createdType: services.ConversationType},
	command: func(ctx context.Context, c *operationCall, in *graph.CreateConversationInput) (*jobs.Command, error) {
		// Blocks and policies are checked in the commit and not here, because there they cannot change any more.
		in.Title = orNull(orEmpty(in.Title)) // normalised first: a key remembers a refusal with the input
		others, err := c.r.resolveUserIDs(ctx, "memberIds", in.MemberIds)
		if err != nil {
			return nil, err
		}
		return c.r.Chat.Create(c.actor, in.Kind, orEmpty(in.Title), others)
	},
}

// joinConversation makes the actor a member of a ROOM. The user may name the ROOM by its ref without being in it, so canNameUnjoinedRooms
// is set. The messages before the join count as read.
var joinConversation = &operation[graph.JoinConversationInput]{
	operationSpec: operationSpec{name: "joinConversation", createdType: services.ConversationType, canNameUnjoinedRooms: true},
	command: func(_ context.Context, c *operationCall, in *graph.JoinConversationInput) (*jobs.Command, error) {
		id, err := c.conversationID(in.ConversationID)
		return c.r.Chat.Join(c.actor, id), err
	},
}

// quitConversation ends the actor's own membership, and takes the conversation out of their lists. Repeated, it changes
// nothing. A DIRECT conversation cannot be left, only muted.
var quitConversation = &operation[graph.QuitConversationInput]{
	operationSpec: operationSpec{name: "quitConversation", createdType: services.ConversationType},
	command: func(_ context.Context, c *operationCall, in *graph.QuitConversationInput) (*jobs.Command, error) {
		id, err := c.conversationID(in.ConversationID)
		return c.r.Chat.Quit(c.actor, id), err
	},
}

// addMembers adds users to a conversation. If one of them cannot be added, because of a policy or a block, none is added. The
// error is the same as for a user who does not exist: otherwise it would reveal the block.
var addMembers = &operation[graph.AddMembersInput]{
	operationSpec: operationSpec{name: "addMembers", createdType: services.ConversationType},
	command: func(ctx context.Context, c *operationCall, in *graph.AddMembersInput) (*jobs.Command, error) {
		id, users, err := c.conversationAndUsers(ctx, in.ConversationID, "userIds", in.UserIds)
		if err != nil {
			return nil, err
		}
		return c.r.Chat.AddMembers(c.actor, id, users)
	},
}

// removeMembers removes members from a conversation; only its creator may do this. Users who are no members are skipped, so that a retry
// succeeds.
var removeMembers = &operation[graph.RemoveMembersInput]{
	operationSpec: operationSpec{name: "removeMembers", createdType: services.ConversationType},
	command: func(ctx context.Context, c *operationCall, in *graph.RemoveMembersInput) (*jobs.Command, error) {
		id, users, err := c.conversationAndUsers(ctx, in.ConversationID, "userIds", in.UserIds)
		if err != nil {
			return nil, err
		}
		return c.r.Chat.RemoveMembers(c.actor, id, users)
	},
}

// sendMessage sends a message, and marks the conversation read for its author up to the message. The commit checks that the
// actor is a member, so nobody can send a message after their removal.
var sendMessage = &operation[graph.SendMessageInput]{
	operationSpec: operationSpec{name: "sendMessage", createdType: services.MessageType},
	command: func(ctx context.Context, c *operationCall, in *graph.SendMessageInput) (*jobs.Command, error) {
		id, mentioned, err := c.conversationAndUsers(ctx, in.ConversationID, "mentionIds", in.MentionIds)
		if err != nil {
			return nil, err
		}
		return c.r.Chat.Send(c.actor, id, in.Body, mentioned)
	},
}

// recallMessage takes back a message of the actor's own. The message keeps its position, without a text. Members who have not read
// it count one less.
var recallMessage = &operation[graph.RecallMessageInput]{
	operationSpec: operationSpec{name: "recallMessage", createdType: services.MessageType},
	command: func(_ context.Context, c *operationCall, in *graph.RecallMessageInput) (*jobs.Command, error) {
		id, err := c.messageID("messageId", in.MessageID)
		return c.r.Chat.Recall(c.actor, id), err
	},
}

// enterConversation says that a device shows a conversation: while the lease lasts, nothing of the conversation counts for the
// user. The lease begins at the time of the event. It ends with the socket of the device, by leaveConversation, or when it is
// not renewed, so a phone that died cannot silence a conversation. Each device needs idempotency keys of its own: a key that
// another device has used is a CONFLICT.
var enterConversation = &operation[graph.EnterConversationInput]{
	operationSpec: operationSpec{name: "enterConversation", idempotencyPerDevice: true},
	command: func(_ context.Context, c *operationCall, in *graph.EnterConversationInput) (*jobs.Command, error) {
		id, err := c.conversationID(in.ConversationID)
		return c.r.Chat.Enter(c.actor, id, c.device), err
	},
}

// leaveConversation ends the lease of enterConversation, for this device only.
var leaveConversation = &operation[graph.LeaveConversationInput]{
	operationSpec: operationSpec{name: "leaveConversation", idempotencyPerDevice: true},
	command: func(_ context.Context, c *operationCall, in *graph.LeaveConversationInput) (*jobs.Command, error) {
		id, err := c.conversationID(in.ConversationID)
		return c.r.Chat.Leave(c.actor, id, c.device), err
	},
}

// markConversationRead marks a conversation read up to a message, or all of it. With a read token, it marks up to the message that was
// the newest when the client read the token, and does not undo a markConversationUnread that came after it. A position only grows, so a
// device that reports late changes nothing.
var markConversationRead = &operation[graph.MarkConversationReadInput]{
	operationSpec: operationSpec{name: "markConversationRead"},
	command: func(_ context.Context, c *operationCall, in *graph.MarkConversationReadInput) (*jobs.Command, error) {
		id, err := c.conversationID(in.ConversationID)
		if err != nil {
			return nil, err
		}
		mark := chat.ReadMark{Token: orEmpty(in.ReadToken)}
		// An empty token is a mistake of the client. Taken for none, it would let the mark undo a later markConversationUnread.
		if in.ReadToken != nil && mark.Token == "" {
			return nil, services.Errorf(services.Invalid, "readToken: \"\" is not a token of a conversation")
		}
		if in.UpTo != nil {
			if mark.UpTo, err = services.ParseMessageID("upTo", *in.UpTo); err != nil {
				return nil, err
			}
		}
		return c.r.Chat.MarkRead(c.actor, id, mark)
	},
}

// markConversationUnread makes a message and those after it count again. The message's ID names its conversation. The mark
// begins a new generation: earlier read tokens are then void.
var markConversationUnread = &operation[graph.MarkConversationUnreadInput]{
	operationSpec: operationSpec{name: "markConversationUnread"},
	command: func(_ context.Context, c *operationCall, in *graph.MarkConversationUnreadInput) (*jobs.Command, error) {
		from, err := c.messageID("fromMessageId", in.FromMessageID)
		return c.r.Chat.MarkUnread(c.actor, from), err
	},
}

// muteConversation and unmuteConversation change which unread messages of a conversation enter the total. They change no count of
// the conversation itself.
var muteConversation = &operation[graph.MuteConversationInput]{
	operationSpec: operationSpec{name: "muteConversation"},
	command: func(_ context.Context, c *operationCall, in *graph.MuteConversationInput) (*jobs.Command, error) {
		id, err := c.conversationID(in.ConversationID)
		return c.r.Chat.Mute(c.actor, id, true), err
	},
}

// unmuteConversation is the reverse of muteConversation.
var unmuteConversation = &operation[graph.UnmuteConversationInput]{
	operationSpec: operationSpec{name: "unmuteConversation"},
	command: func(_ context.Context, c *operationCall, in *graph.UnmuteConversationInput) (*jobs.Command, error) {
		id, err := c.conversationID(in.ConversationID)
		return c.r.Chat.Mute(c.actor, id, false), err
	},
}

// setGroupPolicy sets which users may add the actor to conversations. It changes no existing conversation. It also applies when
// the application adds the actor.
var setGroupPolicy = &operation[graph.SetGroupPolicyInput]{
	operationSpec: operationSpec{name: "setGroupPolicy"},
	command: func(_ context.Context, c *operationCall, in *graph.SetGroupPolicyInput) (*jobs.Command, error) {
		return c.r.Chat.SetGroupPolicy(c.actor, in.Policy)
	},
}

// conversationAndUsers parses the conversation of a command, and the users of another field. The conversation is parsed
// first, because an error in it is the more useful one.
func (c *operationCall) conversationAndUsers(ctx context.Context, id, field string, userIDs []string) (services.ConversationID, []services.UserID, error) {
	conversation, err := c.conversationID(id)
	if err != nil {
		return 0, nil, err
	}
	users, err := c.r.resolveUserIDs(ctx, field, userIDs)
	return conversation, users, err
}
