package rdb

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"tidings/services"
	"tidings/services/redis"
)

// Status says what a script did to one user's view.
type Status int

// The statuses, as the scripts answer them.
const (
	Missing Status = 0 // there is no view: its next reader builds it
	Applied Status = 1 // changed; N is the new version
	Same    Status = 2 // there was nothing to change
	Retry   Status = 3 // the SQL read behind the call is older than a removal: read again, for this user
)

// Result is what a script did for one user.
type Result struct {
	Status Status
	N      uint64   // with Applied: the version of the document now
	Short  bool     // with Applied: the inbox may lack older posts, so a refill is due
	Nodes  []string // with Applied: the nodes on which the user is online
}

// Stamp is a moment of Redis' clock, in microseconds, taken before a SQL read. See MODEL, section 4.
type Stamp uint64

var (
	inboxAdd     = loadScript("inbox_add")
	inboxMerge   = loadScript("inbox_merge")
	inboxDrop    = loadScript("inbox_drop", replaysLib)
	inboxDelete  = loadScript("inbox_delete")
	feedSeen     = loadScript("feed_seen")
	feedAged     = loadScript("feed_aged")
	rebuildBegin = loadScript("rebuild_begin")
	rebuildMerge = loadScript("rebuild_merge")
	stampScript  = loadScript("stamp")
	activity     = loadScript("activity")
)

// viewKeys are the keys of a user's view in the order of the scripts that build it.
func viewKeys(user services.UserID) []string {
	return []string{badgeKey(user), inboxKey(user), conversationsKey(user), replaysKey(user)}
}

func inboxKeys(user services.UserID) []string {
	return []string{badgeKey(user), inboxKey(user), onlineKey(user)}
}

// Now takes a stamp that is valid for any user. Take it before the SQL read that an add is based on. On a cluster the stamp is
// a second in the past, because the masters' clocks differ.
func (c *Projections) Now(ctx context.Context) (Stamp, error) {
	t, err := c.Commands().Time(ctx).Result()
	if err != nil {
		return 0, redis.Unavailable(err)
	}
	return Stamp(uint64(t.UnixMicro()) - c.StampSlack()), nil
}

// Add is one post for one reader.
type Add struct {
	Reader services.UserID
	Entry  services.FeedEntry
}

// AddToInboxes pushes posts into inboxes, one round trip for each 500. Results are in the order of adds.
func (c *Projections) AddToInboxes(ctx context.Context, stamp Stamp, adds []Add) ([]Result, error) {
	calls := make([]redis.Call, len(adds))
	text := stamp.text()
	for i, add := range adds {
		calls[i] = redis.Call{Keys: inboxKeys(add.Reader), Args: []any{text, entryText(add.Entry)}}
	}
	return c.results(ctx, inboxAdd, calls)
}

// Merge is the result of a SQL read for one reader, to be merged into their view.
type Merge struct {
	Reader  services.UserID
	Stamp   Stamp
	Fence   bool // the edge may be new: every earlier read is refused afterwards, since its entries may count differently
	Pulled  []services.FollowedAuthor
	Hosts   []services.FollowedAuthor
	Entries []services.FeedEntry
}

// MergeIntoInbox merges the result of a SQL read for one reader.
func (c *Projections) MergeIntoInbox(ctx context.Context, merge Merge) (Result, error) {
	args := []any{merge.Stamp.text(), "0", namedText(merge.Pulled...), namedText(merge.Hosts...)}
	if merge.Fence {
		args[1] = "1"
	}
	for _, entry := range merge.Entries {
		args = append(args, entryText(entry))
	}
	return c.result(ctx, inboxMerge, redis.Call{Keys: inboxKeys(merge.Reader), Args: args})
}

// DropFromInbox removes everything of an author from a reader's views: their posts, whether pushed or pulled, and their shows.
func (c *Projections) DropFromInbox(ctx context.Context, reader, author services.UserID) (Result, error) {
	return c.result(ctx, inboxDrop, redis.Call{
		Keys: append(inboxKeys(reader), replaysKey(reader)), Args: []any{authorLetters(author), authorBytes(author)},
	})
}

// DeleteFromInboxes removes one post from many inboxes, one round trip for each 500.
func (c *Projections) DeleteFromInboxes(ctx context.Context, readers []services.UserID, post services.PostID, author services.UserID) ([]Result, error) {
	calls := make([]redis.Call, len(readers))
	stem := entryStem(post, author)
	for i, reader := range readers {
		calls[i] = redis.Call{Keys: inboxKeys(reader), Args: []any{stem}}
	}
	return c.results(ctx, inboxDelete, calls)
}

// MarkFeedSeen advances the reader's "seen up to"; an older position changes nothing.
func (c *Projections) MarkFeedSeen(ctx context.Context, reader services.UserID, upTo services.PostID) (Result, error) {
	return c.result(ctx, feedSeen, redis.Call{Keys: inboxKeys(reader), Args: []any{upTo.String()}})
}

// AgeFeeds removes the posts up to one from readers' counts, because they are too old; an older post changes nothing.
func (c *Projections) AgeFeeds(ctx context.Context, readers []services.UserID, upTo services.PostID) ([]Result, error) {
	calls := make([]redis.Call, len(readers))
	for i, reader := range readers {
		calls[i] = redis.Call{Keys: inboxKeys(reader), Args: []any{upTo.String()}}
	}
	return c.results(ctx, feedAged, calls)
}

// BeginRebuild makes the missing documents and inboxes of the users and returns the stamps under which their facts are to be
// read. With refill it also opens the inboxes below their floors.
func (c *Projections) BeginRebuild(ctx context.Context, users []services.UserID, refill bool) ([]Stamp, error) {
	args := append([]any{"0", c.EpochToBuild(ctx)}, c.layout.Load().births...)
	if refill {
		args[0] = "1"
	}
	calls := make([]redis.Call, len(users))
	for i, user := range users {
		calls[i] = redis.Call{Keys: viewKeys(user), Args: args}
	}
	replies, err := c.changeViews(ctx, rebuildBegin, calls)
	if err != nil {
		return nil, err
	}
	stamps := make([]Stamp, len(users))
	for i, reply := range replies {
		if stamps[i], err = stampOf(reply); err != nil {
			return nil, fmt.Errorf("rebuild_begin of user %d: %w", users[i], err)
		}
	}
	return stamps, nil
}

// StampOf takes a stamp for one user on their own master: read again under it after Retry. It is 0 if the user has no document:
// nothing can be added then.
func (c *Projections) StampOf(ctx context.Context, user services.UserID) (Stamp, error) {
	replies, err := c.changeViews(ctx, stampScript, []redis.Call{{Keys: []string{badgeKey(user)}}})
	if err != nil {
		return 0, err
	}
	return stampOf(replies[0])
}

// stampOf reads the stamp that a script returned.
func stampOf(r redis.Reply) (Stamp, error) {
	if r.Err != nil {
		return 0, redis.Unavailable(r.Err)
	}
	text, _ := r.Value.(string)
	stamp, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("unexpected stamp %v: %w", r.Value, err)
	}
	return Stamp(stamp), nil
}

// FeedFacts are SQL's data of one reader's feed, read under a stamp of BeginRebuild.
type FeedFacts struct {
	Reader         services.UserID
	Stamp          Stamp
	Seen           services.PostID           // seen up to
	Pulled         []services.FollowedAuthor // authors whose posts are not among Entries
	Hosts          []services.FollowedAuthor // authors who have shows
	Entries        []services.FeedEntry      // the newest
	Floor          services.PostID           // the newest post older than Entries, 0 if there is none
	TrimmedCounted services.PostID           // the newest counting post at or below Floor, 0 if there is none
	Day            int64                     // of activity, days since 1970
	Lifetime       time.Duration             // the keys' longest lifetime without a further visit
}

// EndRebuild merges the facts and marks the document good.
func (c *Projections) EndRebuild(ctx context.Context, facts FeedFacts) (Result, error) {
	args := []any{
		facts.Stamp.text(), facts.Seen.String(), facts.Floor.String(), facts.TrimmedCounted.String(),
		facts.Day, secondsToLive(facts.Lifetime), namedText(facts.Pulled...), namedText(facts.Hosts...),
	}
	for _, entry := range facts.Entries {
		args = append(args, entryText(entry))
	}
	return c.result(ctx, rebuildMerge, redis.Call{
		Keys: append(inboxKeys(facts.Reader), conversationsKey(facts.Reader), replaysKey(facts.Reader), mergeKey(facts.Reader)), Args: args,
	})
}

// secondsToLive subtracts up to a sixteenth from a lifetime: keys that were made together, as after a loss, must not end
// together, or a crowd of readers would rebuild them at once.
func secondsToLive(lifetime time.Duration) int64 {
	seconds := int64(lifetime / time.Second)
	return seconds - rand.Int64N(seconds/16+1)
}

// MarkActive records the day in the users' documents and extends their keys' lifetime to at most lifetime from now.
func (c *Projections) MarkActive(ctx context.Context, users []services.UserID, day int64, lifetime time.Duration) error {
	calls := make([]redis.Call, len(users))
	for i, user := range users {
		calls[i] = redis.Call{Keys: viewKeys(user), Args: []any{day, secondsToLive(lifetime)}}
	}
	_, err := c.changeViews(ctx, activity, calls)
	return err
}

// InboxPage is a raw page of an inbox.
type InboxPage struct {
	Ready   bool // false: the inbox is missing or being built
	Entries []services.FeedEntry
	Cut     bool // older posts exist and are not listed: a feed ends at its 300th entry

	Pulled []services.FollowedAuthor // authors whose posts the caller merges in
	Above  int                       // how many entries of the inbox are above the page or in it
	Floor  services.PostID           // the newest entry ever trimmed from the inbox; 0: none was
	Seen   services.PostID           // seen up to
	Day    int64                     // on which the reader was last marked active, since 1970
}

// Inbox reads up to limit entries with ids below before, newest first, in one round trip.
func (c *Projections) Inbox(ctx context.Context, reader services.UserID, before services.PostID, limit int) (InboxPage, error) {
	if err := c.Trusted(); err != nil {
		return InboxPage{}, err
	}
	key := inboxKey(reader)
	ctx = redis.Reading(ctx)
	commands, err := c.readViews(ctx, func(p redis.Pipeliner) {
		p.HMGet(ctx, badgeKey(reader), "st", "e", "F", "T", "d")
		p.ZRange(ctx, key, 0, 0)
		p.ZRevRange(ctx, key, services.Retention-1, services.Retention-1)
		p.ZRevRangeByLex(ctx, key, &redis.ZRangeBy{Max: "(" + before.String(), Min: "-", Count: int64(limit)})
		p.ZLexCount(ctx, key, "["+before.String(), "+")
	})
	if err != nil {
		return InboxPage{}, err
	}
	for _, command := range commands {
		if err := command.Err(); err != nil && err != redis.Nil {
			return InboxPage{}, redis.Unavailable(err)
		}
	}
	page := inboxState(commands[0].(*redis.SliceCmd).Val(), commands[1].(*redis.StringSliceCmd).Val(), c.Epoch())
	if !page.Ready {
		return InboxPage{}, nil
	}
	page.Above = int(commands[4].(*redis.IntCmd).Val())
	var oldest services.PostID
	if last := commands[2].(*redis.StringSliceCmd).Val(); len(last) == 1 {
		entry, _ := parseEntry(last[0])
		oldest = entry.Post
	}
	for _, member := range commands[3].(*redis.StringSliceCmd).Val() {
		entry, ok := parseEntry(member)
		if ok && entry.Post >= oldest {
			page.Entries = append(page.Entries, entry)
		}
		page.Cut = page.Cut || ok && entry.Post < oldest
	}
	return page, nil
}

// inboxState reads the document's fields that the inbox needs, and the inbox's sentinel.
func inboxState(fields []any, first []string, epoch string) (page InboxPage) {
	if fields[0] != "1" || fields[1] != epoch || len(first) == 0 || first[0] == "" || first[0][0] != sentinel {
		return page
	}
	pulled, hasPulled := fields[2].(string)
	seen, hasSeen := fields[3].(string)
	p := &parser{failed: !hasPulled || !hasSeen}
	page.Pulled, page.Seen, page.Floor = p.unpackNamed(pulled), p.place(seen), p.place(first[0][1:])
	if day, ok := fields[4].(string); ok {
		// an unreadable day becomes day 0, so that the user is treated as one who returns
		page.Day, _ = strconv.ParseInt(day, 10, 64)
	}
	page.Ready, page.Cut = !p.failed, page.Floor > 0
	return page
}

// AuthorInInbox reads which posts of an author a reader's inbox holds, oldest first. It includes posts below what Inbox lists
// and posts of an inbox that is being built. Without an inbox the result is empty.
func (c *Projections) AuthorInInbox(ctx context.Context, reader, author services.UserID) ([]services.PostID, error) {
	commands, err := c.readViews(ctx, func(p redis.Pipeliner) { p.ZRange(ctx, inboxKey(reader), 0, -1) })
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

func (s Stamp) text() string { return strconv.FormatUint(uint64(s), 10) }

func (c *Projections) result(ctx context.Context, script *redis.Script, one redis.Call) (Result, error) {
	results, err := c.results(ctx, script, []redis.Call{one})
	if err != nil {
		return Result{}, err
	}
	return results[0], nil
}

// results runs a script that returns {status, n, short, nodes...}. One failed call fails them all: the scripts, and therefore
// the callers, may be repeated without harm.
func (c *Projections) results(ctx context.Context, script *redis.Script, calls []redis.Call) ([]Result, error) {
	replies, err := c.changeViews(ctx, script, calls)
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(replies))
	for i, reply := range replies {
		if reply.Err != nil {
			return nil, fmt.Errorf("%s: %w", script.Name, redis.Unavailable(reply.Err))
		}
		if results[i], err = parseResult(reply.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", script.Name, err)
		}
	}
	return results, nil
}

func parseResult(value any) (result Result, err error) {
	parts, ok := value.([]any)
	if !ok || len(parts) == 0 {
		return result, fmt.Errorf("unexpected reply %v", value)
	}
	status, _ := parts[0].(int64)
	result.Status = Status(status)
	if result.Status != Applied {
		return result, nil
	}
	if len(parts) < 3 {
		return result, fmt.Errorf("unexpected reply %v", value)
	}
	n, _ := parts[1].(string)
	if result.N, err = strconv.ParseUint(n, 10, 64); err != nil {
		return result, fmt.Errorf("unexpected reply %v: %w", value, err)
	}
	short, _ := parts[2].(int64)
	result.Short = short == 1
	for _, part := range parts[3:] {
		node, _ := part.(string)
		result.Nodes = append(result.Nodes, node)
	}
	return result, nil
}
