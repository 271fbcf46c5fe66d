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

const huge = services.UserID(50) // an author whose posts are pulled

// stage is a node that follows the log, over engines that the test writes. It is the node's clock too.
type stage struct {
	*Caches
	e        *engines
	now      time.Time
	head     uint64       // of the log
	notified atomic.Int64 // how many watched readers were told of changes
}

func (s *stage) Now() time.Time { return s.now }

func newStage() *stage {
	e := newEngines()
	e.pulled = map[services.UserID]posts.PulledPosts{}
	s := &stage{e: e, now: noon}
	s.Caches = New(Config{Facts: e, Redis: e, Log: slog.New(slog.DiscardHandler), Clock: s})
	s.Changelog.OnReadersNotified(func(readers []services.UserID) { s.notified.Add(int64(len(readers))) })
	return s
}

// ownChange is a change and its version.
type ownChange struct {
	PullChange
	version uint64
}

// seeOwn makes the node see its own change at once.
func (s *stage) seeOwn(change ownChange) { s.Pulled.ApplyOwnChange(change.PullChange, change.version) }

// change writes a change of a post into SQL and the log; at is the time of the log entry.
func (s *stage) change(author services.UserID, post services.PostID, deleted bool, at time.Time) ownChange {
	known := s.e.pulled[author]
	place, has := slices.BinarySearch(known.Posts, post)
	switch {
	case deleted && has:
		known.Posts = slices.Concat(known.Posts[:place], known.Posts[place+1:])
	case !deleted && !has && post > 0:
		known.Posts = slices.Insert(slices.Clone(known.Posts), place, post)
	}
	if !slices.Contains(s.e.pullAuthors, author) {
		s.e.pullAuthors = append(s.e.pullAuthors, author)
		slices.Sort(s.e.pullAuthors)
	}
	s.head++
	known.Version = s.head
	s.e.pulled[author] = known
	change := PullChange{Author: author, Post: post, Deleted: deleted}
	payload := []byte(`{"author":` + services.UserIDText(author) + `,"post":` + digits(uint64(post)) + map[bool]string{true: `,"deleted":true`}[deleted] + `}`)
	s.e.log = append(s.e.log, changelog.Entry{Kind: LogPull, Version: s.head, At: at, Payload: payload})
	return ownChange{change, s.head}
}

// digits prints a number as a payload of the log has it.
func digits(n uint64) string { return services.UserIDText(services.UserID(n)) }

// followsOf returns follows of the authors, in which all of their posts count.
func followsOf(authors ...services.UserID) (list []services.FollowedAuthor) {
	for _, author := range authors {
		list = append(list, services.FollowedAuthor{Author: author})
	}
	return list
}

// runTurn makes the node read the log once.
func (s *stage) runTurn(t testing.TB) {
	t.Helper()
	if _, err := s.Changelog.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// wantCount checks that exactly want posts of the authors are newer than seen.
func (s *stage) wantCount(t testing.TB, seen services.PostID, want int, authors ...services.FollowedAuthor) services.PulledCount {
	t.Helper()
	got := s.Pulled.Count(authors, seen)
	if got.New != want || got.More || got.Behind {
		t.Errorf("after %d: %+v, want %d", seen, got, want)
	}
	return got
}

// Publications and deletions on any node change the counts of this node as soon as it reads the log. Posts count above the reader's
// position and above the post at which the follow began, whichever is greater.
func TestPulledPostsFollowTheLog(t *testing.T) {
	s := newStage()
	s.change(huge, 5, false, noon)
	s.runTurn(t)
	first := s.wantCount(t, 0, 1, followsOf(huge)...)
	if first.Sequence != 2 {
		t.Errorf("the sequence is %d, want twice the version of the newest change, 1", first.Sequence)
	}
	s.Pulled.Follow(reader, followsOf(huge))
	s.change(huge, 9, false, noon)
	s.change(huge, 7, false, noon.Add(-time.Second)) // committed late
	s.change(51, 8, false, noon)
	s.runTurn(t)
	later := s.wantCount(t, 0, 3, followsOf(huge)...)
	if later.Sequence <= first.Sequence || s.notified.Load() != 1 {
		t.Errorf("the sequence went from %d to %d, the reader was notified %d times", first.Sequence, later.Sequence, s.notified.Load())
	}
	s.wantCount(t, 5, 2, followsOf(huge)...)
	s.wantCount(t, 6, 3, followsOf(huge, 51)...)
	s.wantCount(t, 5, 1, services.FollowedAuthor{Author: huge, Since: 7})
	s.wantCount(t, 9, 0, followsOf(huge, 51)...)
	s.now = s.now.Add(time.Second)
	s.change(huge, 7, true, noon)
	s.runTurn(t)
	if gone := s.wantCount(t, 0, 2, followsOf(huge)...); gone.Sequence <= later.Sequence || s.notified.Load() != 2 {
		t.Errorf("after a deletion %+v, notified %d times", gone, s.notified.Load())
	}
	list, known := s.Pulled.Of(followsOf(huge, 51))
	if !known || !slices.Equal(list[0].Posts, []services.PostID{5, 9}) || !slices.Equal(list[1].Posts, []services.PostID{8}) {
		t.Errorf("listed are %v, %t", list, known)
	}
	s.Changelog.Unfollow([]services.UserID{reader})
	s.now = s.now.Add(time.Second)
	s.change(huge, 11, false, noon)
	if s.runTurn(t); s.notified.Load() != 2 {
		t.Error("a user who left was notified")
	}
}

// A node's own change is visible before the log brings it, and the log then changes nothing. A deletion is not undone by its
// post's publication that the log brings later.
func TestANodesOwnPulledPosts(t *testing.T) {
	s := newStage()
	s.change(huge, 5, false, noon)
	s.runTurn(t)
	s.seeOwn(s.change(huge, 9, false, noon))
	sequence := s.wantCount(t, 0, 2, followsOf(huge)...).Sequence
	s.runTurn(t)
	if again := s.wantCount(t, 0, 2, followsOf(huge)...); again.Sequence != sequence {
		t.Errorf("the log made a new version of what was known: %d after %d", again.Sequence, sequence)
	}
	s.change(huge, 12, false, noon) // by another node
	s.seeOwn(s.change(huge, 12, true, noon))
	s.wantCount(t, 0, 2, followsOf(huge)...)
	s.runTurn(t)
	s.wantCount(t, 0, 2, followsOf(huge)...)
	// A load that was read before a change does not undo the change.
	s.Pulled.ApplyOwnChange(PullChange{Author: huge, Post: 13}, s.head+1)
	if err := s.Pulled.read(t.Context(), []services.UserID{huge}); err != nil {
		t.Fatal(err)
	}
	if list, _ := s.Pulled.Of(followsOf(huge)); !slices.Contains(list[0].Posts, 13) {
		t.Errorf("the load took a change back: %v", list)
	}
}

// The first load contains changes that this node made before it. It also contains later changes of other nodes. A second load
// changes nothing.
func TestALoadKeepsADeletionOfAnOwnPost(t *testing.T) {
	s := newStage()
	s.seeOwn(s.change(huge, 5, false, noon))
	s.seeOwn(s.change(huge, 6, false, noon))
	s.change(huge, 5, true, noon) // by another node
	s.runTurn(t)
	s.wantCount(t, 0, 1, followsOf(huge)...)
	if err := s.Pulled.read(t.Context(), []services.UserID{huge}); err != nil {
		t.Fatal(err)
	}
	s.wantCount(t, 0, 1, followsOf(huge)...)
}

// The cache keeps a bounded number of an author's posts. Below them is a floor, and a count that may lack posts below it says
// so. When deletions leave too few posts, older ones are read.
func TestTheFloorOfPulledPosts(t *testing.T) {
	s := newStage()
	s.runTurn(t)
	const many = 3 * pulledKept
	for i := range services.PostID(many) {
		s.change(huge, i+1, false, noon)
	}
	s.runTurn(t)
	list, _ := s.Pulled.Of(followsOf(huge))
	kept := len(list[0].Posts)
	if kept < pulledKept || kept > pulledKept+pulledSlack || list[0].Floor != services.PostID(many-kept) {
		t.Fatalf("%d kept, the floor is %d", kept, list[0].Floor)
	}
	if got := s.Pulled.Count(followsOf(huge), 0); !got.More || got.New != kept {
		t.Errorf("%+v, want more", got)
	}
	s.wantCount(t, list[0].Floor, kept, followsOf(huge)...)
	for i := range services.PostID(2 * pulledKept) {
		s.change(huge, many-i, true, noon)
	}
	s.runTurn(t)
	if list, _ := s.Pulled.Of(followsOf(huge)); len(list[0].Posts) != pulledKept || list[0].Floor != 0 || list[0].Posts[0] != 1 {
		t.Errorf("after the deletions %d from %d on, floor %d", len(list[0].Posts), list[0].Posts[0], list[0].Floor)
	}
}

// When deletions have left too few posts the count says that there are more, until the older ones are read. Each of these
// states has a sequence of its own.
func TestOlderPulledPostsAreANewState(t *testing.T) {
	s := newStage()
	for i := range services.PostID(2 * pulledKept) {
		s.change(huge, i+1, false, noon)
	}
	s.runTurn(t)
	last := s.Pulled.Count(followsOf(huge), 0)
	for i := range services.PostID(pulledSlack + pulledKept) {
		s.seeOwn(s.change(huge, 2*pulledKept-i, true, noon))
		if now := s.Pulled.Count(followsOf(huge), 0); now.Sequence <= last.Sequence {
			t.Fatalf("after deletion %d: %+v after %+v", i, now, last)
		} else {
			last = now
		}
	}
	if !last.More || last.New >= services.Retention {
		t.Fatalf("before the older ones are read: %+v", last)
	}
	s.runTurn(t)
	if whole := s.Pulled.Count(followsOf(huge), 0); whole.Sequence <= last.Sequence || whole.New <= last.New {
		t.Errorf("once they are read: %+v after %+v", whole, last)
	}
	fresh := New(Config{Facts: s.e, Redis: s.e, Log: slog.New(slog.DiscardHandler), Clock: s})
	fresh.Pulled.LoadMissing(t.Context(), followsOf(huge))
	if was, is := s.Pulled.Count(followsOf(huge), 0), fresh.Pulled.Count(followsOf(huge), 0); was != is {
		t.Errorf("this node says %+v, and one that has just started %+v", was, is)
	}
}

// Counts with an unknown author are marked uncertain until the author is read: at once by LoadMissing, or by the next turn, which
// notifies the author's readers.
func TestCountsAreBehindUntilTheirAuthorIsRead(t *testing.T) {
	s := newStage()
	s.runTurn(t)
	s.e.pulled[huge] = posts.PulledPosts{Posts: []services.PostID{3, 4}}
	s.e.sqlErr = errors.New("away")
	s.Pulled.Follow(reader, followsOf(huge))
	s.Pulled.LoadMissing(t.Context(), followsOf(huge))
	if got := s.Pulled.Count(followsOf(huge), 0); !got.Behind {
		t.Errorf("SQL is away, and %+v", got)
	}
	if _, known := s.Pulled.Of(followsOf(huge)); known {
		t.Error("SQL is away, and the list is said to be whole")
	}
	s.e.sqlErr = nil
	s.runTurn(t)
	s.wantCount(t, 0, 2, followsOf(huge)...)
	if s.notified.Load() != 1 {
		t.Errorf("the reader was notified %d times", s.notified.Load())
	}
	s.e.pulled[51] = posts.PulledPosts{Posts: []services.PostID{3}}
	s.Pulled.LoadMissing(t.Context(), followsOf(huge, 51))
	s.wantCount(t, 0, 3, followsOf(huge, 51)...)
	asked := s.e.sqlPulled
	s.Pulled.LoadMissing(t.Context(), followsOf(huge, 51), followsOf(51))
	if s.e.sqlPulled != asked {
		t.Error("what is known was read again")
	}
	s.change(52, 0, false, noon) // pulled from now on, without a post yet
	s.runTurn(t)
	s.e.sqlErr = errors.New("away")
	s.Pulled.LoadMissing(t.Context(), followsOf(52))
	s.wantCount(t, 0, 0, followsOf(52)...)
}

// Random histories of publications and deletions through this node and others, with trimmed logs, loads and repetitions: in the
// end the cache equals SQL, and every change of a count has raised the sequence.
func TestPulledMemoryIsTheFactsAfterEveryHistory(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newStage()
		used := map[services.PostID]bool{} // an id is used once
		authors := []services.UserID{huge, 51}
		var own []ownChange
		last := services.PulledCount{}
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			author := rapid.SampledFrom(authors).Draw(r, "author")
			post := services.PostID(rapid.IntRange(1, 30).Draw(r, "post"))
			s.now = s.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(r, "seconds")) * time.Second)
			switch rapid.IntRange(0, 5).Draw(r, "what") {
			case 0, 1:
				if !used[post] {
					used[post] = true
					own = append(own, s.change(author, post, false, s.now))
				}
			case 2:
				if slices.Contains(s.e.pulled[author].Posts, post) {
					own = append(own, s.change(author, post, true, s.now))
				}
			case 3:
				for _, change := range own { // some of them are applied early, in their order
					if rapid.Bool().Draw(r, "own") {
						s.seeOwn(change)
					}
				}
				own = nil
			case 4:
				s.runTurn(t)
				own = nil
			case 5:
				s.e.log = s.e.log[rapid.IntRange(0, max(0, len(s.e.log)-1)).Draw(r, "cut"):]
				s.now, own = s.now.Add(time.Hour), nil // log entries are kept for an hour
			}
			now := s.Pulled.Count(followsOf(authors...), 0)
			if now.New != last.New && now.Sequence <= last.Sequence || now.Sequence < last.Sequence {
				r.Fatalf("the count went from %+v to %+v", last, now)
			}
			last = now
		}
		s.now = s.now.Add(time.Second)
		s.runTurn(t)
		s.Pulled.LoadMissing(t.Context(), followsOf(authors...))
		list, known := s.Pulled.Of(followsOf(authors...))
		for i, author := range authors {
			if !known || !slices.Equal(list[i].Posts, s.e.pulled[author].Posts) {
				r.Fatalf("author %d: %v in memory, %v in SQL", author, list[i].Posts, s.e.pulled[author].Posts)
			}
		}
	})
}
