package fanout

import (
	"context"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/nodecache"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/sql"
)

// postChunk is a post and a chunk of its author's followers, for a push of the post or its removal: the followers with IDs above After,
// up to To. With OnlineOnly it serves only the followers in this range who are online now. With OnlineShardCount it serves, in place of a
// range, the followers among the online users of that many shards. It is the payload of jobs: the names of its fields are stored, and a
// node of the release before may read them.
type postChunk struct {
	Post services.PostID `json:"post"`
	// Author is the author of the post, so that a chunk can end the fan-out without a read of the post.
	Author           services.UserID `json:"author"`
	After            services.UserID `json:"after,omitempty"`  // the followers' IDs are greater than this
	To               services.UserID `json:"to,omitempty"`     // the greatest ID that a follower of the chunk may have
	FirstOnlineShard int             `json:"shard,omitempty"`  // the first shard of online users, with OnlineShardCount
	OnlineShardCount int             `json:"shards,omitempty"` // how many shards of online users; 0: the chunk is a range of followers
	OnlineOnly       bool            `json:"online,omitempty"` // only the followers in the range who are online

	// OnlineFirst serves all followers, the online ones first: for a fan-out of one chunk. The field is not stored, because that chunk runs
	// within the job that would split it off.
	OnlineFirst bool `json:"-"`
}

// namedUsers are the users that a job of the chunk names.
func (c postChunk) namedUsers() []services.UserID { return []services.UserID{c.Author} }

// fanOut brings a post to its author and then to their followers, or takes a deleted post from them: at once when the followers are one
// chunk, else by a job for each chunk. These jobs replace the given job in one transaction. A pulled post goes to the author's feed
// alone. For a post that is in no feed, only its copy in Redis is updated. Every step may be repeated.
func (f *Fanout) fanOut(ctx context.Context, job jobs.Job, id services.PostID) error {
	found, err := posts.ByID(ctx, f.db, []services.PostID{id})
	if err != nil {
		return err
	}
	post, ok := found[id]
	// The job was committed with the post, so a missing post is a bug or a damaged database: the job fails until it is dead.
	if !ok {
		return fmt.Errorf("post %s of job %s is not there", id, job.Kind)
	}
	// A follow that this node makes from now on gets a later ID, so the post does not count for that follower.
	f.ids.Observe(services.SortableID(id))
	kind := jobPushChunk
	if job.Kind == jobRemovePost {
		kind = jobDropChunk
	}
	if post.OffFeed {
		return f.redis.PutCopies(ctx, []services.Post{post}, nil)
	}
	// The author is served first: they look at their own post now, and serving them takes one script.
	if err := f.pushOrDropForAuthor(ctx, kind, post); err != nil || post.Pulled {
		return err
	}
	chunks, err := f.chunks(ctx, kind, post)
	switch {
	case err != nil || len(chunks) == 0:
		return err
	case len(chunks) > 1:
		return f.splitIntoChunkJobs(ctx, job, kind, post, chunks)
	default:
		// One chunk is as short as the other jobs of this class. As a job of its own, the chunk would only wait for a worker once
		// more.
		chunks[0].OnlineFirst = true
		return f.pushOrDropChunk(ctx, kind, chunks[0])
	}
}

// splitIntoChunkJobs replaces the job of a fan-out by one job for each chunk of followers. For a new post, only the chunks of online
// followers are queued now; the last of these queues the others. From now on every node knows that the post is in flight. A deletion
// needs no such record: feeds leave out a deleted post because its copy, which pushOrDropForAuthor has updated, says so.
func (f *Fanout) splitIntoChunkJobs(ctx context.Context, job jobs.Job, kind string, post services.Post, chunks []postChunk) error {
	count := len(chunks)
	if kind == jobPushChunk {
		online, err := f.onlineChunks(ctx, post, chunks)
		if err != nil {
			return err
		}
		if len(online) > 0 {
			kind, chunks, count = jobPushOnlineChunk, online, len(online)+1 // the extra one stands for all chunks queued later
		}
	}
	queued, err := jobs.ChunkJobs(kind, chunks)
	if err != nil {
		return err
	}
	if kind == jobDropChunk {
		return f.jobs.Replace(ctx, job, queued)
	}
	// One transaction ends the job, stores the number of chunks, announces the fan-out to the nodes and queues the chunks: a crash leaves
	// all or nothing.
	return f.jobs.FinishWith(ctx, job, func(tx *sql.Tx) error {
		fanout := posts.InFlightFanout{Post: post.ID, Author: post.Author}
		if err := posts.BeginFanout(ctx, tx, fanout, count); err != nil {
			return err
		}
		if err := (nodecache.FanoutChange{InFlightFanout: fanout}).Append(ctx, tx); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, queued...)
	})
}

// runPostChunk serves one of the chunks that a job was split into. The last chunk ends the fan-out on all nodes. A chunk whose job is
// dead counts as not done: the fan-out stays in flight, and pages merge the post in.
func (f *Fanout) runPostChunk(ctx context.Context, job jobs.Job, chunk postChunk) error {
	if job.Kind == jobDropChunk {
		return f.pushOrDropChunk(ctx, jobDropChunk, chunk)
	}
	if err := f.pushOrDropChunk(ctx, jobPushChunk, chunk); err != nil {
		return err
	}
	err := f.db.Write(ctx, func(tx *sql.Tx) error {
		// Finish comes first: it refuses a worker whose lease was lost, so that the number of open chunks falls once for each
		// chunk.
		if err := jobs.Finish(ctx, tx, job); err != nil {
			return err
		}
		left, err := posts.EndFanoutChunk(ctx, tx, chunk.Post)
		if err != nil || left != 0 {
			return err
		}
		return chunk.announceFanoutEnd(ctx, tx)
	})
	if err != nil {
		return err
	}
	return jobs.ErrFinished
}

// announceFanoutEnd announces to all nodes that every follower has the chunk's post.
func (c postChunk) announceFanoutEnd(ctx context.Context, tx *sql.Tx) error {
	return nodecache.FanoutChange{InFlightFanout: posts.InFlightFanout{Post: c.Post, Author: c.Author}, Ended: true}.Append(ctx, tx)
}

// pushOrDropForAuthor updates the copy of the post in Redis and the author's feed. The copy comes first: a page that finds the entry then
// finds its text in Redis.
func (f *Fanout) pushOrDropForAuthor(ctx context.Context, kind string, post services.Post) error {
	if err := f.redis.PutCopies(ctx, []services.Post{post}, nil); err != nil {
		return err
	}
	if kind == jobDropChunk {
		return f.dropFromInboxes(ctx, post, []services.UserID{post.Author})
	}
	return f.AddToOwnFeed(ctx, post)
}

// AddToOwnFeed puts a post into its author's own feed, where it does not count. The command that publishes calls it too, so
// that authors see their post at once; the job repeats it without effect.
func (f *Fanout) AddToOwnFeed(ctx context.Context, post services.Post) error {
	result, err := f.mergePostIntoInbox(ctx, post.Author, post.ID)
	if err != nil {
		return err
	}
	return f.projector.HintAndMark(ctx, []services.UserID{post.Author}, []redis.Result{result})
}

// DropFromOwnFeed takes a deleted post out of its author's own feed, for the command that deletes.
func (f *Fanout) DropFromOwnFeed(ctx context.Context, author services.UserID, id services.PostID) error {
	return f.dropFromInboxes(ctx, services.Post{ID: id, Author: author}, []services.UserID{author})
}

// chunks splits the author's followers into chunks of the post's fan-out. The number of queries grows with the
// audience: one for each chunk.
func (f *Fanout) chunks(ctx context.Context, kind string, post services.Post) ([]postChunk, error) {
	since, err := f.lastSeenCutoff(ctx, kind, post)
	if err != nil {
		return nil, err
	}
	parts, err := f.FollowerChunks(ctx, post.Author, since)
	return services.Map(parts, func(part FollowerChunk) postChunk {
		return postChunk{Post: post.ID, Author: post.Author, After: part.After, To: part.To}
	}), err
}

// lastSeenCutoff returns the cutoff time of a fan-out: followers last seen before it are not served. A deletion goes to everyone
// who is not dormant, because the author may have been small when the post was published.
func (f *Fanout) lastSeenCutoff(ctx context.Context, kind string, post services.Post) (since time.Time, err error) {
	if kind == jobDropChunk {
		return f.projector.DormantBefore(), nil
	}
	return f.PushLastSeenCutoff(ctx, post.Author)
}

// PushLastSeenCutoff is the cutoff for an author's posts: followers who were seen since then get them pushed. For a small author these
// are all users who are not dormant, for any other author the active users. The cutoffs have some slack, so that everyone whose document
// is shown without a rebuild is served: see projector.IdleBefore. The mode is read when a chunk runs. If it has changed since the split,
// some followers may be served without need. The documents of followers who are not served count as documents of idle users, and are
// rebuilt before they are shown.
func (f *Fanout) PushLastSeenCutoff(ctx context.Context, author services.UserID) (since time.Time, err error) {
	mode, err := posts.ModeOf(ctx, f.db.Runner, author)
	if err != nil || mode == services.AuthorSmall {
		return f.projector.DormantBefore(), err
	}
	return f.projector.IdleBefore(), nil
}

// FollowerChunks splits the followers of an author who were seen since a time into chunks. The last chunk has no upper end: it
// includes users who follow or return before its job runs. Without such followers there are no chunks.
func (f *Fanout) FollowerChunks(ctx context.Context, author services.UserID, since time.Time) (chunks []FollowerChunk, err error) {
	// The pages need no common transaction: the chunks are ranges that meet, so no user is left out, whoever follows or unfollows
	// meanwhile.
	for after := services.UserID(0); ; {
		edges, err := people.Followers(ctx, f.db, author, after, f.ChunkSize, since)
		if err != nil {
			return chunks, err
		}
		if len(edges) == 0 {
			if len(chunks) > 0 { // the last chunk is full, and still has no upper end
				chunks[len(chunks)-1].To = ^services.UserID(0)
			}
			return chunks, nil
		}
		chunk := allFollowers(author)
		chunk.After = after
		if len(edges) < f.ChunkSize {
			return append(chunks, chunk), nil
		}
		chunk.To = edges[len(edges)-1].Follower
		chunks, after = append(chunks, chunk), chunk.To
	}
}

// allFollowers returns one chunk of all followers that the author has when the chunk is read.
func allFollowers(author services.UserID) FollowerChunk {
	return FollowerChunk{Author: author, To: ^services.UserID(0)}
}

// EachFollower calls do with the followers of a chunk who were seen since a time, as SQL has them now, up to ChunkSize at a time.
func (f *Fanout) EachFollower(ctx context.Context, chunk FollowerChunk, since time.Time, do func(edges []services.FollowEdge) error) error {
	for after := chunk.After; ; {
		edges, err := people.Followers(ctx, f.db, chunk.Author, after, f.ChunkSize, since)
		if err != nil {
			return err
		}
		// A full chunk that has not changed since the split is one page, and no further page is read.
		more := len(edges) == f.ChunkSize && edges[len(edges)-1].Follower < chunk.To
		// The query has no upper bound: its last page may reach into the next chunk.
		for len(edges) > 0 && edges[len(edges)-1].Follower > chunk.To {
			edges, more = edges[:len(edges)-1], false
		}
		if len(edges) == 0 {
			return nil
		}
		if err := do(edges); err != nil || !more {
			return err
		}
		after = edges[len(edges)-1].Follower
	}
}

// pushOrDropChunk pushes a post to one chunk of followers or, if kind is jobDropChunk, takes it from them. The followers are those that
// SQL has when it runs.
func (f *Fanout) pushOrDropChunk(ctx context.Context, kind string, chunk postChunk) error {
	// The stamp is taken before every read of SQL below: an inbox from which something was removed after the stamp refuses the
	// post. The post and the follow are then read again for that reader (pushToInboxes).
	stamp, err := f.redis.Client.Now(ctx)
	if err != nil {
		return err
	}
	found, err := posts.ByID(ctx, f.db, []services.PostID{chunk.Post})
	if err != nil {
		return err
	}
	post, ok := found[chunk.Post]
	if !ok {
		return fmt.Errorf("post %s of job %s is not there", chunk.Post, kind)
	}
	// The deletion has a job of its own. A push now would bring back entries that the deletion's job may have removed already.
	if kind == jobPushChunk && post.Deleted {
		return nil
	}
	if chunk.OnlineShardCount > 0 {
		return f.pushOnline(ctx, stamp, post, chunk)
	}
	since, err := f.lastSeenCutoff(ctx, kind, post)
	if err != nil {
		return err
	}
	return f.EachFollower(ctx, FollowerChunk{post.Author, chunk.After, chunk.To}, since, func(edges []services.FollowEdge) error {
		if kind == jobDropChunk {
			return f.dropFromInboxes(ctx, post, FollowerIDs(edges))
		}
		if !chunk.OnlineOnly && !chunk.OnlineFirst {
			return f.pushToInboxes(ctx, stamp, post, edges)
		}
		// A chunk of online followers leaves the others to the chunks that are queued after it.
		online, others, err := f.splitOnline(ctx, edges)
		if err == nil && len(online) > 0 {
			err = f.pushToInboxes(ctx, stamp, post, online)
		}
		if err == nil && len(others) > 0 && chunk.OnlineFirst {
			err = f.pushToInboxes(ctx, stamp, post, others)
		}
		return err
	})
}

// pushToInboxes adds the post to the followers' inboxes. The stamp was taken before the post and the follows (edges) were read. An inbox
// that has lost anything since then may have lost this author: it refuses the post, and the post and the follow are read again for its
// reader.
func (f *Fanout) pushToInboxes(ctx context.Context, stamp redis.ClockStamp, post services.Post, edges []services.FollowEdge) error {
	adds := make([]rdb.InboxPost, len(edges))
	for i, edge := range edges {
		// A post from before the follow is listed and does not count.
		entry := services.FeedEntry{Post: post.ID, Author: post.Author, CountsAsNew: post.ID > edge.PostsCountAfter}
		adds[i] = rdb.InboxPost{Reader: edge.Follower, Entry: entry}
	}
	results, err := f.redis.AddToInboxes(ctx, stamp, adds)
	if err != nil {
		return err
	}
	for i, result := range results {
		if result.Status == redis.Retry {
			if results[i], err = f.mergePostIntoInbox(ctx, edges[i].Follower, post.ID); err != nil {
				return err
			}
		}
	}
	for _, result := range results {
		// Unchanged means that the entry was there already: from an earlier run, or from a page that was read for the reader.
		if result.Status == redis.Applied {
			f.deliveredEntries.Add(1)
		}
	}
	return f.projector.HintAndMark(ctx, FollowerIDs(edges), results)
}

// FollowerIDs returns the followers of a list of follows.
func FollowerIDs(edges []services.FollowEdge) []services.UserID {
	return services.Map(edges, func(edge services.FollowEdge) services.UserID { return edge.Follower })
}
