package fanout

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/sql"
)

// A chunk of online users looks up a follow for each of them, a thousand in one query: 20 queries, and as many round trips to
// Redis.
const (
	onlineUsersPerChunk = 20_000 // the most online users that one chunk checks
	onlineUsersPerQuery = 1000   // users looked up in one query
)

// onlineChunks returns the chunks that deliver a post to online followers before all others; none when no user is online. Each
// chunk checks a part of all online users. If online users are many more than followers, each chunk checks a part of the
// followers instead, because that is faster. A user who comes online later is served with all others, or by AddInFlightPosts.
func (f *Fanout) onlineChunks(ctx context.Context, post services.Post, chunks []postChunk) ([]postChunk, error) {
	online, err := f.redis.Presence.CountOnline(ctx)
	if err != nil || online == 0 {
		return nil, err
	}
	// Ten to one is an estimate of the costs. An online user costs one look-up in SQL. A follower costs a row of the follow
	// and a row of the user in SQL, and a member of a set in Redis.
	if online > 10*len(chunks)*f.ChunkSize {
		followers := slices.Clone(chunks)
		for i := range followers {
			followers[i].OnlineOnly = true
		}
		return followers, nil
	}
	count := min((online+onlineUsersPerChunk-1)/onlineUsersPerChunk, rdb.OnlineShards)
	parts := make([]postChunk, count)
	for i := range parts {
		// The parts meet without a gap, whatever the count.
		from, to := i*rdb.OnlineShards/count, (i+1)*rdb.OnlineShards/count
		parts[i] = postChunk{Post: post.ID, Author: post.Author, FirstOnlineShard: from, OnlineShardCount: to - from}
	}
	return parts, nil
}

// runOnlineChunk serves a chunk of the online followers. The last such chunk queues the chunks of all followers. A chunk that keeps
// failing holds up the chunks of all followers only until its last try: those chunks also serve the users that it missed.
func (f *Fanout) runOnlineChunk(ctx context.Context, job jobs.Job, chunk postChunk) error {
	if err := f.pushOrDropChunk(ctx, jobPushChunk, chunk); err != nil {
		// An engine that does not answer would not answer the other chunks either. On its last try the job ends as if
		// it had served.
		if services.IsUnavailable(err) || job.Tries+1 < jobs.MaxTries {
			return err
		}
		f.log.Error("online followers are served with all others", "key", job.Key, "tries", job.Tries+1, "error", err)
	}
	// Only the last chunk needs rest. But a chunk learns only in the transaction below that it is the last, and long reads must
	// not run there.
	rest, err := f.chunks(ctx, jobPushChunk, services.Post{ID: chunk.Post, Author: chunk.Author})
	if err != nil {
		return err
	}
	chunks, err := jobs.ChunkJobs(jobPushChunk, rest)
	if err != nil {
		return err
	}
	return f.jobs.FinishWith(ctx, job, func(tx *sql.Tx) error {
		left, err := posts.EndFanoutChunk(ctx, tx, chunk.Post)
		// left counts one for the chunks that are not queued yet. The others that it counts are online chunks that still run.
		if err != nil || left > 1 {
			return err
		}
		if len(chunks) == 0 { // all followers have unfollowed since
			if left, err = posts.EndFanoutChunk(ctx, tx, chunk.Post); err != nil || left != 0 {
				return err
			}
			return chunk.announceFanoutEnd(ctx, tx)
		}
		// The number of open chunks held one for all of the queued chunks; now it counts each of them.
		if err := posts.ResizeFanout(ctx, tx, chunk.Post, len(chunks)); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, chunks...)
	})
}

// splitOnline separates the followers who are online now from the others. The answer of Redis may be as old as a lease, but it only
// decides who gets the post first.
func (f *Fanout) splitOnline(ctx context.Context, edges []services.FollowEdge) (online, others []services.FollowEdge, err error) {
	isOnline, err := f.redis.Presence.OnlineOf(ctx, FollowerIDs(edges))
	if err != nil {
		return nil, nil, err
	}
	for _, edge := range edges {
		if isOnline[edge.Follower] {
			online = append(online, edge)
		} else {
			others = append(others, edge)
		}
	}
	return online, others, nil
}

// pushOnline pushes a post to its author's followers among the online users of the chunk's shards. The stamp was taken before the follows
// are read.
func (f *Fanout) pushOnline(ctx context.Context, stamp redis.ClockStamp, post services.Post, chunk postChunk) error {
	for shard := chunk.FirstOnlineShard; shard < chunk.FirstOnlineShard+chunk.OnlineShardCount; shard++ {
		online, err := f.redis.Presence.OnlineInShard(ctx, shard)
		if err != nil {
			return err
		}
		for len(online) > 0 {
			batch := online[:min(onlineUsersPerQuery, len(online))]
			online = online[len(batch):]
			following, err := people.Edges(ctx, f.db, batch, post.Author)
			if err != nil {
				return err
			}
			edges := make([]services.FollowEdge, 0, len(following))
			// Follows are added in the order of the batch, because a map has no order: scripts then run in an order that a test can repeat.
			for _, user := range batch {
				if edge, follows := following[user]; follows {
					edges = append(edges, edge)
				}
			}
			if len(edges) == 0 {
				continue
			}
			if err := f.pushToInboxes(ctx, stamp, post, edges); err != nil {
				return err
			}
		}
	}
	return nil
}
