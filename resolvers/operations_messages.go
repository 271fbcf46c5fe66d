package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/messages"
)

// sendSiteMessage sends a message to users by their keys. For the application, users who do not exist are created. An operator
// gets NOT_FOUND.
var sendSiteMessage = &operation[graph.SendSiteMessageInput]{
	operationSpec: operationSpec{name: "sendSiteMessage", actorKind: actorHost, createdType: services.SiteMessageType},
	command: func(ctx context.Context, c *operationCall, in *graph.SendSiteMessageInput) (*jobs.Command, error) {
		// The number of recipients is checked before the IDs are parsed, because parsing many IDs is expensive.
		if err := messages.CheckRecipients(len(in.To)); err != nil {
			return nil, err
		}
		// To has keys and not IDs, because users who do not exist are created in the transaction of the message.
		message := messages.Draft{Text: messages.Text{Type: orEmpty(in.Type), Title: in.Title, Content: in.Content}, To: make([]string, len(in.To))}
		for i, id := range in.To {
			var err error
			if message.To[i], err = services.ParseUserID("to", id); err != nil {
				return nil, err
			}
		}
		if createsUsers(ctx) {
			return c.r.Messages.Send(message) // recipients who do not exist are created
		}
		// For an operator, who is not the application, no user is created.
		known, err := c.r.Social.FindUsers(ctx, message.To)
		if err != nil {
			return nil, err
		}
		// The error names the first key that no user has.
		for _, key := range message.To {
			if _, ok := known[key]; !ok {
				return nil, services.NoUserError("to", key)
			}
		}
		return c.r.Messages.Send(message)
	},
}

// editSiteMessage changes the text for all recipients, and no read state. If only the label changes, the message itself does
// not change. A title cannot be removed; the content can be empty.
var editSiteMessage = &operation[graph.EditSiteMessageInput]{
	operationSpec: operationSpec{name: "editSiteMessage", actorKind: actorHost},
	command: func(_ context.Context, c *operationCall, in *graph.EditSiteMessageInput) (*jobs.Command, error) {
		id, err := c.siteMessageID(in.SiteMessageID)
		if err != nil {
			return nil, err
		}
		title, err := nonNullValue("title", in.Title)
		if err != nil {
			return nil, err
		}
		// The message and the time of its last change stay as they are.
		if title == nil && !in.Content.IsSet() && (in.URL.IsSet() || in.Data.IsSet()) {
			return c.r.Messages.Relabel(id), nil
		}
		return c.r.Messages.Edit(id, title, clearableValue(in.Content))
	},
}

// markSiteMessagesRead marks messages by their IDs, or all of them, possibly only those of one type or up to one message. The
// input is normalised, so that inputs with the same meaning are one request.
var markSiteMessagesRead = &operation[graph.MarkSiteMessagesReadInput]{
	operationSpec: operationSpec{name: "markSiteMessagesRead"},
	command: func(_ context.Context, c *operationCall, in *graph.MarkSiteMessagesReadInput) (_ *jobs.Command, err error) {
		in.ReadToken = orNull(orEmpty(in.ReadToken))
		mark := messages.MarkReadRequest{Type: in.Type, All: in.All, ReadToken: orEmpty(in.ReadToken)}
		in.All = false // false is the same as absent
		if mark.IDs, err = siteMessageIDs(in.Ids); err != nil {
			return nil, err
		}
		if in.UpTo != nil {
			if mark.UpTo, err = messages.ParseID("upTo", *in.UpTo); err != nil {
				return nil, err
			}
		}
		return c.r.Messages.MarkRead(c.actor, mark)
	},
}

// markSiteMessagesUnread makes messages count again, and opens a new generation of read tokens. A mark with an earlier token
// leaves them unread, whichever device sends it.
var markSiteMessagesUnread = &operation[graph.MarkSiteMessagesUnreadInput]{
	operationSpec: operationSpec{name: "markSiteMessagesUnread"},
	command: func(_ context.Context, c *operationCall, in *graph.MarkSiteMessagesUnreadInput) (*jobs.Command, error) {
		ids, err := siteMessageIDs(in.Ids)
		if err != nil {
			return nil, err
		}
		return c.r.Messages.MarkUnread(c.actor, ids)
	},
}

// siteMessageIDs parses the IDs of messages. nil stays nil: no list and an empty one mean different things.
func siteMessageIDs(texts []string) (ids []messages.ID, err error) {
	if texts == nil {
		return nil, nil
	}
	ids = make([]messages.ID, len(texts))
	for i, text := range texts {
		if ids[i], err = messages.ParseID("ids", text); err != nil {
			return nil, err
		}
	}
	return ids, nil
}
