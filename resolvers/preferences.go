package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/notifications"
)

// categoryPreferences are the viewer's preferences of all categories, read once for a response.
func (r *Resolver) categoryPreferences(ctx context.Context, user services.UserID) ([]graph.CategoryPreference, error) {
	return dataloader.Shared(ctx, categoriesKey{}, func(ctx context.Context) ([]graph.CategoryPreference, error) {
		found, err := r.Notifications.Preferences(ctx, user)
		list := make([]graph.CategoryPreference, len(found))
		for i, one := range found {
			list[i] = graphCategoryPreference(one)
		}
		return list, err
	})
}

func graphCategoryPreference(of notifications.CategoryPreference) graph.CategoryPreference {
	shown := graph.CategoryPreference{Category: string(of.Category), Push: !of.NoPush}
	for name, mode := range modesByName {
		if mode == of.Mode || mode == services.CategoryCounted && of.Mode.IsNumber() {
			shown.Mode = name
		}
	}
	return shown
}
