package resolvers

import (
	"context"
	"encoding/base64"
	"strings"

	"tidings/graph"
	"tidings/services"
	"tidings/services/views"
)

// graphView is a view with its count, before the viewer's display policy.
func graphView(view views.UnreadView) graph.View {
	return graph.View{ID: view.GlobalID(), Code: view.Code, Key: view.ID, Unread: view.Count, UpTo: view.UpTo, LastAccessAt: view.LastAccessAt}
}

// viewCursorText prints a position in a viewer's list of views, which is in the order of code and ID: the viewer, the code, a zero
// byte, the ID. Neither text contains a zero byte. A view has no number, so the position contains its name. Names are short, so
// the cursor is short too.
func viewCursorText(viewer services.UserID, view views.View) string {
	return viewCursor.text(viewer, 0) + base64.RawURLEncoding.EncodeToString([]byte(view.Code+"\x00"+view.ID))
}

// parseViewCursor reads the output of viewCursorText for this viewer. View.Check refuses names that no view can have, so that a made-up
// cursor reaches no statement.
func parseViewCursor(viewer services.UserID, text string) (views.View, error) {
	owner := min(base64.RawURLEncoding.EncodedLen(cursorBytes), len(text))
	if _, err := viewCursor.parse("after", viewer, text[:owner]); err != nil {
		return views.View{}, err
	}
	bytes, err := base64.RawURLEncoding.Strict().DecodeString(text[owner:])
	code, id, found := strings.Cut(string(bytes), "\x00")
	view := views.View{Code: code, ID: id}
	if err != nil || !found || view.Check() != nil {
		return views.View{}, services.Errorf(services.Invalid, "after: %s is not a cursor of %s", services.Quote(text), viewCursor)
	}
	return view, nil
}

// views makes a page of the views that the viewer has touched. codes are required, because an application has many views, and a
// page shows only some kinds of them.
func (r *Resolver) views(ctx context.Context, viewer *graph.Viewer, codes []string, first *int, after *string) (*graph.ViewConnection, error) {
	page, size, err := sharedPage(ctx, first, func(ctx context.Context, _ []pageRequest, size int) (*graph.ViewConnection, error) {
		return r.readViews(ctx, viewer, codes, size, after)
	})
	if err != nil {
		return nil, err
	}
	page.Edges = trimPage(page.Edges, size, &page.PageInfo, func(edge *graph.ViewEdge) *string { return &edge.Cursor })
	return &page, nil
}

// readViews reads the page after a view, with the views of some codes. The list is in the order of code and ID, so the position after
// a page is its last view. A view that is touched between two pages keeps its position.
func (r *Resolver) readViews(ctx context.Context, viewer *graph.Viewer, codes []string, size int, after *string) (_ *graph.ViewConnection, err error) {
	var from views.View
	if after != nil {
		if from, err = parseViewCursor(viewer.UserID, *after); err != nil {
			return nil, err
		}
	}
	page, err := r.Views.List(ctx, viewer.UserID, codes, from, size)
	if err != nil {
		return nil, err
	}
	result := &graph.ViewConnection{Edges: make([]graph.ViewEdge, len(page.Views)), PageInfo: graph.PageInfo{HasNextPage: page.HasNext}}
	for i, view := range page.Views {
		result.Edges[i] = graph.ViewEdge{Cursor: viewCursorText(viewer.UserID, view.View), Node: graphView(view)}
	}
	if n := len(result.Edges); n > 0 {
		result.PageInfo.StartCursor, result.PageInfo.EndCursor = &result.Edges[0].Cursor, &result.Edges[n-1].Cursor
	}
	return result, nil
}
