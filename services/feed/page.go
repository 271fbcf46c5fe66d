package feed

import (
	"context"

	"tidings/services"
	"tidings/services/rdb"
)

// Item is one line of a page: the post and its author.
type Item struct {
	Post   services.Post
	Author services.User
}

// Page is a page of a home feed, newest first.
type Page struct {
	Items   []Item
	HasNext bool
	Next    services.PostID  // the last place looked at: the next page starts after it; 0 when nothing was
	End     services.FeedEnd // why nothing follows, when HasNext is false
}

// rawLimit bounds how many entries one page looks at: past it the page is short and says that more follow.
const rawLimit = services.Retention

// Page reads up to first posts with ids below before. What was deleted is left out and made up for from further
// down. The next page starts after the last entry that was looked at, filtered or not, so that no page repeats another.
func (s *Service) Page(ctx context.Context, reader services.UserNumber, before services.PostID, first int) (Page, error) {
	var page Page
	for looked := 0; ; {
		want := min(first-len(page.Items), rawLimit-looked)
		raw, err := s.raw(ctx, reader, before, want+1)
		if err != nil {
			return page, err
		}
		page.HasNext = len(raw.Entries) > want
		entries := raw.Entries[:min(want, len(raw.Entries))]
		if page.Items, err = s.fill(ctx, page.Items, entries); err != nil {
			return page, err
		}
		if len(entries) > 0 {
			before = entries[len(entries)-1].Post
			page.Next = before
		}
		looked += len(entries)
		if !page.HasNext {
			page.End = services.EndOfFeed
			if raw.Cut {
				page.End = services.EndOfRetention
			}
		}
		if !page.HasNext || len(page.Items) == first || looked >= rawLimit {
			return page, nil
		}
	}
}

// fill appends the entries' posts that are still to be seen, posts and authors read in one round trip.
func (s *Service) fill(ctx context.Context, items []Item, entries []services.FeedEntry) ([]Item, error) {
	ids, authors := make([]services.PostID, len(entries)), make([]services.UserNumber, len(entries))
	for i, entry := range entries {
		ids[i], authors[i] = entry.Post, entry.Author
	}
	posts, users, err := s.mirror.Read(ctx, ids, authors)
	if err != nil {
		return items, err
	}
	for _, entry := range entries {
		if post, ok := posts[entry.Post]; ok && !post.Deleted {
			items = append(items, Item{Post: post, Author: users[entry.Author]})
		}
	}
	return items, nil
}

// raw reads entries of the reader's feed: from the inbox, rebuilt first where it is lost, or from SQL where Redis does
// not answer.
func (s *Service) raw(ctx context.Context, reader services.UserNumber, before services.PostID, limit int) (rdb.InboxPage, error) {
	page, err := s.redis.Inbox(ctx, reader, before, limit)
	if err == nil && !page.Ready {
		if err = s.fanout.Rebuild(ctx, reader); err == nil {
			page, err = s.redis.Inbox(ctx, reader, before, limit)
		}
	}
	if err == nil && page.Ready {
		return page, nil
	}
	if err != nil && !services.IsUnavailable(err) {
		return page, err
	}
	return s.rawFacts(ctx, reader, before, limit)
}

// rawFacts reads the same from SQL: what an inbox would list, no more.
func (s *Service) rawFacts(ctx context.Context, reader services.UserNumber, before services.PostID, limit int) (rdb.InboxPage, error) {
	entries, err := s.store.HomeFeed(ctx, reader, services.MaxPostID, services.Retention+1)
	if err != nil {
		return rdb.InboxPage{}, err
	}
	page := rdb.InboxPage{Ready: true, Cut: len(entries) > services.Retention}
	entries = entries[:min(len(entries), services.Retention)]
	for len(entries) > 0 && entries[0].Post >= before {
		entries = entries[1:]
	}
	page.Entries = entries[:min(limit, len(entries))]
	return page, nil
}
