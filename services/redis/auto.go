package redis

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"tidings/services/trace"
)

// newBatchingClient makes the client for single reads under load: concurrent reads share one round trip. It counts round trips as the
// plain client does, keeps the context's deadline, and returns the same errors. Cancelling the context of a call that waits in a batch
// does not end the call: it ends after the read timeout at the latest, on the embedded Redis after twice that.
//
// The library's automatic pipeline runs its batches in a context of its own, which neither counts round trips for the caller nor ends
// with the caller. So each call first goes through a hook, on a client that never dials. Only one batch is sent at a time, so a call
// may wait for the batch before its own. The guard bounds both waits, and calls that wait behind a batch that timed out fail at once.
// within is the time that a batch may take. Without a guard (nil: the embedded Redis, or a cluster, whose nodes have their own) the
// calls are queued whatever the server does.
func newBatchingClient(client redis.UniversalClient, readGuard *guard, within time.Duration) (*redis.Client, error) {
	batches, err := client.AutoPipeline()
	if err != nil {
		return nil, err
	}
	// An address, and no name: the library asks the name server for a name at once.
	facade := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", PipelinePoolSize: -1, MaxRetries: -1, Protocol: 2})
	facade.AddHook(batchingHook{client: client, batches: batches, readGuard: readGuard, maxWait: 2 * within})
	return facade, nil
}

// batchingHook sends the calls of the batching client through the automatic pipeline of the real client.
type batchingHook struct {
	client    redis.UniversalClient // the real client
	batches   *redis.AutoPipeliner  // gathers calls into batches, and sends them by client
	readGuard *guard                // nil: no guard, see newBatchingClient
	maxWait   time.Duration         // the longest wait of a call in a batch: for the batch before it, and for its own
}

// DialHook refuses to dial: every call is answered by the hooks below, so nothing should ever need a connection.
func (batchingHook) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
}

// ProcessHook puts a call into the next batch. A call whose deadline comes before two batches may have ended is sent alone: a batch
// does not keep the deadline of one caller.
func (h batchingHook) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := ctx.Err(); err != nil {
			cmd.SetErr(err)
			return err
		}
		if h.readGuard.refuses() {
			cmd.SetErr(gobreaker.ErrOpenState)
			return gobreaker.ErrOpenState
		}
		// The call may wait for two batches: the one before its own, and its own.
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < h.maxWait {
			return h.client.Process(ctx, guardedReadCmd{noRetryCmd{cmd}})
		}
		// The batch runs in a context of its own, so the round trip and its span are noted here.
		countRoundTrip(ctx)
		ctx, span := trace.Start(ctx, "redis", "shared read")
		err := h.batches.Process(ctx, guardedReadCmd{noRetryCmd{cmd}})
		endSpan(span, err)
		return err
	}
}

// ProcessPipelineHook sends a pipeline unchanged: it is a batch already.
func (h batchingHook) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		pipe := h.client.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd)
		}
		_, err := pipe.Exec(ctx)
		return err
	}
}
