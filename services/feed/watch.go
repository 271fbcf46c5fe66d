package feed

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/positions"
	"tidings/services/posts"
	"tidings/services/push"
)

// Change is one event of a home feed's subscription: the posts that are new for the reader.
type Change struct {
	New     services.Count    // the count of unseen posts
	Newest  services.PostID   // the newest unseen post; 0: none
	Authors []services.UserID // of the newest unseen posts, the newest first, at most three
	Badges  *services.Badges  // New is their home feed's count
}

// These limit the part of a change beside the count.
const (
	// changeAuthors is how many authors a change names, and changeEntries how many entries are searched for them.
	changeAuthors = 3
	changeEntries = 100
)

// Watch opens a channel with the new posts of a reader's feed: the present state, and then each change. A slow consumer
// receives only the latest. badges are the reader's, from the hub; Watch waits for the first. A page that is read after a
// change contains everything that the change reports. The channel is closed when ctx ends and when badges is closed.
func (s *Service) Watch(ctx context.Context, reader services.UserID, badges <-chan *services.Badges) <-chan Change {
	changes := make(chan Change)
	go func() {
		defer close(changes)
		push.Derive(ctx, changes, badges, nil, func(ctx context.Context, badges *services.Badges) (Change, error) {
			return s.change(ctx, reader, badges)
		}, Change.same)
	}()
	return changes
}

// change reads the newest unseen post and the authors of the newest ones.
func (s *Service) change(ctx context.Context, reader services.UserID, badges *services.Badges) (change Change, err error) {
	change = Change{New: badges.HomeFeed, Badges: badges}
	// Most changes of badges are not of the feed: without new posts nothing is read.
	if change.New.Value > 0 {
		change.Newest, change.Authors, err = s.newest(ctx, reader)
	}
	return change, err
}

// same reports whether two changes are equal for the feed, whatever else the badges show.
func (c Change) same(other Change) bool {
	return c.New == other.New && c.Newest == other.Newest && slices.Equal(c.Authors, other.Authors)
}

// newest finds the newest entry that is new for the reader, and the authors of the newest new entries. It reads the top of the
// feed as a page does, so that a page that is read next shows these posts.
func (s *Service) newest(ctx context.Context, reader services.UserID) (newest services.PostID, authors []services.UserID, err error) {
	page, err := s.readRaw(ctx, reader, services.MaxPostID, changeEntries)
	if err != nil {
		return 0, nil, err
	}
	// A page from the facts has no seen position.
	if page.FromFacts {
		if page.Seen, err = positions.Of(ctx, s.store, reader, positions.HomePage, ""); err != nil {
			return 0, nil, err
		}
	}
	// Posts that are too old to count are not new either.
	page.Seen = max(page.Seen, s.projector.Expiry().AgedUpTo(services.SourceHomeFeed, services.DayOf(s.clock.Now())))
	entries := page.Entries
	if len(entries) == changeEntries && !slices.ContainsFunc(entries, func(entry services.FeedEntry) bool { return entry.Counts }) {
		// The newest entries are all the reader's own, or from before a follow: the new posts are further down.
		if entries, err = posts.UnreadFeed(ctx, s.store, reader, page.Seen, changeEntries); err != nil {
			return 0, nil, err
		}
	}
	// The entries are newest first, and the first seen entry ends the new ones.
	for _, entry := range entries {
		if entry.Post <= page.Seen || len(authors) == changeAuthors {
			break
		}
		if !entry.Counts {
			continue
		}
		newest = max(newest, entry.Post)
		if !slices.Contains(authors, entry.Author) {
			authors = append(authors, entry.Author)
		}
	}
	return newest, authors, nil
}
