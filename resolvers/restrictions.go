package resolvers

import (
	"context"
	"time"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
)

// withUser does what the viewer does about somebody, and answers both: him, and the viewer's badges after it.
func (r *Resolver) withUser(ctx context.Context, id string, key *string, make func(viewer, user services.UserNumber) *jobs.Command) (graph.User, services.Badges, error) {
	viewer, other, err := r.pair(ctx, id)
	if err != nil {
		return graph.User{}, services.Badges{}, err
	}
	badges, err := r.commit(ctx, viewer, key, make(viewer.Number, other))
	if err != nil {
		return graph.User{}, services.Badges{}, err
	}
	user, err := r.user(ctx, other)
	return user, badges, err
}

// muteUntil is the command of a mute with its time, nil for none.
func (r *Resolver) muteUntil(until *time.Time) func(muter, muted services.UserNumber) *jobs.Command {
	return func(muter, muted services.UserNumber) *jobs.Command {
		if until == nil {
			return r.Social.Mute(muter, muted, time.Time{})
		}
		return r.Social.Mute(muter, muted, *until)
	}
}

// restrictionLists are the kinds of restrictions and the cursors of their lists.
var restrictionLists = map[services.RestrictionKind]cursorKind{
	services.Mute: muteCursor, services.Block: blockCursor, services.Hide: hideCursor,
}

// restrictions makes a page of those whom the viewer mutes, blocks or hides from.
func (r *Resolver) restrictions(ctx context.Context, viewer *graph.Viewer, kind services.RestrictionKind, first *int, after *string) (*graph.RestrictionConnection, error) {
	page, size, err := sharedPage(ctx, first, func(ctx context.Context, _ []asker, size int) (*graph.RestrictionConnection, error) {
		return r.readRestrictions(ctx, viewer, kind, size, after)
	})
	if err != nil {
		return nil, err
	}
	page.Edges = cut(page.Edges, size, &page.PageInfo, func(edge *graph.RestrictionEdge) *string { return &edge.Cursor })
	return &page, nil
}

func (r *Resolver) readRestrictions(ctx context.Context, viewer *graph.Viewer, kind services.RestrictionKind, size int, after *string) (*graph.RestrictionConnection, error) {
	cursor, before := restrictionLists[kind], services.MaxPostID
	if after != nil {
		place, err := cursor.parse("after", viewer.Number, *after)
		if err != nil {
			return nil, err
		}
		before = services.PostID(place)
	}
	list, more, err := r.Social.Restrictions(ctx, kind, viewer.Number, before, size)
	if err != nil {
		return nil, err
	}
	others := make([]services.UserNumber, len(list))
	for i, restriction := range list {
		others[i] = restriction.Other
	}
	users, err := dataloader.From(ctx).Users(ctx, others)
	if err != nil {
		return nil, err
	}
	page := &graph.RestrictionConnection{Edges: make([]graph.RestrictionEdge, len(list)), PageInfo: graph.PageInfo{HasNextPage: more}}
	for i, restriction := range list {
		page.Edges[i] = graph.RestrictionEdge{
			Cursor: cursor.text(viewer.Number, uint64(restriction.Made)), Node: graphUser(users[restriction.Other]),
			Since: restriction.Made.Time(), Until: orNever(restriction.Until),
		}
	}
	if n := len(page.Edges); n > 0 {
		page.PageInfo.StartCursor, page.PageInfo.EndCursor = &page.Edges[0].Cursor, &page.Edges[n-1].Cursor
	}
	return page, nil
}

func (r *Resolver) restrictionEvent(ctx context.Context, event graph.IngestEvent) (*happening, error) {
	on := func(actor, user string, key *string, make func(actor, user services.UserNumber) *jobs.Command) (*happening, error) {
		cmd, err := r.onUser(ctx, actor, user, make)
		return &happening{cmd, user, key}, err
	}
	switch {
	case event.Mute != nil:
		return on(event.Mute.As, event.Mute.UserID, event.Mute.Key, r.muteUntil(event.Mute.Until))
	case event.Unmute != nil:
		return on(event.Unmute.As, event.Unmute.UserID, event.Unmute.Key, r.Social.Unmute)
	case event.Block != nil:
		return on(event.Block.As, event.Block.UserID, event.Block.Key, r.Social.Block)
	case event.Unblock != nil:
		return on(event.Unblock.As, event.Unblock.UserID, event.Unblock.Key, r.Social.Unblock)
	case event.HideFrom != nil:
		return on(event.HideFrom.As, event.HideFrom.UserID, event.HideFrom.Key, r.Social.HideFrom)
	case event.UnhideFrom != nil:
		return on(event.UnhideFrom.As, event.UnhideFrom.UserID, event.UnhideFrom.Key, r.Social.UnhideFrom)
	}
	return nil, nil
}
