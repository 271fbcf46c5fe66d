package feed

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/positions"
	"tidings/services/posts"
	"tidings/services/push"
)

// FeedChange is one event of a home feed's subscription: the posts that are new for the reader.
type FeedChange struct {
	NewPosts      services.Count    // the count of unseen posts
	NewestUnseen  services.PostID   // the newest unseen post; 0: none
	NewestAuthors []services.UserID // of the newest unseen posts, the newest first, at most three
	Badges        *services.Badges  // NewPosts is their home feed's count
}

// These limit what a FeedChange tells beside the count.
const (
	// maxChangeAuthors is how many authors a FeedChange names at most.
	maxChangeAuthors   = 3
	maxSearchedEntries = 100 // how many of a feed's newest entries are searched for those authors
)

// Watch opens a channel with the new posts of a reader's feed: the present state, and then each change. A slow consumer receives only the
// latest. badges brings the reader's badges whenever they change; Watch waits for the first. A page that is read after a change contains
// everything that the change reports. The channel is closed when ctx ends and when badges is closed.
func (s *Service) Watch(ctx context.Context, reader services.UserID, badges <-chan *services.Badges) <-chan FeedChange {
	changes := make(chan FeedChange)
	go func() {
		defer close(changes)
		push.SendDerivedStates(ctx, changes, badges, nil, func(ctx context.Context, badges *services.Badges) (FeedChange, error) {
			return s.change(ctx, reader, badges)
		}, FeedChange.same)
	}()
	return changes
}

// change makes the FeedChange of a reader's badges. It reads the newest unseen post and the authors of the newest ones.
func (s *Service) change(ctx context.Context, reader services.UserID, badges *services.Badges) (change FeedChange, err error) {
	change = FeedChange{NewPosts: badges.HomeFeed, Badges: badges}
	// Most changes of badges are not of the feed: without new posts nothing is read.
	if change.NewPosts.Value > 0 {
		change.NewestUnseen, change.NewestAuthors, err = s.newestUnseen(ctx, reader)
	}
	return change, err
}

// same reports whether two changes are equal for the feed, whatever else the badges show.
func (c FeedChange) same(other FeedChange) bool {
	return c.NewPosts == other.NewPosts && c.NewestUnseen == other.NewestUnseen && slices.Equal(c.NewestAuthors, other.NewestAuthors)
}

// newestUnseen finds the newest entry that is new for the reader, and the authors of the newest new entries. It reads the top of the
// feed as a page does, so that a page that is read next shows these posts.
func (s *Service) newestUnseen(ctx context.Context, reader services.UserID) (newest services.PostID, authors []services.UserID, err error) {
	page, err := s.readRaw(ctx, reader, services.MaxPostID, maxSearchedEntries)
	if err != nil {
		return 0, nil, err
	}
	// A page from the facts has no seen position.
	if page.FromFacts {
		if page.SeenUpTo, err = positions.Of[services.PostID](ctx, s.db, reader, positions.HomeFeedView); err != nil {
			return 0, nil, err
		}
	}
	// Posts that are too old to count are not new either.
	page.SeenUpTo = max(page.SeenUpTo, s.projector.Expiry().ExpiredPostsUpTo(services.DayOf(s.clock.Now())))
	entries := page.Entries
	if len(entries) == maxSearchedEntries && !slices.ContainsFunc(entries, func(entry services.FeedEntry) bool { return entry.CountsAsNew }) {
		// The newest entries are all the reader's own, or from before a follow: the new posts are further down.
		if entries, err = posts.UnreadFeed(ctx, s.db, reader, page.SeenUpTo, maxSearchedEntries); err != nil {
			return 0, nil, err
		}
	}
	// The entries are newest first, and the first seen entry ends the new ones.
	for _, entry := range entries {
		if entry.Post <= page.SeenUpTo || len(authors) == maxChangeAuthors {
			break
		}
		if !entry.CountsAsNew {
			continue
		}
		newest = max(newest, entry.Post)
		if !slices.Contains(authors, entry.Author) {
			authors = append(authors, entry.Author)
		}
	}
	return newest, authors, nil
}
