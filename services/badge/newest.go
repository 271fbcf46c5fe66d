package badge

import (
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/positions"
)

// ExplainNewest explains the counts of some sources, each by the newest of its items that may alert the user and are not older than
// since. badges are the user's, from Peek. A count without such an item is absent.
//
// An item is in the facts a moment before it is in the badges, which may have been read in that moment. If the items that a source lists
// add up to more than the count, the explanation says that it is ahead: an alert would have a total without some of them. A lower bound
// lacks items at any time, and is not waited for.
func (s *Service) ExplainNewest(ctx context.Context, user services.UserID, badges *services.Badges, sources []services.Source, since time.Time) ([]services.Explanation, error) {
	ctx = services.Observe(ctx) // as in Peek: this read is no visit
	// Limit 1: a source need not list more than the newest item. It lists more if its facts can be ahead of its count.
	of := source.ExplainRequest{User: user, Badges: badges, Today: s.moment(ctx).Today(), Limit: 1}
	var newest []services.Explanation
	for _, one := range s.sources {
		if !slices.Contains(sources, one.Key()) {
			continue
		}
		found, err := s.explainNewestOf(ctx, one, &of)
		if err != nil {
			return nil, err
		}
		// A source that is no AlertFilter alerts with all of its items.
		alerts := func(string, time.Time) bool { return true }
		if alerter, some := one.(source.AlertFilter); some {
			if alerts, err = alerter.Alerting(ctx, user); err != nil {
				return nil, err
			}
		}
		for _, explanation := range found {
			var item services.Item
			listed := 0
			for _, other := range explanation.Items {
				listed += other.Count
				if alerts(explanation.Part, other.At) && other.At.After(item.At) && !other.At.Before(since) {
					item = other
				}
			}
			if item.ID != "" {
				explanation.Items = []services.Item{item}
				explanation.Ahead = listed > explanation.Count.Value && explanation.Count.Precision != services.AtLeast
				newest = append(newest, explanation)
			}
		}
	}
	return newest, nil
}

// explainNewestOf explains the counts of one source by their newest items. It asks the source's own Newest, and uses Explain if the
// source has no Newest or Newest does not know. It reads the user's positions when Explain first needs them.
func (s *Service) explainNewestOf(ctx context.Context, one Source, of *source.ExplainRequest) ([]services.Explanation, error) {
	if finder, some := one.(source.NewestFinder); some {
		if explanations, known, err := finder.Newest(ctx, *of); known || err != nil {
			return explanations, err
		}
	}
	if of.SeenPositions == nil {
		seen, err := positions.OfUser(ctx, s.db, of.User)
		if err != nil {
			return nil, err
		}
		of.SeenPositions = seen
	}
	return one.Explain(ctx, *of)
}
