package badge

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/positions"
)

// Newest explains the counts of some sources by their newest item that may alert the user. badges are the user's, from Peek. A
// source without such an item is absent.
func (s *Service) Newest(ctx context.Context, user services.UserID, badges *services.Badges, sources []services.Source) (map[services.Source]services.Explanation, error) {
	of := source.Explained{User: user, Badges: badges, Today: s.moment(ctx).Today(), Limit: 1}
	newest := map[services.Source]services.Explanation{}
	for _, key := range sources {
		for _, one := range s.sources {
			if one.Key() != key {
				continue
			}
			found, err := s.newestOf(ctx, one, &of)
			if err != nil {
				return nil, err
			}
			alerts := func(string, time.Time) bool { return true }
			if alerter, some := one.(source.Alerter); some {
				if alerts, err = alerter.Alerting(ctx, user); err != nil {
					return nil, err
				}
			}
			for _, explanation := range found {
				for _, item := range explanation.Items {
					if !alerts(explanation.Part, item.At) {
						continue
					}
					if had, some := newest[key]; !some || item.At.After(had.Items[0].At) {
						newest[key] = services.Explanation{Source: key, Part: explanation.Part, Count: explanation.Count, Items: []services.Item{item}}
					}
				}
			}
		}
	}
	return newest, nil
}

// newestOf explains the counts of one source by their newest items: from its projection if that can tell, else from the facts. It
// reads the user's positions when the first source needs them.
func (s *Service) newestOf(ctx context.Context, one Source, of *source.Explained) ([]services.Explanation, error) {
	if projected, some := one.(source.Projected); some {
		if explanation, known := projected.Newest(ctx, *of); known {
			return []services.Explanation{explanation}, nil
		}
	}
	if of.Seen == nil {
		seen, err := positions.OfViews(ctx, s.store, of.User, positions.HomePage, positions.LiveBoard)
		if err != nil {
			return nil, err
		}
		of.Seen = seen
	}
	return one.Explain(ctx, *of)
}
