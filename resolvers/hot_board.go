package resolvers

import (
	"context"
	"strconv"
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
	at        time.Time
	relations map[services.UserID]services.Relation // of the hosts; nil if they are not requested
	labels    map[services.Object]services.Label    // of the shows; nil if they are not requested
	reminds   map[services.PostID]bool              // of the shows; nil if they are not requested
}

// size estimates the bytes of the page, so that the buffer of the answer is large enough from the beginning.
func (b *shownBoard) size() int {
	// edge is the number of bytes of an edge with all fields and a host. Most edges are shorter. If the buffer were too small, it would
	// have to be copied.
	const edge = 640
	size := len(b.Items) * edge
	for i := range b.Items {
		size += len(b.Items[i].Show.Title)
	}
	return size
}

// shownShow is a show in its place on a board: the edge and the node in one. It is used for one entry after another: see eachShow.
type shownShow struct {
	*live.Item
	board *shownBoard // the page that it is on
	host  shownUser
	label services.Label
}

// liveBoardPart compiles a page of the viewer's live board; nil if a field cannot be compiled. Only the data that the selection needs
// is read. compile refuses directives, so wantedBelow needs no variables.
func liveBoardPart(field *ast.Field) *part {
	write := boardObject.compile(field.SelectionSet)
	if write == nil {
		return nil
	}
	// What the selection needs beside the board is found out here, once for each document.
	wanted := wantedBelow(field.SelectionSet, nil)
	related, labelled := wanted.selectsRelations(), wanted.selectsLabels("Show")
	reminded := len(wanted["Show.viewerHasReminder"]) > 0 || len(wanted["Show.remindsMe"]) > 0
	joint := jointNot
	first, top := topPageSize(field)
	if top && !related && !labelled && !reminded {
		joint = jointBoard
	}
	return &part{
		joint: joint, first: first,
		key:   appendKey(nil, field),
		write: func(to []byte, c *content) []byte { return write(to, &c.board) },
		read: func(ctx context.Context, r *Resolver, viewer *graph.Viewer, variables map[string]any, c *content) error {
			// Arguments are read as the executor reads them. A wrong argument leaves the request to the executor. An argument is
			// nil if it is absent or null.
			arguments := field.ArgumentMap(variables)
			first, err := argument(arguments, "first", graph.UnmarshalInt)
			if err != nil {
				return err
			}
			after, err := argument(arguments, "after", graphql.UnmarshalString)
			if err != nil {
				return err
			}
			sessionID, err := argument(arguments, "sessionId", graphql.UnmarshalString)
			if err != nil {
				return err
			}
			lastID, err := argument(arguments, "lastId", graphql.UnmarshalID)
			if err != nil {
				return err
			}
			// The time is read once for the page, so that two shows planned for one time become late together.
			c.board.at = r.Clock.Now()
			if c.board.Board, err = r.liveBoard(ctx, viewer.Number, first, after, sessionID, lastID); err != nil {
				return err
			}
			// One read returns the labels of all shows, and only if a field shows them.
			if labelled {
				if c.board.labels, err = labelsOf(ctx, r, c.board.Items, func(item *live.Item) services.Object { return showObjectOf(item.Show.ID) }); err != nil {
					return err
				}
			}
			// Reminders are read from SQL, by one statement for the whole page.
			if reminded {
				ids := make([]services.PostID, len(c.board.Items))
				for i := range c.board.Items {
					ids[i] = c.board.Items[i].Show.ID
				}
				if c.board.reminds, err = r.Live.RemindedShows(ctx, viewer.Number, ids); err != nil {
					return err
				}
			}
			// A host can have several shows on a board, and is asked for once.
			if related {
				c.board.relations, err = r.Social.Relations(ctx, viewer.Number, userIDsOf(c.board.Items, func(item *live.Item) *services.User { return &item.Host }))
			}
			return err
		},
	}
}

// appendShowID writes the global ID of a show.
func appendShowID(to []byte, id services.PostID) []byte {
	return appendID(to, services.ShowType, id.String())
}

// appendBoardCursor writes the cursor of the item at an index; null if there is no such item, as for the first and the last of an empty
// page.
func appendBoardCursor(to []byte, b *shownBoard, i int) []byte {
	if i < 0 || i >= len(b.Items) {
		return append(to, "null"...)
	}
	return append(live.AppendCursor(append(to, '"'), b.Session, b.Items[i].Place), '"')
}

// eachShow returns the compiler of a list with one entry for each show of a page, such as edges or nodes. entry compiles the object that
// is written for each show. One shownShow serves all entries, because a writer keeps nothing.
func eachShow(entry fieldCompiler[shownShow]) fieldCompiler[shownBoard] {
	return func(selected ast.SelectionSet) writer[shownBoard] {
		write := entry(selected)
		if write == nil {
			return nil
		}
		return func(to []byte, board *shownBoard) []byte {
			to = append(to, '[')
			edge := shownShow{board: board}
			for i := range board.Items {
				if i > 0 {
					to = append(to, ',')
				}
				edge.Item = &board.Items[i]
				edge.label = board.labels[showObjectOf(edge.Show.ID)]
				edge.host = shownUser{&edge.Host, board.relations[edge.Host.Number]}
				to = write(to, &edge)
			}
			return append(to, ']')
		}
	}
}

// The types of a live board, each with all of its fields.
var (
	showObject = objectCompiler[shownShow]{"Show", map[string]fieldCompiler[shownShow]{
		"id":        leaf(func(to []byte, s *shownShow) []byte { return appendShowID(to, s.Show.ID) }),
		"host":      objectField(func(s *shownShow) *shownUser { return &s.host }, userObject),
		"title":     leaf(func(to []byte, s *shownShow) []byte { return graph.AppendText(to, s.Show.Title) }),
		"coverUrl":  leaf(func(to []byte, s *shownShow) []byte { return appendTextOrNull(to, s.Show.CoverURL) }),
		"replayUrl": leaf(func(to []byte, s *shownShow) []byte { return appendTextOrNull(to, s.Show.ReplayURL) }),
		// A node has the show as it is now; an edge has it as the session froze it.
		"status":    leaf(func(to []byte, s *shownShow) []byte { return graph.AppendText(to, string(s.Show.Status)) }),
		"plannedAt": leaf(func(to []byte, s *shownShow) []byte { return graph.AppendTime(to, s.Show.PlannedAt) }),
		"startedAt": leaf(func(to []byte, s *shownShow) []byte { return graph.AppendTime(to, s.Show.StartedAt) }),
		// OverAt and not EndedAt: a show whose end was reported before its start is not over.
		"endedAt":           leaf(func(to []byte, s *shownShow) []byte { return graph.AppendTime(to, s.Show.OverAt()) }),
		"cancelledAt":       leaf(func(to []byte, s *shownShow) []byte { return graph.AppendTime(to, s.Show.CancelledAt) }),
		"ref":               leaf(func(to []byte, s *shownShow) []byte { return appendTextOrNull(to, s.label.Ref) }),
		"url":               leaf(func(to []byte, s *shownShow) []byte { return appendTextOrNull(to, s.label.URL) }),
		"data":              leaf(func(to []byte, s *shownShow) []byte { return appendData(to, s.label.Data) }),
		"remindsMe":         leaf(appendReminds),
		"viewerHasReminder": leaf(appendReminds),
		"late":              leaf(func(to []byte, s *shownShow) []byte { return strconv.AppendBool(to, s.Show.Late(s.board.at)) }),
	}}

	// The edge has the values that the session froze. A client sorts by the values of the edge, so that a show keeps its row when it
	// goes live.
	boardEdgeObject = objectCompiler[shownShow]{"LiveBoardEdge", map[string]fieldCompiler[shownShow]{
		"cursor": leaf(func(to []byte, s *shownShow) []byte {
			return append(live.AppendCursor(append(to, '"'), s.board.Session, s.Place), '"')
		}),
		"status":    leaf(func(to []byte, s *shownShow) []byte { return graph.AppendText(to, string(s.Frozen.Status)) }),
		"plannedAt": leaf(func(to []byte, s *shownShow) []byte { return graph.AppendTime(to, s.Frozen.PlannedAt) }),
		"startedAt": leaf(func(to []byte, s *shownShow) []byte { return graph.AppendTime(to, s.Frozen.StartedAt) }),
		"endedAt":   leaf(func(to []byte, s *shownShow) []byte { return graph.AppendTime(to, s.Frozen.EndedAt) }),
		"node":      objectField(func(s *shownShow) *shownShow { return s }, showObject),
	}}

	// The schema has one PageInfo. Each kind of page has an object of its own for it, because each has another Go type.
	boardInfoObject = objectCompiler[shownBoard]{"PageInfo", map[string]fieldCompiler[shownBoard]{
		"hasNextPage": leaf(func(to []byte, b *shownBoard) []byte { return strconv.AppendBool(to, b.HasNext) }),
		// A board is paged downwards only. Without a plan the value is false too.
		"hasPreviousPage": leaf(func(to []byte, _ *shownBoard) []byte { return append(to, "false"...) }),
		"startCursor":     leaf(func(to []byte, b *shownBoard) []byte { return appendBoardCursor(to, b, 0) }),
		"endCursor":       leaf(func(to []byte, b *shownBoard) []byte { return appendBoardCursor(to, b, len(b.Items)-1) }),
	}}

	// lastId repeats the last show for clients that keep shows and no cursors.
	boardObject = objectCompiler[shownBoard]{"LiveBoardConnection", map[string]fieldCompiler[shownBoard]{
		"edges":     eachShow(boardEdgeObject.compile),
		"nodes":     eachShow(showObject.compile),
		"pageInfo":  objectField(func(b *shownBoard) *shownBoard { return b }, boardInfoObject),
		"sessionId": leaf(func(to []byte, b *shownBoard) []byte { return graph.AppendText(to, b.Session.String()) }),
		// lastId is null on an empty page.
		"lastId": leaf(func(to []byte, b *shownBoard) []byte {
			if len(b.Items) == 0 {
				return append(to, "null"...)
			}
			return appendShowID(to, b.Items[len(b.Items)-1].Show.ID)
		}),
		"newSession": leaf(func(to []byte, b *shownBoard) []byte { return strconv.AppendBool(to, b.Replaced) }),
		"end":        leaf(func(to []byte, b *shownBoard) []byte { return appendTextOrNull(to, string(b.End)) }),
		"building":   leaf(func(to []byte, b *shownBoard) []byte { return strconv.AppendBool(to, b.Building) }),
	}}
)

// appendReminds writes whether the viewer has a reminder of a show.
func appendReminds(to []byte, s *shownShow) []byte {
	return strconv.AppendBool(to, s.board.reminds[s.Show.ID])
}
