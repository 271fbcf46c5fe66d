package feed

import (
	"context"
	"slices"
	"time"

	"tidings/services"
)

const (
	// overlap is how much later than its id says a post may be committed: so far back a page of newer posts begins.
	overlap = 5 * time.Second
	// mostLate bounds what a page of newer posts repeats of it.
	mostLate = 100
)

// Newer reads up to first posts that are newer than a place, the oldest first: the next page starts at its last. Before them
// stand those of the five seconds up to the place, which may have been committed after the reader was there: who asks again
// and again with the newest that he has misses none, and sees a few twice. Where posts between the place and the page are
// kept no longer its end is EndOfRetention.
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
