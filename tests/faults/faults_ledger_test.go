package faults

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// ledger records the acknowledged mutations of a load, and computes the feeds and counts that must follow from them in its own slow way.
type ledger struct {
	mu                 sync.Mutex               // guards all fields, and the fields of the posts
	posts              map[string]*ledgerPost   // by ID
	byAuthor           map[string][]*ledgerPost // the oldest first
	newestPostAtFollow map[followEdge]string    // the author's newest post at the follow, "" if the author had none
	seenUpTo           map[string]string        // reader -> the newest post that they have seen
}

// ledgerPost is a post that the server has acknowledged.
type ledgerPost struct {
	id, author     string // the post's ID and its author's key
	deleted, liked bool   // liked by the one person who likes posts of this author
}

// followEdge is a possible follow: the keys of a reader and of an author.
type followEdge struct{ reader, author string }

// withLock calls the function change, which reads or writes the ledger, while it holds mu.
func (l *ledger) withLock(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// countPosts returns the number of posts that were published, including those that were deleted since.
func (l *ledger) countPosts() (posts int) {
	l.withLock(func() { posts = len(l.posts) })
	return posts
}

func (l *ledger) recordPost(author, id string) {
	l.withLock(func() {
		post := &ledgerPost{id: id, author: author}
		l.posts[id], l.byAuthor[author] = post, append(l.byAuthor[author], post)
	})
}

// follows reports whether the reader follows the author.
func (l *ledger) follows(reader, author string) (follows bool) {
	l.withLock(func() { _, follows = l.newestPostAtFollow[followEdge{reader, author}] })
	return follows
}

// recordFollow records a follow, or an unfollow if follows is false.
func (l *ledger) recordFollow(reader, author string, follows bool) {
	l.withLock(func() {
		if !follows {
			delete(l.newestPostAtFollow, followEdge{reader, author})
			return
		}
		newest := ""
		if posts := l.byAuthor[author]; len(posts) > 0 {
			newest = posts[len(posts)-1].id
		}
		l.newestPostAtFollow[followEdge{reader, author}] = newest
	})
}

// pickRandomPost returns a random post of an author, among the posts for which fits returns true; nil if there is none.
func (l *ledger) pickRandomPost(author string, fits func(*ledgerPost) bool) (post *ledgerPost) {
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

// expectedFeed returns the IDs of the posts that the reader's feed must list, newest first.
func (l *ledger) expectedFeed(reader string) (ids []string) {
	l.withLock(func() {
		for _, post := range l.posts {
			if _, follows := l.newestPostAtFollow[followEdge{reader, post.author}]; !post.deleted && (follows || post.author == reader) {
				ids = append(ids, post.id)
			}
		}
	})
	slices.Sort(ids)
	slices.Reverse(ids)
	return ids
}

// countUnread returns the number of posts that the badge of the reader's home feed must show.
func (l *ledger) countUnread(reader string) (count int) {
	l.withLock(func() {
		for _, post := range l.posts {
			since, follows := l.newestPostAtFollow[followEdge{reader, post.author}]
			if follows && !post.deleted && post.id > since && post.id > l.seenUpTo[reader] {
				count++
			}
		}
	})
	return count
}

// countLikedPosts returns the number of a person's posts that are liked. This is also the number that their badge of likes must
// have, because these tests mark no notification as seen.
func (l *ledger) countLikedPosts(person string) (count int) {
	l.withLock(func() {
		for _, post := range l.byAuthor[person] {
			if post.liked && !post.deleted {
				count++
			}
		}
	})
	return count
}
