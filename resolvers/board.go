package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/live"
)

// liveBoard reads a page of a viewer's board. The position is the cursor after, or the show lastID. It belongs to the board of the
// session. The field's resolver and liveBoardPart both call liveBoard, so that pages and errors are the same. The name of the device is
// passed on, because a session may be kept for each device.
func (r *Resolver) liveBoard(ctx context.Context, viewer services.UserID, first *int, after, sessionID, lastID *string) (live.Board, error) {
	size, err := pageSize(first)
	if err != nil {
		return live.Board{}, err
	}
	if lastID, err = r.resolveOptionalID(ctx, viewer, "lastId", lastID); err != nil {
		return live.Board{}, err
	}
	return r.Live.Board(ctx, viewer, live.BoardRequest{First: size, After: after, Session: sessionID, LastID: lastID, Device: deviceName(ctx)})
}

// boardConnection makes a page of a board for its viewer. An edge has the values that the session froze, and its node is the
// show as it is now. All nodes share one list of IDs: a field of one show, such as its reminder, is read for all.
func (r *Resolver) boardConnection(board live.Board) *graph.LiveBoardConnection {
	page := &graph.LiveBoardConnection{
		Edges: make([]graph.LiveBoardEdge, len(board.Items)), PageInfo: graph.PageInfo{HasNextPage: board.HasNext},
		SessionID: board.Session.String(), NewSession: board.SessionReplaced, Building: board.ReplaysBeingBuilt,
	}
	ids := make([]services.ShowID, len(board.Items))
	for i, item := range board.Items {
		ids[i] = item.Show.ID
		page.Edges[i] = graph.LiveBoardEdge{
			Cursor: live.CursorText(board.Session, item.Position), Node: r.graphShow(item.Show, item.Host),
			Status: item.Frozen.Status, PlannedAt: item.Frozen.PlannedAt, StartedAt: item.Frozen.StartedAt, EndedAt: item.Frozen.EndedAt,
		}
		page.Edges[i].Node.Together = ids
	}
	if last := len(page.Edges) - 1; last >= 0 {
		page.PageInfo.StartCursor, page.PageInfo.EndCursor = &page.Edges[0].Cursor, &page.Edges[last].Cursor
		page.LastID = &page.Edges[last].Node.ID
	}
	if board.End != "" {
		page.End = &board.End
	}
	return page
}

// watchLiveBoard turns the changes of a viewer's board into events of a subscription. since is the version of the badges that the
// client has, or "".
func (r *Resolver) watchLiveBoard(ctx context.Context, viewer *graph.Viewer, sessionID *string, since string) (<-chan *graph.LiveBoardChange, error) {
	ctx, cancel := context.WithCancel(ctx)
	// Watch gets no version, so it sends the badges even if the client has them already: the board may have changed while the badges
	// did not.
	badges, err := r.Hub.Watch(ctx, viewer.UserID, "")
	if err != nil {
		cancel()
		return nil, err
	}
	changes, err := r.Live.Watch(ctx, viewer.UserID, sessionID, deviceName(ctx), badges)
	if err != nil {
		cancel()
		return nil, err
	}
	// A client that reconnects may already have the state with which the subscription begins. Then this state is not sent.
	known := func(change live.BoardChange) bool { return change.Unchanged() && change.Badges.Version == since }
	return relay(ctx, cancel, r.Log, changes, skipChangesClientHas(known, func(ctx context.Context, change live.BoardChange) (*graph.LiveBoardChange, error) {
		return r.liveBoardChange(ctx, viewer, change)
	})), nil
}

// liveBoardChange reads the hosts of an event, with a loader of its own: a loader that lives as long as the subscription would keep
// the names of the first event. All lists share one slice of hosts and one of IDs, so that a field of one show is read for all
// shows of the event.
func (r *Resolver) liveBoardChange(ctx context.Context, viewer *graph.Viewer, change live.BoardChange) (*graph.LiveBoardChange, error) {
	// The lists are in the order in which the fields below take them from shown.
	lists := [][]live.Show{change.WentLive, change.Ended, change.Scheduled, change.Rescheduled, change.Cancelled}
	var hosts []services.UserID
	var ids []services.ShowID
	for _, list := range lists {
		for _, show := range list {
			hosts, ids = append(hosts, show.Host), append(ids, show.ID)
		}
	}
	users, err := dataloader.New(r.Readers).Users(ctx, hosts)
	if err != nil {
		return nil, err
	}
	shown := make([][]graph.Show, len(lists))
	for i, list := range lists {
		shown[i] = make([]graph.Show, 0, len(list))
		for _, show := range list {
			host := users[show.Host]
			if host.Key == "" { // a user without a key is being erased
				continue
			}
			one := r.graphShow(show, host)
			one.Together, one.Host.Together = ids, hosts
			shown[i] = append(shown[i], one)
		}
	}
	return &graph.LiveBoardChange{
		SessionID: change.Session.String(), NewSession: change.SessionReplaced, WentLive: shown[0], Ended: shown[1],
		Scheduled: shown[2], Rescheduled: shown[3], Cancelled: shown[4], More: change.Truncated, NewAbove: change.NewAboveCount, LiveBoard: change.Badges.LiveBoard,
		Badges: *change.Badges, Viewer: withBadges(viewer, change.Badges),
	}, nil
}
