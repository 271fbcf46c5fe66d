package resolvers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
	"tidings/services"
	"tidings/services/live"
)

// shownBoard is a page of a live board with the time at which it was read: that time decides whether a show is late. read fills
// only the maps that the selection needs. A show that is missing in a map has the zero value, which is written as null, false or
// no relation.
type shownBoard struct {
	live.Board
	readAt      time.Time
	relations   map[services.UserID]services.Relation // of the hosts; nil if they are not requested
	labels      map[services.Object]services.Label    // of the shows; nil if they are not requested
	hasReminder map[services.ShowID]bool              // of the shows; nil if they are not requested
}

// estimatedBytes estimates the bytes of the page, so that the buffer of the answer is large enough from the beginning.
func (b *shownBoard) estimatedBytes() int {
	// edge is the number of bytes of an edge with all fields and a host. Most edges are shorter. If the buffer were too small, it
	// would have to be copied.
	const edge = 640
	size := len(b.Items) * edge
	for i := range b.Items {
		size += len(b.Items[i].Show.Title)
	}
	return size
}

// fill makes a page of the schema for appenders: without IDs and cursors of its items, which these write. The page has texts of b,
// which must stay as it is until the page is written.
func (b *shownBoard) fill(page *pooledBoardPage) {
	page.reads = graph.ShowReads{Session: b.Session, Labels: b.labels, Reminds: b.hasReminder}
	page.SessionID, page.NewSession, page.Building, page.PageInfo.HasNextPage = b.Session.String(), b.SessionReplaced, b.ReplaysBeingBuilt, b.HasNext
	page.Edges = slices.Grow(page.Edges, len(b.Items))[:len(b.Items)]
	for i := range b.Items {
		item, edge := &b.Items[i], &page.Edges[i]
		edge.Status, edge.PlannedAt, edge.StartedAt, edge.EndedAt, edge.Position = item.Frozen.Status, item.Frozen.PlannedAt, item.Frozen.StartedAt, item.Frozen.EndedAt, item.Position
		show, from := &edge.Node, &item.Show
		show.Number, show.Title, show.Status, show.Read = from.ID, from.Title, from.Status, &page.reads
		show.CoverURL, show.ReplayURL = textPointerOrNull(&from.CoverURL), textPointerOrNull(&from.ReplayURL)
		show.PlannedAt, show.StartedAt, show.EndedAt, show.CancelledAt = from.PlannedAt, from.StartedAt, from.OverAt(), from.CancelledAt
		show.Late = from.Late(b.readAt)
		fillHotUser(&show.Host, &item.Host, b.relations)
	}
	if last := len(b.Items) - 1; last >= 0 {
		page.startCursor, page.endCursor = live.CursorText(b.Session, b.Items[0].Position), live.CursorText(b.Session, b.Items[last].Position)
		page.PageInfo.StartCursor, page.PageInfo.EndCursor = &page.startCursor, &page.endCursor
		page.lastID = b.Items[last].Show.GlobalID()
		page.LastID = &page.lastID
	}
	if b.End != "" {
		page.End = &b.End
	}
}

// append appends the page. write is the compiled selection of the page.
func (b *shownBoard) append(to []byte, write func(to []byte, page *graph.LiveBoardConnection) []byte) []byte {
	page := boardPagePool.Get().(*pooledBoardPage)
	b.fill(page)
	to = write(to, &page.LiveBoardConnection)
	page.clear()
	boardPagePool.Put(page)
	return to
}

// pooledBoardPage is a page of a board that is filled, written and cleared again. It is reused, because a page with its edges takes
// kilobytes.
type pooledBoardPage struct {
	graph.LiveBoardConnection
	reads                          graph.ShowReads // data that the shows on the page share: each of them points to it
	startCursor, endCursor, lastID string          // the fields of the page point to them
}

// clear empties the page, and keeps the memory of its edges.
func (page *pooledBoardPage) clear() {
	clear(page.Edges)
	*page = pooledBoardPage{LiveBoardConnection: graph.LiveBoardConnection{Edges: page.Edges[:0]}}
}

// boardPagePool has pages for reuse.
var boardPagePool = sync.Pool{New: func() any { return new(pooledBoardPage) }}

// liveBoardPart compiles a page of the viewer's live board; nil if a field cannot be compiled. Only the data that the selection needs
// is read. compile refuses directives, so selectedFieldsBelow needs no variables.
func liveBoardPart(field *ast.Field) *hotPlanPart {
	write := appenders.LiveBoardConnection(field.SelectionSet)
	if write == nil {
		return nil
	}
	// What the selection needs beside the board is found out here, once for each document.
	wanted := selectedFieldsBelow(field.SelectionSet, nil)
	related, labelled := wanted.selectsRelations(), wanted.selectsLabels("Show")
	reminded := len(wanted["Show.viewerHasReminder"]) > 0 || len(wanted["Show.remindsMe"]) > 0
	joint := jointNone
	if !related && !labelled && !reminded {
		joint = jointBoard
	}
	return &hotPlanPart{
		joint: joint, field: field,
		jsonKey: graph.AppendKey(nil, field),
		write:   func(to []byte, c *hotPartValue) []byte { return c.board.append(to, write) },
		read: func(ctx context.Context, r *Resolver, viewer *graph.Viewer, variables map[string]any, c *hotPartValue) error {
			// Arguments are read as the executor reads them. A wrong argument leaves the request to the executor. An argument is
			// nil if it is absent or null.
			arguments := field.ArgumentMap(variables)
			var err error
			first := argument(arguments, "first", graph.UnmarshalInt, &err)
			after := argument(arguments, "after", graphql.UnmarshalString, &err)
			sessionID := argument(arguments, "sessionId", graphql.UnmarshalString, &err)
			lastID := argument(arguments, "lastId", graphql.UnmarshalID, &err)
			if err != nil {
				return err
			}
			// The time is read once for the page, so that two shows planned for one time become late together.
			c.board.readAt = r.Clock.Now()
			if c.board.Board, err = r.liveBoard(ctx, viewer.UserID, first, after, sessionID, lastID); err != nil {
				return err
			}
			// One read returns the labels of all shows, and only if a field shows them.
			if labelled {
				if c.board.labels, err = labelsOf(ctx, r, c.board.Items, func(item *live.BoardItem) services.Object { return showObjectOf(item.Show.ID) }); err != nil {
					return err
				}
			}
			// Reminders are read from SQL, by one statement for the whole page.
			if reminded {
				ids := make([]services.ShowID, len(c.board.Items))
				for i := range c.board.Items {
					ids[i] = c.board.Items[i].Show.ID
				}
				if c.board.hasReminder, err = r.Live.RemindedShows(ctx, viewer.UserID, ids); err != nil {
					return err
				}
			}
			// A host can have several shows on a board, and is asked for once.
			if related {
				c.board.relations, err = r.Social.Relations(ctx, viewer.UserID, userIDsOf(c.board.Items, func(item *live.BoardItem) *services.User { return &item.Host }))
			}
			return err
		},
	}
}
