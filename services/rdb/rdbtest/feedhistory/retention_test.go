package feedhistory

import (
	"fmt"
	"slices"
	"testing"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/redis/clienttest"
	"tidings/services/redis/redistest"
)

// A longFeed is the feed of one reader with hundreds of posts. It tests what an inbox trims, refuses and reads again.
// Nothing runs concurrently here; World tests that.
type longFeed struct {
	*World
	reader             services.UserID
	authors            []services.UserID // the reader may follow them
	ownPostsPerTen     int               // how many of ten posts are the reader's own, which do not count
	oneAuthorDominates bool              // one author writes nearly all posts
}

// newLongFeed makes a reader who follows three authors.
func newLongFeed(t *testing.T, client *rdb.Projections, seed uint64) *longFeed {
	f := &longFeed{World: newWorld(t.Context(), client, seed, services.UserID(10*seed+1))}
	f.reader, f.Users = f.Users[0], f.Users[:1]
	f.ownPostsPerTen, f.oneAuthorDominates = []int{0, 3, 10}[f.Random.IntN(3)], f.Random.IntN(3) == 0
	for i := range 3 {
		f.authors = append(f.authors, f.reader+services.UserID(i)+1)
		f.followStarts[edge{f.reader, f.authors[i]}] = 0
	}
	return f
}

// pushPosts pushes posts into the reader's inbox, by the follows of this moment.
func (f *longFeed) pushPosts(ids ...services.PostID) error {
	stamp, err := f.Client.TakeUserStamp(f.Ctx, f.reader)
	if err != nil {
		return err
	}
	adds := make([]rdb.InboxPost, 0, len(ids))
	for _, id := range ids {
		author := f.posts[id].Author
		if since, follows := f.followStarts[edge{f.reader, author}]; follows {
			adds = append(adds, rdb.InboxPost{Reader: f.reader, Entry: services.FeedEntry{Post: id, Author: author, CountsAsNew: id > services.PostID(since)}})
		} else if author == f.reader {
			adds = append(adds, rdb.InboxPost{Reader: f.reader, Entry: services.FeedEntry{Post: id, Author: author}})
		}
	}
	results, err := f.Client.AddToInboxes(f.Ctx, stamp, adds)
	for i, result := range results {
		if result.Status == redis.Retry {
			err = f.addPostAgain(func() {}, f.reader, adds[i].Entry.Post)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// publishMany assigns IDs to new posts, and commits and pushes most of them; the others are committed and pushed much later.
func (f *longFeed) publishMany(number int) error {
	var ids []services.PostID
	for range number {
		id := services.PostID(f.NextID())
		if f.Random.IntN(12) == 0 {
			f.uncommittedIDs = append(f.uncommittedIDs, id)
			continue
		}
		author := f.reader
		if f.Random.IntN(10) >= f.ownPostsPerTen {
			author = f.authors[f.Random.IntN(3)]
		}
		if f.oneAuthorDominates && f.Random.IntN(50) > 0 {
			author = f.authors[0]
		}
		f.posts[id] = &services.Post{ID: id, Author: author}
		ids = append(ids, id)
	}
	f.Tracef("%d posts up to %d", len(ids), f.lastAssignedID)
	return f.pushPosts(ids...)
}

// commitPostLate publishes a post whose ID was assigned long ago. It arrives by a push, or by the merge
// with which a job repeats a push that Redis has refused.
func (f *longFeed) commitPostLate() error {
	if len(f.uncommittedIDs) == 0 {
		return nil
	}
	at := max(f.Random.IntN(len(f.uncommittedIDs)), f.Random.IntN(len(f.uncommittedIDs)))
	id := f.uncommittedIDs[at]
	f.uncommittedIDs = slices.Delete(f.uncommittedIDs, at, at+1)
	f.posts[id] = &services.Post{ID: id, Author: f.authors[f.Random.IntN(3)]}
	f.Tracef("%d committed late", id)
	if f.Random.IntN(2) == 0 {
		return f.pushPosts(id)
	}
	return f.addPostAgain(func() {}, f.reader, id)
}

// rebuildLongFeed rebuilds a long feed from its facts: the posts that an inbox holds, and the newest ones below them.
func (f *longFeed) rebuildLongFeed(refill bool) error {
	f.Tracef("rebuild, refill %v", refill)
	stamps, err := f.Client.BeginRebuild(f.Ctx, f.Users, rdb.RebuildMode{IsVisit: true, Refill: refill})
	if err != nil {
		return err
	}
	facts := rdb.FeedFacts{Reader: f.reader, Stamp: stamps[0], IsVisit: true, SeenUpTo: f.seenUpTo[f.reader], LastActiveDay: 20_000, KeyLifetime: 3600e9, Entries: f.homeFeedFromFacts(f.reader)}
	if len(facts.Entries) > inboxCapacity {
		below := facts.Entries[inboxCapacity:]
		facts.NewestTrimmed, facts.Entries = below[0].Post, facts.Entries[:inboxCapacity]
		if at := slices.IndexFunc(below, func(entry services.FeedEntry) bool { return entry.CountsAsNew }); at >= 0 {
			facts.NewestTrimmedCounted = below[at].Post
		}
	}
	result, err := f.Client.EndRebuild(f.Ctx, facts)
	if err == nil && (result.Status != redis.Applied || result.RefillDue) {
		err = fmt.Errorf("the rebuild answers %+v", result)
	}
	return err
}

// unfollowOrFollow ends a follow or begins one. Sometimes it does both at once.
func (f *longFeed) unfollowOrFollow() error {
	pair := edge{f.reader, f.authors[f.Random.IntN(3)]}
	if _, follows := f.followStarts[pair]; !follows {
		f.followStarts[pair] = f.NextID()
		f.Tracef("follows %d", pair.author)
		return f.reconcileFollow(func() {}, f.reader, pair.author)
	}
	if f.Random.IntN(3) == 0 {
		// Both changes of the fact come before either job runs: a job reads only the newer follow.
		f.followStarts[pair] = f.NextID()
		f.Tracef("unfollows and follows %d", pair.author)
		return f.reconcileFollow(func() {}, f.reader, pair.author)
	}
	delete(f.followStarts, pair)
	f.Tracef("unfollows %d", pair.author)
	result, err := f.Client.DropFromInbox(f.Ctx, f.reader, pair.author)
	if err == nil && result.RefillDue {
		err = f.rebuildLongFeed(true)
	}
	return err
}

// deleteSomePosts deletes posts and removes them from the inbox.
func (f *longFeed) deleteSomePosts() error {
	for range f.Random.IntN(12) {
		id, ok := f.randomPost()
		if !ok || f.posts[id].Deleted {
			continue
		}
		f.posts[id].Deleted = true
		f.Tracef("%d is deleted", id)
		results, err := f.Client.DeleteFromInboxes(f.Ctx, f.Users, id, f.posts[id].Author)
		if err == nil && results[0].RefillDue {
			err = f.rebuildLongFeed(true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// markSeen moves the reader's seen position.
func (f *longFeed) markSeen() error {
	if id, ok := f.randomPost(); ok && id > f.seenUpTo[f.reader] {
		f.seenUpTo[f.reader] = id
		f.Tracef("seen up to %d", id)
	}
	return f.projectSeen(func() {}, f.reader)
}

// runRandomEvent runs one random event.
func (f *longFeed) runRandomEvent() error {
	switch dice := f.Random.IntN(20); {
	case dice < 6:
		return f.publishMany(1 + f.Random.IntN(90))
	case dice < 11:
		return f.commitPostLate()
	case dice < 13:
		return f.unfollowOrFollow()
	case dice < 16:
		return f.deleteSomePosts()
	case dice < 17:
		return f.markSeen()
	case dice < 18:
		if err := f.loseKeys(f.reader); err != nil {
			return err
		}
		return f.rebuildLongFeed(f.Random.IntN(2) == 0)
	default:
		return f.rebuildLongFeed(f.Random.IntN(2) == 0)
	}
}

// checkFeed compares the projection with the facts: exactly the newest 300 are listed, in pages of any length, and the count is exact
// or marked as a lower bound.
func (f *longFeed) checkFeed() error {
	facts, true_ := f.homeFeedFromFacts(f.reader), 0
	for _, entry := range facts {
		if entry.CountsAsNew && entry.Post > f.seenUpTo[f.reader] {
			true_++
		}
	}
	var listed []services.FeedEntry
	for before := services.MaxPostID; ; {
		page, err := f.Client.Inbox(f.Ctx, f.reader, before, 1+f.Random.IntN(services.FeedRetention))
		if err != nil || !page.Ready {
			return fmt.Errorf("the inbox is %+v, %w", page, err)
		}
		if listed = append(listed, page.Entries...); len(page.Entries) > 0 {
			before = page.Entries[len(page.Entries)-1].Post
			continue
		}
		want := facts[:min(len(facts), services.FeedRetention)]
		if !slices.Equal(listed, want) {
			return fmt.Errorf("%d are listed and differ from the %d newest: %s", len(listed), len(want), firstDifference(listed, want))
		}
		if len(facts) > services.FeedRetention && !page.OlderPostsCut || len(facts) < services.FeedRetention && page.OlderPostsCut {
			return fmt.Errorf("of %d posts some are cut: %v", len(facts), page.OlderPostsCut)
		}
		break
	}
	documents, err := f.Client.Documents(f.Ctx, f.Users)
	if err != nil {
		return err
	}
	d := documents[0]
	exact := d.FeedCount == true_ && true_ <= services.FeedRetention
	if !d.Ready || d.FeedCount > true_ || !exact && !d.FeedCountAtLeast || d.FeedSeenUpTo != f.seenUpTo[f.reader] {
		return fmt.Errorf("the document is %+v, the facts have %d above %d", d, true_, f.seenUpTo[f.reader])
	}
	return nil
}

// firstDifference says where two feeds begin to differ.
func firstDifference(got, want []services.FeedEntry) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("at %d %+v, want %+v", i, got[i], want[i])
		}
	}
	return "one ends before the other"
}

// runAndCheck runs a number of events, with a check after each.
func (f *longFeed) runAndCheck(events int) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n\tafter %d events: %v", err, len(f.trace), f.trace)
		}
	}()
	if err := f.rebuildLongFeed(false); err != nil {
		return err
	}
	if err := f.publishMany(services.FeedRetention + f.Random.IntN(150)); err != nil {
		return err
	}
	for range events {
		for _, step := range []func() error{f.runRandomEvent, f.checkFeed, f.CheckFeedsAndBoards} {
			if err := step(); err != nil {
				return err
			}
		}
	}
	return nil
}

// runLongFeed runs one long feed of a new reader. The same number gives the same feed.
func runLongFeed(t *testing.T, client *rdb.Projections, number int, bug clienttest.Bug[*World]) error {
	feed := newLongFeed(t, client, uint64(number))
	bug.Inject(feed.World)
	return feed.runAndCheck(40)
}

func TestALongFeedIsItsNewestThreeHundred(t *testing.T) {
	test := func(t *testing.T, url string, number int) {
		client := openProjections(t, url)
		for i := range number {
			if err := runLongFeed(t, client, i, noBug); err != nil {
				t.Fatalf("feed %d: %v", i, err)
			}
		}
	}
	t.Run("redis", func(t *testing.T) { test(t, redistest.Redis(t), 20) })
	t.Run("embedded", func(t *testing.T) { test(t, "embedded", 2) })
	t.Run("cluster", func(t *testing.T) { test(t, redistest.Cluster(t), 2) })
}

// trimmingBugs are the injected bugs that long feeds must find.
var trimmingBugs = map[string]clienttest.Bug[*World]{
	"a trim that forgets what counted":    {Scripts: clienttest.ReplaceInScript(inboxAdd, "if e:sub(19) == '+' and e:sub(1, 13) > d.ft then d.ft = e:sub(1, 13) end", ""), Known: 1},
	"a trim that keeps the old floor":     {Scripts: clienttest.ReplaceInScript(inboxAdd, "if newest > floor then floor = newest end\n", ""), Known: 7},
	"a late push below the floor":         {Scripts: clienttest.ReplaceInScript(inboxAdd, "if id <= d.floor then\n  if not", "if false then\n  if not"), Known: 1},
	"a late push that nobody notes":       {Scripts: clienttest.ReplaceInScript(inboxAdd, "  if id > d.ft then d.ft = id end\n", "  return { 2 }\n"), Known: 111},
	"a late merge that nobody notes":      {Scripts: clienttest.ReplaceInScript(inboxMerge, "added == 0 and d.ft == ft and not moved", "added == 0"), Known: 150},
	"a refill that keeps the floor":       {Scripts: clienttest.ReplaceInScript(rebuildBegin, "elseif reopen and", "elseif false and"), Known: 1},
	"a drop that does not ask for more":   {Scripts: clienttest.ReplaceInScript(inboxDrop, "redis.call('ZCARD', i) - 1 < KEEP", "false"), Known: 3},
	"a rebuild without a floor":           {Scripts: clienttest.ReplaceInScript(rebuildMerge, "if ARGV[3] > d.floor then", "if false then"), Known: 1},
	"a rebuild that forgets what counted": {Scripts: clienttest.ReplaceInScript(rebuildMerge, "if ARGV[4] > d.ft then d.ft = ARGV[4] end", ""), Known: 1},
	"a count beyond the limit":            {Scripts: clienttest.ReplaceInScript(inboxAdd, "if count > KEEP then return KEEP .. '+' end", ""), Known: 4},
	"a follow that reads what is listed":  {Work: func(w *World) { w.postsReadOnFollow = services.FeedRetention }, Known: 6},
}
