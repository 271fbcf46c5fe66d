package nodecache

import (
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/posts"
)

const hugeAuthor = services.UserID(50) // an author whose posts are pulled

// testNode has the caches of a node that follows the changelog, over stores that the test writes. It is the node's clock too.
type testNode struct {
	*Caches
	stores          *fakeStores
	now             time.Time    // the time of the node's clock
	lastSequence    uint64       // the version of the newest entry in the changelog
	notifiedReaders atomic.Int64 // how many watched readers were notified of changes
}

func (s *testNode) Now() time.Time { return s.now }

func newTestNode() *testNode {
	e := newFakeStores()
	e.pulledPosts = map[services.UserID]posts.PulledPosts{}
	s := &testNode{stores: e, now: noon}
	s.Caches = New(Config{Facts: e, Redis: e, Log: slog.New(slog.DiscardHandler), Clock: s})
	s.Changelog.OnReadersNotified(func(readers []services.UserID) { s.notifiedReaders.Add(int64(len(readers))) })
	return s
}

// versionedPullChange is a change of a pulled post, with the version of its entry in the changelog.
type versionedPullChange struct {
	PullChange
	version uint64
}

// applyOwnChange makes the node see its own change of a pulled post at once, before it reads the change in the changelog.
func (s *testNode) applyOwnChange(change versionedPullChange) {
	s.Pulled.ApplyOwnChange(change.PullChange, change.version)
}

// writePostChange writes a change of a post into SQL and the log; at is the time of the log entry.
func (s *testNode) writePostChange(author services.UserID, post services.PostID, deleted bool, at time.Time) versionedPullChange {
	known := s.stores.pulledPosts[author]
	index, has := slices.BinarySearch(known.Posts, post)
	switch {
	case deleted && has:
		known.Posts = slices.Concat(known.Posts[:index], known.Posts[index+1:])
	case !deleted && !has && post > 0:
		known.Posts = slices.Insert(slices.Clone(known.Posts), index, post)
	}
	if !slices.Contains(s.stores.pullAuthors, author) {
		s.stores.pullAuthors = append(s.stores.pullAuthors, author)
		slices.Sort(s.stores.pullAuthors)
	}
	s.lastSequence++
	known.ChangelogVersion = s.lastSequence
	s.stores.pulledPosts[author] = known
	change := PullChange{Author: author, Post: post, Deleted: deleted}
	payload := []byte(`{"author":` + services.UserIDText(author) + `,"post":` + numberText(uint64(post)) + map[bool]string{true: `,"deleted":true`}[deleted] + `}`)
	s.stores.logEntries = append(s.stores.logEntries, changelog.Entry{Kind: PullChangelogKind, Version: s.lastSequence, At: at, Payload: payload})
	return versionedPullChange{change, s.lastSequence}
}

// numberText prints a number as a payload of the log has it.
func numberText(n uint64) string { return services.UserIDText(services.UserID(n)) }

// followsOf returns follows of the authors, in which all of their posts count.
func followsOf(authors ...services.UserID) (list []services.FollowedAuthor) {
	for _, author := range authors {
		list = append(list, services.FollowedAuthor{Author: author})
	}
	return list
}

// readLogOnce makes the node read the log once.
func (s *testNode) readLogOnce(t testing.TB) {
	t.Helper()
	if _, err := s.Changelog.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// wantNewPosts checks that exactly want posts of the authors are newer than seen.
func (s *testNode) wantNewPosts(t testing.TB, seen services.PostID, want int, authors ...services.FollowedAuthor) services.PulledCount {
	t.Helper()
	got := s.Pulled.Count(authors, seen)
	if got.NewPosts != want || got.AtLeast || got.CacheNotLoaded {
		t.Errorf("after %d: %+v, want %d", seen, got, want)
	}
	return got
}

// Publications and deletions on any node change the counts of this node as soon as it reads the log. Posts count above the reader's
// position and above the post at which the follow began, whichever is greater.
func TestPulledPostsFollowTheLog(t *testing.T) {
	s := newTestNode()
	s.writePostChange(hugeAuthor, 5, false, noon)
	s.readLogOnce(t)
	first := s.wantNewPosts(t, 0, 1, followsOf(hugeAuthor)...)
	if first.VersionSum != 2 {
		t.Errorf("the sequence is %d, want twice the version of the newest change, 1", first.VersionSum)
	}
	s.Pulled.SetFollowedAuthors(reader, followsOf(hugeAuthor))
	s.writePostChange(hugeAuthor, 9, false, noon)
	s.writePostChange(hugeAuthor, 7, false, noon.Add(-time.Second)) // committed late
	s.writePostChange(51, 8, false, noon)
	s.readLogOnce(t)
	later := s.wantNewPosts(t, 0, 3, followsOf(hugeAuthor)...)
	if later.VersionSum <= first.VersionSum || s.notifiedReaders.Load() != 1 {
		t.Errorf("the sequence went from %d to %d, the reader was notified %d times", first.VersionSum, later.VersionSum, s.notifiedReaders.Load())
	}
	s.wantNewPosts(t, 5, 2, followsOf(hugeAuthor)...)
	s.wantNewPosts(t, 6, 3, followsOf(hugeAuthor, 51)...)
	s.wantNewPosts(t, 5, 1, services.FollowedAuthor{Author: hugeAuthor, ItemsCountAfter: 7})
	s.wantNewPosts(t, 9, 0, followsOf(hugeAuthor, 51)...)
	s.now = s.now.Add(time.Second)
	s.writePostChange(hugeAuthor, 7, true, noon)
	s.readLogOnce(t)
	if gone := s.wantNewPosts(t, 0, 2, followsOf(hugeAuthor)...); gone.VersionSum <= later.VersionSum || s.notifiedReaders.Load() != 2 {
		t.Errorf("after a deletion %+v, notified %d times", gone, s.notifiedReaders.Load())
	}
	list, known := s.Pulled.PostsOf(followsOf(hugeAuthor, 51))
	if !known || !slices.Equal(list[0].Posts, []services.PostID{5, 9}) || !slices.Equal(list[1].Posts, []services.PostID{8}) {
		t.Errorf("listed are %v, %t", list, known)
	}
	s.Changelog.Unfollow([]services.UserID{reader})
	s.now = s.now.Add(time.Second)
	s.writePostChange(hugeAuthor, 11, false, noon)
	if s.readLogOnce(t); s.notifiedReaders.Load() != 2 {
		t.Error("a user who left was notified")
	}
}

// A node's own change is visible before the log brings it, and the log then changes nothing. A deletion is not undone by its
// post's publication that the log brings later.
func TestANodesOwnPulledPosts(t *testing.T) {
	s := newTestNode()
	s.writePostChange(hugeAuthor, 5, false, noon)
	s.readLogOnce(t)
	s.applyOwnChange(s.writePostChange(hugeAuthor, 9, false, noon))
	sequence := s.wantNewPosts(t, 0, 2, followsOf(hugeAuthor)...).VersionSum
	s.readLogOnce(t)
	if again := s.wantNewPosts(t, 0, 2, followsOf(hugeAuthor)...); again.VersionSum != sequence {
		t.Errorf("the log made a new version of what was known: %d after %d", again.VersionSum, sequence)
	}
	s.writePostChange(hugeAuthor, 12, false, noon) // by another node
	s.applyOwnChange(s.writePostChange(hugeAuthor, 12, true, noon))
	s.wantNewPosts(t, 0, 2, followsOf(hugeAuthor)...)
	s.readLogOnce(t)
	s.wantNewPosts(t, 0, 2, followsOf(hugeAuthor)...)
	// A load that was read before a change does not undo the change.
	s.Pulled.ApplyOwnChange(PullChange{Author: hugeAuthor, Post: 13}, s.lastSequence+1)
	if err := s.Pulled.read(t.Context(), []services.UserID{hugeAuthor}); err != nil {
		t.Fatal(err)
	}
	if list, _ := s.Pulled.PostsOf(followsOf(hugeAuthor)); !slices.Contains(list[0].Posts, 13) {
		t.Errorf("the load took a change back: %v", list)
	}
}

// The first load contains changes that this node made before it. It also contains later changes of other nodes. A second load
// changes nothing.
func TestALoadKeepsADeletionOfAnOwnPost(t *testing.T) {
	s := newTestNode()
	s.applyOwnChange(s.writePostChange(hugeAuthor, 5, false, noon))
	s.applyOwnChange(s.writePostChange(hugeAuthor, 6, false, noon))
	s.writePostChange(hugeAuthor, 5, true, noon) // by another node
	s.readLogOnce(t)
	s.wantNewPosts(t, 0, 1, followsOf(hugeAuthor)...)
	if err := s.Pulled.read(t.Context(), []services.UserID{hugeAuthor}); err != nil {
		t.Fatal(err)
	}
	s.wantNewPosts(t, 0, 1, followsOf(hugeAuthor)...)
}

// The cache keeps a bounded number of an author's newest posts, and the ID of the next older one, NextOlder. A count that may lack
// older posts says so. When deletions leave too few posts, older ones are read.
func TestTheFloorOfPulledPosts(t *testing.T) {
	s := newTestNode()
	s.readLogOnce(t)
	const many = 3 * pulledPostsKeptPerAuthor
	for i := range services.PostID(many) {
		s.writePostChange(hugeAuthor, i+1, false, noon)
	}
	s.readLogOnce(t)
	list, _ := s.Pulled.PostsOf(followsOf(hugeAuthor))
	kept := len(list[0].Posts)
	if kept < pulledPostsKeptPerAuthor || kept > pulledPostsKeptPerAuthor+pulledTrimSlack || list[0].NextOlder != services.PostID(many-kept) {
		t.Fatalf("%d kept, the floor is %d", kept, list[0].NextOlder)
	}
	if got := s.Pulled.Count(followsOf(hugeAuthor), 0); !got.AtLeast || got.NewPosts != kept {
		t.Errorf("%+v, want more", got)
	}
	s.wantNewPosts(t, list[0].NextOlder, kept, followsOf(hugeAuthor)...)
	for i := range services.PostID(2 * pulledPostsKeptPerAuthor) {
		s.writePostChange(hugeAuthor, many-i, true, noon)
	}
	s.readLogOnce(t)
	if list, _ := s.Pulled.PostsOf(followsOf(hugeAuthor)); len(list[0].Posts) != pulledPostsKeptPerAuthor || list[0].NextOlder != 0 || list[0].Posts[0] != 1 {
		t.Errorf("after the deletions %d from %d on, floor %d", len(list[0].Posts), list[0].Posts[0], list[0].NextOlder)
	}
}

// When deletions have left too few posts the count says that there are more, until the older ones are read. Each of these states
// has a greater VersionSum than the one before.
func TestReadingOlderPulledPostsRaisesTheVersionSum(t *testing.T) {
	s := newTestNode()
	for i := range services.PostID(2 * pulledPostsKeptPerAuthor) {
		s.writePostChange(hugeAuthor, i+1, false, noon)
	}
	s.readLogOnce(t)
	last := s.Pulled.Count(followsOf(hugeAuthor), 0)
	for i := range services.PostID(pulledTrimSlack + pulledPostsKeptPerAuthor) {
		s.applyOwnChange(s.writePostChange(hugeAuthor, 2*pulledPostsKeptPerAuthor-i, true, noon))
		if now := s.Pulled.Count(followsOf(hugeAuthor), 0); now.VersionSum <= last.VersionSum {
			t.Fatalf("after deletion %d: %+v after %+v", i, now, last)
		} else {
			last = now
		}
	}
	if !last.AtLeast || last.NewPosts >= services.FeedRetention {
		t.Fatalf("before the older ones are read: %+v", last)
	}
	s.readLogOnce(t)
	if whole := s.Pulled.Count(followsOf(hugeAuthor), 0); whole.VersionSum <= last.VersionSum || whole.NewPosts <= last.NewPosts {
		t.Errorf("once they are read: %+v after %+v", whole, last)
	}
	fresh := New(Config{Facts: s.stores, Redis: s.stores, Log: slog.New(slog.DiscardHandler), Clock: s})
	fresh.Pulled.LoadMissing(t.Context(), followsOf(hugeAuthor))
	if was, is := s.Pulled.Count(followsOf(hugeAuthor), 0), fresh.Pulled.Count(followsOf(hugeAuthor), 0); was != is {
		t.Errorf("this node says %+v, and one that has just started %+v", was, is)
	}
}

// Counts with an author who is not in the cache say so (CacheNotLoaded) until the author is read: at once by LoadMissing, or after the
// next read of the changelog. The author's readers are notified then.
func TestCountsAreBehindUntilTheirAuthorIsRead(t *testing.T) {
	s := newTestNode()
	s.readLogOnce(t)
	s.stores.pulledPosts[hugeAuthor] = posts.PulledPosts{Posts: []services.PostID{3, 4}}
	s.stores.sqlErr = errors.New("away")
	s.Pulled.SetFollowedAuthors(reader, followsOf(hugeAuthor))
	s.Pulled.LoadMissing(t.Context(), followsOf(hugeAuthor))
	if got := s.Pulled.Count(followsOf(hugeAuthor), 0); !got.CacheNotLoaded {
		t.Errorf("SQL is away, and %+v", got)
	}
	if _, known := s.Pulled.PostsOf(followsOf(hugeAuthor)); known {
		t.Error("SQL is away, and the list is said to be whole")
	}
	s.stores.sqlErr = nil
	s.readLogOnce(t)
	s.wantNewPosts(t, 0, 2, followsOf(hugeAuthor)...)
	if s.notifiedReaders.Load() != 1 {
		t.Errorf("the reader was notified %d times", s.notifiedReaders.Load())
	}
	s.stores.pulledPosts[51] = posts.PulledPosts{Posts: []services.PostID{3}}
	s.Pulled.LoadMissing(t.Context(), followsOf(hugeAuthor, 51))
	s.wantNewPosts(t, 0, 3, followsOf(hugeAuthor, 51)...)
	asked := s.stores.pulledAuthorsRead
	s.Pulled.LoadMissing(t.Context(), followsOf(hugeAuthor, 51), followsOf(51))
	if s.stores.pulledAuthorsRead != asked {
		t.Error("what is known was read again")
	}
	s.writePostChange(52, 0, false, noon) // pulled from now on, without a post yet
	s.readLogOnce(t)
	s.stores.sqlErr = errors.New("away")
	s.Pulled.LoadMissing(t.Context(), followsOf(52))
	s.wantNewPosts(t, 0, 0, followsOf(52)...)
}

// Random histories of publications and deletions through this node and others, with trimmed logs, loads and repetitions: in the
// end the cache equals SQL, and every change of a count has raised its VersionSum.
func TestPulledMemoryIsTheFactsAfterEveryHistory(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newTestNode()
		used := map[services.PostID]bool{} // an id is used once
		authors := []services.UserID{hugeAuthor, 51}
		var own []versionedPullChange
		last := services.PulledCount{}
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			author := rapid.SampledFrom(authors).Draw(r, "author")
			post := services.PostID(rapid.IntRange(1, 30).Draw(r, "post"))
			s.now = s.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(r, "seconds")) * time.Second)
			switch rapid.IntRange(0, 5).Draw(r, "what") {
			case 0, 1:
				if !used[post] {
					used[post] = true
					own = append(own, s.writePostChange(author, post, false, s.now))
				}
			case 2:
				if slices.Contains(s.stores.pulledPosts[author].Posts, post) {
					own = append(own, s.writePostChange(author, post, true, s.now))
				}
			case 3:
				for _, change := range own { // some of them are applied early, in their order
					if rapid.Bool().Draw(r, "own") {
						s.applyOwnChange(change)
					}
				}
				own = nil
			case 4:
				s.readLogOnce(t)
				own = nil
			case 5:
				s.stores.logEntries = s.stores.logEntries[rapid.IntRange(0, max(0, len(s.stores.logEntries)-1)).Draw(r, "cut"):]
				s.now, own = s.now.Add(time.Hour), nil // log entries are kept for an hour
			}
			now := s.Pulled.Count(followsOf(authors...), 0)
			if now.NewPosts != last.NewPosts && now.VersionSum <= last.VersionSum || now.VersionSum < last.VersionSum {
				r.Fatalf("the count went from %+v to %+v", last, now)
			}
			last = now
		}
		s.now = s.now.Add(time.Second)
		s.readLogOnce(t)
		s.Pulled.LoadMissing(t.Context(), followsOf(authors...))
		list, known := s.Pulled.PostsOf(followsOf(authors...))
		for i, author := range authors {
			if !known || !slices.Equal(list[i].Posts, s.stores.pulledPosts[author].Posts) {
				r.Fatalf("author %d: %v in memory, %v in SQL", author, list[i].Posts, s.stores.pulledPosts[author].Posts)
			}
		}
	})
}
