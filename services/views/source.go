package views

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/rdb"
)

// Source is the badge source of the new items in the views that a user touched last. It implements badge.Source.
type Source struct {
	source.DefaultMethods
	s *Service
}

// Source returns the service's badge source.
func (s *Service) Source() Source { return Source{s: s} }

// Name is the source's name in logs.
func (Source) Name() string { return "views" }

// Key returns VIEWS, the source's name in the API.
func (Source) Key() services.Source { return services.SourceViews }

// Part returns the only count of this source: the number of new items.
func (Source) Part(badges *services.Badges, i int) *services.Count {
	return source.SinglePart(&badges.Views, i)
}

// Facts counts each user's new items in SQL, and sets the counts in the users' documents.
func (v Source) Facts(ctx context.Context, users []services.UserID, _ int64, documents []rdb.Document) error {
	states, err := readCounts(ctx, v.s.db, users)
	for i, user := range users {
		documents[i].Views = states[user]
	}
	return err
}

// Render sets the badge of the views from the count in the user's document. Items of views do not expire.
func (Source) Render(v *source.Rendering, badges *services.Badges) {
	state := v.Document.Views
	badges.Views = source.ExactCount(state.Unread)
	if state.AtLeast {
		badges.Views = services.NewCount(state.Unread, services.AtLeast, time.Time{})
	}
}

// Explain lists the views with new items, the view with the newest item first, each with the mutation that touches it and so clears its
// items from the count.
func (v Source) Explain(ctx context.Context, of source.ExplainRequest) ([]services.Explanation, error) {
	views, err := readNewItems(ctx, v.s.db, of.User, time.Time{})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(views, func(a, b newItemCount) int {
		return cmp.Or(b.newest.Compare(a.newest), cmp.Compare(a.Code, b.Code), cmp.Compare(a.ID, b.ID))
	})
	explanation := services.Explanation{Source: services.SourceViews, Count: of.Badges.Views}
	for _, view := range views {
		explanation.Items = append(explanation.Items, services.Item{
			ID: view.GlobalID(), At: view.newest, Count: view.items, ClearedBy: source.ClearingMutationWithInput("touchView", view.inputFields()),
		})
	}
	return []services.Explanation{explanation}, nil
}

// inputFields returns the view as the fields of a GraphQL input. JSON quotes any key as GraphQL does, which Go's %q does not.
func (v View) inputFields() string {
	code, _ := json.Marshal(v.Code) // a string always has a JSON form
	key, _ := json.Marshal(v.ID)
	return "code: " + string(code) + ", key: " + string(key)
}

// Digest counts the items that came into the user's views since a moment, seen or not.
func (v Source) Digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error {
	views, err := readNewItems(ctx, v.s.db, user, since)
	if err != nil {
		return err
	}
	// The bound is above the greatest possible sum. A view with more items than are counted makes the sum AT_LEAST.
	items, bound := 0, maxCountedViews*maxCountedItems+1
	for _, view := range views {
		items += view.items
		if view.more {
			// A number that reaches the bound becomes AT_LEAST, and every number reaches 0.
			bound = 0
		}
	}
	source.AddDigestPart(digest, services.SourceViews, "", items, bound)
	return nil
}
