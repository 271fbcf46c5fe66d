package fanout

import (
	"context"
	"fmt"
	"slices"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/redis"
)

// stampFunc returns a function that takes the stamp of a reader's document and inbox for a merge. A reader without a document needs
// no merge: a rebuild will read everything.
func (f *Fanout) stampFunc(reader services.UserID) func(ctx context.Context) (stamp redis.ClockStamp, ok bool, err error) {
	return func(ctx context.Context) (redis.ClockStamp, bool, error) {
		stamp, err := f.redis.TakeUserStamp(ctx, reader)
		return stamp, stamp != 0, err
	}
}

// currentEdge is a follow as SQL has it now, or its absence. A follow counts as absent while a mute or a hide keeps the author's posts
// from the reader.
type currentEdge struct {
	services.FollowEdge
	follows bool // false: the follow is absent
}

// ReconcileFollow brings one author's part of a reader's inbox in line with the follow that SQL has now. It does the work of a follow, of
// a change of its mode, of an unfollow, and of mutes and hides, under which a follow counts as absent. It may be repeated. If there is a
// follow, it merges the author's newest posts, of which those after the follow count, and the replays of their shows, and adds the author
// to the lists of pulled authors or hosts in the document if their posts are pulled or they are a host. If there is none, it removes all
// of the author's items, and then reads the follow again.
func (f *Fanout) ReconcileFollow(ctx context.Context, reader, author services.UserID) error {
	err := jobs.ProjectionMerge[redis.ClockStamp, currentEdge]{
		Name: func() string { return fmt.Sprintf("reconcile reader %d with author %d", reader, author) },
		Mark: f.stampFunc(reader),
		Read: func(ctx context.Context) (edge currentEdge, err error) {
			edge.FollowEdge, edge.follows, err = people.Edge(ctx, f.db, reader, author)
			return edge, err
		},
		Put: func(ctx context.Context, stamp redis.ClockStamp, edge currentEdge) (done bool, err error) {
			if !edge.follows {
				return f.dropAuthorItems(ctx, reader, author)
			}
			return f.mergeAuthorItems(ctx, stamp, edge.FollowEdge)
		},
	}.Run(ctx)
	if err != nil {
		return err
	}
	return f.projector.Mark(ctx, []services.UserID{reader}) // also without a document: the count then comes from the facts
}

// mergeAuthorItems merges the items of an author that a follower may see. done is false when something was removed since the stamp.
// The lists of shows are merged first, because their merge may be refused; then one script writes posts and names.
func (f *Fanout) mergeAuthorItems(ctx context.Context, stamp redis.ClockStamp, edge services.FollowEdge) (done bool, err error) {
	pulled, err := f.pulledEntry(ctx, edge)
	if err != nil {
		return false, err
	}
	hosts, refused, err := f.mergeHost(ctx, edge, stamp)
	if err != nil || refused {
		return false, err
	}
	// This reads one more than an inbox holds: the inbox then trims itself, and the trimmed post raises the inbox floor, which says that
	// older posts exist.
	found, err := posts.PushedPostsOfAuthor(ctx, f.db, edge.Followee, projector.RebuiltInboxEntries+1)
	if err != nil {
		return false, err
	}
	entries := services.Map(found, func(post services.PostID) services.FeedEntry {
		return services.FeedEntry{Post: post, Author: edge.Followee, CountsAsNew: post > edge.PostsCountAfter}
	})
	// RefuseEarlierReads makes the inbox refuse later merges of what was read before: a push that read the former follow would count its
	// posts differently.
	result, err := f.redis.MergeIntoInbox(ctx, rdb.InboxMerge{
		Reader: edge.Follower, Stamp: stamp, RefuseEarlierReads: true, AuthorNoLongerCounts: edge.Mode != services.FollowAll, PulledAuthors: pulled, Hosts: hosts, Entries: entries,
	})
	if err != nil || result.Status == redis.Retry {
		return false, err
	}
	if err := f.projector.HintAndMark(ctx, []services.UserID{edge.Follower}, []redis.Result{result}); err != nil {
		return false, err
	}
	// Either a removal before has left the inbox short, or the mode took posts out of the count, perhaps posts that the inbox counts
	// without listing them: only a rebuild can tell how many still count.
	if result.RefillDue {
		if err := f.projector.RefillInbox(ctx, edge.Follower); err != nil {
			return false, err
		}
	}
	return true, f.dropDeletedPosts(ctx, edge.Follower, edge.Followee, found)
}

// pulledEntry is the entry of a follower's document for an author whose posts may be pulled, and nothing for other authors. The author's
// NamedInFollowerDocuments decides, and not the mode: an author who shrank has pulled posts, and an author who grows must be in the
// documents before the mode changes.
func (f *Fanout) pulledEntry(ctx context.Context, edge services.FollowEdge) ([]services.FollowedAuthor, error) {
	pulls, err := posts.IsPullAuthor(ctx, f.db, edge.Followee)
	if err != nil || !pulls {
		return nil, err
	}
	return []services.FollowedAuthor{edge.AsPulledAuthor()}, nil
}

// dropDeletedPosts removes posts that were deleted while the reader did not follow the author, because the removal did not
// visit the reader then. newest are the author's posts, just read. It matters after an unfollow and a follow so close
// together that no removal of the author ran in between.
func (f *Fanout) dropDeletedPosts(ctx context.Context, reader, author services.UserID, newest []services.PostID) error {
	held, err := f.redis.AuthorPostsInInbox(ctx, reader, author)
	if err != nil {
		return err
	}
	known := make(map[services.PostID]bool, len(newest))
	for _, post := range newest {
		known[post] = true
	}
	// A held post that is not among the newest posts is older than they are, or deleted.
	doubtful := slices.DeleteFunc(held, func(post services.PostID) bool { return known[post] })
	if len(doubtful) == 0 {
		return nil
	}
	facts, err := posts.ByID(ctx, f.db, doubtful)
	if err != nil {
		return err
	}
	for _, post := range facts {
		if !post.Deleted {
			continue
		}
		if err := f.dropFromInboxes(ctx, post, []services.UserID{reader}); err != nil {
			return err
		}
	}
	return nil
}

// dropAuthorItems removes the author's items and reports whether the follow is still absent. The follow is read again after the removal:
// the removal may have removed the items that a follow in between had merged. gone is false then, and ReconcileFollow merges again.
func (f *Fanout) dropAuthorItems(ctx context.Context, reader, author services.UserID) (gone bool, err error) {
	// The script also refuses, from then on, pushes that read the former follow.
	result, err := f.redis.DropFromInbox(ctx, reader, author)
	if err != nil {
		return false, err
	}
	if _, follows, err := people.Edge(ctx, f.db, reader, author); err != nil || follows {
		return false, err
	}
	if err := f.projector.HintAndMark(ctx, []services.UserID{reader}, []redis.Result{result}); err != nil {
		return false, err
	}
	if result.RefillDue {
		return true, f.projector.RefillInbox(ctx, reader)
	}
	return true, nil
}

// mergePostIntoInbox reads one post and one follow again for a reader whose inbox refused the post with Retry. The result is zero if the
// post is not for the reader, or the reader has no document. AddToOwnFeed and AddInFlightPosts also use it, to add one post to one inbox.
func (f *Fanout) mergePostIntoInbox(ctx context.Context, reader services.UserID, id services.PostID) (result redis.Result, err error) {
	err = jobs.ProjectionMerge[redis.ClockStamp, *services.FeedEntry]{
		Name: func() string { return fmt.Sprintf("post %s for reader %d", id, reader) },
		Mark: f.stampFunc(reader),
		Read: func(ctx context.Context) (*services.FeedEntry, error) { return f.entryFor(ctx, reader, id) },
		Put: func(ctx context.Context, stamp redis.ClockStamp, entry *services.FeedEntry) (done bool, err error) {
			if entry == nil {
				return true, nil
			}
			// The merge needs no RefuseEarlierReads, because the follow did not change. It also replaces an entry of this post that counts
			// differently.
			merged, err := f.redis.MergeIntoInbox(ctx, rdb.InboxMerge{Reader: reader, Stamp: stamp, Entries: []services.FeedEntry{*entry}})
			if err != nil || merged.Status == redis.Retry {
				return false, err
			}
			result = merged
			return true, nil
		},
	}.Run(ctx)
	return result, err
}

// entryFor is a post as an entry of a reader's inbox; nil when the post is not for the reader: it is gone, in no feed,
// pulled, or its author is not followed. A pulled post is in its author's own inbox alone.
func (f *Fanout) entryFor(ctx context.Context, reader services.UserID, id services.PostID) (*services.FeedEntry, error) {
	found, err := posts.ByID(ctx, f.db, []services.PostID{id})
	if err != nil {
		return nil, err
	}
	post, ok := found[id]
	// Unlike in fanOut, this is no error: a reader may ask for a post that was deleted since it was listed as in flight.
	if !ok || post.Deleted || post.OffFeed || post.Pulled && reader != post.Author {
		return nil, nil
	}
	entry := &services.FeedEntry{Post: id, Author: post.Author}
	if reader != post.Author {
		edge, follows, err := people.Edge(ctx, f.db, reader, post.Author)
		if err != nil || !follows {
			return nil, err
		}
		entry.CountsAsNew = id > edge.PostsCountAfter
	}
	return entry, nil
}
