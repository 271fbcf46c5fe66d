// Package dataloader is batches: every read of several keys in one response, each kind fetched once.
//
// A loader lives for one response - one query, one mutation, one event of a subscription - and never for a socket, so
// that what it remembers is never old. There are no waiting windows: whoever needs several keys asks for them at once.
// When an engine does not answer, the error is the caller's to show.
package dataloader

import (
	"context"
	"maps"
	"sync"

	"tidings/services"
)

// Source reads posts and people, both kinds in one round trip, and shows: the mirror.
type Source interface {
	Read(ctx context.Context, posts []services.PostID, users []services.UserNumber) (map[services.PostID]services.Post, map[services.UserNumber]services.User, error)
	Shows(ctx context.Context, ids []services.PostID) (map[services.PostID]services.Show, error)
}

// Loader remembers what one response has read. It is safe for concurrent use.
type Loader struct {
	source Source

	mu    sync.Mutex
	posts map[services.PostID]services.Post
	users map[services.UserNumber]services.User
	shows map[services.PostID]services.Show

	asking  sync.Mutex // of who asks what concerns the viewer alone, so that it is asked once for all; before mu
	reminds map[services.PostID]bool
	hidden  map[services.UserNumber]bool
}

type loaderKey struct{}

// With puts a fresh loader into the context of a response.
func With(ctx context.Context, source Source) context.Context {
	return context.WithValue(ctx, loaderKey{}, New(source))
}

// New makes an empty loader.
func New(source Source) *Loader {
	return &Loader{
		source: source, posts: map[services.PostID]services.Post{}, users: map[services.UserNumber]services.User{},
		shows: map[services.PostID]services.Show{}, reminds: map[services.PostID]bool{}, hidden: map[services.UserNumber]bool{},
	}
}

// From takes the loader out of the context of a response. It panics where none was put: that is a fault of the wiring.
func From(ctx context.Context) *Loader { return ctx.Value(loaderKey{}).(*Loader) }

// Keep lets the response know of posts and people that were read already.
func (l *Loader) Keep(posts []services.Post, users []services.User) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, post := range posts {
		l.posts[post.ID] = post
	}
	for _, user := range users {
		l.users[user.Number] = user
	}
}

// Posts reads posts with their authors; deleted ones and ones that never were are left out.
func (l *Loader) Posts(ctx context.Context, ids []services.PostID) (map[services.PostID]services.Post, map[services.UserNumber]services.User, error) {
	posts, _, err := l.read(ctx, ids, nil)
	if err != nil {
		return nil, nil, err
	}
	var authors []services.UserNumber
	for id, post := range posts {
		if post.Deleted {
			delete(posts, id)
			continue
		}
		authors = append(authors, post.Author)
	}
	_, users, err := l.read(ctx, nil, authors)
	return posts, users, err
}

// Both reads posts with their authors, and people, in as few round trips as that takes: one where the authors are among
// the people. What is deleted or never was is left out.
func (l *Loader) Both(ctx context.Context, ids []services.PostID, numbers []services.UserNumber) (map[services.PostID]services.Post, map[services.UserNumber]services.User, error) {
	if _, _, err := l.read(ctx, ids, numbers); err != nil {
		return nil, nil, err
	}
	posts, users, err := l.Posts(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	more, err := l.Users(ctx, numbers)
	maps.Copy(users, more)
	return posts, users, err
}

// Users reads people; ones that never were are left out.
func (l *Loader) Users(ctx context.Context, numbers []services.UserNumber) (map[services.UserNumber]services.User, error) {
	_, users, err := l.read(ctx, nil, numbers)
	return users, err
}

func (l *Loader) read(ctx context.Context, ids []services.PostID, numbers []services.UserNumber) (map[services.PostID]services.Post, map[services.UserNumber]services.User, error) {
	posts, users := make(map[services.PostID]services.Post, len(ids)), make(map[services.UserNumber]services.User, len(numbers))
	l.mu.Lock()
	missingPosts := known(l.posts, ids, posts)
	missingUsers := known(l.users, numbers, users)
	l.mu.Unlock()
	if len(missingPosts)+len(missingUsers) == 0 {
		return posts, users, nil
	}
	readPosts, readUsers, err := l.source.Read(ctx, missingPosts, missingUsers)
	if err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, post := range readPosts {
		posts[id], l.posts[id] = post, post
	}
	for number, user := range readUsers {
		users[number], l.users[number] = user, user
	}
	return posts, users, nil
}

// known moves what is remembered of the keys into found and answers the others.
func known[K comparable, V any](remembered map[K]V, keys []K, found map[K]V) (missing []K) {
	for _, key := range keys {
		if value, ok := remembered[key]; ok {
			found[key] = value
		} else {
			missing = append(missing, key)
		}
	}
	return missing
}
