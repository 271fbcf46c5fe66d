package rdb

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// auto is the client for single reads under load: those that come at the same time share one round trip. It counts
// as the plain client does, keeps the deadline of the context, and has the same errors. A call whose context is only
// cancelled ends after twice the read timeout at the latest.
func (c *Client) auto() redis.Cmdable { return c.shared }

// newShared makes the face of auto. The library's automatic pipeline runs its batches in a context of its own, which
// neither counts for the caller nor ends with him; a hook on a client that never dials sees each call first.
func newShared(client redis.UniversalClient, readTimeout time.Duration) (*redis.Client, error) {
	batches, err := client.AutoPipeline()
	if err != nil {
		return nil, err
	}
	face := redis.NewClient(&redis.Options{Addr: "shared", PipelinePoolSize: -1, MaxRetries: -1, Protocol: 2})
	face.AddHook(sharedHook{client: client, batches: batches, longest: 2 * readTimeout})
	return face, nil
}

type sharedHook struct {
	client  redis.UniversalClient
	batches *redis.AutoPipeliner
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
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < h.longest {
			return h.client.Process(ctx, once{cmd})
		}
		countRoundTrip(ctx)
		return h.batches.Process(ctx, once{cmd})
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
