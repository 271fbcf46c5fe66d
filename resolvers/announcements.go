package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/announcements"
)

// requireHostOrAdmin checks that the token has the scope of the host application or of operators. The operations that the table
// operations marks with actorHost need one of them. An operator may do by hand what the application does by program, such as
// announcing an outage; the operation is then recorded as an act.
func (r *Resolver) requireHostOrAdmin(ctx context.Context) error {
	viewer, err := services.ViewerFrom(ctx)
	if err != nil {
		return err
	}
	if !viewer.Has(services.ScopeIngest) && !viewer.Has(services.ScopeAdmin) {
		return services.Errorf(services.Forbidden, "the token needs the scope %s or %s", services.ScopeIngest, services.ScopeAdmin)
	}
	return nil
}

// readAnnouncement reads an announcement for the payload of the host application, which has just changed it. It reads SQL, because the
// change may not have reached this node's memory yet. It also returns an announcement that is withdrawn or has not started.
func (r *Resolver) readAnnouncement(ctx context.Context, id string) (graph.Announcement, error) {
	announcementID, err := announcements.ParseID("announcementId", id)
	if err != nil {
		return graph.Announcement{}, err
	}
	a, err := r.Announcements.Announcement(ctx, announcementID)
	return graphAnnouncement(a), err
}

// graphAnnouncement is an announcement as anybody sees it, without the fields that depend on the viewer. Its ID never changes.
// Its position in the list is only in cursors, because an announcement that is shown again gets a new position.
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
	page, size, err := sharedPage(ctx, first, func(ctx context.Context, _ []pageRequest, size int) (*graph.AnnouncementConnection, error) {
		return r.readAnnouncements(ctx, viewer, size, after)
	})
	if err != nil {
		return nil, err
	}
	page.Edges = trimPage(page.Edges, size, &page.PageInfo, func(edge *graph.AnnouncementEdge) *string { return &edge.Cursor })
	return &page, nil
}

// readAnnouncements reads a page of the one list that all users share, below the position of the cursor after. The page may be larger
// than what one field shows. All announcements are in the node's memory; only the viewer's read position and segments have to be read.
func (r *Resolver) readAnnouncements(ctx context.Context, viewer *graph.Viewer, size int, after *string) (_ *graph.AnnouncementConnection, err error) {
	before := uint64(announcements.MaxPosition)
	if after != nil {
		if before, err = announcementCursor.parse("after", viewer.UserID, *after); err != nil {
			return nil, err
		}
	}
	page, err := r.Announcements.Page(ctx, viewer.UserID, before, size)
	if err != nil {
		return nil, err
	}
	result := &graph.AnnouncementConnection{Edges: make([]graph.AnnouncementEdge, len(page.Items)), PageInfo: graph.PageInfo{HasNextPage: page.HasNext}}
	for i, item := range page.Items {
		result.Edges[i] = graph.AnnouncementEdge{Cursor: announcementCursor.text(viewer.UserID, item.Position), Node: graphItem(item)}
	}
	// RecordObjects tells the loader the IDs, so that the first field that needs a label reads the labels of all.
	dataloader.From(ctx).RecordObjects(idsOf(result.Edges, func(edge *graph.AnnouncementEdge) string { return edge.Node.ID }))
	if n := len(result.Edges); n > 0 {
		result.PageInfo.StartCursor, result.PageInfo.EndCursor = &result.Edges[0].Cursor, &result.Edges[n-1].Cursor
	}
	return result, nil
}

// markedAnnouncements reads the announcements for the payload of a mark, if the payload selects them. A client's store takes the
// new state of each announcement from the payload, so that a list on the page changes without another query. A client can have at
// most maxNodeIDs announcements on a page.
func (r *Resolver) markedAnnouncements(ctx context.Context, done *committedOperation) []graph.Announcement {
	if len(selectedFieldsOf(ctx)["MarkAnnouncementsReadPayload.announcements"]) == 0 {
		return nil
	}
	page := nilOnError[*graph.AnnouncementConnection](r)(r.readAnnouncements(ctx, done.viewer, maxNodeIDs, nil))
	if page == nil {
		return nil
	}
	return nodesOf((*page).Edges, func(edge *graph.AnnouncementEdge) *graph.Announcement { return &edge.Node })
}
