package fanout

import (
	"context"
	"encoding/json"
	"fmt"

	"tidings/services"
	"tidings/services/mirror"
	"tidings/services/rdb"
	"tidings/services/store"
)

// spread serves the author himself and then his followers: at once when they are one chunk, else by a job a chunk,
// put in the parent's place in one transaction. A pulled post is carried to the author alone; of a post that is in no feed
// there is only the copy to bring up to date.
func (f *Fanout) spread(ctx context.Context, job store.Job, id services.PostID) error {
	posts, err := f.store.Posts(ctx, []services.PostID{id})
	if err != nil {
		return err
	}
	post, ok := posts[id]
	if !ok {
		return fmt.Errorf("post %s of job %s is not there", id, job.Kind)
	}
	f.ids.Observe(id)
	kind := jobPush
	if job.Kind == jobRemove {
		kind = jobDrop
	}
	if post.OffFeed {
		return f.redis.PutCopies(ctx, []services.Post{post}, nil)
	}
	if err := f.own(ctx, kind, post); err != nil || post.Pull {
		return err
	}
	spans, err := f.spans(ctx, post)
	if err != nil || len(spans) == 0 {
		return err
	}
	if len(spans) == 1 {
		return f.chunk(ctx, kind, spans[0])
	}
	err = f.store.Write(ctx, func(tx *store.Tx) error {
		finished, err := tx.FinishJobs(ctx, []store.Job{job})
		if err == nil && finished == 0 {
			err = services.Errorf(services.Unavailable, "job %s of post %s was taken over by another worker", job.Kind, id)
		}
		if err != nil {
			return err
		}
		chunks := make([]store.NewJob, len(spans))
		for i, span := range spans {
			payload, err := json.Marshal(span)
			if err != nil {
				return fmt.Errorf("chunk of %s: %w", id, err)
			}
			chunks[i] = store.NewJob{Kind: kind, Payload: payload}
		}
		return tx.Enqueue(ctx, chunks...)
	})
	if err != nil {
		return err
	}
	f.Wake()
	return errFinished
}

// own serves the author's feed and the copy of the post.
func (f *Fanout) own(ctx context.Context, kind string, post services.Post) error {
	if err := f.redis.PutCopies(ctx, []services.Post{post}, nil); err != nil {
		return err
	}
	if kind == jobDrop {
		return f.drop(ctx, post, []services.UserNumber{post.Author})
	}
	return f.AddOwn(ctx, post)
}

// AddOwn puts a post into its author's own feed, where it does not count.
func (f *Fanout) AddOwn(ctx context.Context, post services.Post) error {
	result, err := f.addAgain(ctx, post.Author, post.ID)
	if err != nil {
		return err
	}
	f.hint(ctx, []services.UserNumber{post.Author}, []rdb.Result{result})
	return nil
}

// DropOwn takes a deleted post out of its author's own feed.
func (f *Fanout) DropOwn(ctx context.Context, author services.UserNumber, id services.PostID) error {
	return f.drop(ctx, services.Post{ID: id, Author: author}, []services.UserNumber{author})
}

// spans cuts the author's followers into chunks.
func (f *Fanout) spans(ctx context.Context, post services.Post) ([]span, error) {
	var spans []span
	after := services.UserNumber(0)
	for {
		edges, err := f.store.Followers(ctx, post.Author, after, f.cfg.Chunk, f.activeSince())
		if err != nil {
			return nil, err
		}
		if len(edges) == 0 {
			return spans, nil
		}
		last := edges[len(edges)-1].Follower
		full := len(edges) == f.cfg.Chunk
		spans = append(spans, span{Post: post.ID, After: after, To: last})
		if !full {
			spans[len(spans)-1].To = ^services.UserNumber(0)
			return spans, nil
		}
		after = last
	}
}

// chunk serves one span of followers, as SQL has them when it runs.
func (f *Fanout) chunk(ctx context.Context, kind string, chunk span) error {
	stamp, err := f.redis.Now(ctx)
	if err != nil {
		return err
	}
	posts, err := f.store.Posts(ctx, []services.PostID{chunk.Post})
	if err != nil {
		return err
	}
	post, ok := posts[chunk.Post]
	if !ok {
		return fmt.Errorf("post %s of job %s is not there", chunk.Post, kind)
	}
	if kind == jobPush && post.Deleted {
		return nil
	}
	for after := chunk.After; ; {
		edges, err := f.store.Followers(ctx, post.Author, after, f.cfg.Chunk, f.activeSince())
		if err != nil {
			return err
		}
		more := len(edges) == f.cfg.Chunk
		for len(edges) > 0 && edges[len(edges)-1].Follower > chunk.To {
			edges, more = edges[:len(edges)-1], false
		}
		if len(edges) == 0 {
			return nil
		}
		if kind == jobPush {
			err = f.push(ctx, stamp, post, edges)
		} else {
			err = f.drop(ctx, post, followers(edges))
		}
		if err != nil || !more {
			return err
		}
		after = edges[len(edges)-1].Follower
	}
}

// push adds the post to the followers' inboxes. A refused one is read again by itself.
func (f *Fanout) push(ctx context.Context, stamp rdb.Stamp, post services.Post, edges []services.Edge) error {
	adds := make([]rdb.Add, len(edges))
	for i, edge := range edges {
		entry := services.FeedEntry{Post: post.ID, Author: post.Author, Counts: post.ID > edge.Since}
		adds[i] = rdb.Add{Reader: edge.Follower, Entry: entry}
	}
	results, err := f.redis.AddToInboxes(ctx, stamp, adds)
	if err != nil {
		return err
	}
	for i, result := range results {
		if result.Status == rdb.Retry {
			if results[i], err = f.addAgain(ctx, edges[i].Follower, post.ID); err != nil {
				return err
			}
		}
	}
	f.hint(ctx, followers(edges), results)
	return nil
}

// drop takes the post out of the readers' inboxes. Where that leaves too little, a refill is queued.
func (f *Fanout) drop(ctx context.Context, post services.Post, readers []services.UserNumber) error {
	results, err := f.redis.DeleteFromInboxes(ctx, readers, post.ID, post.Author)
	if err != nil {
		return err
	}
	f.hint(ctx, readers, results)
	return f.refillLater(ctx, readers, results)
}

func (f *Fanout) refillLater(ctx context.Context, readers []services.UserNumber, results []rdb.Result) error {
	var refills []store.NewJob
	for i, result := range results {
		if result.Short {
			refills = append(refills, keyed(jobRefill, mirror.UserNumberText(readers[i])))
		}
	}
	if len(refills) == 0 {
		return nil
	}
	return f.store.Write(ctx, func(tx *store.Tx) error { return tx.Enqueue(ctx, refills...) })
}

func followers(edges []services.Edge) []services.UserNumber {
	numbers := make([]services.UserNumber, len(edges))
	for i, edge := range edges {
		numbers[i] = edge.Follower
	}
	return numbers
}
