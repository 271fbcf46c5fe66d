package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services/jobs"
	"tidings/services/views"
)

var touchView = &operation[graph.TouchViewInput]{
	name: "touchView",
	command: func(_ context.Context, c *call, in *graph.TouchViewInput) (*jobs.Command, error) {
		return c.r.Views.Touch(c.actor, views.View{Code: in.Code, ID: in.Key}, in.UpTo)
	},
}

var addViewItem = &operation[graph.AddViewItemInput]{
	name: "addViewItem", by: forHost,
	command: func(_ context.Context, c *call, in *graph.AddViewItemInput) (*jobs.Command, error) {
		return c.r.Views.Add(views.View{Code: in.Code, ID: in.Key}, in.Item, in.At)
	},
}

var removeViewItem = &operation[graph.RemoveViewItemInput]{
	name: "removeViewItem", by: forHost,
	command: func(_ context.Context, c *call, in *graph.RemoveViewItemInput) (*jobs.Command, error) {
		return c.r.Views.Remove(views.View{Code: in.Code, ID: in.Key}, in.Item)
	},
}
