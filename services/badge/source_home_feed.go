package badge

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/positions"
	"tidings/services/posts"
	"tidings/services/rdb"
)

// homeFeed is the source of the followed authors' posts that were published since the feed was seen.
type homeFeed struct {
	source.DefaultMethods
	service *Service
}

func (homeFeed) Name() string         { return "home feed" }
func (homeFeed) Key() services.Source { return services.SourceHomeFeed }

// Part is the count of the home feed, the only one of this source.
func (homeFeed) Part(badges *services.Badges, i int) *services.Count {
	return source.SinglePart(&badges.HomeFeed, i)
}

// Follow makes the node cache report new posts of the pulled authors.
func (h homeFeed) Follow(user services.UserID, document *rdb.Document) {
	h.service.pulled.SetFollowedAuthors(user, document.PulledAuthors)
}

// AddCached adds the counts of pulled authors' posts, and counts in SQL the posts beyond an inbox.
func (h homeFeed) AddCached(ctx context.Context, users []services.UserID, documents []rdb.Document, today int64) {
	h.addPulledCounts(ctx, documents, today)
	h.countOverflow(ctx, users, documents, today)
}

// Facts counts users' new posts, pushed and pulled, in SQL.
func (h homeFeed) Facts(ctx context.Context, users []services.UserID, today int64, documents []rdb.Document) error {
	seen, err := positions.OfUsers[services.PostID](ctx, h.service.db, users, positions.HomeFeedView)
	if err != nil {
		return err
	}
	limit, aged := h.service.settings.Caps.FeedCountLimit(), h.service.settings.Expiry.ExpiredPostsUpTo(today)
	readers := make([]posts.FeedReader, len(users))
	for i, user := range users {
		readers[i] = posts.FeedReader{ID: user, SeenTo: max(seen[user], aged)}
	}
	// One post more is asked for, to tell a count of exactly the limit from a greater count.
	counts, err := posts.CountNew(ctx, h.service.db, readers, limit+1)
	if err != nil {
		return err
	}
	for i, count := range counts {
		documents[i].FeedCount, documents[i].FeedCountAtLeast = min(count, limit), count > limit
	}
	return nil
}

// HoldsExpired reports whether a document may count posts that are too old: Redis has counted them as of an earlier day.
func (h homeFeed) HoldsExpired(document *rdb.Document, today int64) bool {
	return (document.FeedCount > 0 || document.FeedCountAtLeast) && document.FeedExpiredUpTo < h.service.settings.Expiry.ExpiredPostsUpTo(today)
}

// RemoveExpired takes the posts that are too old out of the counts of users.
func (h homeFeed) RemoveExpired(ctx context.Context, users []services.UserID, today int64) error {
	return h.service.projector.ExpireFeedPosts(ctx, users, today)
}

// Render adds the pushed posts and the pulled posts of this node's cache; if the inbox ends before the new posts do, it uses
// SQL's count.
func (homeFeed) Render(v *source.Rendering, badges *services.Badges) {
	pulled := v.Document.PulledCount
	v.AddSequence(pulled.VersionSum)
	value, more := v.Document.FeedCount+pulled.NewPosts, v.Document.FeedCountAtLeast || pulled.AtLeast || pulled.CacheNotLoaded
	// SQL has counted all new posts, pushed and pulled.
	if v.Document.FeedUnreadKnown {
		value, more = v.Document.FeedUnread, false
	}
	precision := services.Exact
	if more || value > services.FeedRetention {
		limit := v.Caps.FeedCountLimit()
		if more || value > limit {
			precision = services.AtLeast
		}
		value = min(value, limit)
	}
	v.RecordExpiry(services.SourceHomeFeed, value)
	badges.HomeFeed = services.NewCount(value, precision, time.Time{})
}

// Explain lists the new posts behind the count, from SQL, the newest first.
func (h homeFeed) Explain(ctx context.Context, of source.ExplainRequest) ([]services.Explanation, error) {
	entries, err := posts.UnreadFeed(ctx, h.service.db, of.User, max(services.PostID(of.SeenPositions[positions.HomeFeedView]), h.service.settings.Expiry.ExpiredPostsUpTo(of.Today)), min(h.service.settings.Caps.FeedCountLimit(), of.MaxItems()))
	if err != nil {
		return nil, err
	}
	explanation := services.Explanation{Source: services.SourceHomeFeed, Count: of.Badges.HomeFeed}
	for _, entry := range entries {
		explanation.Items = append(explanation.Items, postItem(entry.Post))
	}
	return []services.Explanation{explanation}, nil
}

// postItem is a post in an explanation.
func postItem(post services.PostID) services.Item {
	id := services.GlobalID(services.PostType, post.String())
	return services.Item{ID: id, At: post.Time(), Count: 1, ClearedBy: source.ClearingMutation("markHomeFeedSeen", "upTo", id)}
}

// maxEntriesSearched is the number of entries of an inbox that are searched for an entry that counts. The reader's own posts and
// posts from before a follow do not count.
const maxEntriesSearched = 8

// Newest reads the inbox and this node's cache. known is false without Redis, for a user who has no inbox or is away, for one whose
// newest entries do not count, for one with a pulled author that the cache lacks, and if none of the posts found is new.
func (h homeFeed) Newest(ctx context.Context, of source.ExplainRequest) (explanations []services.Explanation, known bool, err error) {
	inbox, err := h.service.redis.Inbox(ctx, of.User, services.MaxPostID, maxEntriesSearched)
	if err != nil || !inbox.Ready || h.service.projector.IsIdleIfSeenOn(inbox.LastActiveDay) {
		return nil, false, nil // without Redis the facts are read
	}
	pulled, known := h.service.pulled.PostsOf(inbox.PulledAuthors)
	if !known {
		return nil, false, nil
	}
	var newest services.PostID
	if at := slices.IndexFunc(inbox.Entries, func(entry services.FeedEntry) bool { return entry.CountsAsNew }); at >= 0 {
		newest = inbox.Entries[at].Post
	} else if len(inbox.Entries) == maxEntriesSearched {
		// None of the newest entries counts, and there are older ones: SQL finds the newest that counts.
		return nil, false, nil
	}
	for _, author := range pulled {
		if last := len(author.Posts) - 1; last >= 0 && author.Posts[last] > services.PostID(author.ItemsCountAfter) {
			newest = max(newest, author.Posts[last])
		}
	}
	// No post found here is still new, although the count is not 0: the facts are read.
	if newest <= max(inbox.SeenUpTo, h.service.settings.Expiry.ExpiredPostsUpTo(of.Today)) {
		return nil, false, nil
	}
	return []services.Explanation{{Source: services.SourceHomeFeed, Count: of.Badges.HomeFeed, Items: []services.Item{postItem(newest)}}}, true, nil
}

// Digest adds the number of posts since a moment, seen or not, and the authors who published the most of them.
func (h homeFeed) Digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error {
	before := services.PostID(max(services.SortableIDAt(since), 1) - 1)
	entries, err := posts.UnreadFeed(ctx, h.service.db, user, before, services.FeedRetention)
	if err != nil {
		return err
	}
	posts := map[services.UserID]int{}
	for _, entry := range entries {
		posts[entry.Author]++
	}
	source.AddDigestPart(digest, services.SourceHomeFeed, "", len(entries), services.FeedRetention)
	for author := range posts {
		digest.Authors = append(digest.Authors, author)
	}
	// Authors with the most posts come first; among equal authors the lower user ID comes first, so that two answers agree.
	slices.SortFunc(digest.Authors, func(a, b services.UserID) int { return cmp.Or(cmp.Compare(posts[b], posts[a]), cmp.Compare(a, b)) })
	digest.Authors = digest.Authors[:min(maxDigestAuthors, len(digest.Authors))]
	return nil
}

// addPulledCounts adds the posts of authors whose posts are not written into inboxes: from the node cache, and with one SELECT for
// authors that it does not have yet.
func (h homeFeed) addPulledCounts(ctx context.Context, documents []rdb.Document, today int64) {
	var lists [][]services.FollowedAuthor
	for i := range documents {
		if len(documents[i].PulledAuthors) > 0 {
			lists = append(lists, documents[i].PulledAuthors)
		}
	}
	if len(lists) == 0 {
		return
	}
	h.service.pulled.LoadMissing(ctx, lists...)
	aged := h.service.settings.Expiry.ExpiredPostsUpTo(today)
	for i := range documents {
		if document := &documents[i]; len(document.PulledAuthors) > 0 {
			document.PulledCount = h.service.pulled.Count(document.PulledAuthors, max(document.FeedSeenUpTo, aged))
		}
	}
}

// inboxEndsEarly reports whether the inbox of a document ends before the new posts do, so that their number is in SQL alone.
func (h homeFeed) inboxEndsEarly(document *rdb.Document) bool {
	return (document.FeedCountAtLeast || document.PulledCount.AtLeast) && document.FeedCount+document.PulledCount.NewPosts < h.service.settings.Caps.FeedCountLimit()
}

// AddWithoutSQL is AddCached for one document. It is not complete if an author is not cached, or if the posts beyond the inbox were not
// counted yet for this state of the document.
func (h homeFeed) AddWithoutSQL(user services.UserID, document *rdb.Document, today int64) (complete bool) {
	if len(document.PulledAuthors) == 0 && !document.FeedCountAtLeast { // most documents
		return true
	}
	aged := h.service.settings.Expiry.ExpiredPostsUpTo(today)
	if len(document.PulledAuthors) > 0 {
		document.PulledCount = h.service.pulled.Count(document.PulledAuthors, max(document.FeedSeenUpTo, aged))
	}
	if document.PulledCount.CacheNotLoaded || !h.inboxEndsEarly(document) {
		return !document.PulledCount.CacheNotLoaded
	}
	document.FeedUnread, document.FeedUnreadKnown = h.service.inboxOverflow.get(user, document, aged)
	return document.FeedUnreadKnown
}

// countOverflow continues the count in SQL if an inbox ends before the new posts do. It does so once for each state of the inputs: see
// inboxOverflowCount. If SQL does not answer in time, the count stays that of the inbox, as AT_LEAST.
func (h homeFeed) countOverflow(ctx context.Context, users []services.UserID, documents []rdb.Document, today int64) {
	limit, aged := h.service.settings.Caps.FeedCountLimit(), h.service.settings.Expiry.ExpiredPostsUpTo(today)
	var indexes []int
	for i := range documents {
		document := &documents[i]
		if !document.Ready || !h.inboxEndsEarly(document) {
			continue
		}
		if document.FeedUnread, document.FeedUnreadKnown = h.service.inboxOverflow.get(users[i], document, aged); !document.FeedUnreadKnown {
			indexes = append(indexes, i)
		}
	}
	if len(indexes) == 0 { // nearly always
		return
	}
	var parallel errgroup.Group
	parallel.SetLimit(cap(h.service.sqlCountSlots))
	// Each goroutine has documents of its own, so they need no lock.
	for group := range countingGroups(indexes) {
		parallel.Go(func() (failed error) {
			defer services.Recover(&failed)
			ctx, cancel := context.WithTimeout(ctx, h.service.sqlTimeout)
			defer cancel()
			readers := make([]posts.FeedReader, len(group))
			for at, i := range group {
				readers[at] = posts.FeedReader{ID: users[i], SeenTo: max(documents[i].FeedSeenUpTo, aged)}
			}
			counts, err := posts.CountNew(ctx, h.service.db, readers, limit+1)
			if err != nil {
				h.service.log.Debug("new posts beyond inboxes were not counted", "error", err)
				return nil
			}
			for at, i := range group {
				documents[i].FeedUnread, documents[i].FeedUnreadKnown = counts[at], true
				h.service.inboxOverflow.keep(users[i], &documents[i], aged)
			}
			return nil
		})
	}
	_ = services.Repanic(parallel.Wait()) // a failure leaves the counts as they are
}
