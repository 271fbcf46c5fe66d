package redis

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// Shared is the client for single reads under load: those that come at the same time share one round trip. It counts
// as the plain client does, keeps the deadline of the context, and has the same errors. A call whose context is only
// cancelled ends after the read timeout at the latest, on the embedded Redis after twice that.
func (c *Client) Shared() redis.Cmdable { return c.shared }

// newShared makes the face of auto. The library's automatic pipeline runs its batches in a context of its own, which
// neither counts for the caller nor ends with him; a hook on a client that never dials sees each call first.
// One batch is sent at a time, so a call may wait for the batch before its own. The guard bounds both, and what waits
// behind a batch that timed out fails at once. within is what a batch may take. Without a guard (nil: the embedded Redis, or a cluster, whose nodes have
// their own) the calls are queued whatever the server does.
func newShared(client redis.UniversalClient, readers *guard, within time.Duration) (*redis.Client, error) {
	batches, err := client.AutoPipeline()
	if err != nil {
		return nil, err
	}
	face := redis.NewClient(&redis.Options{Addr: "shared", PipelinePoolSize: -1, MaxRetries: -1, Protocol: 2})
	face.AddHook(sharedHook{client: client, batches: batches, readers: readers, longest: 2 * within})
	return face, nil
}

type sharedHook struct {
	client  redis.UniversalClient
	batches *redis.AutoPipeliner
	readers *guard
	longest time.Duration // that a call may take in a batch: the one before it, and its own
}

func (sharedHook) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
}

func (h sharedHook) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := ctx.Err(); err != nil {
			cmd.SetErr(err)
			return err
		}
		if h.readers.refuses() {
			cmd.SetErr(gobreaker.ErrOpenState)
			return gobreaker.ErrOpenState
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < h.longest {
			return h.client.Process(ctx, read{once{cmd}})
		}
		countRoundTrip(ctx)
		return h.batches.Process(ctx, read{once{cmd}})
	}
}

// ProcessPipelineHook sends a pipeline as it is: it is a batch already.
func (h sharedHook) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		pipe := h.client.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd)
		}
		_, err := pipe.Exec(ctx)
		return err
	}
}
