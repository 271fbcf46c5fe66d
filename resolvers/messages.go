package resolvers

import (
	"context"
	"time"

	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/notify"
)

func graphSiteMessage(m services.SiteMessage) graph.SiteMessage {
	return graph.SiteMessage{
		ID: m.GlobalID(), Type: m.Type, Title: m.Title, Content: m.Content,
		CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt, ReadAt: orNever(m.ReadAt),
	}
}

func orNever(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

func graphReport(report services.SiteMessageReport) *graph.SiteMessageReport {
	m := report.Message
	return &graph.SiteMessageReport{
		ID: m.GlobalID(), Type: m.Type, Title: m.Title, Content: m.Content, CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt,
		Recipients: report.Recipients, ReadCount: report.ReadCount,
	}
}

// report reads a message for the payload of its sender.
func (r *Resolver) report(ctx context.Context, id string) (graph.SiteMessageReport, error) {
	place, err := services.ParseSiteMessageID("siteMessageId", id)
	if err != nil {
		return graph.SiteMessageReport{}, err
	}
	report, err := r.Messages.Report(ctx, place)
	return *graphReport(report), err
}

func (r *Resolver) sendSiteMessage(ctx context.Context, title, content string, kind *string, to []string) (*jobs.Command, error) {
	if n := len(to); n == 0 || n > services.MaxMessageRecipients {
		return nil, services.Errorf(services.Invalid, "to: 1 to %d recipients are allowed, got %d", services.MaxMessageRecipients, n)
	}
	message := notify.NewMessage{Title: title, Content: content, To: make([]string, len(to))}
	if kind != nil {
		message.Type = *kind
	}
	for i, id := range to {
		var err error
		if message.To[i], err = services.ParseUserID("to", id); err != nil {
			return nil, err
		}
	}
	if hosts(ctx) {
		return r.Messages.Send(message) // to users who are made if there are none
	}
	known, err := r.Social.KnownAll(ctx, message.To)
	if err != nil {
		return nil, err
	}
	for _, key := range message.To {
		if _, ok := known[key]; !ok {
			return nil, services.NoUser("to", key)
		}
	}
	return r.Messages.Send(message)
}

func (r *Resolver) editSiteMessage(id string, title, content *string) (*jobs.Command, error) {
	place, err := services.ParseSiteMessageID("siteMessageId", id)
	if err != nil {
		return nil, err
	}
	return r.Messages.Edit(place, title, content)
}

func siteMessageIDs(ids []string) (places []services.PostID, err error) {
	if ids == nil {
		return nil, nil
	}
	places = make([]services.PostID, len(ids))
	for i, id := range ids {
		if places[i], err = services.ParseSiteMessageID("ids", id); err != nil {
			return nil, err
		}
	}
	return places, nil
}

func (r *Resolver) markMessagesRead(user services.UserNumber, ids []string, kind *string, all bool, upTo, token *string) (*jobs.Command, error) {
	mark := notify.MessageMark{Type: kind, All: all, Token: orEmpty(token)}
	var err error
	if mark.IDs, err = siteMessageIDs(ids); err != nil {
		return nil, err
	}
	if upTo != nil {
		if mark.UpTo, err = services.ParseSiteMessageID("upTo", *upTo); err != nil {
			return nil, err
		}
	}
	return r.Messages.MarkRead(user, mark)
}

func (r *Resolver) markMessagesUnread(user services.UserNumber, ids []string) (*jobs.Command, error) {
	places, err := siteMessageIDs(ids)
	if err != nil {
		return nil, err
	}
	return r.Messages.MarkUnread(user, places)
}

// siteMessages makes a page of the viewer's messages.
func (r *Resolver) siteMessages(ctx context.Context, viewer *graph.Viewer, first *int, after, kind *string, unreadOnly bool) (*graph.SiteMessageConnection, error) {
	page, size, err := sharedPage(ctx, first, func(ctx context.Context, _ []asker, size int) (*graph.SiteMessageConnection, error) {
		return r.readSiteMessages(ctx, viewer, size, after, kind, unreadOnly)
	})
	if err != nil {
		return nil, err
	}
	page.Edges = cut(page.Edges, size, &page.PageInfo, func(edge *graph.SiteMessageEdge) *string { return &edge.Cursor })
	return &page, nil
}

func (r *Resolver) readSiteMessages(ctx context.Context, viewer *graph.Viewer, size int, after, kind *string, unreadOnly bool) (*graph.SiteMessageConnection, error) {
	before := services.MaxPostID
	if after != nil {
		place, err := siteMessageCursor.parse("after", viewer.Number, *after)
		if err != nil {
			return nil, err
		}
		before = services.PostID(place)
	}
	page, err := r.Messages.Page(ctx, viewer.Number, kind, unreadOnly, before, size)
	if err != nil {
		return nil, err
	}
	result := &graph.SiteMessageConnection{Edges: make([]graph.SiteMessageEdge, len(page.Messages)), PageInfo: graph.PageInfo{HasNextPage: page.HasNext}, ReadToken: notify.Token(page.Gen)}
	for i, message := range page.Messages {
		result.Edges[i] = graph.SiteMessageEdge{Cursor: siteMessageCursor.text(viewer.Number, uint64(message.ID)), Node: graphSiteMessage(message)}
	}
	if n := len(result.Edges); n > 0 {
		result.PageInfo.StartCursor, result.PageInfo.EndCursor = &result.Edges[0].Cursor, &result.Edges[n-1].Cursor
	}
	return result, nil
}

func (r *Resolver) siteMessageEvent(ctx context.Context, event graph.IngestEvent) (*happening, error) {
	switch {
	case event.SendSiteMessage != nil:
		e := event.SendSiteMessage
		cmd, err := r.sendSiteMessage(ctx, e.Title, e.Content, e.Type, e.To)
		return &happening{cmd, "", e.Key}, err
	case event.EditSiteMessage != nil:
		e := event.EditSiteMessage
		cmd, err := r.editSiteMessage(e.SiteMessageID, e.Title, e.Content)
		return &happening{cmd, e.SiteMessageID, e.Key}, err
	case event.MarkSiteMessagesRead != nil:
		e := event.MarkSiteMessagesRead
		cmd, err := as(ctx, r, e.As, func(actor services.UserNumber) (*jobs.Command, error) {
			return r.markMessagesRead(actor, e.Ids, e.Type, e.All, e.UpTo, e.ReadToken)
		})
		return &happening{cmd, "", e.Key}, err
	case event.MarkSiteMessagesUnread != nil:
		e := event.MarkSiteMessagesUnread
		cmd, err := as(ctx, r, e.As, func(actor services.UserNumber) (*jobs.Command, error) {
			return r.markMessagesUnread(actor, e.Ids)
		})
		return &happening{cmd, "", e.Key}, err
	}
	return nil, nil
}
