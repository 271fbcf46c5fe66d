package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/notifications"
)

// setCategoryPreference changes how a category of notifications counts for the viewer, and whether it alerts them. Null in a
// field sets the category's usual value, absence leaves the user's own.
var setCategoryPreference = &operation[graph.SetCategoryPreferenceInput]{
	operationSpec: operationSpec{name: "setCategoryPreference"},
	command: func(_ context.Context, c *operationCall, in *graph.SetCategoryPreferenceInput) (*jobs.Command, error) {
		change := notifications.PreferenceChange{}
		if mode, given := in.Mode.ValueOK(); mode != nil {
			change.Mode = new(modesByName[*mode])
		} else if given {
			change.UseDefault = true
		}
		if push, given := in.Push.ValueOK(); given {
			change.NoPush = new(push != nil && !*push)
		}
		return c.r.Notifications.SetPreference(c.actor, services.Category(in.Category), change)
	},
}

// modesByName are the modes of categories by their names in the schema.
var modesByName = map[graph.CategoryMode]services.CategoryMode{
	graph.CategoryModeCount: services.CategoryCounted, graph.CategoryModeDot: services.CategoryDot, graph.CategoryModeOff: services.CategoryOff,
}
