package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
)

var touchView = &operation[graph.TouchViewInput]{
	name: "touchView",
	command: func(_ context.Context, c *call, in *graph.TouchViewInput) (*jobs.Command, error) {
		return c.r.Views.Touch(c.actor, services.View{Code: in.Code, ID: in.ID}, in.UpTo)
	},
}

var addViewItem = &operation[graph.AddViewItemInput]{
	name: "addViewItem", by: forHost,
	command: func(_ context.Context, c *call, in *graph.AddViewItemInput) (*jobs.Command, error) {
		return c.r.Views.Add(services.View{Code: in.Code, ID: in.ID}, in.Item, in.At)
	},
}

var removeViewItem = &operation[graph.RemoveViewItemInput]{
	name: "removeViewItem", by: forHost,
	command: func(_ context.Context, c *call, in *graph.RemoveViewItemInput) (*jobs.Command, error) {
		return c.r.Views.Remove(services.View{Code: in.Code, ID: in.ID}, in.Item)
	},
}
