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
	e := newEngines()
	e.unfinished = []posts.InFlightFanout{{Post: 3, Author: 7}}
	m := newCaches(e)
	turn := func(want ...services.PostID) {
		t.Helper()
		if _, err := m.Changelog.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.wantInFlight(t, "after a turn", want...)
	}
	turn(3)
	e.log = append(e.log, changelog.Entry{Kind: LogFanout, Version: 1, Payload: []byte(`{"Post":2,"Author":8}`)},
		changelog.Entry{Kind: LogFanout, Version: 2, Payload: []byte(`{"Post":5,"Author":8}`)})
	turn(2, 3, 5)
	e.log = append(e.log, changelog.Entry{Kind: LogFanout, Version: 3, Payload: []byte(`{"Post":3,"Author":7,"ended":true}`)},
		changelog.Entry{Kind: LogFanout, Version: 4, Payload: []byte(`{`)})
	turn(2, 5)
}

// A post that waits for a worker is in flight, like one whose fan-out is running, unless it is not pushed.
func TestWaitingPostsAreInFlight(t *testing.T) {
	e := newEngines()
	for post, one := range map[services.PostID]services.Post{1: {}, 2: {Pull: true}, 3: {Deleted: true}, 4: {OffFeed: true}, 5: {}, 6: {}} {
		one.ID, one.Author = post, services.UserID(10+post)
		e.posts[post] = one
	}
	s := &stage{e: e, now: noon}
	s.Caches = New(Config{Facts: e, Redis: e, Log: slog.New(slog.DiscardHandler), Clock: s})
	waits := func(posts ...services.PostID) {
		e.waiting = nil
		for _, post := range posts {
			e.waiting = append(e.waiting, post.String())
		}
	}
	waits(5, 2, 3, 4, 1, 99)
	e.waiting = append(e.waiting, "no post")
	s.runTurn(t)
	s.wantInFlight(t, "two of them are pushed", 1, 5)
	if got := s.InFlight.List()[1]; got != (posts.InFlightFanout{Post: 5, Author: 15}) {
		t.Errorf("the second is %+v", got)
	}
	if want := noon.Add(-normalWait); !e.madeBy.Equal(want) {
		t.Errorf("asked for jobs made by %s, want %s", e.madeBy, want)
	}
	read := e.sqlPosts
	waits(5, 2)
	s.runTurn(t)
	if s.wantInFlight(t, "one is done", 5); e.sqlPosts != read {
		t.Errorf("%d posts were read again", e.sqlPosts-read)
	}
	e.log = append(e.log, changelog.Entry{Kind: LogFanout, Version: 1, Payload: []byte(`{"post":5,"author":15}`)})
	s.runTurn(t)
	s.wantInFlight(t, "one that is on its way is listed once", 5)
	waits(6)
	e.sqlErr = errors.New("away")
	if _, err := s.Changelog.RunOnce(t.Context()); err == nil {
		t.Error("SQL is away, and nothing is said")
	}
	s.wantInFlight(t, "what was known stays", 5)
	e.sqlErr = nil
	s.runTurn(t)
	s.wantInFlight(t, "SQL is back", 5, 6)
}

// However long the queue is, a turn reads a bounded number of posts.
func TestOnlyTheOldestWaitingPostsAreRead(t *testing.T) {
	e := newEngines()
	for i := range services.PostID(3 * maxWaitingPosts) {
		e.posts[i+1] = services.Post{ID: i + 1, Author: 7}
		e.waiting = append(e.waiting, (i + 1).String())
	}
	m := newCaches(e)
	if _, err := m.Changelog.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := m.InFlight.List(); len(got) != maxWaitingPosts || got[0].Post != 1 || e.sqlPosts != maxWaitingPosts {
		t.Errorf("%d are in flight from %v on, %d were read", len(got), got[:1], e.sqlPosts)
	}
}
