package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/announcements"
)

// host checks that the token has a scope of the host application or of operators. Operations with by: forHost are theirs. An
// operator may do by hand what the application does by program, such as an announcement of an outage; it is then an act.
func (r *Resolver) host(ctx context.Context) error {
	viewer, err := services.ViewerFrom(ctx)
	if err != nil {
		return err
	}
	if !viewer.Has(services.ScopeIngest) && !viewer.Has(services.ScopeAdmin) {
		return services.Errorf(services.Forbidden, "the token needs the scope %s or %s", services.ScopeIngest, services.ScopeAdmin)
	}
	return nil
}

// announcement reads an announcement for the payload of the host application, which has just changed it. It reads SQL,
// because the change may not have reached this node's memory. The host application sees also what is withdrawn or has not
// started.
func (r *Resolver) announcement(ctx context.Context, id string) (graph.Announcement, error) {
	place, err := announcements.ParseID("announcementId", id)
	if err != nil {
		return graph.Announcement{}, err
	}
	a, err := r.Announcements.Announcement(ctx, place)
	return graphAnnouncement(a), err
}

// graphAnnouncement is an announcement as anybody sees it, without what depends on the viewer. Its ID is that of the text;
// the position in the list is only in cursors, because showing it again gives it a new one.
func graphAnnouncement(a announcements.Announcement) graph.Announcement {
	shown := graph.Announcement{ID: a.GlobalID(), Title: a.Title, Content: a.Content, StartsAt: a.StartsAt, UpdatedAt: a.UpdatedAt}
	if !a.EndsAt.IsZero() {
		shown.EndsAt = &a.EndsAt
	}
	return shown
}

// graphItem is an announcement as a viewer sees it in the list.
func graphItem(item announcements.Item) graph.Announcement {
	shown := graphAnnouncement(item.Announcement)
	shown.Unread = &item.Unread
	return shown
}

// announcements makes a page of the viewer's announcements.
func (r *Resolver) announcements(ctx context.Context, viewer *graph.Viewer, first *int, after *string) (*graph.AnnouncementConnection, error) {
	page, size, err := sharedPage(ctx, first, func(ctx context.Context, _ []asker, size int) (*graph.AnnouncementConnection, error) {
		return r.readAnnouncements(ctx, viewer, size, after)
	})
	if err != nil {
		return nil, err
	}
	page.Edges = cut(page.Edges, size, &page.PageInfo, func(edge *graph.AnnouncementEdge) *string { return &edge.Cursor })
	return &page, nil
}

// readAnnouncements reads a page below a position of the one list that all share. The page may be larger than what one field
// shows. All announcements are in the node's memory; only the viewer's position and segments are read.
func (r *Resolver) readAnnouncements(ctx context.Context, viewer *graph.Viewer, size int, after *string) (_ *graph.AnnouncementConnection, err error) {
	before := uint64(announcements.End)
	if after != nil {
		if before, err = announcementCursor.parse("after", viewer.Number, *after); err != nil {
			return nil, err
		}
	}
	page, err := r.Announcements.Page(ctx, viewer.Number, before, size)
	if err != nil {
		return nil, err
	}
	result := &graph.AnnouncementConnection{Edges: make([]graph.AnnouncementEdge, len(page.Items)), PageInfo: graph.PageInfo{HasNextPage: page.HasNext}}
	for i, item := range page.Items {
		result.Edges[i] = graph.AnnouncementEdge{Cursor: announcementCursor.text(viewer.Number, item.Position), Node: graphItem(item)}
	}
	// Their labels are then read together, by the first field that asks for one.
	dataloader.From(ctx).MeetObjects(idsOf(result.Edges, func(edge *graph.AnnouncementEdge) string { return edge.Node.ID }))
	if n := len(result.Edges); n > 0 {
		result.PageInfo.StartCursor, result.PageInfo.EndCursor = &result.Edges[0].Cursor, &result.Edges[n-1].Cursor
	}
	return result, nil
}

// markedAnnouncements reads the announcements for the payload of a mark, if the payload selects them. Clients' stores take
// the new state of each from it, so that a list on the page changes without another query. maxNodes of them are as many as a
// client can have on a page.
func (r *Resolver) markedAnnouncements(ctx context.Context, done *done) []graph.Announcement {
	if len(wantedOf(ctx)["MarkAnnouncementsReadPayload.announcements"]) == 0 {
		return nil
	}
	page := ifRead[*graph.AnnouncementConnection](r)(r.readAnnouncements(ctx, done.viewer, maxNodes, nil))
	if page == nil {
		return nil
	}
	list := make([]graph.Announcement, len((*page).Edges))
	for i, edge := range (*page).Edges {
		list[i] = edge.Node
	}
	return list
}
