package resolvers

import (
	"context"
	"time"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/messages"
)

// graphSiteMessage is a site message as its recipient sees it. Content is the whole text, up to 64 KB. A client that only lists titles
// should not select it.
func graphSiteMessage(m messages.Message) graph.SiteMessage {
	return graph.SiteMessage{
		ID: m.ID.GlobalID(), Type: m.Type, Title: m.Title, Content: m.Content,
		CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt, ReadAt: timeOrNull(m.ReadAt),
	}
}

// timeOrNull returns a pointer to a time; nil for the zero time, which means never. The services have no pointers to times.
func timeOrNull(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

// graphReport is a site message as its sender sees it: with the numbers of its recipients and readers, and without their names. Its ID
// differs from the message's, because sender and recipients see two objects of different types.
func graphReport(report messages.SentMessage) *graph.SiteMessageReport {
	m := report.Message
	return &graph.SiteMessageReport{
		ID: m.ID.DeliveryReportID(), SiteMessageID: m.ID.GlobalID(), Type: m.Type, Title: m.Title, Content: m.Content, CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt,
		Recipients: report.Recipients, ReadCount: report.ReadCount,
	}
}

// readReport reads a message as its sender sees it, for a payload. Recipients and readers are counted anew each time.
func (r *Resolver) readReport(ctx context.Context, id string) (graph.SiteMessageReport, error) {
	messageID, err := messages.ParseID("siteMessageId", id)
	if err != nil {
		return graph.SiteMessageReport{}, err
	}
	report, err := r.Messages.Report(ctx, messageID)
	return *graphReport(report), err
}

// siteMessages makes a page of the viewer's site messages.
func (r *Resolver) siteMessages(ctx context.Context, viewer *graph.Viewer, first *int, after, kind *string, unreadOnly bool) (*graph.SiteMessageConnection, error) {
	page, size, err := sharedPage(ctx, first, func(ctx context.Context, _ []pageRequest, size int) (*graph.SiteMessageConnection, error) {
		return r.readSiteMessages(ctx, viewer, size, after, kind, unreadOnly)
	})
	if err != nil {
		return nil, err
	}
	page.Edges = trimPage(page.Edges, size, &page.PageInfo, func(edge *graph.SiteMessageEdge) *string { return &edge.Cursor })
	return &page, nil
}

// readSiteMessages reads a page of site messages below the cursor after, of one type (kind) or of all. The page has a read token: a
// mark with it changes no message that was marked unread after the page was read. The filters are arguments of the field, so
// sharedPage does not mix up pages with different filters.
func (r *Resolver) readSiteMessages(ctx context.Context, viewer *graph.Viewer, size int, after, kind *string, unreadOnly bool) (*graph.SiteMessageConnection, error) {
	before := messages.MaxID
	if after != nil {
		position, err := siteMessageCursor.parse("after", viewer.UserID, *after)
		if err != nil {
			return nil, err
		}
		before = messages.ID(position)
	}
	page, err := r.Messages.Page(ctx, viewer.UserID, kind, unreadOnly, before, size)
	if err != nil {
		return nil, err
	}
	result := &graph.SiteMessageConnection{Edges: make([]graph.SiteMessageEdge, len(page.Messages)), PageInfo: graph.PageInfo{HasNextPage: page.HasNext}, ReadToken: services.FormatReadToken(page.Generation)}
	for i, message := range page.Messages {
		result.Edges[i] = graph.SiteMessageEdge{Cursor: siteMessageCursor.text(viewer.UserID, uint64(message.ID)), Node: graphSiteMessage(message)}
	}
	dataloader.From(ctx).RecordObjects(idsOf(result.Edges, func(edge *graph.SiteMessageEdge) string { return edge.Node.ID }))
	// No message is left out of the page after it is read, so the page ends at its last edge.
	if n := len(result.Edges); n > 0 {
		result.PageInfo.StartCursor, result.PageInfo.EndCursor = &result.Edges[0].Cursor, &result.Edges[n-1].Cursor
	}
	return result, nil
}

// markedMessages reads the site messages for the payload of a mark, if the payload selects them: these are the messages that the mark
// named or, if it named none, the newest ones, only of the mark's type if it has one.
func (r *Resolver) markedMessages(ctx context.Context, done *committedOperation, payload string, ids []string, kind *string) []graph.SiteMessage {
	if len(selectedFieldsOf(ctx)[payload+".siteMessages"]) == 0 {
		return nil
	}
	// list is not nil, because null in the payload would mean that the messages could not be read.
	list := []graph.SiteMessage{}
	if len(ids) == 0 {
		page := nilOnError[*graph.SiteMessageConnection](r)(r.readSiteMessages(ctx, done.viewer, maxNodeIDs, nil, kind, false))
		if page == nil {
			return nil
		}
		for _, edge := range (*page).Edges {
			list = append(list, edge.Node)
		}
		return list
	}
	// The refs in the input were replaced by IDs before the mark. Only if the mark is repeated under its idempotency key, an ID by ref
	// can still be here: that of a message that is gone by now.
	messageIDs := make([]messages.ID, 0, len(ids))
	for _, id := range ids {
		if messageID, err := messages.ParseID("ids", id); err == nil {
			messageIDs = append(messageIDs, messageID)
		}
	}
	found := nilOnError[map[messages.ID]messages.Message](r)(r.Messages.ByID(ctx, done.viewer.UserID, messageIDs))
	if found == nil {
		return nil
	}
	// The payload has the messages in the order in which the mark named them.
	for _, messageID := range messageIDs {
		if message, ok := (*found)[messageID]; ok {
			list = append(list, graphSiteMessage(message))
			delete(*found, messageID) // an ID that was named twice is shown once
		}
	}
	dataloader.From(ctx).RecordObjects(idsOf(list, func(message *graph.SiteMessage) string { return message.ID }))
	return list
}
