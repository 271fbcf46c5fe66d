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
	seen     services.PostID
	entries  []services.FeedEntry
	count    int                                     // of the new posts that were pushed
	modes    map[services.UserID]services.FollowMode // of the follows that are not in mode FollowAll
	unlisted services.PostID                         // the newest counting post at or below the inbox's floor
	pulled   []services.FollowedAuthor               // followed authors whose posts are pulled, in the order of their IDs
}

// auditFeed compares the home feed. Like a rebuild it reads one entry more than an inbox keeps, to know whether older ones exist.
func (p *Projector) auditFeed(ctx context.Context, user services.UserID, shown rdb.UserSnapshot) (any, []string, error) {
	// Posts of big authors are not pushed to users who are away. Their feed is rebuilt before it is shown.
	if p.Away(shown.Document) {
		return nil, nil, nil
	}
	var facts homeFeedFacts
	var err error
	if facts.seen, err = positions.Of(ctx, p.store, user, positions.HomePage, ""); err != nil {
		return nil, nil, err
	}
	if facts.pulled, err = p.pullAuthorsOf(ctx, user); err != nil {
		return nil, nil, err
	}
	if facts.modes, err = people.ModesOf(ctx, p.store, user); err != nil {
		return nil, nil, err
	}
	if facts.entries, err = posts.InboxFeed(ctx, p.store, user, services.MaxPostID, RebuildEntries+1); err != nil {
		return nil, nil, err
	}
	// The document has aged as on a later day than this node's, so it leaves out posts that still count. The comparison of the
	// counts below would not find that: it counts from the document's own mark.
	if shown.Document.FeedAged > p.cfg.Expiry.AgedUpTo(services.SourceHomeFeed, p.today()) {
		return facts, []string{"home feed: what is too old"}, nil
	}
	if facts.count, err = posts.CountPushed(ctx, p.store, user, max(facts.seen, shown.Document.FeedAged), services.Retention+1); err != nil {
		return nil, nil, err
	}
	// An inbox without a floor was never trimmed.
	if shown.Floor > 0 {
		if facts.unlisted, err = posts.NewestCounting(ctx, p.store, user, shown.Floor); err != nil {
			return nil, nil, err
		}
	}
	return facts, feedDiffers(facts, shown), nil
}

// feedDiffers compares the list, the count and the fields from which scripts compute them.
func feedDiffers(facts homeFeedFacts, shown rdb.UserSnapshot) (differs []string) {
	document := shown.Document
	if document.Seen != facts.seen {
		differs = append(differs, "home feed: position")
	}
	if !SameAuthors(document.Pulled, facts.pulled) {
		differs = append(differs, "home feed: pulled authors")
	}
	if slices.ContainsFunc(document.Pulled, func(author services.FollowedAuthor) bool {
		return (author.Since == services.MaxPostID) != (facts.modes[author.Author] != services.FollowAll)
	}) ||
		slices.ContainsFunc(shown.Entries, func(entry services.FeedEntry) bool {
			return entry.Counts && facts.modes[entry.Author] != services.FollowAll
		}) {
		differs = append(differs, "home feed: modes of follows")
	}
	// SQL also has posts at or below the inbox's floor, which the inbox need not hold.
	listed := facts.entries
	for len(listed) > 0 && listed[len(listed)-1].Post <= shown.Floor {
		listed = listed[:len(listed)-1]
	}
	if shown.Strays > 0 || !slices.Equal(listed, shown.Entries) {
		differs = append(differs, "home feed: list")
	}
	counting, uncounted, mark := 0, services.PostID(0), max(document.Seen, document.FeedAged)
	for _, entry := range shown.Entries {
		if !entry.Counts {
			uncounted = max(uncounted, entry.Post)
		} else if entry.Post > mark {
			counting++
		}
	}
	// The count must follow from the list by the rule of the scripts, and agree with SQL: equal, or a lower bound that is
	// marked as one.
	more := counting > services.Retention || shown.TrimmedCounted > mark
	right := document.FeedCount == facts.count || document.FeedMore && document.FeedCount < facts.count
	if document.FeedCount != min(counting, services.Retention) || document.FeedMore != more || !right {
		differs = append(differs, "home feed: count")
	}
	// The marks NewestUncounted and TrimmedCounted may be ahead of the posts that exist now, because the posts that set them may have been
	// deleted.
	if shown.NewestUncounted < uncounted || shown.TrimmedCounted < facts.unlisted || shown.TrimmedCounted > shown.Floor {
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
