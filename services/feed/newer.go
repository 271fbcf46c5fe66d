package feed

import (
	"context"
	"slices"
	"time"

	"tidings/services"
)

// A page of newer posts repeats some older posts. These limits say which.
const (
	// newerPageOverlap is how long after its ID was made a post may be committed and still be on the next page of newer posts: such
	// a page begins newerPageOverlap before its position.
	newerPageOverlap = 5 * time.Second
	// maxOverlapPosts bounds how many posts of the overlap a page repeats.
	maxOverlapPosts = 100
)

// PageNewerOldestFirst reads up to first posts that are newer than a position, the oldest first; the next page starts at its last
// post. The page begins with the posts of the five seconds before the position, because a post may be committed after a reader has
// passed its position. A client that always asks with its newest post misses none, and receives a few twice. The page's end is
// EndOfRetention when posts between the position and the page are no longer kept.
func (s *Service) PageNewerOldestFirst(ctx context.Context, reader services.UserID, than services.PostID, first int) (Page, error) {
	page := Page{NextPageAfter: than}
	// The whole list is read: new posts are at its top, and the page begins at its bottom.
	raw, err := s.readRawNewest(ctx, reader, services.FeedRetention)
	if err != nil {
		return page, err
	}
	page.InboxBuilding = raw.InboxBuilding
	if oldest := len(raw.Entries) - 1; raw.OlderPostsCut && (oldest < 0 || raw.Entries[oldest].Post > than) {
		page.End = services.EndOfRetention
	}
	from := services.PostID(services.SortableIDAt(than.Time().Add(-newerPageOverlap)))
	var late, newer []services.FeedEntry
	for _, entry := range slices.Backward(raw.Entries) {
		switch {
		case entry.Post > than:
			newer = append(newer, entry)
		case entry.Post >= from && entry.Post < than:
			late = append(late, entry)
		}
	}
	// Posts of the overlap do not count toward the page's size, so that a burst of them does not keep the client from moving on.
	if page.Items, err = s.appendVisible(ctx, nil, late[max(0, len(late)-maxOverlapPosts):]); err != nil {
		return page, err
	}
	page.HasNext, err = s.appendUpward(ctx, &page, newer, first)
	return page, err
}

// PageAbove reads the posts that are newer than a position: at most last of them, those closest to it, the newest first. HasPrevious
// reports that newer posts follow above the page. If posts between the page and the position are no longer kept, the page's End
// is EndOfRetention.
func (s *Service) PageAbove(ctx context.Context, reader services.UserID, position services.PostID, last int) (Page, error) {
	page := Page{HasNext: true}
	raw, err := s.readRawNewest(ctx, reader, services.FeedRetention)
	if err != nil {
		return page, err
	}
	page.InboxBuilding = raw.InboxBuilding
	if oldest := len(raw.Entries) - 1; raw.OlderPostsCut && (oldest < 0 || raw.Entries[oldest].Post > position) {
		page.End = services.EndOfRetention
	}
	// The oldest of the newer posts come first, because the page is next to the position.
	var newer []services.FeedEntry
	for _, entry := range slices.Backward(raw.Entries) {
		if entry.Post > position {
			newer = append(newer, entry)
		}
	}
	if page.HasPrevious, err = s.appendUpward(ctx, &page, newer, last); err != nil {
		return page, err
	}
	slices.Reverse(page.Items)
	page.NextPageAfter = position
	if len(page.Items) > 0 {
		page.NextPageAfter = page.Items[len(page.Items)-1].Post.ID
	}
	return page, nil
}

// appendUpward appends up to count visible posts of entries, which are oldest first, to a page, and reports whether entries are
// left. Posts that were deleted make room for the next ones.
func (s *Service) appendUpward(ctx context.Context, page *Page, entries []services.FeedEntry, count int) (more bool, err error) {
	for before := len(page.Items); len(entries) > 0 && len(page.Items)-before < count; {
		want := min(count-(len(page.Items)-before), len(entries))
		if page.Items, err = s.appendVisible(ctx, page.Items, entries[:want]); err != nil {
			return false, err
		}
		page.NextPageAfter = entries[want-1].Post
		entries = entries[want:]
	}
	return len(entries) > 0, nil
}
