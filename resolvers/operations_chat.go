package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/chat"
	"tidings/services/jobs"
)

// createConversation makes a conversation, or finds the DIRECT one of two users. An empty title and none are one input. A
// DIRECT one that exists is the answer of a second create, whoever of the two sends it: Created tells a client which it was.
var createConversation = &operation[graph.CreateConversationInput]{
	spec: spec{name: "createConversation", makes: services.ConversationType},
	command: func(ctx context.Context, c *call, in *graph.CreateConversationInput) (*jobs.Command, error) {
		// A block or a policy is not asked here but in the commit, where it cannot change any more.
		in.Title = orNull(orEmpty(in.Title)) // first, because a refusal is remembered with the input too
		others, err := c.r.numbers(ctx, "memberIds", in.MemberIds)
		if err != nil {
			return nil, err
		}
		return c.r.Chat.Create(c.actor, in.Kind, orEmpty(in.Title), others)
	},
}

// joinConversation may name a ROOM by its ref without being in it: hence joins. Whoever joins has read what is there.
var joinConversation = &operation[graph.JoinConversationInput]{
	spec: spec{name: "joinConversation", makes: services.ConversationType, joins: true},
	command: func(_ context.Context, c *call, in *graph.JoinConversationInput) (*jobs.Command, error) {
		id, err := c.conversationID(in.ConversationID)
		return c.r.Chat.Join(c.actor, id), err
	},
}

// quitConversation ends the actor's own membership, also of their lists. Repeated, it changes nothing. A DIRECT one cannot be
// left, only muted.
var quitConversation = &operation[graph.QuitConversationInput]{
	spec: spec{name: "quitConversation", makes: services.ConversationType},
	command: func(_ context.Context, c *call, in *graph.QuitConversationInput) (*jobs.Command, error) {
		id, err := c.conversationID(in.ConversationID)
		return c.r.Chat.Quit(c.actor, id), err
	},
}

// addMembers adds users. One who cannot be added, by a policy or a block, refuses all of them, in the words for a user who
// does not exist. Otherwise the error would tell who blocks whom.
var addMembers = &operation[graph.AddMembersInput]{
	spec: spec{name: "addMembers", makes: services.ConversationType},
	command: func(ctx context.Context, c *call, in *graph.AddMembersInput) (*jobs.Command, error) {
		id, users, err := c.conversationAndUsers(ctx, in.ConversationID, "userIds", in.UserIds)
		if err != nil {
			return nil, err
		}
		return c.r.Chat.AddMembers(c.actor, id, users)
	},
}

// removeMembers is for the creator of a conversation. Users who are no members are skipped, so that a retry succeeds.
var removeMembers = &operation[graph.RemoveMembersInput]{
	spec: spec{name: "removeMembers", makes: services.ConversationType},
	command: func(ctx context.Context, c *call, in *graph.RemoveMembersInput) (*jobs.Command, error) {
		id, users, err := c.conversationAndUsers(ctx, in.ConversationID, "userIds", in.UserIds)
		if err != nil {
			return nil, err
		}
		return c.r.Chat.RemoveMembers(c.actor, id, users)
	},
}

// sendMessage sends a message, and marks the conversation read for its author up to it. Whether the actor is a member is
// asked in the commit, so a message cannot follow a removal.
var sendMessage = &operation[graph.SendMessageInput]{
	spec: spec{name: "sendMessage", makes: services.MessageType},
	command: func(ctx context.Context, c *call, in *graph.SendMessageInput) (*jobs.Command, error) {
		id, mentioned, err := c.conversationAndUsers(ctx, in.ConversationID, "mentionIds", in.MentionIds)
		if err != nil {
			return nil, err
		}
		return c.r.Chat.Send(c.actor, id, in.Body, mentioned)
	},
}

// recallMessage takes a message of the actor's own back. It keeps its place, without a text. Members who have not read it
// count one less.
var recallMessage = &operation[graph.RecallMessageInput]{
	spec: spec{name: "recallMessage", makes: services.MessageType},
	command: func(_ context.Context, c *call, in *graph.RecallMessageInput) (*jobs.Command, error) {
		id, err := c.messageID("messageId", in.MessageID)
		return c.r.Chat.Recall(c.actor, id), err
	},
}

// enterConversation says that a device shows a conversation: nothing of it counts for the user while the lease lasts, which begins when
// it happened. An idempotency key of one device is not that of another. The lease ends with the socket, by leaveConversation, or when it
// is not renewed, so a phone that died cannot silence a conversation.
var enterConversation = &operation[graph.EnterConversationInput]{
	spec: spec{name: "enterConversation", ofDevice: true},
	command: func(_ context.Context, c *call, in *graph.EnterConversationInput) (*jobs.Command, error) {
		id, err := c.conversationID(in.ConversationID)
		return c.r.Chat.Enter(c.actor, id, c.device), err
	},
}

// leaveConversation ends what enterConversation began, for this device only.
var leaveConversation = &operation[graph.LeaveConversationInput]{
	spec: spec{name: "leaveConversation", ofDevice: true},
	command: func(_ context.Context, c *call, in *graph.LeaveConversationInput) (*jobs.Command, error) {
		id, err := c.conversationID(in.ConversationID)
		return c.r.Chat.Leave(c.actor, id, c.device), err
	},
}

// markConversationRead marks up to a message, or all. A read token makes it a mark of what its reader has seen, so that it
// cannot undo a later markConversationUnread. A position only grows, so a device that reports late changes nothing.
var markConversationRead = &operation[graph.MarkConversationReadInput]{
	spec: spec{name: "markConversationRead"},
	command: func(_ context.Context, c *call, in *graph.MarkConversationReadInput) (*jobs.Command, error) {
		id, err := c.conversationID(in.ConversationID)
		if err != nil {
			return nil, err
		}
		mark := chat.Mark{Token: orEmpty(in.ReadToken)}
		// An empty token is a mistake of the client. Taken for none, it would make the mark an act of now.
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

// markConversationUnread counts a message and those behind it again. The message names its conversation. It opens a new
// generation: read tokens from before are then void.
var markConversationUnread = &operation[graph.MarkConversationUnreadInput]{
	spec: spec{name: "markConversationUnread"},
	command: func(_ context.Context, c *call, in *graph.MarkConversationUnreadInput) (*jobs.Command, error) {
		from, err := c.messageID("fromMessageId", in.FromMessageID)
		return c.r.Chat.MarkUnread(c.actor, from), err
	},
}

// muteConversation and unmuteConversation change what of a conversation counts in the total, and no count itself.
var muteConversation = &operation[graph.MuteConversationInput]{
	spec: spec{name: "muteConversation"},
	command: func(_ context.Context, c *call, in *graph.MuteConversationInput) (*jobs.Command, error) {
		id, err := c.conversationID(in.ConversationID)
		return c.r.Chat.Mute(c.actor, id, true), err
	},
}

var unmuteConversation = &operation[graph.UnmuteConversationInput]{
	spec: spec{name: "unmuteConversation"},
	command: func(_ context.Context, c *call, in *graph.UnmuteConversationInput) (*jobs.Command, error) {
		id, err := c.conversationID(in.ConversationID)
		return c.r.Chat.Mute(c.actor, id, false), err
	},
}

// setGroupPolicy says who may add the actor to conversations. It changes none that exist. It holds when the application adds
// the user, too.
var setGroupPolicy = &operation[graph.SetGroupPolicyInput]{
	spec: spec{name: "setGroupPolicy"},
	command: func(_ context.Context, c *call, in *graph.SetGroupPolicyInput) (*jobs.Command, error) {
		return c.r.Chat.SetGroupPolicy(c.actor, in.Policy)
	},
}

// conversationAndUsers parses the conversation of a command, and the users of another field. The conversation is parsed
// first, because an error in it is the more useful one.
func (c *call) conversationAndUsers(ctx context.Context, id, field string, userIDs []string) (services.ConversationID, []services.UserID, error) {
	conversation, err := c.conversationID(id)
	if err != nil {
		return 0, nil, err
	}
	users, err := c.r.numbers(ctx, field, userIDs)
	return conversation, users, err
}
