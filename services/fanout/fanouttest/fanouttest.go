// Package fanouttest gives tests everything below the services: real engines, a clock that is moved by hand, jobs that run
// when the test says so, and a comparison of readers' documents and inboxes with the facts.
//
// It guarantees that two calls of New share no data, unless their options name the same engines. A step that fails ends the test.
package fanouttest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/nodecache"
	"tidings/services/people"
	"tidings/services/positions"
	"tidings/services/posts"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// World is the lower part of a node: the engines, the node cache, the projector and fan-out.
type World struct {
	TB          testing.TB
	Clock       *Clock
	DB          *sql.DB
	Redis       *rdb.Projections
	RedisServer *redistest.Server // nil on the embedded Redis
	Caches      *nodecache.Caches // the node cache
	IDs         *services.IDClock
	Projector   *projector.Projector
	Fanout      *Fanout
	ShowService any // the service of shows, in tests that make shows
	Log         *slog.Logger

	// The settings and features of nodes that are made later: see AnotherFanout, AnotherNode and Install.
	projectorConfig projector.Config
	fanoutConfig    fanout.Config
	jobsConfig      jobs.Config
	features        []Feature      // what Install was called with
	documentDiffs   []DocumentDiff // what DiffAgainstFacts compares in addition: see RegisterDocumentDiff
	madeUserCount   int            // the number of users made, which numbers their keys
}

// Options choose engines and settings; the zero value is SQLite and a redis-server.
type Options struct {
	SQLURL    string                  // of the database; "" is a new SQLite file
	NodeName  string                  // this node's name among those that share PostgreSQL; "" if it has none
	RedisURL  string                  // of Redis; "" is a new redis-server
	Projector func(*projector.Config) // changes the settings; nil: the defaults
	Fanout    func(*fanout.Config)    // changes the settings; nil: the defaults
	Jobs      func(*jobs.Config)      // changes the settings; nil: the defaults
	Trace     func(statement string)  // is called with the name of each SQL statement; nil: nothing
}

// New makes a world that ends with the test.
func New(tb testing.TB, options Options) *World {
	tb.Helper()
	w := &World{TB: tb, Clock: &Clock{now: StartTime}, Log: slog.New(slog.DiscardHandler)}
	if options.SQLURL == "" {
		options.SQLURL = sqltest.SQLite(tb)
	}
	if options.RedisURL == "" {
		w.RedisServer = redistest.NewServer(tb)
		options.RedisURL = w.RedisServer.URL()
	}
	w.DB = sqltest.Open(tb, sql.Config{URL: options.SQLURL, Node: options.NodeName, Clock: w.Clock, Log: w.Log, Trace: options.Trace})
	// options.Projector is called twice, because Redis needs the expiry before the other parts exist.
	var settings projector.Config
	if options.Projector != nil {
		options.Projector(&settings)
	}
	redis, err := rdb.Open(tb.Context(), redis.Options{
		URL: options.RedisURL, NodeID: "here", DataDir: tb.TempDir(), Log: w.Log, ReadTimeout: 5 * time.Second,
	}, rdb.DocumentShape{Expiry: settings.Expiry})
	w.Must(err)
	tb.Cleanup(func() { _ = redis.Close() }) // Close fails if a test has killed the server
	w.Redis = redis
	w.Caches = nodecache.New(nodecache.Config{Facts: nodecache.SQL{DB: w.DB}, Redis: w.Redis, Clock: w.Clock, Log: w.Log})
	w.IDs = services.NewIDClock(w.Clock, 1)
	w.projectorConfig = projector.Config{
		DB: w.DB, Redis: w.Redis, Activity: w.Caches.Activity, Clock: w.Clock, IDs: w.IDs, Log: w.Log,
	}
	w.fanoutConfig = fanout.Config{DB: w.DB, Redis: w.Redis, Clock: w.Clock, IDs: w.IDs, Log: w.Log}
	w.jobsConfig = jobs.Config{DB: w.DB, Clock: w.Clock, Log: w.Log, AfterCommitTimeout: 5 * time.Second}
	if options.Jobs != nil {
		options.Jobs(&w.jobsConfig)
	}
	if options.Projector != nil {
		options.Projector(&w.projectorConfig)
	}
	if options.Fanout != nil {
		options.Fanout(&w.fanoutConfig)
	}
	// The first node is made as later ones are, so that none of them has a state that the others lack.
	w.Fanout = w.AnotherFanout()
	w.Projector = w.Fanout.Projector
	return w
}

// EachEnginePair runs a test on both engine pairs: SQLite with the embedded Redis, PostgreSQL with a redis-server.
func EachEnginePair(t *testing.T, settings func(*fanout.Config), test func(t *testing.T, w *World)) {
	t.Helper()
	EachEnginePairWith(t, Options{Fanout: settings}, test)
}

// EachEnginePairWith runs a test on both engine pairs, with options, of which it sets SQLURL and RedisURL itself.
func EachEnginePairWith(t *testing.T, options Options, test func(t *testing.T, w *World)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		options := options
		options.RedisURL = "embedded"
		test(t, New(t, options))
	})
	t.Run("production", func(t *testing.T) {
		options := options
		options.SQLURL = sqltest.Postgres(t)
		test(t, New(t, options))
	})
}

// Must ends the test when there is an error.
func (w *World) Must(err error) {
	w.TB.Helper()
	if err != nil {
		w.TB.Fatal(err)
	}
}

// Write runs a transaction.
func (w *World) Write(fn func(ctx context.Context, tx *sql.Tx) error) {
	w.TB.Helper()
	ctx := w.TB.Context()
	w.Must(w.DB.Write(ctx, func(tx *sql.Tx) error { return fn(ctx, tx) }))
}

// MakeUsers makes active users with documents: fan-out serves them, and their changes show without a rebuild, which would hide an
// error of a script.
func (w *World) MakeUsers(count int) []services.UserID {
	w.TB.Helper()
	users := w.MakeNeverSeenUsers(count)
	for _, user := range users {
		w.Must(w.Projector.Rebuild(w.TB.Context(), user))
	}
	return users
}

// MakeNeverSeenUsers makes users who were never seen: SQL knows their IDs, and Redis has nothing of them.
func (w *World) MakeNeverSeenUsers(count int) []services.UserID {
	w.TB.Helper()
	keys := make([]string, count)
	for i := range keys {
		w.madeUserCount++
		keys[i] = fmt.Sprintf("user%04d", w.madeUserCount)
	}
	return w.MakeNamedUsers(keys...)
}

// MakeNamedUsers makes users with these keys, as the host application does by naming them.
func (w *World) MakeNamedUsers(keys ...string) []services.UserID {
	w.TB.Helper()
	users := make([]services.UserID, len(keys))
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		ids, err := people.Ensure(ctx, tx, keys)
		for i, key := range keys {
			users[i] = ids[key]
		}
		return err
	})
	return users
}

// Follow makes readers follow an author from now on, and enqueues the jobs.
func (w *World) Follow(author services.UserID, readers ...services.UserID) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		for _, reader := range readers {
			edge := services.FollowEdge{Follower: reader, Followee: author, PostsCountAfter: services.PostID(w.IDs.Next())}
			if _, err := people.InsertFollow(ctx, tx, edge); err != nil {
				return err
			}
			if err := jobs.Enqueue(ctx, tx, fanout.FollowJob(reader, author)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Unfollow ends readers' follows of an author, and enqueues the jobs.
func (w *World) Unfollow(author services.UserID, readers ...services.UserID) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		for _, reader := range readers {
			if _, err := people.DeleteFollow(ctx, tx, reader, author); err != nil {
				return err
			}
			if err := jobs.Enqueue(ctx, tx, fanout.FollowJob(reader, author)); err != nil {
				return err
			}
		}
		return nil
	})
}

// SetFollowMode sets the mode of a reader's follow of an author, and enqueues its job.
func (w *World) SetFollowMode(author, reader services.UserID, mode services.FollowMode) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		if _, _, err := people.SetFollowMode(ctx, tx, reader, author, mode); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, fanout.FollowJob(reader, author))
	})
}

// Post publishes a post, and enqueues its job.
func (w *World) Post(author services.UserID) services.PostID {
	w.TB.Helper()
	id := services.PostID(w.IDs.Next())
	w.PublishPostWithID(author, id)
	return id
}

// InsertPosts publishes many posts at once, without jobs, for a later rebuild or follow to find. Users who follow the author already do
// not get the posts: their inboxes differ from the facts until a rebuild.
func (w *World) InsertPosts(author services.UserID, count int) []services.PostID {
	w.TB.Helper()
	ids := make([]services.PostID, count)
	for i := range ids {
		ids[i] = services.PostID(w.IDs.Next())
	}
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		for _, id := range ids {
			if err := insertPost(ctx, tx, author, id); err != nil {
				return err
			}
		}
		return nil
	})
	return ids
}

// Delete deletes a post, and enqueues its job.
func (w *World) Delete(id services.PostID) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		post, _, err := posts.Delete(ctx, tx, id)
		if err == nil && post.Pulled {
			_, err = nodecache.PullChange{Author: post.Author, Post: id, Deleted: true}.Append(ctx, tx)
		}
		if err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, fanout.RemovePostJob(id))
	})
}

// RunDueJobs runs all jobs that are due now, with the workers of one node.
func (w *World) RunDueJobs(f *Fanout) {
	w.TB.Helper()
	// A job may queue others, also for a worker that has had its turn.
	for busy := true; busy; {
		busy = false
		for _, worker := range f.Workers(1) {
			claimed, err := worker.RunOnce(w.TB.Context())
			w.Must(err)
			busy = busy || claimed > 0
		}
	}
}

// RunAllJobs runs all jobs, including those that a dead node has leased or that are due within ten minutes, by letting time pass. Jobs
// planned for later stay.
func (w *World) RunAllJobs(f *Fanout) {
	w.TB.Helper()
	for range 20 {
		w.RunDueJobs(f)
		w.runLockedJobs(f)
		// Jobs planned for later than that do not count: reminders and ends of mutes are due hours ahead, and the loop would
		// never end.
		soon := w.Clock.Now().Add(10 * time.Minute)
		waits, err := jobs.AnyJobWaits(w.TB.Context(), w.DB, math.MaxInt64, soon, soon)
		w.Must(err)
		if !waits {
			return
		}
		// The step is longer than a lease, and than the wait of a job that failed.
		w.Clock.Advance(31 * time.Second)
	}
	waiting, dead := w.CountJobs()
	w.TB.Fatalf("%d jobs still wait after ten minutes, %d are dead", waiting, dead)
}

// runLockedJobs runs jobs until none is due. RunDueJobs skips a job that a transaction has locked. When a worker has died,
// PostgreSQL takes a while to end its transaction, in real time: the clock of the test does not move meanwhile.
func (w *World) runLockedJobs(f *Fanout) {
	w.TB.Helper()
	for late := time.After(10 * time.Second); ; w.RunDueJobs(f) {
		now := w.Clock.Now()
		due, err := jobs.AnyJobWaits(w.TB.Context(), w.DB, math.MaxInt64, now, now)
		w.Must(err)
		if !due {
			return
		}
		select {
		case <-late: // it has failed, or is of a kind that this node does not know
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// CountJobs returns how many jobs wait and how many are dead.
func (w *World) CountJobs() (waiting, dead int) {
	w.TB.Helper()
	waiting, dead, _, err := jobs.JobCounts(w.TB.Context(), w.DB)
	w.Must(err)
	return waiting, dead
}

// Document reads one user's document.
func (w *World) Document(user services.UserID) rdb.Document {
	w.TB.Helper()
	documents, err := w.Redis.Documents(w.TB.Context(), []services.UserID{user})
	w.Must(err)
	return documents[0]
}

// Inbox reads the entries of one user's inbox.
func (w *World) Inbox(user services.UserID) []services.FeedEntry {
	w.TB.Helper()
	page, err := w.Redis.Inbox(w.TB.Context(), user, services.MaxPostID, services.FeedRetention)
	w.Must(err)
	return page.Entries
}

// CheckAgainstFacts compares the documents and inboxes of users with the facts: both must exist, and their list and count must
// equal the list and the count from SQL.
func (w *World) CheckAgainstFacts(users ...services.UserID) {
	w.TB.Helper()
	for _, user := range users {
		if difference := w.DiffAgainstFacts(user); difference != "" {
			w.TB.Errorf("user %d is not shown the facts (-facts +shown):\n%s", user, difference)
		}
	}
}

// shownFeed is what a reader's document and inbox show, or should show.
type shownFeed struct {
	HasDocument       bool // the document is there
	Entries           []services.FeedEntry
	Count             int                       // how many posts count as new
	CountIsLowerBound bool                      // the true count is greater than Count
	PulledAuthors     []services.FollowedAuthor // in the order of their IDs
}

// DiffAgainstFacts is the difference between a user's document and inbox and the facts: the listed posts, the count, the pulled authors,
// and what RegisterDocumentDiff has added. It is "" when there is none.
func (w *World) DiffAgainstFacts(user services.UserID) string {
	w.TB.Helper()
	ctx := w.TB.Context()
	document := w.Document(user)
	got := shownFeed{HasDocument: document.Ready, Entries: w.Inbox(user), Count: document.FeedCount, CountIsLowerBound: document.FeedCountAtLeast}
	// What is expected comes from SQL, by the statements of pages and not by the statements of rebuilds.
	entries, err := posts.InboxFeed(ctx, w.DB, user, services.MaxPostID, services.FeedRetention)
	w.Must(err)
	seen, err := positions.Of[services.PostID](ctx, w.DB, user, positions.HomeFeedView)
	w.Must(err)
	count, err := posts.CountNewPushed(ctx, w.DB, user, seen, services.FeedRetention+1)
	w.Must(err)
	want := shownFeed{HasDocument: true, Entries: slices.Clip(entries), Count: min(count, services.FeedRetention), CountIsLowerBound: count > services.FeedRetention}
	pulled, err := posts.PullAuthorsOf(ctx, w.DB, user)
	w.Must(err)
	want.PulledAuthors = append(want.PulledAuthors, pulled...)
	got.PulledAuthors = SortedByAuthor(document.PulledAuthors)
	difference := gocmp.Diff(want, got)
	for _, compare := range w.documentDiffs {
		difference += compare(w, user, document)
	}
	return difference
}

// SortedByAuthor sorts a copy of a list by author.
func SortedByAuthor(authors []services.FollowedAuthor) []services.FollowedAuthor {
	return slices.SortedFunc(slices.Values(authors), func(a, b services.FollowedAuthor) int { return cmp.Compare(a.Author, b.Author) })
}
