package nodecache

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/people"
	"tidings/services/posts"
)

// fakeStores stands in for SQL and Redis and records the calls.
type fakeStores struct {
	posts      map[services.PostID]services.Post // the posts in SQL
	users      map[services.UserID]services.User // the users in SQL
	redisPosts map[services.PostID]services.Post // the copies of posts in Redis
	logEntries []changelog.Entry                 // the changelog in SQL
	activity   services.ActivityThresholds       // the thresholds in SQL; the zero value: none are set
	sqlErr     error                             // what reads of SQL return; nil while SQL answers
	redisErr   error                             // what calls of Redis return; nil while Redis answers

	pullAuthors       []services.UserID                     // the authors that PullAuthors lists
	pulledPosts       map[services.UserID]posts.PulledPosts // what PulledPosts returns
	inFlightFanouts   []posts.InFlightFanout                // the fan-outs that InFlightFanouts returns
	pulledAuthorsRead int                                   // how many authors PulledPosts was asked for
	waitingJobKeys    []string                              // keys of fan-out jobs that no worker has begun; WaitingKeys returns them
	waitingKeysMadeBy time.Time                             // the argument madeBy of the last call of WaitingKeys

	// These count the posts and users that SQL was asked for, the reads of a log, the reads of copies, and the copies that were
	// put.
	postsReadFromSQL, usersReadFromSQL, logReads, redisCopyReads, redisCopiesWritten int
	lastSequencesReads                                                               atomic.Int64 // read while the caches run
}

func (e *fakeStores) PullAuthors(_ context.Context, after services.UserID, limit int) (list []services.UserID, err error) {
	for _, author := range e.pullAuthors {
		if author > after && len(list) < limit {
			list = append(list, author)
		}
	}
	return list, e.sqlErr
}

// PulledPosts returns the newest posts of pulledPosts, at most limit of each author.
func (e *fakeStores) PulledPosts(_ context.Context, authors []services.UserID, limit int) (map[services.UserID]posts.PulledPosts, error) {
	e.pulledAuthorsRead += len(authors)
	found := map[services.UserID]posts.PulledPosts{}
	for author, known := range pick(e.pulledPosts, authors) {
		posts := slices.Clone(known.Posts)
		if over := len(posts) - limit; over > 0 {
			known.NextOlder, posts = posts[over-1], posts[over:]
		}
		known.Posts = posts
		found[author] = known
	}
	return found, e.sqlErr
}

func (e *fakeStores) InFlightFanouts(context.Context) ([]posts.InFlightFanout, error) {
	return slices.Clone(e.inFlightFanouts), e.sqlErr
}

// WaitingKeys returns waitingJobKeys: the test has chosen these as the jobs that wait for a worker.
func (e *fakeStores) WaitingKeys(_ context.Context, kind string, madeBy time.Time, limit int) ([]string, error) {
	e.waitingKeysMadeBy = madeBy
	if kind != JobFanOut {
		return nil, errors.New("the node cache asked for jobs of kind " + kind)
	}
	return e.waitingJobKeys[:min(limit, len(e.waitingJobKeys))], e.sqlErr
}

func newFakeStores() *fakeStores {
	return &fakeStores{
		posts: map[services.PostID]services.Post{}, users: map[services.UserID]services.User{},
		redisPosts: map[services.PostID]services.Post{},
	}
}

func (e *fakeStores) Posts(_ context.Context, ids []services.PostID) (map[services.PostID]services.Post, error) {
	e.postsReadFromSQL += len(ids)
	return pick(e.posts, ids), e.sqlErr
}

func (e *fakeStores) Users(_ context.Context, ids []services.UserID) (map[services.UserID]services.User, error) {
	e.usersReadFromSQL += len(ids)
	return pick(e.users, ids), e.sqlErr
}

func (e *fakeStores) UserIDs(_ context.Context, keys []string) (map[string]services.UserID, error) {
	e.usersReadFromSQL += len(keys)
	found := map[string]services.UserID{}
	for id, user := range e.users {
		if slices.Contains(keys, user.Key) {
			found[user.Key] = id
		}
	}
	return found, e.sqlErr
}

func (e *fakeStores) LogAfter(_ context.Context, kind string, version uint64, limit int) ([]changelog.Entry, error) {
	e.logReads++
	var after []changelog.Entry
	for _, entry := range e.logEntries {
		if entry.Kind == kind && entry.Version > version && len(after) < limit {
			after = append(after, entry)
		}
	}
	return after, e.sqlErr
}

// LastSequence returns the version of the newest entry of a kind. oldest is always 0.
func (e *fakeStores) LastSequence(_ context.Context, kind string) (newest, oldest uint64, err error) {
	for _, entry := range e.logEntries {
		if entry.Kind == kind {
			newest = max(newest, entry.Version)
		}
	}
	return newest, 0, e.sqlErr
}

// Copies returns the copies of posts in Redis. There are none of users.
func (e *fakeStores) Copies(_ context.Context, posts []services.PostID, _ []services.UserID) (map[services.PostID]services.Post, map[services.UserID]services.User, error) {
	e.redisCopyReads++
	return pick(e.redisPosts, posts), map[services.UserID]services.User{}, e.redisErr
}

func (e *fakeStores) PutCopies(_ context.Context, posts []services.Post, users []services.User) error {
	e.redisCopiesWritten += len(posts) + len(users)
	for _, post := range posts {
		e.redisPosts[post.ID] = post
	}
	return e.redisErr
}

// pick returns the entries of a map that have one of the keys.
func pick[K comparable, V any](from map[K]V, keys []K) map[K]V {
	found := map[K]V{}
	for _, key := range keys {
		if value, ok := from[key]; ok {
			found[key] = value
		}
	}
	return found
}

// newCaches makes the caches of a node whose SQL and Redis is e.
func newCaches(e *fakeStores) *Caches {
	return New(Config{Facts: e, Redis: e, Log: slog.New(slog.DiscardHandler), Changelog: changelog.Settings{PollInterval: time.Hour}})
}

// postChangedAt is a post whose last change was at timeAtSecond(changed).
func postChangedAt(id services.PostID, changed int) services.Post {
	return services.Post{ID: id, Author: 7, Body: "body", UpdatedAt: timeAtSecond(changed)}
}

// readPosts reads posts through the caches.
func readPosts(t *testing.T, m *Caches, ids ...services.PostID) map[services.PostID]services.Post {
	t.Helper()
	posts, _, err := m.Reader.Read(t.Context(), ids, nil)
	if err != nil {
		t.Fatal(err)
	}
	return posts
}

func TestReadsMemoryThenRedisThenSQL(t *testing.T) {
	e := newFakeStores()
	e.posts[1], e.posts[2], e.redisPosts[2] = postChangedAt(1, 1), postChangedAt(2, 1), postChangedAt(2, 1)
	e.users[7] = services.User{ID: 7, Key: "g", UpdatedAt: timeAtSecond(1)}
	m := newCaches(e)
	posts, users, err := m.Reader.Read(t.Context(), []services.PostID{1, 2, 3}, []services.UserID{7})
	if err != nil || len(posts) != 2 || users[7].Key != "g" {
		t.Fatalf("got %v, %v, %v", posts, users, err)
	}
	if e.redisCopiesWritten != 0 {
		t.Errorf("the answer waited for %d copies", e.redisCopiesWritten)
	}
	m.Reader.copyQueuedToRedis(t.Context())
	if e.redisCopyReads != 1 || e.postsReadFromSQL != 2 || e.usersReadFromSQL != 1 || e.redisCopiesWritten != 2 {
		t.Errorf("Redis was asked %d times, SQL for %d posts and %d users, %d copies put", e.redisCopyReads, e.postsReadFromSQL, e.usersReadFromSQL, e.redisCopiesWritten)
	}
	if readPosts(t, m, 1, 2); e.redisCopyReads != 1 {
		t.Error("what is in memory was asked for again")
	}
}

func TestReadsWithoutRedis(t *testing.T) {
	e := newFakeStores()
	e.posts[1], e.redisErr = postChangedAt(1, 1), errors.New("no Redis")
	if posts := readPosts(t, newCaches(e), 1); posts[1].Body != "body" {
		t.Errorf("got %v", posts)
	}
}

func TestReadReportsThatSQLIsAway(t *testing.T) {
	e := newFakeStores()
	e.sqlErr = services.Errorf(services.Unavailable, "no SQL")
	if _, _, err := newCaches(e).Reader.Read(t.Context(), []services.PostID{1}, nil); !services.IsUnavailable(err) {
		t.Errorf("got %v", err)
	}
}

func TestTheLogInvalidatesChangedCopies(t *testing.T) {
	e := newFakeStores()
	e.posts[1], e.posts[2] = postChangedAt(1, 1), postChangedAt(2, 1)
	e.logEntries = []changelog.Entry{{Kind: posts.ChangelogKind, Version: 1, At: timeAtSecond(1), Key: services.PostID(9).String()}}
	m := newCaches(e)
	if changes, err := m.Changelog.RunOnce(t.Context()); changes != 0 || err != nil {
		t.Fatalf("the first turn found %d changes, %v: memory was empty", changes, err)
	}
	readPosts(t, m, 1, 2)
	deleted := postChangedAt(1, 5)
	deleted.Deleted = true
	e.posts[1] = deleted
	e.logEntries = append(e.logEntries, changelog.Entry{Kind: posts.ChangelogKind, Version: 2, At: timeAtSecond(5), Key: services.PostID(1).String()})
	if changes, err := m.Changelog.RunOnce(t.Context()); changes != 1 || err != nil {
		t.Fatalf("%d changes, %v", changes, err)
	}
	asked := e.postsReadFromSQL
	if posts := readPosts(t, m, 1, 2); !posts[1].Deleted || posts[2].Deleted {
		t.Errorf("after the change: %v", posts)
	}
	if e.postsReadFromSQL != asked+1 {
		t.Errorf("SQL was asked for %d posts, want the changed one: the copy in Redis is older", e.postsReadFromSQL-asked)
	}
}

func TestProfilesFollowTheLog(t *testing.T) {
	e := newFakeStores()
	e.users[7] = services.User{ID: 7, Key: "g", Name: "old", UpdatedAt: timeAtSecond(1)}
	m := newCaches(e)
	name := func() string {
		_, users, err := m.Reader.Read(t.Context(), nil, []services.UserID{7})
		if err != nil {
			t.Fatal(err)
		}
		return users[7].Name
	}
	if _, err := m.Changelog.RunOnce(t.Context()); err != nil || name() != "old" {
		t.Fatal(err)
	}
	e.users[7] = services.User{ID: 7, Key: "g", Name: "new", UpdatedAt: timeAtSecond(2)}
	e.logEntries = append(e.logEntries, changelog.Entry{Kind: people.ProfileChangelogKind, Version: 1, At: timeAtSecond(2), Key: services.UserIDText(7)})
	if _, err := m.Changelog.RunOnce(t.Context()); err != nil || name() != "new" {
		t.Errorf("the name is %q, %v", name(), err)
	}
	e.users[7] = services.User{ID: 7, Key: "g", Name: "newer", UpdatedAt: timeAtSecond(3)}
	if m.People.RecordChange(7, timeAtSecond(3)); name() != "newer" {
		t.Errorf("one's own change is not seen at once: %q", name())
	}
}

func TestANodesOwnDeletionIsVisibleAtOnce(t *testing.T) {
	e := newFakeStores()
	e.posts[1] = postChangedAt(1, 1)
	m := newCaches(e)
	m.Posts.Keep(1, postChangedAt(1, 1))
	if m.Posts.RecordChange(1, timeAtSecond(2)); e.postsReadFromSQL != 0 {
		t.Fatal("SQL was asked too early")
	}
	gone := postChangedAt(1, 2)
	gone.Deleted = true
	e.posts[1] = gone
	if posts := readPosts(t, m, 1); !posts[1].Deleted {
		t.Error("the deleted post is read from memory")
	}
}

// A log that was trimmed while this node was away cannot be followed: everything is reloaded.
func TestAGapInTheLogEmptiesMemory(t *testing.T) {
	e := newFakeStores()
	e.posts[1] = postChangedAt(1, 1)
	m := newCaches(e)
	if _, err := m.Changelog.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	readPosts(t, m, 1)
	e.logEntries = []changelog.Entry{{Kind: posts.ChangelogKind, Version: 50, At: timeAtSecond(9), Key: services.PostID(2).String()}}
	if _, err := m.Changelog.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	asked := e.redisCopyReads
	if readPosts(t, m, 1); e.redisCopyReads == asked {
		t.Error("after a gap memory was trusted")
	}
}

func TestMemoryStaysWhileSQLIsAway(t *testing.T) {
	e := newFakeStores()
	e.posts[1] = postChangedAt(1, 1)
	m := newCaches(e)
	if _, err := m.Changelog.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	readPosts(t, m, 1)
	e.sqlErr = errors.New("away")
	if _, err := m.Changelog.RunOnce(t.Context()); err == nil {
		t.Error("the log could not be read, and nobody says so")
	}
	if posts := readPosts(t, m, 1); len(posts) != 1 {
		t.Error("memory was lost with SQL")
	}
}

func TestUserIDsAreCached(t *testing.T) {
	e := newFakeStores()
	e.users[7] = services.User{ID: 7, Key: "g"}
	m := newCaches(e)
	for range 3 {
		if id, ok, err := m.People.UserID(t.Context(), "g"); id != 7 || !ok || err != nil {
			t.Fatalf("got %d, %t, %v", id, ok, err)
		}
	}
	if e.usersReadFromSQL != 1 {
		t.Errorf("SQL was asked %d times", e.usersReadFromSQL)
	}
	if _, ok, err := m.People.UserID(t.Context(), "nobody"); ok || err != nil {
		t.Errorf("nobody: %t, %v", ok, err)
	}
	m.People.KeepUserID("nobody", 8)
	if id, ok, _ := m.People.UserID(t.Context(), "nobody"); id != 8 || !ok {
		t.Errorf("kept: %d, %t", id, ok)
	}
}

// noon is when the tests with a time of day begin.
var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// timeAtSecond is the time that is some seconds after the beginning of 1970.
func timeAtSecond(second int) time.Time { return time.Unix(int64(second), 0) }
