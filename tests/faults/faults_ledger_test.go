package faults

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// ledger is the record of acknowledged mutations, and the slow, independent count of their effects.
type ledger struct {
	mu       sync.Mutex
	posts    map[string]*ledgerPost   // by ID
	byAuthor map[string][]*ledgerPost // the oldest first
	since    map[edge]string          // the author's newest post at the follow, "" if the author had none
	seen     map[string]string        // reader -> the newest post that they have seen
}

type ledgerPost struct {
	id, author     string
	deleted, liked bool // liked by a person other than its author
}

// edge is a reader and an author whom they may follow.
type edge struct{ reader, author string }

// withLock calls the function change, which reads or writes the ledger, under the lock.
func (l *ledger) withLock(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *ledger) count() (posts int) {
	l.withLock(func() { posts = len(l.posts) })
	return posts
}

func (l *ledger) recordPost(author, id string) {
	l.withLock(func() {
		post := &ledgerPost{id: id, author: author}
		l.posts[id], l.byAuthor[author] = post, append(l.byAuthor[author], post)
	})
}

func (l *ledger) follows(reader, author string) (follows bool) {
	l.withLock(func() { _, follows = l.since[edge{reader, author}] })
	return follows
}

// recordFollow records a follow, or an unfollow if follows is false.
func (l *ledger) recordFollow(reader, author string, follows bool) {
	l.withLock(func() {
		if !follows {
			delete(l.since, edge{reader, author})
			return
		}
		newest := ""
		if posts := l.byAuthor[author]; len(posts) > 0 {
			newest = posts[len(posts)-1].id
		}
		l.since[edge{reader, author}] = newest
	})
}

// pick returns a random post of an author for which fits is true; nil if there is none.
func (l *ledger) pick(author string, fits func(*ledgerPost) bool) (post *ledgerPost) {
	l.withLock(func() {
		var fitting []*ledgerPost
		for _, p := range l.byAuthor[author] {
			if fits(p) {
				fitting = append(fitting, p)
			}
		}
		if len(fitting) > 0 {
			post = fitting[rand.IntN(len(fitting))]
		}
	})
	return post
}

// feed returns the IDs of the posts that the reader's feed must list, newest first.
func (l *ledger) feed(reader string) (ids []string) {
	l.withLock(func() {
		for _, post := range l.posts {
			if _, follows := l.since[edge{reader, post.author}]; !post.deleted && (follows || post.author == reader) {
				ids = append(ids, post.id)
			}
		}
	})
	slices.Sort(ids)
	slices.Reverse(ids)
	return ids
}

// unread returns the number of posts of the feed that must count.
func (l *ledger) unread(reader string) (count int) {
	l.withLock(func() {
		for _, post := range l.posts {
			since, follows := l.since[edge{reader, post.author}]
			if follows && !post.deleted && post.id > since && post.id > l.seen[reader] {
				count++
			}
		}
	})
	return count
}

// likes returns the number of a person's posts that are liked. This is also the number that their badge of likes must have, because
// these tests mark no notification as seen.
func (l *ledger) likes(person string) (count int) {
	l.withLock(func() {
		for _, post := range l.byAuthor[person] {
			if post.liked && !post.deleted {
				count++
			}
		}
	})
	return count
}
