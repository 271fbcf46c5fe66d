package feedhistory

import (
	"fmt"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/redis"
)

// This file has the work of a world: the steps of services/fanout, with a pause wherever another process could run in between.

// fanOut adds a post to the author's own feed, or removes it there, and queues jobs that do the same for chunks of the followers.
func (w *World) fanOut(pause func(), id services.PostID, remove bool) error {
	author := w.posts[id].Author
	var err error
	if remove {
		_, err = w.Client.DeleteFromInboxes(w.Ctx, []services.UserID{author}, id, author)
	} else {
		err = w.addPostAgain(pause, author, id)
	}
	if err != nil {
		return err
	}
	// The chunks are of the followers as they are now. A chunk reads them again when it runs.
	pause()
	followers := w.Followers(author, 0)
	for len(followers) > 0 {
		size := min(FollowersPerChunk, len(followers))
		after, to := followers[0]-1, followers[size-1]
		w.Enqueue(fmt.Sprintf("chunk %d of %d, remove %v", to, id, remove), func(pause func()) error {
			return w.updateFollowerChunk(pause, id, remove, after, to)
		})
		followers = followers[size:]
	}
	return nil
}

// updateFollowerChunk adds a post to the inboxes of the followers with IDs in (after, to], or removes it there. It reads the follows
// when it runs.
func (w *World) updateFollowerChunk(pause func(), id services.PostID, remove bool, after, to services.UserID) error {
	stamp, err := w.Client.Client.Now(w.Ctx)
	if err != nil {
		return err
	}
	pause()
	// Reading the post, reading the follows and writing are three steps in the program too. post is a copy, so it stays as it was
	// read.
	post := *w.posts[id]
	if post.Deleted && !remove {
		return nil
	}
	pause()
	var adds []rdb.InboxPost
	var readers []services.UserID
	for _, reader := range w.Followers(post.Author, after) {
		if reader <= to {
			counts := id > services.PostID(w.followStarts[edge{reader, post.Author}])
			adds = append(adds, rdb.InboxPost{Reader: reader, Entry: services.FeedEntry{Post: id, Author: post.Author, CountsAsNew: counts}})
			readers = append(readers, reader)
		}
	}
	pause()
	if remove {
		_, err := w.Client.DeleteFromInboxes(w.Ctx, readers, id, post.Author)
		return err
	}
	results, err := w.Client.AddToInboxes(w.Ctx, stamp, adds)
	if err != nil {
		return err
	}
	for i, result := range results {
		if result.Status == redis.Retry {
			if err := w.addPostAgain(pause, readers[i], id); err != nil {
				return err
			}
		}
	}
	return nil
}

// retryRefused tries until Redis accepts the write of a try. The program bounds the tries too, and leaves the rest to the job's next
// run. what says in the error what was refused.
func retryRefused(try func() (refused bool, err error), what string, args ...any) error {
	for range MaxJobTries {
		if refused, err := try(); err != nil || !refused {
			return err
		}
	}
	return fmt.Errorf("%s: refused %d times", fmt.Sprintf(what, args...), MaxJobTries)
}

// addPostAgain merges one post into one reader's inbox. It reads the post and the follow again until no removal comes between the
// stamp and the write.
func (w *World) addPostAgain(pause func(), reader services.UserID, id services.PostID) error {
	return retryRefused(func() (refused bool, err error) {
		stamp, err := w.Client.TakeUserStamp(w.Ctx, reader)
		if err != nil || stamp == 0 {
			return false, err
		}
		pause()
		post := *w.posts[id]
		if post.Deleted {
			return false, nil
		}
		pause()
		entry := services.FeedEntry{Post: id, Author: post.Author}
		// The author's own posts are listed in their feed and do not count.
		if reader != post.Author {
			since, follows := w.followStarts[edge{reader, post.Author}]
			if !follows {
				return false, nil
			}
			entry.CountsAsNew = id > services.PostID(since)
		}
		pause()
		result, err := w.Client.MergeIntoInbox(w.Ctx, rdb.InboxMerge{Reader: reader, Stamp: stamp, Entries: []services.FeedEntry{entry}})
		return result.Status == redis.Retry, err
	}, "post %d for reader %d", id, reader)
}

// reconcileFollow makes a reader's posts of an author agree with whether they follow now: after a follow and an unfollow alike, because
// their jobs may be queued in another order than that of the facts.
func (w *World) reconcileFollow(pause func(), reader, author services.UserID) error {
	return retryRefused(func() (refused bool, err error) {
		stamp, err := w.Client.TakeUserStamp(w.Ctx, reader)
		if err != nil || stamp == 0 {
			return false, err
		}
		pause()
		since, follows := w.followStarts[edge{reader, author}]
		if !follows {
			pause()
			if _, err := w.Client.DropFromInbox(w.Ctx, reader, author); err != nil {
				return false, err
			}
			pause()
			// A follow that was made meanwhile may have been merged before the removal, and lost by it: so both are read again.
			if _, again := w.followStarts[edge{reader, author}]; again && w.RemovalRereadsFollow {
				return true, nil
			}
			return false, nil
		}
		pause()
		var pulled []services.FollowedAuthor
		if w.pulledAuthors[author] {
			pulled = []services.FollowedAuthor{{Author: author, ItemsCountAfter: since}}
		}
		var hosts []services.FollowedAuthor
		if w.Boards != nil {
			if hosts, refused, err = w.Boards.Follow(pause, reader, author, since, stamp); err != nil {
				return false, err
			}
			if refused {
				return true, nil
			}
		}
		posts := w.matchingPosts(func(post *services.Post) bool { return post.Author == author && !post.Deleted })
		entries := make([]services.FeedEntry, min(len(posts), w.postsReadOnFollow))
		for i := range entries {
			entries[i] = services.FeedEntry{Post: posts[i], Author: author, CountsAsNew: posts[i] > services.PostID(since)}
		}
		pause()
		result, err := w.Client.MergeIntoInbox(w.Ctx, rdb.InboxMerge{Reader: reader, Stamp: stamp, RefuseEarlierReads: true, PulledAuthors: pulled, Hosts: hosts, Entries: entries})
		if err != nil {
			return false, err
		}
		if result.Status == redis.Retry {
			return true, nil
		}
		pause()
		return false, w.removeDeletedPosts(pause, reader, author, posts)
	}, "reader %d and author %d", reader, author)
}

// removeDeletedPosts removes from the reader's inbox the posts that the author deleted while the reader did not follow: those removals
// reached only the followers of that time. It runs after the merge of the follow, which refuses older reads: none can bring a post back.
func (w *World) removeDeletedPosts(pause func(), reader, author services.UserID, alive []services.PostID) error {
	if !w.followRemovesDeletedPosts {
		return nil
	}
	posts, err := w.Client.AuthorPostsInInbox(w.Ctx, reader, author)
	if err != nil {
		return err
	}
	pause()
	for _, id := range posts {
		if slices.Contains(alive, id) || !w.posts[id].Deleted {
			continue
		}
		if _, err := w.Client.DeleteFromInboxes(w.Ctx, []services.UserID{reader}, id, author); err != nil {
			return err
		}
	}
	return nil
}

// rebuild begins a rebuild, reads the facts and merges them, in this order.
func (w *World) rebuild(pause func(), user services.UserID, refill bool) error {
	return retryRefused(func() (refused bool, err error) {
		stamps, err := w.Client.BeginRebuild(w.Ctx, []services.UserID{user}, rdb.RebuildMode{IsVisit: true, Refill: refill})
		if err != nil {
			return false, err
		}
		pause()
		facts := rdb.FeedFacts{Reader: user, Stamp: stamps[0], IsVisit: true, LastActiveDay: 20_000, KeyLifetime: time.Hour, SeenUpTo: w.seenUpTo[user]}
		pause()
		// The position (SeenUpTo) was read at an earlier moment than the facts below, as in the program.
		facts.Entries = w.homeFeedFromFacts(user)
		facts.PulledAuthors = w.pulledAuthorsOf(user)
		if w.Boards != nil {
			facts.Hosts = w.Boards.Hosts(user)
		}
		pause()
		result, err := w.Client.EndRebuild(w.Ctx, facts)
		return result.Status != redis.Applied, err
	}, "rebuild of %d", user)
}

// projectSeen writes a user's seen position into Redis, as the facts had it when the job began.
func (w *World) projectSeen(pause func(), user services.UserID) error {
	seen := w.seenUpTo[user]
	pause()
	_, err := w.Client.MarkFeedSeen(w.Ctx, user, seen)
	return err
}

// Followers are an author's followers with IDs above after, in their order.
func (w *World) Followers(author, after services.UserID) []services.UserID {
	var followers []services.UserID
	for edge := range w.followStarts {
		if edge.author == author && edge.reader > after {
			followers = append(followers, edge.reader)
		}
	}
	slices.Sort(followers)
	return followers
}
