package fanout

import (
	"context"
	"encoding/json"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/rdb"
	"tidings/services/redis"
)

// Parts of fan-out that tests run one by one.

// Push adds a post to inboxes with a stamp and edges that were read before.
func (f *Fanout) Push(ctx context.Context, stamp redis.Stamp, post services.Post, edges []services.Edge) error {
	return f.push(ctx, stamp, post, edges)
}

// DeliverChunk delivers a chunk to inboxes, and does not record that the chunk is done.
func (f *Fanout) DeliverChunk(ctx context.Context, job jobs.Job) error {
	var chunk postChunk
	if err := json.Unmarshal(job.Payload, &chunk); err != nil {
		return err
	}
	return f.serveChunk(ctx, jobPush, chunk)
}

// Name lets followers' documents name the author, with a stamp and edges that were read before.
func (f *Fanout) Name(ctx context.Context, stamp redis.Stamp, edges []services.Edge) error {
	return f.WriteNames(ctx, rdb.PulledAuthors, stamp, edges)
}

// FindMode sets an author's mode by their number of followers.
func (f *Fanout) FindMode(ctx context.Context, author services.UserID) error {
	return f.findMode(ctx, author)
}
