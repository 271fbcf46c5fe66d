package feed

import (
	"context"
	"slices"
	"time"

	"tidings/services"
)

const (
	// overlap is the longest time between a post's ID and its commit. A page of newer posts begins so far before its position.
	overlap = 5 * time.Second
	// mostLate bounds how many posts of the overlap a page repeats.
	mostLate = 100
)

// Newer reads up to first posts that are newer than a position, the oldest first; the next page starts at its last post. Before
// them stand the posts of the five seconds up to the position, since they may have been committed after the reader was there. A
// client that always asks with its newest post misses none, and receives a few twice. The page's end is EndOfRetention when
// posts between the position and the page are no longer kept.
func (s *Service) Newer(ctx context.Context, reader services.UserID, than services.PostID, first int) (Page, error) {
	page := Page{Next: than}
	raw, err := s.first(ctx, reader, services.Retention)
	if err != nil {
		return page, err
	}
	page.Building = raw.Building
	if oldest := len(raw.Entries) - 1; raw.Cut && (oldest < 0 || raw.Entries[oldest].Post > than) {
		page.End = services.EndOfRetention
	}
	from := services.PostIDAt(than.Time().Add(-overlap))
	var late, newer []services.FeedEntry
	for _, entry := range slices.Backward(raw.Entries) {
		switch {
		case entry.Post > than:
			newer = append(newer, entry)
		case entry.Post >= from && entry.Post < than:
			late = append(late, entry)
		}
	}
	if page.Items, err = s.fill(ctx, nil, late[max(0, len(late)-mostLate):], 0); err != nil {
		return page, err
	}
	for before := len(page.Items); len(newer) > 0 && len(page.Items)-before < first; {
		want := min(first-(len(page.Items)-before), len(newer))
		if page.Items, err = s.fill(ctx, page.Items, newer[:want], 0); err != nil {
			return page, err
		}
		page.Next = newer[want-1].Post
		newer = newer[want:]
	}
	page.HasNext = len(newer) > 0
	return page, nil
}
