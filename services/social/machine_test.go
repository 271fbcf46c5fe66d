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

// couple is a reader and an author.
type couple struct{ reader, author services.UserID }

// crowd is two readers and three authors on a node whose jobs run late, twice and in any order, and whose Redis loses its data;
// and a simple model of their follows, restrictions and posts.
type crowd struct {
	node
	t        *rapid.T
	readers  []services.UserID
	authors  []services.UserID
	enqueued []jobs.NewJob // the jobs of posts that were queued so far

	since   map[couple]services.PostID // when the reader followed the author
	mode    map[couple]services.FollowMode
	muted   map[couple]time.Time // until when; the zero time: for ever
	hidden  map[couple]bool
	blocked map[couple]bool                     // the reader blocks the author
	against map[couple]bool                     // the author blocks the reader
	seen    map[services.UserID]services.PostID // up to which post each reader has looked
	posts   []services.Post                     // the oldest first
}

// couple draws any couple.
func (c *crowd) couple() couple {
	return couple{rapid.SampledFrom(c.readers).Draw(c.t, "reader"), rapid.SampledFrom(c.authors).Draw(c.t, "author")}
}

// drawCouple draws a couple, mostly one that is in standing. Otherwise a command that ends a follow or a restriction would rarely
// find one.
func drawCouple[V any](c *crowd, standing map[couple]V) couple {
	var all []couple
	for pair := range standing {
		all = append(all, pair)
	}
	if len(all) == 0 || rapid.IntRange(0, 4).Draw(c.t, "any two") == 0 {
		return c.couple()
	}
	slices.SortFunc(all, func(a, b couple) int { return cmp.Or(cmp.Compare(a.reader, b.reader), cmp.Compare(a.author, b.author)) })
	return rapid.SampledFrom(all).Draw(c.t, "two")
}

// commit commits a command, and checks that it changes something exactly if changes is set. Now and then AfterApply and AfterCommit are
// lost, and the jobs do all of the work.
func (c *crowd) commit(cmd *jobs.Command, changes bool) bool {
	c.t.Helper()
	c.Clock.Advance(time.Second)
	c.endMutes()
	if rapid.IntRange(0, 3).Draw(c.t, "own part lost") == 0 {
		cmd.AfterApply, cmd.AfterCommit = nil, nil
	}
	err := c.Fanout.Commit(c.TB.Context(), cmd)[0]
	if (err == nil && cmd.Changed()) != changes {
		c.t.Fatalf("%s: %v, changed %t, want %t", cmd.Name, err, cmd.Changed(), changes)
	}
	return changes
}

// endMutes ends the mutes that are over, in the model and, by their jobs, on the node.
func (c *crowd) endMutes() {
	for of, until := range c.muted {
		if !until.IsZero() && !until.After(c.Clock.Now()) {
			delete(c.muted, of)
		}
	}
	c.RunDueJobs(c.Fanout)
}

// follow and the methods below it, up to look, are random steps. Each changes the node and the model alike.
func (c *crowd) follow() {
	of := c.couple()
	_, follows := c.since[of]
	if c.commit(c.service.Follow(of.reader, of.author), !follows && !c.blocked[of] && !c.against[of]) {
		c.since[of] = c.IDs.Next()
		delete(c.mode, of) // the end of a former follow deletes its mode
	}
}

func (c *crowd) setMode() {
	of, mode := drawCouple(c, c.since), services.FollowMode(rapid.IntRange(0, 2).Draw(c.t, "mode"))
	_, follows := c.since[of]
	if c.commit(c.service.SetFollowMode(of.reader, of.author, mode), follows && c.mode[of] != mode) {
		c.mode[of] = mode
	}
}

func (c *crowd) unfollow() {
	of := drawCouple(c, c.since)
	_, follows := c.since[of]
	c.commit(c.service.Unfollow(of.reader, of.author), follows)
	delete(c.since, of)
}

func (c *crowd) mute() {
	of, until := c.couple(), time.Time{}
	if rapid.Bool().Draw(c.t, "with a time") {
		until = c.Clock.Now().Add(time.Duration(rapid.IntRange(2, 30).Draw(c.t, "seconds")) * time.Second)
	}
	had, muted := c.muted[of]
	c.commit(c.service.Mute(of.reader, of.author, until), !muted || !had.Equal(until))
	c.muted[of] = until
}

func (c *crowd) unmute() {
	of := drawCouple(c, c.muted)
	c.Clock.Advance(time.Second)
	c.endMutes()
	_, muted := c.muted[of]
	if until := c.muted[of]; muted && !until.IsZero() && !until.After(c.Clock.Now().Add(time.Second)) {
		return // the mute ends at this moment, so either result is right
	}
	c.commit(c.service.Unmute(of.reader, of.author), muted)
	delete(c.muted, of)
}

func (c *crowd) hide() {
	of := c.couple()
	if c.commit(c.service.HideFrom(of.author, of.reader), !c.hidden[of]) {
		c.hidden[of] = true
	}
}

func (c *crowd) unhide() {
	of := drawCouple(c, c.hidden)
	c.commit(c.service.UnhideFrom(of.author, of.reader), c.hidden[of])
	delete(c.hidden, of)
}

// drawBlocker draws a side, the readers or the authors. standing are the blocks by that side. ends returns a couple as blocker and
// blocked.
func (c *crowd) drawBlocker() (standing map[couple]bool, ends func(couple) (owner, other services.UserID)) {
	if rapid.Bool().Draw(c.t, "the author") {
		return c.against, func(of couple) (owner, other services.UserID) { return of.author, of.reader }
	}
	return c.blocked, func(of couple) (owner, other services.UserID) { return of.reader, of.author }
}

func (c *crowd) block() {
	standing, ends := c.drawBlocker()
	of := c.couple()
	if c.commit(c.service.Block(ends(of)), !standing[of]) {
		standing[of] = true
		delete(c.since, of)
	}
}

func (c *crowd) unblock() {
	standing, ends := c.drawBlocker()
	of := drawCouple(c, standing)
	c.commit(c.service.Unblock(ends(of)), standing[of])
	delete(standing, of)
}

func (c *crowd) publish() {
	author := rapid.SampledFrom(c.authors).Draw(c.t, "author")
	id := c.Post(author)
	c.enqueued = append(c.enqueued, fanout.FanOutJob(id))
	c.posts = append(c.posts, services.Post{ID: id, Author: author})
}

func (c *crowd) remove() {
	if len(c.posts) > 0 {
		i := rapid.IntRange(0, len(c.posts)-1).Draw(c.t, "post")
		if !c.posts[i].Deleted {
			c.Delete(c.posts[i].ID)
			c.enqueued = append(c.enqueued, fanout.RemoveJob(c.posts[i].ID))
		}
		c.posts[i].Deleted = true
	}
}

// look marks a reader's feed as seen up to some post.
func (c *crowd) look() {
	if len(c.posts) > 0 {
		reader, upTo := rapid.SampledFrom(c.readers).Draw(c.t, "reader"), rapid.SampledFrom(c.posts).Draw(c.t, "up to").ID
		c.Write(func(ctx context.Context, tx *sql.Tx) error {
			if _, err := positions.Raise(ctx, tx, reader, positions.HomePage, "", upTo); err != nil {
				return err
			}
			return jobs.Enqueue(ctx, tx, fanout.SeenJob(reader))
		})
		c.seen[reader] = max(c.seen[reader], upTo)
	}
}

// requeue queues a job that may have been queued before, due within five seconds.
func (c *crowd) requeue() {
	of := drawCouple(c, c.muted)
	queued := []jobs.NewJob{fanout.FollowJob(of.reader, of.author), fanout.MuteEndJob(of.reader, of.author, time.Time{}), notifications.ActorJob(of.reader, of.author)}
	if len(c.enqueued) > 0 {
		queued = append(queued, rapid.SampledFrom(c.enqueued).Draw(c.t, "enqueued"))
	}
	job := rapid.SampledFrom(queued).Draw(c.t, "job")
	job.NotBefore = c.Clock.Now().Add(time.Duration(rapid.IntRange(0, 5).Draw(c.t, "seconds")) * time.Second)
	c.Write(func(ctx context.Context, tx *sql.Tx) error { return jobs.Enqueue(ctx, tx, job) })
}

// runOneWorker runs one worker once, which does a part of the due jobs.
func (c *crowd) runOneWorker() {
	workers := c.Fanout.Workers(1)
	_, err := rapid.SampledFrom(workers).Draw(c.t, "worker").RunOnce(c.TB.Context())
	c.Must(err)
}

// shown returns the entries of a reader's feed by the model, the newest first, and how many of them are new.
func (c *crowd) shown(reader services.UserID) (entries []services.FeedEntry, count int) {
	for _, post := range slices.Backward(c.posts) {
		of := couple{reader, post.Author}
		since, follows := c.since[of]
		if _, muted := c.muted[of]; !follows || muted || c.hidden[of] || post.Deleted {
			continue
		}
		entries = append(entries, services.FeedEntry{Post: post.ID, Author: post.Author, Counts: post.ID > since && c.mode[of] == services.FollowAll})
		if post.ID > max(since, c.seen[reader]) && c.mode[of] == services.FollowAll {
			count++
		}
	}
	return entries, count
}

// agree runs all due jobs, and checks that each reader's list and count, in Redis and in SQL, equal the model's.
func (c *crowd) agree() {
	c.t.Helper()
	c.endMutes()
	for _, reader := range c.readers {
		document := c.Document(reader)
		if !document.Ready {
			c.Must(c.Projector.Rebuild(c.TB.Context(), reader))
			document = c.Document(reader)
		}
		entries, count := c.shown(reader)
		if diff := gocmp.Diff(entries, c.Inbox(reader)); diff != "" {
			c.t.Fatalf("reader %d (-model +shown):\n%s", reader, diff)
		}
		if document.FeedCount != count {
			c.t.Fatalf("reader %d: %d are new, and the model has %d", reader, document.FeedCount, count)
		}
		if diff := c.Difference(reader); diff != "" {
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
		histories.Reduce(t, 6) // the race detector makes it slow
		checkPeople(t, fanouttest.Options{})
	})
	t.Run("postgres", func(t *testing.T) {
		histories.Reduce(t, 3)
		checkPeople(t, fanouttest.Options{SQL: sqltest.Postgres(t)})
	})
}

// checkPeople runs the test on a pair of engines.
func checkPeople(t *testing.T, engines fanouttest.Options) {
	n := newNode(fanouttest.New(t, engines))
	n.service = New(Config{Store: n.Store, People: n.Caches.People, Fanout: n.Fanout, IDs: n.IDs, Notifications: n.service.notifications})
	rapid.Check(t, func(t *rapid.T) {
		c := &crowd{
			node: n, t: t, readers: n.MakeUsers(2), authors: n.MakeStrangers(3), since: map[couple]services.PostID{}, mode: map[couple]services.FollowMode{}, muted: map[couple]time.Time{},
			hidden: map[couple]bool{}, blocked: map[couple]bool{}, against: map[couple]bool{}, seen: map[services.UserID]services.PostID{},
		}
		for _, reader := range c.readers { // most actions below need a follow
			for _, author := range c.authors[:2] {
				c.commit(c.service.Follow(reader, author), true)
				c.since[couple{reader, author}] = c.IDs.Next()
			}
		}
		act := func(do func()) func(*rapid.T) {
			return func(t *rapid.T) { c.t = t; do() }
		}
		t.Repeat(map[string]func(*rapid.T){
			"follow": act(c.follow), "unfollow": act(c.unfollow), "mode": act(c.setMode), "mute": act(c.mute), "unmute": act(c.unmute), "hide": act(c.hide),
			"unhide": act(c.unhide), "block": act(c.block), "unblock": act(c.unblock),
			"publish": act(c.publish), "publish again": act(c.publish), "remove": act(c.remove), "look": act(c.look), "again": act(c.requeue), "some": act(c.runOneWorker),
			"wait":  act(func() { c.Clock.Advance(time.Duration(rapid.IntRange(1, 20).Draw(c.t, "seconds")) * time.Second) }),
			"flush": act(c.Server.Flush),
			"":      act(c.agree),
		})
	})
}
