package fanout

import (
	"context"
	"fmt"
	"slices"

	"tidings/services"
	"tidings/services/rdb"
)

// maxRounds bounds how often one reader's view is read again because it changed meanwhile. Each round needs a
// removal of just this reader in the few milliseconds between two reads.
const maxRounds = 20

// Reconcile brings what a reader's inbox has of one author in line with the edge as SQL has it now: the follow, the
// unfollow and every repetition of both. Edge there: the author's newest posts are merged in, those from after
// the follow counting, the replays of his shows, and he is named where his posts are pulled or he is a host. No edge: everything of his goes, and the edge is read again after that.
func (f *Fanout) Reconcile(ctx context.Context, reader, author services.UserNumber) error {
	for range maxRounds {
		stamp, err := f.redis.StampOf(ctx, reader)
		if err != nil || stamp == 0 {
			return err
		}
		edge, follows, err := f.store.Edge(ctx, reader, author)
		if err != nil {
			return err
		}
		if !follows {
			gone, err := f.dropAuthor(ctx, reader, author)
			if gone || err != nil {
				return err
			}
			continue
		}
		pulled, err := f.pulled(ctx, edge)
		if err != nil {
			return err
		}
		hosts, refused, err := f.mergeHost(ctx, edge, stamp)
		if err != nil {
			return err
		}
		if refused {
			continue
		}
		// More than an inbox holds: it trims itself then, and knows from its floor that older posts exist.
		posts, err := f.store.AuthorPosts(ctx, author, rebuildEntries+1)
		if err != nil {
			return err
		}
		entries := make([]services.FeedEntry, len(posts))
		for i, post := range posts {
			entries[i] = services.FeedEntry{Post: post, Author: author, Counts: post > edge.Since}
		}
		result, err := f.redis.MergeIntoInbox(ctx, rdb.Merge{Reader: reader, Stamp: stamp, Fence: true, Pulled: pulled, Hosts: hosts, Entries: entries})
		if err != nil {
			return err
		}
		if result.Status != rdb.Retry {
			f.hint(ctx, []services.UserNumber{reader}, []rdb.Result{result})
			return f.sweepAuthor(ctx, reader, author, posts)
		}
	}
	return fmt.Errorf("reconcile reader %d with author %d: changed %d times meanwhile", reader, author, maxRounds)
}

// pulled is what a follower's document names of an author: him, when his posts may be pulled, else nothing.
func (f *Fanout) pulled(ctx context.Context, edge services.Edge) ([]services.FollowedAuthor, error) {
	pulls, err := f.store.Pulls(ctx, edge.Followee)
	if err != nil || !pulls {
		return nil, err
	}
	return []services.FollowedAuthor{{Author: edge.Followee, Since: edge.Since}}, nil
}

// sweepAuthor takes out what was deleted while the reader did not follow: the removal did not visit him then. posts are
// the author's newest as read just now.
func (f *Fanout) sweepAuthor(ctx context.Context, reader, author services.UserNumber, posts []services.PostID) error {
	held, err := f.redis.AuthorInInbox(ctx, reader, author)
	if err != nil {
		return err
	}
	known := make(map[services.PostID]bool, len(posts))
	for _, post := range posts {
		known[post] = true
	}
	doubtful := slices.DeleteFunc(held, func(post services.PostID) bool { return known[post] })
	if len(doubtful) == 0 {
		return nil
	}
	facts, err := f.store.Posts(ctx, doubtful)
	if err != nil {
		return err
	}
	for _, post := range facts {
		if !post.Deleted {
			continue
		}
		if err := f.drop(ctx, post, []services.UserNumber{reader}); err != nil {
			return err
		}
	}
	return nil
}

// dropAuthor takes the author out and answers whether the edge is gone still.
func (f *Fanout) dropAuthor(ctx context.Context, reader, author services.UserNumber) (gone bool, err error) {
	result, err := f.redis.DropFromInbox(ctx, reader, author)
	if err != nil {
		return false, err
	}
	if _, follows, err := f.store.Edge(ctx, reader, author); err != nil || follows {
		return false, err
	}
	f.hint(ctx, []services.UserNumber{reader}, []rdb.Result{result})
	if result.Short {
		return true, f.Refill(ctx, reader)
	}
	return true, nil
}

// addAgain reads one post and one edge again for a reader whose inbox refused the post with Retry.
func (f *Fanout) addAgain(ctx context.Context, reader services.UserNumber, id services.PostID) (rdb.Result, error) {
	for range maxRounds {
		stamp, err := f.redis.StampOf(ctx, reader)
		if err != nil || stamp == 0 {
			return rdb.Result{}, err
		}
		posts, err := f.store.Posts(ctx, []services.PostID{id})
		if err != nil {
			return rdb.Result{}, err
		}
		post, ok := posts[id]
		if !ok || post.Deleted || post.OffFeed || post.Pull && reader != post.Author {
			return rdb.Result{}, nil
		}
		entry := services.FeedEntry{Post: id, Author: post.Author}
		if reader != post.Author {
			edge, follows, err := f.store.Edge(ctx, reader, post.Author)
			if err != nil || !follows {
				return rdb.Result{}, err
			}
			entry.Counts = id > edge.Since
		}
		result, err := f.redis.MergeIntoInbox(ctx, rdb.Merge{Reader: reader, Stamp: stamp, Entries: []services.FeedEntry{entry}})
		if err != nil || result.Status != rdb.Retry {
			return result, err
		}
	}
	return rdb.Result{}, fmt.Errorf("post %s for reader %d: the inbox changed %d times meanwhile", id, reader, maxRounds)
}
