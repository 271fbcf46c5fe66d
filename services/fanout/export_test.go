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

// PushPost adds a post to inboxes, by a stamp and follows (edges) that the test has read before.
func (f *Fanout) PushPost(ctx context.Context, stamp redis.ClockStamp, post services.Post, edges []services.FollowEdge) error {
	return f.pushToInboxes(ctx, stamp, post, edges)
}

// DeliverChunk pushes a post to the followers of a chunk, and does not record that the chunk is done.
func (f *Fanout) DeliverChunk(ctx context.Context, job jobs.Job) error {
	var chunk postChunk
	if err := json.Unmarshal(job.Payload, &chunk); err != nil {
		return err
	}
	return f.pushOrDropChunk(ctx, jobPushChunk, chunk)
}

// AddAuthorToDocuments adds the author to the pulled authors in followers' documents, by a stamp and follows (edges) that the test has
// read before.
func (f *Fanout) AddAuthorToDocuments(ctx context.Context, stamp redis.ClockStamp, edges []services.FollowEdge) error {
	return f.NameAuthorsInDocuments(ctx, rdb.PulledAuthorsField, stamp, edges)
}

// UpdateAuthorMode sets an author's mode by their number of followers.
func (f *Fanout) UpdateAuthorMode(ctx context.Context, author services.UserID) error {
	return f.updateMode(ctx, author)
}
