package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	broadcastTimeout     = 20 * time.Second       // for all events to arrive
	pauseBeforeBroadcast = 300 * time.Millisecond // longer than the shortest time between two events of a subscription
	maxBroadcastTries    = 5                      // how often a broadcast is tried if an event comes too early: see errEarlyEvent
)

// errEarlyEvent means that an event came before its hint was sent: the server's reconciliation had found the change already.
var errEarlyEvent = errors.New("an event came before it was asked for")

// eventBroadcast is a way to send one event to every socket at once.
type eventBroadcast struct {
	prepare    func(context.Context) error // runs before sendEvents and is not measured; may be nil
	sendEvents func(context.Context) error // causes the events; latencies count from its call
}

// measureBroadcasts makes a broadcast several times. It returns a sample of the latencies, each from the call of sendEvents to an
// event, and of the processor time of the server, whose process is pid.
func (f *socketFleet) measureBroadcasts(ctx context.Context, pid, times int, v eventBroadcast) (sample, error) {
	var all []time.Duration
	var cpu, took time.Duration
	known := true
	for range times {
		latencies, used, err := f.measureOneBroadcast(ctx, pid, v)
		for try := 1; errors.Is(err, errEarlyEvent) && try < maxBroadcastTries; try++ {
			latencies, used, err = f.measureOneBroadcast(ctx, pid, v)
		}
		if err != nil {
			return sample{}, err
		}
		known = known && used >= 0
		cpu += used
		took += slices.Max(latencies)
		all = append(all, latencies...)
	}
	slices.Sort(all)
	result := newSample(all, took)
	if known {
		result.serverCPUPerAnswer = cpu / time.Duration(len(all))
	}
	return result, nil
}

// measureOneBroadcast makes a broadcast once and waits until all sockets have its event. The processor time is negative if it is
// unknown.
func (f *socketFleet) measureOneBroadcast(ctx context.Context, pid int, v eventBroadcast) (latencies []time.Duration, cpu time.Duration, err error) {
	if err := pause(ctx, pauseBeforeBroadcast); err != nil {
		return nil, 0, err
	}
	all := f.expectOneEventPerSocket()
	if v.prepare != nil {
		if err := v.prepare(ctx); err != nil {
			return nil, 0, err
		}
	}
	before, beforeErr := processorTime(pid)
	start := f.nanosSinceOrigin()
	if err := v.sendEvents(ctx); err != nil {
		return nil, 0, err
	}
	if err := f.waitForEvents(ctx, all); err != nil {
		return nil, 0, err
	}
	after, afterErr := processorTime(pid)
	cpu = after - before
	if beforeErr != nil || afterErr != nil {
		cpu = -1
	}
	latencies, err = f.eventLatencies(func(int) int64 { return start })
	return latencies, cpu, err
}

// waitForEvents waits until the channel all, which expectOneEventPerSocket has returned, is closed. It is an error if that takes
// too long.
func (f *socketFleet) waitForEvents(ctx context.Context, all <-chan struct{}) error {
	select {
	case <-all:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(broadcastTimeout):
		return fmt.Errorf("%d of %d events did not come in %v; %s", f.pendingEvents.Load(), len(f.sockets), broadcastTimeout, f.describeLostSockets())
	}
}

// describeLostSockets says how many sockets are lost, and why the first of them is.
func (f *socketFleet) describeLostSockets() string {
	text := fmt.Sprintf("%d sockets are lost", f.lostSockets.Load())
	if loss := f.firstLossReason.Load(); loss != nil {
		text += ", the first one because: " + (*loss).Error()
	}
	return text
}

// eventLatencies returns, for each socket, the time from start(i) until its event came. start returns when the event of socket i was
// sent, in nanoseconds after f.timeOrigin.
func (f *socketFleet) eventLatencies(start func(i int) int64) ([]time.Duration, error) {
	latencies := make([]time.Duration, len(f.sockets))
	for i, s := range f.sockets {
		latencies[i] = time.Duration(s.eventNanos.Load() - start(i))
		if latencies[i] < 0 {
			return nil, errEarlyEvent
		}
	}
	return latencies, nil
}

// hintSender changes badge documents as the workers of a server do: it raises the version in Redis, and sends a hint to the node.
type hintSender struct {
	redis    *redis.Client
	nodeName string   // the node that gets the hints
	users    []uint32 // whose documents it changes
}

// queueNewVersions queues commands that give the users' documents a newer version. It returns the message with the hints about them.
func (h *hintSender) queueNewVersions(ctx context.Context, pipe redis.Pipeliner, users []uint32) (hints []byte) {
	n := uint64(time.Now().UnixMicro())
	hints = []byte{1} // the format
	for _, user := range users {
		pipe.HSet(ctx, documentKey(user), "n", n)
		hints = binary.AppendUvarint(binary.AppendUvarint(hints, uint64(user)), n)
	}
	return hints
}

// documentKey returns the key of a user's badge document in Redis.
func documentKey(user uint32) string { return fmt.Sprintf("{u%d}:b", user) }

// newEventBroadcast returns a broadcast that gives all documents of h.users a newer version in prepare, and sends the hints about
// them in sendEvents.
func (h *hintSender) newEventBroadcast() eventBroadcast {
	const perMessage = 4096
	var messages [][]byte
	return eventBroadcast{
		prepare: func(ctx context.Context) error {
			messages = messages[:0]
			pipe := h.redis.Pipeline()
			for part := range slices.Chunk(h.users, perMessage) {
				messages = append(messages, h.queueNewVersions(ctx, pipe, part))
			}
			_, err := pipe.Exec(ctx)
			return err
		},
		sendEvents: func(ctx context.Context) error {
			pipe := h.redis.Pipeline()
			for _, message := range messages {
				pipe.Publish(ctx, "node:"+h.nodeName, message)
			}
			_, err := pipe.Exec(ctx)
			return err
		},
	}
}

// measureEventsOverTime sends one event to each socket, evenly over a length of time. Each latency counts from the hint of the event. pid
// is the server's process, whose processor time is measured.
func (f *socketFleet) measureEventsOverTime(ctx context.Context, pid int, h *hintSender, length time.Duration) (sample, error) {
	if err := pause(ctx, pauseBeforeBroadcast); err != nil {
		return sample{}, err
	}
	const step = time.Millisecond
	all := f.expectOneEventPerSocket()
	starts := make([]int64, len(h.users))
	begin, cpu := time.Now(), startCPUTimer(pid)
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	for sent := 0; sent < len(h.users); {
		due := min(len(h.users), int(float64(len(h.users))*float64(time.Since(begin)+step)/float64(length)))
		if due > sent {
			pipe := h.redis.Pipeline()
			now := f.nanosSinceOrigin()
			for i := sent; i < due; i++ {
				starts[i] = now
			}
			pipe.Publish(ctx, "node:"+h.nodeName, h.queueNewVersions(ctx, pipe, h.users[sent:due]))
			if _, err := pipe.Exec(ctx); err != nil {
				return sample{}, err
			}
			sent = due
		}
		select {
		case <-ctx.Done():
			return sample{}, ctx.Err()
		case <-ticker.C:
		}
	}
	if err := f.waitForEvents(ctx, all); err != nil {
		return sample{}, err
	}
	latencies, err := f.eventLatencies(func(i int) int64 { return starts[i] })
	if err != nil {
		return sample{}, err
	}
	slices.Sort(latencies)
	return newSample(latencies, time.Since(begin)).withServerCPU(cpu(len(latencies))), nil
}

// pause waits for a length of time. If ctx ends before, it returns the error of ctx.
func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}
