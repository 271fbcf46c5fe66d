package fanout

import (
	"context"

	"tidings/services"
	"tidings/services/rdb"
)

const (
	onlinePerChunk = 20_000 // people who are online, of whom a chunk looks for the followers
	onlineBatch    = 1000   // of them in one question
)

// onlineChunks are the chunks by which those of a post's followers who are online get it first: each has a part of all
// who are online. Where these are many more than the followers, looking for them would take longer than serving everyone.
func (f *Fanout) onlineChunks(ctx context.Context, post services.Post, spans int) ([]span, error) {
	online, err := f.redis.CountOnline(ctx)
	if err != nil || online == 0 || online > 10*spans*f.cfg.Chunk {
		return nil, err
	}
	count := min((online+onlinePerChunk-1)/onlinePerChunk, rdb.OnlineShards)
	chunks := make([]span, count)
	for i := range chunks {
		from, to := i*rdb.OnlineShards/count, (i+1)*rdb.OnlineShards/count
		chunks[i] = span{Post: post.ID, Author: post.Author, Shard: from, Shards: to - from}
	}
	return chunks, nil
}

// pushOnline serves the followers among those who are online now.
func (f *Fanout) pushOnline(ctx context.Context, stamp rdb.Stamp, post services.Post, chunk span) error {
	for shard := chunk.Shard; shard < chunk.Shard+chunk.Shards; shard++ {
		online, err := f.redis.Online(ctx, shard)
		if err != nil {
			return err
		}
		for len(online) > 0 {
			batch := online[:min(onlineBatch, len(online))]
			online = online[len(batch):]
			following, err := f.store.Edges(ctx, batch, post.Author)
			if err != nil {
				return err
			}
			edges := make([]services.Edge, 0, len(following))
			for _, user := range batch {
				if edge, follows := following[user]; follows {
					edges = append(edges, edge)
				}
			}
			if len(edges) == 0 {
				continue
			}
			if err := f.push(ctx, stamp, post, edges); err != nil {
				return err
			}
		}
	}
	return nil
}
