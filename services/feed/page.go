package feed

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/posts"
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
	HasNext bool // more posts follow below the page
	// HasPrevious reports that newer posts exist above the page. Only PageAbove finds that out.
	HasPrevious   bool
	NextPageAfter services.PostID  // the last position read: the next page starts after it; 0 if nothing was read
	End           services.FeedEnd // why the feed ends, when HasNext is false

	InboxBuilding bool // the page comes from the facts, because the inbox is still being built
}

// maxRawEntriesPerPage bounds how many entries one page reads: beyond it the page is short and reports that more follow.
const maxRawEntriesPerPage = services.FeedRetention

// Page reads up to first posts with ids below before. Deleted posts are omitted and replaced by older ones. The next page
// starts after the last entry that was read, filtered or not, so that no page repeats another.
func (s *Service) Page(ctx context.Context, reader services.UserID, before services.PostID, first int) (Page, error) {
	return s.page(ctx, reader, before, 0, first)
}

// PageBelow reads the page below a given post. The error is NOT_FOUND if the reader can never have been shown that post. A post that was
// deleted or hidden since, or whose author was unfollowed, keeps its position.
func (s *Service) PageBelow(ctx context.Context, reader services.UserID, post services.PostID, first int) (Page, error) {
	return s.page(ctx, reader, post, post, first)
}

// page reads a page. If named is not 0, page also checks that the reader can have been shown that post.
func (s *Service) page(ctx context.Context, reader services.UserID, before, named services.PostID, first int) (Page, error) {
	var page Page
	for looked := 0; ; {
		want := min(first-len(page.Items), maxRawEntriesPerPage-looked)
		read := s.readRaw
		if named != 0 { // the first read starts below the named post
			read = s.readRawBelow
		}
		// One entry more than the wanted number is read, to learn whether there is a next page.
		raw, err := s.withInFlight(ctx, read, reader, before, want+1)
		if err != nil {
			return page, err
		}
		entries := page.takeEntries(raw, want)
		if page.Items, err = s.appendVisible(ctx, page.Items, entries); err != nil {
			return page, err
		}
		named = 0
		before = page.NextPageAfter
		looked += len(entries)
		if !page.HasNext || len(page.Items) == first || looked >= maxRawEntriesPerPage {
			return page, nil
		}
	}
}

// takeEntries returns the first entries of raw, at most want. It notes in the page whether more follow, and if not, why the feed ends.
func (p *Page) takeEntries(raw rawPage, want int) (entries []services.FeedEntry) {
	p.InboxBuilding = p.InboxBuilding || raw.InboxBuilding
	p.HasNext = len(raw.Entries) > want
	entries = raw.Entries[:min(want, len(raw.Entries))]
	if len(entries) > 0 {
		p.NextPageAfter = entries[len(entries)-1].Post
	}
	if !p.HasNext {
		p.End = services.EndOfFeed
		if raw.OlderPostsCut {
			p.End = services.EndOfRetention
		}
	}
	return entries
}

// appendVisible appends the posts of entries that the reader may still see. Posts and authors are read in one round trip.
func (s *Service) appendVisible(ctx context.Context, items []Item, entries []services.FeedEntry) ([]Item, error) {
	if cached, all := s.appendCached(items, entries); all {
		return cached, nil
	}
	ids, authors := idsOf(entries)
	posts, users, err := s.reader.Read(ctx, ids, authors)
	if err != nil {
		return items, err
	}
	for _, entry := range entries {
		if post, there := posts[entry.Post]; there {
			items = append(items, Item{Post: post, Author: users[entry.Author]})
		}
	}
	return visibleItems(items), nil
}

// appendCached appends the posts of entries with their authors from the cache, which has nearly all that pages list. all is false, and
// nothing is appended, if one of them is missing.
func (s *Service) appendCached(items []Item, entries []services.FeedEntry) (more []Item, all bool) {
	ids, authors := idsOf(entries)
	read := slices.Grow(items, len(ids))[:len(items)+len(ids)]
	page := read[len(items):]
	all = s.reader.EachCached(ids, func(i int, post services.Post) { page[i].Post = post }, authors, func(i int, user services.User) { page[i].Author = user })
	if !all {
		return items, false
	}
	return visibleItems(read), true
}

// idsOf are the posts and authors of entries.
func idsOf(entries []services.FeedEntry) (ids []services.PostID, authors []services.UserID) {
	ids, authors = make([]services.PostID, len(entries)), make([]services.UserID, len(entries))
	for i, entry := range entries {
		ids[i], authors[i] = entry.Post, entry.Author
	}
	return ids, authors
}

// visibleItems leaves out the items whose post is deleted, or whose author is being erased and so has no key.
func visibleItems(items []Item) []Item {
	return slices.DeleteFunc(items, func(item Item) bool { return item.Post.Deleted || item.Author.Key == "" })
}

// readRawBelow reads the entries below a post, from the sources that readRaw reads, and checks that the reader can have been shown the
// post. A post that the feed lists comes with the entries, so that a client that pages its own feed costs no statement. Any other post is
// looked up in SQL; if SQL does not answer, the check is skipped.
func (s *Service) readRawBelow(ctx context.Context, reader services.UserID, post services.PostID, limit int) (rawPage, error) {
	page, err := s.readRaw(ctx, reader, min(post, services.MaxPostID-1)+1, limit+1)
	if err != nil {
		return page, err
	}
	if len(page.Entries) > 0 && page.Entries[0].Post == post {
		page.Entries = page.Entries[1:]
		return page, nil
	}
	page.Entries = page.Entries[:min(limit, len(page.Entries))]
	// A reader may go on below the post of an erased author: as a position it does no harm.
	shown, _, err := posts.MayHaveBeenShown(ctx, s.db, reader, post)
	if err == nil && !shown {
		err = services.Errorf(services.NotFound, "lastId: there is no %s", services.GlobalID(services.PostType, post.String()))
	}
	if services.IsUnavailable(err) {
		err = nil
	}
	return page, err
}

// readRaw reads entries of the reader's feed: from the inbox and the node cache, after a rebuild if the inbox is lost. The entries
// come from SQL if Redis does not answer or lacks the reader's last command, if a rebuild takes long, or if an author is not in
// the cache.
func (s *Service) readRaw(ctx context.Context, reader services.UserID, before services.PostID, limit int) (rawPage, error) {
	// The reader's own last command is not in their inbox yet.
	if s.jobs.ProjectionsStale(ctx, reader) {
		return s.readRawFromFacts(ctx, reader, before, limit, false)
	}
	inbox, building, err := s.readInbox(ctx, reader, before, limit)
	// An error of another kind is a bug or damaged data in Redis, and reading from SQL would hide it.
	if err != nil && !services.IsUnavailable(err) {
		return rawPage{}, err
	}
	if err != nil || !inbox.Ready {
		return s.readRawFromFacts(ctx, reader, before, limit, building)
	}
	// Almost everyone follows no huge author: their page is one round trip.
	if len(inbox.PulledAuthors) == 0 {
		return mergePage(inbox, nil, before, limit), nil
	}
	s.pulled.LoadMissing(ctx, inbox.PulledAuthors)
	pulled, known := s.pulled.PostsOf(inbox.PulledAuthors)
	// The node cache lacks an author, so the page comes from SQL. If SQL does not answer, the page is without this author.
	if !known {
		if page, err := s.readRawFromFacts(ctx, reader, before, limit, false); err == nil {
			return page, nil
		}
	}
	return mergePage(inbox, pulled, before, limit), nil
}

// readInbox reads the pushed entries. An inbox that is lost is rebuilt, and so is one from before the reader's absence. building
// reports that the rebuild takes longer than a page waits.
func (s *Service) readInbox(ctx context.Context, reader services.UserID, before services.PostID, limit int) (page rdb.InboxPage, building bool, err error) {
	page, err = s.redis.Inbox(ctx, reader, before, limit)
	if err != nil || page.Ready && !s.projector.IsIdleIfSeenOn(page.LastActiveDay) {
		return page, false, err
	}
	// An observer must not make the user active, as a rebuild does.
	if page.Ready = false; services.Observed(ctx) { // the page comes from SQL
		return page, false, nil
	}
	// The rebuild goes on without this page, and the next page finds the inbox.
	waiting, cancel := context.WithTimeout(ctx, s.rebuildWait)
	defer cancel()
	if err = s.projector.Rebuild(waiting, reader); err != nil {
		return page, waiting.Err() != nil, err
	}
	page, err = s.redis.Inbox(ctx, reader, before, limit)
	return page, false, err
}

// readRawFromFacts reads from SQL the entries that readRaw would return, out of the 300 entries that a feed lists. It does not read the
// seen position, which pages do not show.
func (s *Service) readRawFromFacts(ctx context.Context, reader services.UserID, before services.PostID, limit int, building bool) (rawPage, error) {
	// The list begins at the top whatever the position: its end is at the 300th entry, and only a count from the top
	// finds that.
	entries, err := posts.HomeFeed(ctx, s.db, reader, services.MaxPostID, services.FeedRetention+1)
	if err != nil {
		return rawPage{}, err
	}
	page := rawPage{OlderPostsCut: len(entries) > services.FeedRetention, InboxBuilding: building, FromFacts: true}
	entries = entries[:min(len(entries), services.FeedRetention)]
	for len(entries) > 0 && entries[0].Post >= before {
		entries = entries[1:]
	}
	page.Entries = entries[:min(limit, len(entries))]
	return page, nil
}

// readRawNewest reads the newest entries, with the posts in flight.
func (s *Service) readRawNewest(ctx context.Context, reader services.UserID, limit int) (rawPage, error) {
	return s.withInFlight(ctx, s.readRaw, reader, services.MaxPostID, limit)
}

// withInFlight reads entries by readRaw or readRawBelow, with the posts in flight that belong there. They are added to the reader's
// inbox, so that the reader notices a slow fan-out neither in the list nor in the next count. This is done for every page, because a post
// may still be in flight when newer posts fill the first page. A post below the inbox floor is on no page: its own fan-out brings it into
// the count.
func (s *Service) withInFlight(ctx context.Context, read func(context.Context, services.UserID, services.PostID, int) (rawPage, error),
	reader services.UserID, before services.PostID, limit int,
) (rawPage, error) {
	// The list of posts in flight is read before the inbox: a post whose fan-out ends in between is in the list.
	inFlight := s.inFlight.List()
	page, err := read(ctx, reader, before, limit)
	if err != nil || page.FromFacts || len(inFlight) == 0 {
		return page, err
	}
	lacking := page.missingInFlight(inFlight, before, limit)
	if len(lacking) > 0 && services.Observed(ctx) { // they are in SQL already
		return s.readRawFromFacts(ctx, reader, before, limit, false)
	}
	held, err := s.fanout.AddInFlightPosts(ctx, reader, lacking)
	if err != nil || !held {
		return page, nil // the page is right without the lacking posts, which the fan-out will still add
	}
	return read(ctx, reader, before, limit)
}

// missingInFlight are the posts in flight that a page of at most limit entries below a position should have and does not. Older posts
// belong to the pages below, or to none: the inbox refuses a post up to the inbox floor, and each try would move the version of the
// document.
func (p *rawPage) missingInFlight(inFlight []posts.InFlightFanout, before services.PostID, limit int) (lacking []posts.InFlightFanout) {
	for _, post := range inFlight {
		beyond := post.Post >= before || post.Post <= p.NewestTrimmed || len(p.Entries) == limit && post.Post < p.Entries[limit-1].Post
		if !beyond && !slices.ContainsFunc(p.Entries, func(entry services.FeedEntry) bool { return entry.Post == post.Post }) {
			lacking = append(lacking, post)
		}
	}
	return lacking
}
