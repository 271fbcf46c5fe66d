package projector

import (
	"cmp"
	"context"
	"slices"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/positions"
	"tidings/services/posts"
	"tidings/services/rdb"
)

// homeFeedFacts is the home feed according to the facts.
type homeFeedFacts struct {
	seenUpTo             services.PostID                         // the user has seen the feed up to this post
	entries              []services.FeedEntry                    // what an inbox has, and one entry more
	newPushedCount       int                                     // how many pushed posts count as new
	modes                map[services.UserID]services.FollowMode // of the follows that are not in mode FollowAll
	newestTrimmedCounted services.PostID                         // the newest counting post at or below the inbox's floor
	pulledAuthors        []services.FollowedAuthor               // followed authors whose posts are pulled, in the order of their IDs
}

// auditFeed compares the home feed. Like a rebuild it reads one entry more than an inbox keeps, to know whether older ones exist.
func (p *Projector) auditFeed(ctx context.Context, user services.UserID, shown rdb.UserSnapshot) (any, []string, error) {
	// Posts of big authors are not pushed to idle users. Their feed is rebuilt before it is shown.
	if p.IsOfIdleUser(shown.Document) {
		return nil, nil, nil
	}
	var facts homeFeedFacts
	var err error
	if facts.seenUpTo, err = positions.Of[services.PostID](ctx, p.db, user, positions.HomeFeedView); err != nil {
		return nil, nil, err
	}
	if facts.pulledAuthors, err = posts.PullAuthorsOf(ctx, p.db, user); err != nil {
		return nil, nil, err
	}
	if facts.modes, err = people.FollowModesOf(ctx, p.db, user); err != nil {
		return nil, nil, err
	}
	if facts.entries, err = posts.InboxFeed(ctx, p.db, user, services.MaxPostID, RebuiltInboxEntries+1); err != nil {
		return nil, nil, err
	}
	// The document has let posts expire that expire only on a later day than this node's, so it leaves out posts that still count.
	// The comparison of the counts below would not find that: it counts from the document's own FeedExpiredUpTo.
	if shown.Document.FeedExpiredUpTo > p.cfg.Expiry.ExpiredPostsUpTo(p.today()) {
		return facts, []string{"home feed: what is too old"}, nil
	}
	if facts.newPushedCount, err = posts.CountNewPushed(ctx, p.db, user, max(facts.seenUpTo, shown.Document.FeedExpiredUpTo), services.FeedRetention+1); err != nil {
		return nil, nil, err
	}
	// An inbox without a floor was never trimmed.
	if shown.NewestTrimmed > 0 {
		if facts.newestTrimmedCounted, err = posts.NewestCountingPost(ctx, p.db, user, shown.NewestTrimmed); err != nil {
			return nil, nil, err
		}
	}
	return facts, feedDiffers(facts, shown), nil
}

// feedDiffers compares the list, the count and the fields from which scripts compute them.
func feedDiffers(facts homeFeedFacts, shown rdb.UserSnapshot) (differs []string) {
	document := shown.Document
	if document.FeedSeenUpTo != facts.seenUpTo {
		differs = append(differs, "home feed: position")
	}
	if !SameAuthors(document.PulledAuthors, facts.pulledAuthors) {
		differs = append(differs, "home feed: pulled authors")
	}
	if slices.ContainsFunc(document.PulledAuthors, func(author services.FollowedAuthor) bool {
		return (author.ItemsCountAfter == services.MaxSortableID) != (facts.modes[author.Author] != services.FollowAll)
	}) ||
		slices.ContainsFunc(shown.Entries, func(entry services.FeedEntry) bool {
			return entry.CountsAsNew && facts.modes[entry.Author] != services.FollowAll
		}) {
		differs = append(differs, "home feed: modes of follows")
	}
	// SQL also has posts at or below the inbox's floor, which the inbox need not hold.
	listed := facts.entries
	for len(listed) > 0 && listed[len(listed)-1].Post <= shown.NewestTrimmed {
		listed = listed[:len(listed)-1]
	}
	if shown.StrayMembers > 0 || !slices.Equal(listed, shown.Entries) {
		differs = append(differs, "home feed: list")
	}
	counting, uncounted, mark := 0, services.PostID(0), max(document.FeedSeenUpTo, document.FeedExpiredUpTo)
	for _, entry := range shown.Entries {
		if !entry.CountsAsNew {
			uncounted = max(uncounted, entry.Post)
		} else if entry.Post > mark {
			counting++
		}
	}
	// The count must follow from the list by the rule of the scripts, and agree with SQL: equal, or a lower bound that is
	// marked as one.
	more := counting > services.FeedRetention || shown.NewestTrimmedCounted > mark
	right := document.FeedCount == facts.newPushedCount || document.FeedCountAtLeast && document.FeedCount < facts.newPushedCount
	if document.FeedCount != min(counting, services.FeedRetention) || document.FeedCountAtLeast != more || !right {
		differs = append(differs, "home feed: count")
	}
	// NewestUncounted and NewestTrimmedCounted may be newer than the posts that exist now, because the posts that set them may have
	// been deleted.
	if shown.NewestUncounted < uncounted || shown.NewestTrimmedCounted < facts.newestTrimmedCounted || shown.NewestTrimmedCounted > shown.NewestTrimmed {
		differs = append(differs, "home feed: marks of the list")
	}
	return differs
}

// SameAuthors reports whether a document names the authors of the facts, which are ordered by ID.
func SameAuthors(named, facts []services.FollowedAuthor) bool {
	named = slices.Clone(named)
	slices.SortFunc(named, func(a, b services.FollowedAuthor) int { return cmp.Compare(a.Author, b.Author) })
	return slices.Equal(named, facts)
}
