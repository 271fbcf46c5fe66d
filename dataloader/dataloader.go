// Package dataloader batches the reads of one response: it reads several keys together, and each key once.
//
// A loader lives for one response (one query, one mutation, one event of a subscription) and never for a socket, so that it
// remembers nothing from before the response. A response that changes something forgets its earlier reads. A loader never
// waits for more keys: a caller asks for all of its keys at once, and a caller that asks for a key that is being read waits for
// that read. If an engine (SQL or Redis) does not answer, the caller gets the error, and the next caller asks again.
package dataloader

import (
	"context"
	"maps"
	"slices"
	"sync"

	"tidings/services"
	"tidings/services/chat"
	"tidings/services/live"
)

// PostReader reads posts with their authors, and other users, in as few round trips as possible.
type PostReader interface {
	ReadWithAuthors(ctx context.Context, posts []services.PostID, users []services.UserID) (map[services.PostID]services.Post, map[services.UserID]services.User, error)
}

// ShowReader reads shows as they are now.
type ShowReader interface {
	Shows(ctx context.Context, ids []services.ShowID) (map[services.ShowID]live.Show, error)
}

// Readers has what a loader reads posts, users and shows with.
type Readers struct {
	// Posts and Shows read through the node cache, so a loader itself knows no engine.
	Posts PostReader
	Shows ShowReader
}

// Loader remembers what was read for one response. It is safe for concurrent use.
type Loader struct {
	readers Readers

	mu sync.Mutex // guards the fields below
	// ForgetAll sets current to nil. A caller that began before keeps the memory that it began with, so its data is of one state.
	current         *responseMemory // nil until something is read
	prefetchedItems int             // how many items of lists were read before a field asked for them
}

// responseMemory is everything that a response has read since its last change. Data that depends on the viewer is here too, because a
// response has one viewer.
type responseMemory struct {
	posts batch[services.PostID, services.Post]
	users batch[services.UserID, services.User]
	shows batch[services.ShowID, live.Show]
	// sharedValues has the values of the function ReadShared, whose keys can have any type.
	sharedValues batch[any, any]

	messages      batch[services.MessageID, chat.Message]
	mentions      batch[services.MessageID, []services.UserID] // the users that a message mentions
	members       batch[chat.MembersPage, []services.UserID]   // pages of the members of conversations
	hiddenAuthors batch[services.UserID, bool]                 // whether an author hides their posts and shows from the viewer
	postDetails   postDetails                                  // counts, answers and likes of posts
	labels        labels                                       // the labels of objects

	// The viewer's relations to users, and the pages of users' lists.
	relations batch[services.UserID, services.Relation]
	lists     userLists // pages of users' followers, followees, posts and shows

	remindersMu   sync.Mutex                   // guards the two fields below; held while reminders are read: one caller reads for all
	hasReminder   map[services.ShowID]bool     // show -> whether the viewer has a reminder
	responseShows map[services.ShowID]struct{} // all shows that the response has read so far
}

// loaderKey is the key of the loader in a context.
type loaderKey struct{}

// With puts a fresh loader into the context of a response.
func With(ctx context.Context, readers Readers) context.Context {
	return context.WithValue(ctx, loaderKey{}, New(readers))
}

// New makes an empty loader.
func New(readers Readers) *Loader { return &Loader{readers: readers} }

// From returns the loader in the context of a response. It panics without one: that is an error of the program.
func From(ctx context.Context) *Loader { return ctx.Value(loaderKey{}).(*Loader) }

// ForgetAll drops every earlier read. A mutation calls it after its change, so that the payload shows the new state.
func (l *Loader) ForgetAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = nil
}

// currentMemory returns what the response has read since its last change. A caller gets it once for each read, so that a ForgetAll during
// the read has no effect on the read.
func (l *Loader) currentMemory() *responseMemory {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		l.current = &responseMemory{}
	}
	return l.current
}

// KeepPostsAndUsers remembers posts and users that the caller has read without the loader. A post replaces what was remembered of it
// before; a user does not.
func (l *Loader) KeepPostsAndUsers(posts []services.Post, users []services.User) {
	m := l.currentMemory()
	for _, post := range posts {
		m.posts.keep(post.ID, post)
	}
	m.keepUsers(users)
}

// keepUsers remembers users that came with another read. When a field of one of them is read later, the field is read for all of them
// at once.
func (m *responseMemory) keepUsers(users []services.User) {
	m.users.keepIfAbsent(services.KeyBy(users, func(user services.User) services.UserID { return user.ID }))
}

// Users reads users; unknown ones are omitted.
func (l *Loader) Users(ctx context.Context, ids []services.UserID) (map[services.UserID]services.User, error) {
	_, users, err := l.readPostsAndUsers(ctx, nil, ids)
	return users, err
}

// PostsAndUsers reads posts with their authors, and other users, in one batch. Deleted and unknown ones are omitted. The results are the
// caller's own.
func (l *Loader) PostsAndUsers(ctx context.Context, ids []services.PostID, userIDs []services.UserID) (map[services.PostID]services.Post, map[services.UserID]services.User, error) {
	posts, users, err := l.readPostsAndUsers(ctx, ids, userIDs)
	if err != nil {
		return nil, nil, err
	}
	// users has only the users in userIDs. The authors of the posts are in the memory, where the read has put them.
	var authors []services.UserID
	for id, post := range posts {
		if post.Deleted {
			delete(posts, id)
		} else if _, known := users[post.Author]; !known {
			authors = append(authors, post.Author)
		}
	}
	if len(authors) > 0 { // most often this reads nothing, because the authors came with the posts
		more, err := l.Users(ctx, authors)
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(users, more)
	}
	return posts, users, nil
}

// readPostsAndUsers reads posts and users at once, and remembers the authors that come with the posts.
func (l *Loader) readPostsAndUsers(ctx context.Context, ids []services.PostID, userIDs []services.UserID) (map[services.PostID]services.Post, map[services.UserID]services.User, error) {
	m := l.currentMemory()
	// Both claims come before the read, so that one round trip serves both.
	posts, users := m.posts.claim(ids), m.users.claim(userIDs)
	if posts.own != nil || users.own != nil {
		var foundPosts map[services.PostID]services.Post
		var foundUsers map[services.UserID]services.User
		err := errBroken
		func() {
			defer func() {
				if err == nil {
					// The users are remembered before the posts are settled, because a caller that gets a post must find its author.
					m.users.keepIfAbsent(foundUsers)
				}
				m.users.settle(users, foundUsers, err)
				m.posts.settle(posts, foundPosts, err)
			}()
			foundPosts, foundUsers, err = l.readers.Posts.ReadWithAuthors(ctx, posts.keys, users.keys)
		}()
	}
	// The caller's own read is settled. Now it may wait for the reads of other callers.
	foundPosts, err := m.posts.collect(ctx, ids, posts)
	if err != nil {
		return nil, nil, err
	}
	foundUsers, err := m.users.collect(ctx, userIDs, users)
	return foundPosts, foundUsers, err
}

// Shows reads shows; unknown ones are omitted. When a field of one of them is read later, the field is read for all of them at once.
func (l *Loader) Shows(ctx context.Context, ids []services.ShowID) (map[services.ShowID]live.Show, error) {
	m := l.currentMemory()
	shows, err := m.shows.loadMany(ctx, ids, l.readers.Shows.Shows)
	m.addResponseShows(slices.Collect(maps.Keys(shows)))
	return shows, err
}

// KeepShows remembers shows that the caller has read without the loader, and replaces what was remembered of them.
func (l *Loader) KeepShows(shows []live.Show) {
	m := l.currentMemory()
	for _, show := range shows {
		m.shows.keep(show.ID, show)
		m.addResponseShows([]services.ShowID{show.ID})
	}
}

// Messages reads messages; unknown ones are omitted. The caller has checked that the viewer is a member of their conversations.
func (l *Loader) Messages(ctx context.Context, ids []services.MessageID, read func(context.Context, []services.MessageID) (map[services.MessageID]chat.Message, error)) (map[services.MessageID]chat.Message, error) {
	return l.currentMemory().messages.loadMany(ctx, ids, read)
}

// Mentions reads the users that messages mention.
func (l *Loader) Mentions(ctx context.Context, ids []services.MessageID, read func(context.Context, []services.MessageID) (map[services.MessageID][]services.UserID, error)) (map[services.MessageID][]services.UserID, error) {
	return l.currentMemory().mentions.loadMany(ctx, ids, read)
}

// Members reads pages of the members of conversations. The caller has checked that the viewer is a member.
func (l *Loader) Members(ctx context.Context, pages []chat.MembersPage, read func(context.Context, []chat.MembersPage) (map[chat.MembersPage][]services.UserID, error)) (map[chat.MembersPage][]services.UserID, error) {
	return l.currentMemory().members.loadMany(ctx, pages, read)
}

// HiddenAuthors returns which of some authors hide their posts and shows from the viewer. A response has one viewer.
func (l *Loader) HiddenAuthors(ctx context.Context, authors []services.UserID, read func(ctx context.Context, authors []services.UserID) (map[services.UserID]bool, error)) (map[services.UserID]bool, error) {
	return l.currentMemory().hiddenAuthors.loadMany(ctx, authors, read)
}

// ReadShared reads a value once for all fields of the response that ask for it under one key. The caller defines the type of the
// key, and all values under keys of that type must have the type V. If ctx has no loader, ReadShared calls read each time.
func ReadShared[V any](ctx context.Context, key any, read func(ctx context.Context) (V, error)) (value V, err error) {
	l, ok := ctx.Value(loaderKey{}).(*Loader)
	if !ok {
		return read(ctx)
	}
	found, err := l.currentMemory().sharedValues.loadMany(ctx, []any{key}, func(ctx context.Context, _ []any) (map[any]any, error) {
		value, err := read(ctx)
		return map[any]any{key: value}, err
	})
	if err != nil {
		return value, err
	}
	return found[key].(V), nil
}
