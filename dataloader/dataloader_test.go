package dataloader

import (
	"context"
	"errors"
	"sync"
	"testing"

	"tidings/services"
	"tidings/services/live"
)

// countingReader has posts, users and shows. It counts how often each post and each user is read.
type countingReader struct {
	mu        sync.Mutex              // guards the counts
	postReads map[services.PostID]int // post -> how often it was read
	userReads map[services.UserID]int // user -> how often the user was read
	readCalls int                     // how many reads there were, of any kind
	err       error                   // what each read returns
}

func newCountingReader() *countingReader {
	return &countingReader{postReads: map[services.PostID]int{}, userReads: map[services.UserID]int{}}
}

func (s *countingReader) readers() Readers { return Readers{Posts: s, Shows: s} }

// ReadWithAuthors finds posts and users with IDs below 100. Post n is by user n+1; every tenth post is deleted.
func (s *countingReader) ReadWithAuthors(_ context.Context, posts []services.PostID, users []services.UserID) (map[services.PostID]services.Post, map[services.UserID]services.User, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readCalls++
	foundPosts, foundUsers := map[services.PostID]services.Post{}, map[services.UserID]services.User{}
	for _, id := range posts {
		if s.postReads[id]++; id < 100 {
			foundPosts[id] = services.Post{ID: id, Author: services.UserID(id) + 1, Deleted: id%10 == 0}
			users = append(users, services.UserID(id)+1)
		}
	}
	for _, id := range users {
		if s.userReads[id]++; id < 100 {
			foundUsers[id] = services.User{ID: id, Key: "u"}
		}
	}
	return foundPosts, foundUsers, s.err
}

// Shows finds shows with numbers below 100. Show n belongs to user n+1.
func (s *countingReader) Shows(_ context.Context, ids []services.ShowID) (map[services.ShowID]live.Show, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readCalls++
	found := map[services.ShowID]live.Show{}
	for _, id := range ids {
		if id < 100 {
			found[id] = live.Show{ID: id, Host: services.UserID(id) + 1}
		}
	}
	return found, s.err
}

func TestPostsComeWithTheirAuthors(t *testing.T) {
	s := newCountingReader()
	posts, users, err := New(s.readers()).PostsAndUsers(t.Context(), []services.PostID{1, 2, 10, 500}, nil)
	if err != nil || len(posts) != 2 || len(users) != 2 {
		t.Fatalf("got %v, %v, %v: deleted ones and ones that never were are left out", posts, users, err)
	}
	if users[2].Key != "u" || users[3].Key != "u" {
		t.Errorf("authors: %v", users)
	}
	if s.readCalls != 1 {
		t.Errorf("%d reads, want one for the posts and their authors", s.readCalls)
	}
}

func TestEachKeyIsReadOnceAResponse(t *testing.T) {
	s := newCountingReader()
	l := New(s.readers())
	for range 3 {
		if _, _, err := l.PostsAndUsers(t.Context(), []services.PostID{1, 2}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Users(t.Context(), []services.UserID{2, 3, 4}); err != nil {
			t.Fatal(err)
		}
	}
	for id, times := range s.postReads {
		if times != 1 {
			t.Errorf("post %d was read %d times", id, times)
		}
	}
	for id, times := range s.userReads {
		if times != 1 {
			t.Errorf("user %d was read %d times", id, times)
		}
	}
	if _, _, err := New(s.readers()).PostsAndUsers(t.Context(), []services.PostID{1}, nil); err != nil || s.postReads[1] != 2 {
		t.Errorf("another response must read anew: %d, %v", s.postReads[1], err)
	}
}

func TestKeptPostsAreNotReadAgain(t *testing.T) {
	s := newCountingReader()
	l := New(s.readers())
	l.KeepPostsAndUsers([]services.Post{{ID: 200, Author: 300}}, []services.User{{ID: 300, Key: "kept"}})
	posts, users, err := l.PostsAndUsers(t.Context(), []services.PostID{200}, nil)
	if err != nil || posts[200].Author != 300 || users[300].Key != "kept" || s.readCalls != 0 {
		t.Errorf("got %v, %v, %v after %d reads", posts, users, err, s.readCalls)
	}
}

func TestNoKeysCauseNoRead(t *testing.T) {
	s := newCountingReader()
	if users, err := New(s.readers()).Users(t.Context(), nil); err != nil || len(users) != 0 || s.readCalls != 0 {
		t.Errorf("got %v, %v after %d reads", users, err, s.readCalls)
	}
}

func TestAFailureIsReturnedToItsCaller(t *testing.T) {
	s := newCountingReader()
	s.err = errors.New("away")
	l := New(s.readers())
	if _, _, err := l.PostsAndUsers(t.Context(), []services.PostID{1}, nil); !errors.Is(err, s.err) {
		t.Errorf("posts: %v", err)
	}
	if _, err := l.Users(t.Context(), []services.UserID{1}); !errors.Is(err, s.err) {
		t.Errorf("users: %v", err)
	}
	s.err = nil
	if posts, _, err := l.PostsAndUsers(t.Context(), []services.PostID{1}, nil); err != nil || len(posts) != 1 {
		t.Errorf("a failure was remembered: %v, %v", posts, err)
	}
}

func TestConcurrentUse(t *testing.T) {
	l := New(newCountingReader().readers())
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 50 {
				if _, _, err := l.PostsAndUsers(t.Context(), []services.PostID{services.PostID(1 + (worker+i)%90)}, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

func TestAResponseHasOneLoaderInItsContext(t *testing.T) {
	ctx := With(t.Context(), newCountingReader().readers())
	if first, second := From(ctx), From(ctx); first != second {
		t.Error("one response has two loaders")
	}
	if From(ctx) == From(With(ctx, newCountingReader().readers())) {
		t.Error("two responses share a loader")
	}
	defer func() {
		if recover() == nil {
			t.Error("a response without a loader went unnoticed")
		}
	}()
	From(t.Context())
}
