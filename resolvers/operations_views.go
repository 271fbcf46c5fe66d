package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services/jobs"
	"tidings/services/views"
)

// touchView notes that the actor has looked at a view, up to a time: items newer than it are unread. The time only grows, so a
// device that reports late changes nothing.
var touchView = &operation[graph.TouchViewInput]{
	operationSpec: operationSpec{name: "touchView"},
	command: func(_ context.Context, c *operationCall, in *graph.TouchViewInput) (*jobs.Command, error) {
		return c.r.Views.Touch(c.actor, views.View{Code: in.Code, ID: in.Key}, in.UpTo)
	},
}

// addViewItem reports an item of a view. An item that is reported again gets the later of its times. Only its ID and time are
// kept: the list itself is the application's.
var addViewItem = &operation[graph.AddViewItemInput]{
	operationSpec: operationSpec{name: "addViewItem", actorKind: actorHost},
	command: func(_ context.Context, c *operationCall, in *graph.AddViewItemInput) (*jobs.Command, error) {
		return c.r.Views.Add(views.View{Code: in.Code, ID: in.Key}, in.Item, in.At)
	},
}

// removeViewItem takes an item back. Repeated, it changes nothing; an item that never existed is NOT_FOUND.
var removeViewItem = &operation[graph.RemoveViewItemInput]{
	operationSpec: operationSpec{name: "removeViewItem", actorKind: actorHost},
	command: func(_ context.Context, c *operationCall, in *graph.RemoveViewItemInput) (*jobs.Command, error) {
		return c.r.Views.Remove(views.View{Code: in.Code, ID: in.Key}, in.Item)
	},
}
