package social

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/notifications"
	"tidings/services/positions"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
)

// userPair is a reader and an author.
type userPair struct{ reader, author services.UserID }

// peopleModel is two readers and three authors on a node whose jobs run late, twice and in any order, and whose Redis loses its data;
// and a simple model of their follows, restrictions and posts.
type peopleModel struct {
	testNode
	t              *rapid.T
	readers        []services.UserID
	authors        []services.UserID
	queuedPostJobs []jobs.NewJob // the jobs of posts that were queued so far

	followedSince map[userPair]services.PostID        // when the reader followed the author
	followMode    map[userPair]services.FollowMode    // of the last follow, also after its end; absent means FollowAll
	mutedUntil    map[userPair]time.Time              // until when; the zero time: for ever
	authorHides   map[userPair]bool                   // the author hides from the reader
	readerBlocks  map[userPair]bool                   // the reader blocks the author
	authorBlocks  map[userPair]bool                   // the author blocks the reader
	seenUpTo      map[services.UserID]services.PostID // up to which post each reader has looked
	posts         []services.Post                     // the oldest first
}

// drawAnyPair draws a reader and an author at random.
func (c *peopleModel) drawAnyPair() userPair {
	return userPair{rapid.SampledFrom(c.readers).Draw(c.t, "reader"), rapid.SampledFrom(c.authors).Draw(c.t, "author")}
}

// drawPairMostlyFrom draws a pair, mostly from the keys of standing, such as the pairs with a mute. Otherwise a command that ends a
// follow or a restriction would rarely find one.
func drawPairMostlyFrom[V any](c *peopleModel, standing map[userPair]V) userPair {
	var all []userPair
	for pair := range standing {
		all = append(all, pair)
	}
	if len(all) == 0 || rapid.IntRange(0, 4).Draw(c.t, "any two") == 0 {
		return c.drawAnyPair()
	}
	slices.SortFunc(all, func(a, b userPair) int {
		return cmp.Or(cmp.Compare(a.reader, b.reader), cmp.Compare(a.author, b.author))
	})
	return rapid.SampledFrom(all).Draw(c.t, "two")
}

// commitExpectingChange commits a command, and checks that it changes something exactly if changes is set. Now and then AfterApply and
// AfterCommit are lost, and the jobs do all of the work.
func (c *peopleModel) commitExpectingChange(cmd *jobs.Command, changes bool) bool {
	c.t.Helper()
	c.Clock.Advance(time.Second)
	c.endExpiredMutes()
	if rapid.IntRange(0, 3).Draw(c.t, "own part lost") == 0 {
		cmd.AfterApply, cmd.AfterCommit = nil, nil
	}
	err := c.Fanout.Commit(c.TB.Context(), cmd)[0]
	if (err == nil && cmd.Changed()) != changes {
		c.t.Fatalf("%s: %v, changed %t, want %t", cmd.Name, err, cmd.Changed(), changes)
	}
	return changes
}

// endExpiredMutes ends the mutes that are over, in the model and, by their jobs, on the node.
func (c *peopleModel) endExpiredMutes() {
	for of, until := range c.mutedUntil {
		if !until.IsZero() && !until.After(c.Clock.Now()) {
			delete(c.mutedUntil, of)
		}
	}
	c.RunDueJobs(c.Fanout)
}

// follow and the methods below it, up to markFeedSeen, are random steps. Each changes the node and the model alike.
func (c *peopleModel) follow() {
	of := c.drawAnyPair()
	_, follows := c.followedSince[of]
	if c.commitExpectingChange(c.service.Follow(of.reader, of.author), !follows && !c.readerBlocks[of] && !c.authorBlocks[of]) {
		c.followedSince[of] = services.PostID(c.IDs.Next())
		delete(c.followMode, of) // the end of a former follow deletes its mode
	}
}

func (c *peopleModel) setFollowMode() {
	of, mode := drawPairMostlyFrom(c, c.followedSince), services.FollowMode(rapid.IntRange(0, 2).Draw(c.t, "mode"))
	_, follows := c.followedSince[of]
	if c.commitExpectingChange(c.service.SetFollowMode(of.reader, of.author, mode), follows && c.followMode[of] != mode) {
		c.followMode[of] = mode
	}
}

func (c *peopleModel) unfollow() {
	of := drawPairMostlyFrom(c, c.followedSince)
	_, follows := c.followedSince[of]
	c.commitExpectingChange(c.service.Unfollow(of.reader, of.author), follows)
	delete(c.followedSince, of)
}

// mute makes a reader mute an author, for some seconds or for ever.
func (c *peopleModel) mute() {
	of, until := c.drawAnyPair(), time.Time{}
	if rapid.Bool().Draw(c.t, "with a time") {
		until = c.Clock.Now().Add(time.Duration(rapid.IntRange(2, 30).Draw(c.t, "seconds")) * time.Second)
	}
	had, muted := c.mutedUntil[of]
	c.commitExpectingChange(c.service.Mute(of.reader, of.author, until), !muted || !had.Equal(until))
	c.mutedUntil[of] = until
}

func (c *peopleModel) unmute() {
	of := drawPairMostlyFrom(c, c.mutedUntil)
	c.Clock.Advance(time.Second)
	c.endExpiredMutes()
	_, muted := c.mutedUntil[of]
	if until := c.mutedUntil[of]; muted && !until.IsZero() && !until.After(c.Clock.Now().Add(time.Second)) {
		return // the mute ends at this moment, so either result is right
	}
	c.commitExpectingChange(c.service.Unmute(of.reader, of.author), muted)
	delete(c.mutedUntil, of)
}

// hide makes an author hide from a reader.
func (c *peopleModel) hide() {
	of := c.drawAnyPair()
	if c.commitExpectingChange(c.service.HideFrom(of.author, of.reader), !c.authorHides[of]) {
		c.authorHides[of] = true
	}
}

func (c *peopleModel) unhide() {
	of := drawPairMostlyFrom(c, c.authorHides)
	c.commitExpectingChange(c.service.UnhideFrom(of.author, of.reader), c.authorHides[of])
	delete(c.authorHides, of)
}

// drawBlockDirection draws who blocks: a reader or an author. standing are the present blocks by readers or by authors. ends splits a
// pair into blocker and blocked.
func (c *peopleModel) drawBlockDirection() (standing map[userPair]bool, ends func(userPair) (owner, other services.UserID)) {
	if rapid.Bool().Draw(c.t, "the author") {
		return c.authorBlocks, func(of userPair) (owner, other services.UserID) { return of.author, of.reader }
	}
	return c.readerBlocks, func(of userPair) (owner, other services.UserID) { return of.reader, of.author }
}

// block makes a user of a random side block one of the other side.
func (c *peopleModel) block() {
	standing, ends := c.drawBlockDirection()
	of := c.drawAnyPair()
	if c.commitExpectingChange(c.service.Block(ends(of)), !standing[of]) {
		standing[of] = true
		delete(c.followedSince, of)
	}
}

func (c *peopleModel) unblock() {
	standing, ends := c.drawBlockDirection()
	of := drawPairMostlyFrom(c, standing)
	c.commitExpectingChange(c.service.Unblock(ends(of)), standing[of])
	delete(standing, of)
}

func (c *peopleModel) publishPost() {
	author := rapid.SampledFrom(c.authors).Draw(c.t, "author")
	id := c.Post(author)
	c.queuedPostJobs = append(c.queuedPostJobs, fanout.FanOutJob(id))
	c.posts = append(c.posts, services.Post{ID: id, Author: author})
}

// removePost deletes a random post.
func (c *peopleModel) removePost() {
	if len(c.posts) > 0 {
		i := rapid.IntRange(0, len(c.posts)-1).Draw(c.t, "post")
		if !c.posts[i].Deleted {
			c.Delete(c.posts[i].ID)
			c.queuedPostJobs = append(c.queuedPostJobs, fanout.RemovePostJob(c.posts[i].ID))
		}
		c.posts[i].Deleted = true
	}
}

// markFeedSeen marks a reader's feed as seen up to some post.
func (c *peopleModel) markFeedSeen() {
	if len(c.posts) > 0 {
		reader, upTo := rapid.SampledFrom(c.readers).Draw(c.t, "reader"), rapid.SampledFrom(c.posts).Draw(c.t, "up to").ID
		c.Write(func(ctx context.Context, tx *sql.Tx) error {
			if _, err := positions.Advance(ctx, tx, reader, positions.HomeFeedView, upTo); err != nil {
				return err
			}
			return jobs.Enqueue(ctx, tx, fanout.ProjectSeenJob(reader))
		})
		c.seenUpTo[reader] = max(c.seenUpTo[reader], upTo)
	}
}

// requeueJob queues a job that may have been queued before, due within five seconds.
func (c *peopleModel) requeueJob() {
	of := drawPairMostlyFrom(c, c.mutedUntil)
	queued := []jobs.NewJob{fanout.FollowJob(of.reader, of.author), fanout.MuteEndJob(of.reader, of.author, time.Time{}), notifications.RecountActorJob(of.reader, of.author)}
	if len(c.queuedPostJobs) > 0 {
		queued = append(queued, rapid.SampledFrom(c.queuedPostJobs).Draw(c.t, "enqueued"))
	}
	job := rapid.SampledFrom(queued).Draw(c.t, "job")
	job.NotBefore = c.Clock.Now().Add(time.Duration(rapid.IntRange(0, 5).Draw(c.t, "seconds")) * time.Second)
	c.Write(func(ctx context.Context, tx *sql.Tx) error { return jobs.Enqueue(ctx, tx, job) })
}

// runOneWorker runs one worker once, which does a part of the due jobs.
func (c *peopleModel) runOneWorker() {
	workers := c.Fanout.Workers(1)
	_, err := rapid.SampledFrom(workers).Draw(c.t, "worker").RunOnce(c.TB.Context())
	c.Must(err)
}

// expectedFeed returns the entries of a reader's feed by the model, the newest first, and how many of them are new.
func (c *peopleModel) expectedFeed(reader services.UserID) (entries []services.FeedEntry, count int) {
	for _, post := range slices.Backward(c.posts) {
		of := userPair{reader, post.Author}
		since, follows := c.followedSince[of]
		if _, muted := c.mutedUntil[of]; !follows || muted || c.authorHides[of] || post.Deleted {
			continue
		}
		entries = append(entries, services.FeedEntry{Post: post.ID, Author: post.Author, CountsAsNew: post.ID > since && c.followMode[of] == services.FollowAll})
		if post.ID > max(since, c.seenUpTo[reader]) && c.followMode[of] == services.FollowAll {
			count++
		}
	}
	return entries, count
}

// checkAgainstModel runs all due jobs, and checks that each reader's list and count, in Redis and in SQL, equal the model's.
func (c *peopleModel) checkAgainstModel() {
	c.t.Helper()
	c.endExpiredMutes()
	for _, reader := range c.readers {
		document := c.Document(reader)
		if !document.Ready {
			c.Must(c.Projector.Rebuild(c.TB.Context(), reader))
			document = c.Document(reader)
		}
		entries, count := c.expectedFeed(reader)
		if diff := gocmp.Diff(entries, c.Inbox(reader)); diff != "" {
			c.t.Fatalf("reader %d (-model +shown):\n%s", reader, diff)
		}
		if document.FeedCount != count {
			c.t.Fatalf("reader %d: %d are new, and the model has %d", reader, document.FeedCount, count)
		}
		if diff := c.DiffAgainstFacts(reader); diff != "" {
			c.t.Fatalf("reader %d (-facts +shown):\n%s", reader, diff)
		}
	}
	if _, dead := c.CountJobs(); dead > 0 {
		c.t.Fatalf("%d jobs are dead", dead)
	}
}

// TestPeopleAgainstModel begins and ends follows, mutes, hides and blocks, while authors publish and delete posts and readers look.
func TestPeopleAgainstModel(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		histories.ReduceRapidChecks(t, 6) // the race detector makes it slow
		checkPeopleAgainstModel(t, fanouttest.Options{})
	})
	t.Run("postgres", func(t *testing.T) {
		histories.ReduceRapidChecks(t, 3)
		checkPeopleAgainstModel(t, fanouttest.Options{SQLURL: sqltest.Postgres(t)})
	})
}

// checkPeopleAgainstModel runs the test on a pair of engines.
func checkPeopleAgainstModel(t *testing.T, engines fanouttest.Options) {
	n := newNode(fanouttest.New(t, engines))
	n.service = New(Config{DB: n.DB, People: n.Caches.People, Projector: n.Projector, Fanout: n.Fanout.Fanout, IDs: n.IDs, Notifications: n.service.notifications})
	rapid.Check(t, func(t *rapid.T) {
		c := &peopleModel{
			testNode: n, t: t, readers: n.MakeUsers(2), authors: n.MakeNeverSeenUsers(3), followedSince: map[userPair]services.PostID{}, followMode: map[userPair]services.FollowMode{}, mutedUntil: map[userPair]time.Time{},
			authorHides: map[userPair]bool{}, readerBlocks: map[userPair]bool{}, authorBlocks: map[userPair]bool{}, seenUpTo: map[services.UserID]services.PostID{},
		}
		for _, reader := range c.readers { // most actions below need a follow
			for _, author := range c.authors[:2] {
				c.commitExpectingChange(c.service.Follow(reader, author), true)
				c.followedSince[userPair{reader, author}] = services.PostID(c.IDs.Next())
			}
		}
		act := func(do func()) func(*rapid.T) {
			return func(t *rapid.T) { c.t = t; do() }
		}
		t.Repeat(map[string]func(*rapid.T){
			"follow": act(c.follow), "unfollow": act(c.unfollow), "mode": act(c.setFollowMode), "mute": act(c.mute), "unmute": act(c.unmute), "hide": act(c.hide),
			"unhide": act(c.unhide), "block": act(c.block), "unblock": act(c.unblock),
			"publish": act(c.publishPost), "publish again": act(c.publishPost), "remove": act(c.removePost), "look": act(c.markFeedSeen), "again": act(c.requeueJob), "some": act(c.runOneWorker),
			"wait":  act(func() { c.Clock.Advance(time.Duration(rapid.IntRange(1, 20).Draw(c.t, "seconds")) * time.Second) }),
			"flush": act(c.RedisServer.Flush),
			"":      act(c.checkAgainstModel),
		})
	})
}
