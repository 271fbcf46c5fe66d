package rdb

import (
	"context"
	"strconv"
	"time"

	"tidings/services"
	"tidings/services/redis"
)

// These are the scripts of the inbox and of the feed's fields in the document, each of the method that is named beside it.
var (
	inboxAdd                = loadScript("inbox_add")    // of AddToInboxes
	inboxMerge              = loadScript("inbox_merge")  // of MergeIntoInbox
	dropFromInboxScript     = loadScript("inbox_drop")   // of DropFromInbox
	deleteFromInboxesScript = loadScript("inbox_delete") // of DeleteFromInboxes
	markFeedSeenScript      = loadScript("feed_seen")    // of MarkFeedSeen
	expireFeedPostsScript   = loadScript("feed_aged")    // of ExpireFeedPosts
	stampScript             = loadScript("stamp")        // of TakeUserStamp
	markActiveScript        = loadScript("activity")     // of MarkActive
)

// userDataKeys are the keys of a user's projection, in the order in which the scripts activity and rebuild_begin take them.
func userDataKeys(user services.UserID) []string {
	return append([]string{DocumentKey(user), inboxKey(user), conversationsKey(user)}, listKeys(user)...)
}

// inboxScriptKeys are the keys that most scripts of an inbox take. The third has the nodes on which the user is online: a result names
// them, so that they get hints.
func inboxScriptKeys(user services.UserID) []string {
	return []string{DocumentKey(user), inboxKey(user), onlineKey(user)}
}

// InboxPost is one post for one reader.
type InboxPost struct {
	Reader services.UserID
	Entry  services.FeedEntry
}

// AddToInboxes pushes posts into inboxes, at most 500 in a round trip. Results are in the order of adds. Retry means that the inbox
// refused the post because of a later removal, or because it lists the post with another flag: read post and follow again for that
// reader.
func (c *Projections) AddToInboxes(ctx context.Context, stamp redis.ClockStamp, adds []InboxPost) ([]redis.Result, error) {
	calls := make([]redis.ScriptCall, len(adds))
	text := stamp.String()
	for i, add := range adds {
		calls[i] = redis.ScriptCall{Keys: inboxScriptKeys(add.Reader), Args: []any{text, entryText(add.Entry)}}
	}
	return c.Client.ChangeForResults(ctx, inboxAdd, calls)
}

// InboxMerge is the result of a SQL read for one reader, to be merged into their projection.
type InboxMerge struct {
	Reader             services.UserID
	Stamp              redis.ClockStamp // from before the SQL read
	RefuseEarlierReads bool             // the follow may be new: then earlier reads are refused, as their entries may count otherwise
	// PulledAuthors are authors whose posts are pulled. The document lists them afterwards.
	PulledAuthors []services.FollowedAuthor
	Hosts         []services.FollowedAuthor // authors who have shows; the document lists them too
	// Entries are added to the inbox. An entry that the inbox has already gets the CountsAsNew that is given here.
	Entries []services.FeedEntry
	// AuthorNoLongerCounts says that no post of the author counts any more. Trimmed posts of the author may still be in the count:
	// then RefillDue is set in the result. It requires RefuseEarlierReads.
	AuthorNoLongerCounts bool
}

// MergeIntoInbox merges the result of a SQL read for one reader.
func (c *Projections) MergeIntoInbox(ctx context.Context, merge InboxMerge) (redis.Result, error) {
	args := []any{merge.Stamp.String(), "0", packAuthors(merge.PulledAuthors...), packAuthors(merge.Hosts...)}
	if merge.RefuseEarlierReads {
		args[1] = "1"
	}
	if merge.AuthorNoLongerCounts {
		// The value 2 includes 1: earlier reads are refused, and the script also says whether trimmed posts may have counted.
		args[1] = "2"
	}
	for _, entry := range merge.Entries {
		args = append(args, entryText(entry))
	}
	return c.Client.ChangeForResult(ctx, inboxMerge, redis.ScriptCall{Keys: inboxScriptKeys(merge.Reader), Args: args})
}

// DropFromInbox removes everything of an author from a reader's projections: their posts, whether pushed or pulled, and their
// entries in registered lists. If the reader has a document, an add or a merge whose read of SQL has a stamp from before this removal
// gets Retry afterwards, even if nothing was removed.
func (c *Projections) DropFromInbox(ctx context.Context, reader, author services.UserID) (redis.Result, error) {
	return c.Client.ChangeForResult(ctx, dropFromInboxScript, redis.ScriptCall{
		Keys: append(inboxScriptKeys(reader), listKeys(reader)...), Args: []any{AuthorLetters(author), packedAuthorID(author)},
	})
}

// DeleteFromInboxes removes one post from many inboxes, at most 500 in a round trip. For a reader who does not have the post the
// result is Unchanged, unless a node may have counted the post in SQL. In any case the inbox then refuses adds and merges whose read of
// SQL has a stamp from before this deletion.
func (c *Projections) DeleteFromInboxes(ctx context.Context, readers []services.UserID, post services.PostID, author services.UserID) ([]redis.Result, error) {
	calls := make([]redis.ScriptCall, len(readers))
	// The stem is without the flag, because the deletion must hit the entry whether it counts or not.
	stem := entryWithoutFlag(post, author)
	for i, reader := range readers {
		calls[i] = redis.ScriptCall{Keys: inboxScriptKeys(reader), Args: []any{stem}}
	}
	return c.Client.ChangeForResults(ctx, deleteFromInboxesScript, calls)
}

// MarkFeedSeen advances the position up to which the reader has seen the feed; an older position changes nothing.
func (c *Projections) MarkFeedSeen(ctx context.Context, reader services.UserID, upTo services.PostID) (redis.Result, error) {
	return c.Client.ChangeForResult(ctx, markFeedSeenScript, redis.ScriptCall{Keys: inboxScriptKeys(reader), Args: []any{upTo.String()}})
}

// ExpireFeedPosts removes the posts up to upTo, which are too old, from readers' counts. An upTo that is older than an earlier one
// changes nothing.
func (c *Projections) ExpireFeedPosts(ctx context.Context, readers []services.UserID, upTo services.PostID) ([]redis.Result, error) {
	calls := services.Map(readers, func(reader services.UserID) redis.ScriptCall {
		return redis.ScriptCall{Keys: inboxScriptKeys(reader), Args: []any{upTo.String()}}
	})
	return c.Client.ChangeForResults(ctx, expireFeedPostsScript, calls)
}

// TakeUserStamp takes a stamp for one user on their own master, to read the facts again after Retry. It is 0 if the user has no
// document: nothing can be added then.
func (c *Projections) TakeUserStamp(ctx context.Context, user services.UserID) (redis.ClockStamp, error) {
	return c.Client.ChangeForStamp(ctx, stampScript, redis.ScriptCall{Keys: []string{DocumentKey(user)}})
}

// MarkActive records the day in the users' documents and extends their keys' lifetime to at most lifetime from now. For a
// user without a document nothing is recorded: their next read rebuilds the document, with the day.
func (c *Projections) MarkActive(ctx context.Context, users []services.UserID, day int64, lifetime time.Duration) error {
	calls := services.Map(users, func(user services.UserID) redis.ScriptCall {
		return redis.ScriptCall{Keys: userDataKeys(user), Args: []any{day, jitteredTTLSeconds(lifetime)}}
	})
	_, err := c.Client.Change(ctx, markActiveScript, calls)
	return err
}

// InboxPage is a raw page of an inbox.
type InboxPage struct {
	Ready         bool                 // false: the inbox is missing or being built
	Entries       []services.FeedEntry // the newest first
	OlderPostsCut bool                 // older posts exist and are not listed: a feed ends at its 300th entry

	PulledAuthors []services.FollowedAuthor // authors whose posts the caller merges in
	EntriesAbove  int                       // how many entries of the inbox are above the page
	NewestTrimmed services.PostID           // the newest entry ever trimmed from the inbox; 0: none was
	SeenUpTo      services.PostID           // posts up to this one were seen
	LastActiveDay int64                     // on which the reader was last marked active, since 1970
}

// Inbox reads up to limit entries with ids below before, newest first, in one round trip. Besides the page it asks for the state
// of the document, the sentinel (the member with the floor), the last listed entry (a feed ends there, though the inbox may hold
// more), and how many entries are above the page.
func (c *Projections) Inbox(ctx context.Context, reader services.UserID, before services.PostID, limit int) (InboxPage, error) {
	if before == services.MaxPostID && limit <= services.FeedRetention {
		pages, err := c.NewestOfInboxes(ctx, []services.UserID{reader}, []int{limit})
		if err != nil {
			return InboxPage{}, err
		}
		return pages[0], nil
	}
	if err := c.Client.CheckTrusted(); err != nil {
		return InboxPage{}, err
	}
	key := inboxKey(reader)
	ctx = redis.WithReadGuard(ctx)
	commands, err := c.Client.Read(ctx, func(p redis.Pipeliner) {
		// The code below takes the answers by their positions.
		p.HMGet(ctx, DocumentKey(reader), "st", "e", "F", "T", "d")
		p.ZRange(ctx, key, 0, 0)
		p.ZRevRange(ctx, key, services.FeedRetention-1, services.FeedRetention-1)
		p.ZRevRangeByLex(ctx, key, &redis.ZRangeBy{Max: "(" + before.String(), Min: "-", Count: int64(limit)})
		p.ZLexCount(ctx, key, "["+before.String(), "+")
	})
	if err != nil {
		return InboxPage{}, err
	}
	for _, command := range commands {
		if err := command.Err(); err != nil && err != redis.Nil {
			return InboxPage{}, redis.MapError(err)
		}
	}
	// The epoch is read after the answers: every connection that delivered one has then reported its server's lineage.
	page := parseInboxState(redis.AppendTexts(nil, commands[0].(*redis.SliceCmd).Val()), commands[1].(*redis.StringSliceCmd).Val(), c.Client.Epoch())
	if !page.Ready {
		return InboxPage{}, nil
	}
	page.EntriesAbove = int(commands[4].(*redis.IntCmd).Val())
	// With fewer entries than a feed lists, nothing is cut: oldest stays 0, which is below every post.
	var oldest services.PostID
	if last := commands[2].(*redis.StringSliceCmd).Val(); len(last) == 1 {
		entry, _ := parseEntry(last[0])
		oldest = entry.Post
	}
	for _, member := range commands[3].(*redis.StringSliceCmd).Val() {
		entry, ok := parseEntry(member)
		// Entries beyond the listed ones are slack, which the next trim removes. They are older posts too, so the feed is
		// cut.
		if ok && entry.Post >= oldest {
			page.Entries = append(page.Entries, entry)
		}
		page.OlderPostsCut = page.OlderPostsCut || ok && entry.Post < oldest
	}
	return page, nil
}

// parseInboxState reads the document's fields that the inbox needs, and the inbox's sentinel, the member with the floor. The page is
// not ready when either is missing, broken or of another epoch.
func parseInboxState(fields, first []string, epoch string) (page InboxPage) {
	floor, ok := ListFloor(first)
	if fields[0] != "1" || fields[1] != epoch || !ok {
		return page
	}
	pulled, seen := fields[2], fields[3]
	p := &documentParser{failed: pulled == redis.AbsentField || seen == redis.AbsentField}
	page.PulledAuthors, page.SeenUpTo, page.NewestTrimmed = p.unpackAuthors(PulledAuthorsField, pulled), p.postPosition(seen), p.postPosition(floor)
	// A day that is absent or unreadable becomes day 0, so that the user is treated as one who returns.
	page.LastActiveDay, _ = strconv.ParseInt(fields[4], 10, 64)
	page.Ready, page.OlderPostsCut = !p.failed, page.NewestTrimmed > 0
	return page
}

// AuthorPostsInInbox reads which posts of an author a reader's inbox holds, oldest first. It includes posts below the last one that
// Inbox lists, and posts of an inbox that is being built. Without an inbox the result is empty. It reads the whole inbox, so it
// is for jobs.
func (c *Projections) AuthorPostsInInbox(ctx context.Context, reader, author services.UserID) ([]services.PostID, error) {
	commands, err := c.Client.Read(ctx, func(p redis.Pipeliner) { p.ZRange(ctx, inboxKey(reader), 0, -1) })
	if err != nil {
		return nil, err
	}
	var posts []services.PostID
	for _, member := range commands[0].(*redis.StringSliceCmd).Val() {
		if entry, ok := parseEntry(member); ok && entry.Author == author {
			posts = append(posts, entry.Post)
		}
	}
	return posts, nil
}
