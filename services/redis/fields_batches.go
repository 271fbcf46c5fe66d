package redis

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"tidings/services/trace"
)

// The limits of the batches of fieldReadBatcher.
const (
	// With two batches the server works on one while the answers to the other are read. 256 reads of a document are
	// about 100 KB of answers.
	maxRunningFieldBatches = 2   // the most batches that may be under way at a time
	fieldBatchSize         = 256 // the greatest number of reads in a batch
)

// fieldReadBatcher joins concurrent reads into pipelines without a goroutine of its own. A read that finds fewer than
// maxRunningFieldBatches under way leads a batch itself, at once. Other reads wait; when a batch has ended, the first waiting read leads
// the next batch, together with the reads that wait by then. So the slower the server, the larger the batches.
type fieldReadBatcher struct {
	client    redis.UniversalClient // sends the batches
	readGuard *guard                // nil: no guard
	maxWait   time.Duration         // the longest wait of a read: for the batch before it, and for its own batch
	ctx       context.Context       // of the pipelines that send the batches

	mu              sync.Mutex   // guards waiting and batchesUnderWay
	waiting         []*fieldRead // reads that no batch has taken; empty unless maxRunningFieldBatches are under way
	batchesUnderWay int          // at most maxRunningFieldBatches
}

// fieldRead is one read. While it waits in fieldReadBatcher.waiting, its goroutine waits for leadsNext.
type fieldRead struct {
	command   *redis.RawCmd // reads one key, and has the reply in the end
	leadsNext chan bool     // true: it leads the next batch; false: it is answered
}

// newFieldReads makes the batcher of a client's reads; within is the time that a batch may take.
func newFieldReads(client redis.UniversalClient, readGuard *guard, within time.Duration) *fieldReadBatcher {
	return &fieldReadBatcher{client: client, readGuard: readGuard, maxWait: 2 * within, ctx: WithReadGuard(context.Background())}
}

// process sends a command: in a batch if the caller's deadline leaves time for two batches, the one before it and its own; otherwise
// alone.
func (r *fieldReadBatcher) process(ctx context.Context, one *fieldRead) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// The guard refuses here, before the read waits for a batch that would be refused.
	if r.readGuard.refuses() {
		return gobreaker.ErrOpenState
	}
	// A read without time for two batches is sent alone with its own deadline. A batch does not end at the deadline of one caller.
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < r.maxWait {
		return r.client.Process(ctx, guardedReadCmd{noRetryCmd{one.command}})
	}
	countRoundTrip(ctx)
	_, span := trace.Start(ctx, "redis", "shared read")
	r.join(one)
	err := one.command.Err()
	endSpan(span, err)
	return err
}

// join waits until the read is answered, and leads a batch if it is its turn.
func (r *fieldReadBatcher) join(one *fieldRead) {
	r.mu.Lock()
	if r.batchesUnderWay < maxRunningFieldBatches {
		r.batchesUnderWay++
	} else {
		r.waiting = append(r.waiting, one)
		r.mu.Unlock()
		if leads := <-one.leadsNext; !leads {
			return
		}
		r.mu.Lock()
	}
	var room [16]*fieldRead
	// This read leads a batch of itself and of the waiting reads, of which the reads that have waited longest come first.
	others := min(len(r.waiting), fieldBatchSize-1)
	batch := append(append(room[:0], one), r.waiting[:others]...)
	r.dropWaiting(others)
	r.mu.Unlock()
	// The call is deferred, because after a panic in a hook the other reads must not wait for ever.
	defer r.finish(batch, one)
	r.send(batch)
}

// send sends a batch and waits for its answers.
func (r *fieldReadBatcher) send(batch []*fieldRead) {
	pipe := r.client.Pipeline()
	for _, one := range batch {
		_ = pipe.Process(r.ctx, one.command) // it only queues
	}
	_, _ = pipe.Exec(r.ctx) // each command has its own error
}

// finish lets the first of the waiting reads lead, and signals all reads of the batch, except its leader, that they are answered.
func (r *fieldReadBatcher) finish(batch []*fieldRead, leader *fieldRead) {
	r.mu.Lock()
	if len(r.waiting) > 0 {
		// The next batch takes the place of the ended one, so batchesUnderWay stays as it is.
		r.waiting[0].leadsNext <- true
		r.dropWaiting(1)
	} else {
		r.batchesUnderWay--
	}
	r.mu.Unlock()
	for _, one := range batch {
		if one != leader {
			one.leadsNext <- false
		}
	}
}

// dropWaiting removes the first count waiting reads. The lock is held.
func (r *fieldReadBatcher) dropWaiting(count int) {
	left := copy(r.waiting, r.waiting[count:])
	// The array is kept for the next reads, without pointers to the answered reads.
	clear(r.waiting[left:])
	r.waiting = r.waiting[:left]
}
