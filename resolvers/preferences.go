package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/notifications"
)

// categoryPreferences are the viewer's preferences of all categories, read once for a response. A category without a row of
// the user's has its usual values.
func (r *Resolver) categoryPreferences(ctx context.Context, user services.UserID) ([]graph.CategoryPreference, error) {
	return dataloader.ReadShared(ctx, categoriesKey{}, func(ctx context.Context) ([]graph.CategoryPreference, error) {
		found, err := r.Notifications.Preferences(ctx, user)
		return services.Map(found, graphCategoryPreference), err
	})
}

// graphCategoryPreference is a preference as the API shows it. It searches modesByName by the mode. That map is short, and a
// reverse map would have to be kept in step with it.
func graphCategoryPreference(of notifications.CategoryPreference) graph.CategoryPreference {
	shown := graph.CategoryPreference{Category: string(of.Category), Push: !of.NoPush}
	// A category that is a number outside of the total is COUNT to the user, who did not choose where it counts.
	for name, mode := range modesByName {
		if mode == of.Mode || mode == services.CategoryCounted && of.Mode.IsNumber() {
			shown.Mode = name
		}
	}
	return shown
}

// followsNotInModeAll makes a page of the users that the viewer follows in another mode than ALL. Most follows are in the mode ALL,
// so the list is short for most viewers.
func (r *Resolver) followsNotInModeAll(ctx context.Context, first *int, after *string) (*graph.UserConnection, error) {
	page, size, err := sharedPage(ctx, first, func(ctx context.Context, _ []pageRequest, size int) (*graph.UserConnection, error) {
		return r.readFollowsNotInModeAll(ctx, size, after)
	})
	if err != nil {
		return nil, err
	}
	page.Edges = trimPage(page.Edges, size, &page.PageInfo, func(edge *graph.UserEdge) *string { return &edge.Cursor })
	return &page, nil
}

// readFollowsNotInModeAll reads a page below a user ID, because the list is in the order of IDs. A mode that is changed between two
// pages removes a row or adds one, and moves none.
func (r *Resolver) readFollowsNotInModeAll(ctx context.Context, size int, after *string) (*graph.UserConnection, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	before := services.ListStart
	if after != nil {
		if before, err = followModeCursor.parse("after", viewer.UserID, *after); err != nil {
			return nil, err
		}
	}
	list, more, err := r.Social.FolloweesNotInModeAll(ctx, viewer.UserID, before, size)
	if err != nil {
		return nil, err
	}
	// One read for the page; profiles mostly come from the node cache.
	users, err := dataloader.From(ctx).Users(ctx, list)
	if err != nil {
		return nil, err
	}
	page := &graph.UserConnection{Edges: make([]graph.UserEdge, 0, len(list)), PageInfo: graph.PageInfo{HasNextPage: more}}
	for i, user := range list {
		edge := graph.UserEdge{Cursor: followModeCursor.text(viewer.UserID, uint64(user)), Node: graphUser(users[user])}
		if i == 0 {
			page.PageInfo.StartCursor = &edge.Cursor
		}
		page.PageInfo.EndCursor = &edge.Cursor
		if edge.Node.Key != "" { // a user without a key is being erased
			page.Edges = append(page.Edges, edge)
		}
	}
	return page, nil
}
