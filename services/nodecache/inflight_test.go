package nodecache

import (
	"errors"
	"log/slog"
	"slices"
	"testing"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/posts"
)

// wantInFlight checks which posts may not have reached all their readers.
func (m *Caches) wantInFlight(t *testing.T, what string, want ...services.PostID) {
	t.Helper()
	var got []services.PostID
	for _, one := range m.InFlight.List() {
		got = append(got, one.Post)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: in flight are %v, want %v", what, got, want)
	}
}

func TestInFlightFanoutsFollowTheLog(t *testing.T) {
	e := newFakeStores()
	e.inFlightFanouts = []posts.InFlightFanout{{Post: 3, Author: 7}}
	m := newCaches(e)
	turn := func(want ...services.PostID) {
		t.Helper()
		if _, err := m.Changelog.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.wantInFlight(t, "after a turn", want...)
	}
	turn(3)
	e.logEntries = append(e.logEntries, changelog.Entry{Kind: FanoutChangelogKind, Version: 1, Payload: []byte(`{"Post":2,"Author":8}`)},
		changelog.Entry{Kind: FanoutChangelogKind, Version: 2, Payload: []byte(`{"Post":5,"Author":8}`)})
	turn(2, 3, 5)
	e.logEntries = append(e.logEntries, changelog.Entry{Kind: FanoutChangelogKind, Version: 3, Payload: []byte(`{"Post":3,"Author":7,"ended":true}`)},
		changelog.Entry{Kind: FanoutChangelogKind, Version: 4, Payload: []byte(`{`)})
	turn(2, 5)
}

// A post that waits for a worker is in flight, like one whose fan-out is running, unless it is not pushed.
func TestWaitingPostsAreInFlight(t *testing.T) {
	e := newFakeStores()
	for post, one := range map[services.PostID]services.Post{1: {}, 2: {Pulled: true}, 3: {Deleted: true}, 4: {OffFeed: true}, 5: {}, 6: {}} {
		one.ID, one.Author = post, services.UserID(10+post)
		e.posts[post] = one
	}
	s := &testNode{stores: e, now: noon}
	s.Caches = New(Config{Facts: e, Redis: e, Log: slog.New(slog.DiscardHandler), Clock: s})
	waits := func(posts ...services.PostID) {
		e.waitingJobKeys = nil
		for _, post := range posts {
			e.waitingJobKeys = append(e.waitingJobKeys, post.String())
		}
	}
	waits(5, 2, 3, 4, 1, 99)
	e.waitingJobKeys = append(e.waitingJobKeys, "no post")
	s.readLogOnce(t)
	s.wantInFlight(t, "two of them are pushed", 1, 5)
	if got := s.InFlight.List()[1]; got != (posts.InFlightFanout{Post: 5, Author: 15}) {
		t.Errorf("the second is %+v", got)
	}
	if want := noon.Add(-normalJobWait); !e.waitingKeysMadeBy.Equal(want) {
		t.Errorf("asked for jobs made by %s, want %s", e.waitingKeysMadeBy, want)
	}
	read := e.postsReadFromSQL
	waits(5, 2)
	s.readLogOnce(t)
	if s.wantInFlight(t, "one is done", 5); e.postsReadFromSQL != read {
		t.Errorf("%d posts were read again", e.postsReadFromSQL-read)
	}
	e.logEntries = append(e.logEntries, changelog.Entry{Kind: FanoutChangelogKind, Version: 1, Payload: []byte(`{"post":5,"author":15}`)})
	s.readLogOnce(t)
	s.wantInFlight(t, "one that is on its way is listed once", 5)
	waits(6)
	e.sqlErr = errors.New("away")
	if _, err := s.Changelog.RunOnce(t.Context()); err == nil {
		t.Error("SQL is away, and nothing is said")
	}
	s.wantInFlight(t, "what was known stays", 5)
	e.sqlErr = nil
	s.readLogOnce(t)
	s.wantInFlight(t, "SQL is back", 5, 6)
}

// However long the queue is, a turn reads a bounded number of posts.
func TestOnlyTheOldestWaitingPostsAreRead(t *testing.T) {
	e := newFakeStores()
	for i := range services.PostID(3 * maxPostsAwaitingFanout) {
		e.posts[i+1] = services.Post{ID: i + 1, Author: 7}
		e.waitingJobKeys = append(e.waitingJobKeys, (i + 1).String())
	}
	m := newCaches(e)
	if _, err := m.Changelog.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := m.InFlight.List(); len(got) != maxPostsAwaitingFanout || got[0].Post != 1 || e.postsReadFromSQL != maxPostsAwaitingFanout {
		t.Errorf("%d are in flight from %v on, %d were read", len(got), got[:1], e.postsReadFromSQL)
	}
}
