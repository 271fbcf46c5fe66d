package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
)

// userPayload has the fields of the payload of an operation on a user. The resolver of each mutation converts it into its type.
type userPayload struct {
	Changed bool
	User    *graph.User
	Badges  *services.Badges
	Viewer  *graph.Viewer
}

// runOnUser runs an operation of the viewer on a user. The user is read after the commit, with the new relation.
func runOnUser[I any](ctx context.Context, r *Resolver, o *operation[I], input I) (*userPayload, error) {
	done, err := o.runMutation(ctx, r, input)
	if err != nil {
		return nil, err
	}
	return &userPayload{done.changed, r.userAfter(ctx, done), done.badges, done.viewerAfter()}, nil
}

// userAfter is the user of an operation, for its payload; nil if the payload does not select it, or it could not be read. It is
// also nil if no user was looked up: the idempotency key had a remembered answer, and the user is gone.
func (r *Resolver) userAfter(ctx context.Context, done *committedOperation) *graph.User {
	if done.call.subjectUser == 0 {
		return nil
	}
	return readIfSelected(ctx, r, func() (graph.User, error) { return r.readUser(ctx, done.call.subjectUser) }, "user")
}

// restrictionCursors has the kinds of restrictions (mutes, blocks and hides), with the cursors of their lists. A kind that is missing
// here would have cursors of kind 0, which no list has.
var restrictionCursors = map[services.RestrictionKind]cursorKind{
	services.Mute: muteCursor, services.Block: blockCursor, services.Hide: hideCursor,
}

// restrictions makes a page of the users that the viewer mutes, blocks or hides from, the newest first. Only the viewer sees it,
// because a user who is blocked must not find out from a list.
func (r *Resolver) restrictions(ctx context.Context, viewer *graph.Viewer, kind services.RestrictionKind, first *int, after *string) (*graph.RestrictionConnection, error) {
	page, size, err := sharedPage(ctx, first, func(ctx context.Context, _ []pageRequest, size int) (*graph.RestrictionConnection, error) {
		return r.readRestrictions(ctx, viewer, kind, size, after)
	})
	if err != nil {
		return nil, err
	}
	page.Edges = trimPage(page.Edges, size, &page.PageInfo, func(edge *graph.RestrictionEdge) *string { return &edge.Cursor })
	return &page, nil
}

// readRestrictions reads a page below a position, which is the time when a restriction was made. MadeAt is an ID and so unique:
// two restrictions of one millisecond have an order.
func (r *Resolver) readRestrictions(ctx context.Context, viewer *graph.Viewer, kind services.RestrictionKind, size int, after *string) (*graph.RestrictionConnection, error) {
	cursor, before := restrictionCursors[kind], services.MaxSortableID
	if after != nil {
		position, err := cursor.parse("after", viewer.UserID, *after)
		if err != nil {
			return nil, err
		}
		before = services.SortableID(position)
	}
	list, more, err := r.Social.Restrictions(ctx, kind, viewer.UserID, before, size)
	if err != nil {
		return nil, err
	}
	users, err := dataloader.From(ctx).Users(ctx, services.Map(list, func(restriction services.Restriction) services.UserID { return restriction.Other }))
	if err != nil {
		return nil, err
	}
	// All rows have a cursor, also a row that is not shown, so that the next page begins after it.
	page := &graph.RestrictionConnection{Edges: make([]graph.RestrictionEdge, 0, len(list)), PageInfo: graph.PageInfo{HasNextPage: more}}
	for i, restriction := range list {
		edge := graph.RestrictionEdge{
			Cursor: cursor.text(viewer.UserID, uint64(restriction.MadeAt)), Node: graphUser(users[restriction.Other]),
			Since: restriction.MadeAt.Time(), Until: timeOrNull(restriction.Until),
		}
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
