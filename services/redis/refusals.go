package redis

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"tidings/services"
)

// A Redis that is full, read-only or cannot save still answers reads, but each refused write makes its answers older. From the
// first refusal on it is not trusted: reads are UNAVAILABLE, so that callers answer from SQL and say STALE, until Redis accepts
// writes again. A probe each second detects a refusal on a node that only reads, and also detects when the refusals end.

// A probe is a write of one key on each master, which shows whether Redis still refuses writes.
const (
	// probesUntilTrusted is how many probes in a row must succeed before reads are trusted: in between the refused jobs are retried.
	probesUntilTrusted = 2
	probeKey           = "probe" // the key that a probe writes; on a cluster a number follows
	probeAttempts      = 64      // keys tried to find one on each master of a cluster
)

// refusedWritePrefixes begin the answers of a Redis that refuses writes.
var refusedWritePrefixes = []string{"OOM", "READONLY", "MISCONF", "NOREPLICAS"}

// writeRefusals record whether Redis refuses writes. They are safe for concurrent use.
type writeRefusals struct {
	refusing        atomic.Bool  // Redis refuses writes, so its data is not trusted
	probesSucceeded atomic.Int32 // how many probes in a row have succeeded since the last refusal; counted only while refusing is true
}

// RefusesWrites reports whether Redis answers but refuses writes: then nothing that it holds is EXACT.
func (c *Client) RefusesWrites() bool { return c.refusals.refusing.Load() }

// CheckTrusted returns UNAVAILABLE while Redis' data may be old, otherwise nil.
func (c *Client) CheckTrusted() error {
	if c.refusals.refusing.Load() {
		return services.Errorf(services.Unavailable, "Redis refuses writes: its data may be old")
	}
	return nil
}

// noteRefusal records an answer that refuses a write. It sees every error of every command, so a job's refused write
// counts at once.
func (c *Client) noteRefusal(err error) {
	for _, prefix := range refusedWritePrefixes {
		if !redis.HasErrorPrefix(err, prefix) {
			continue
		}
		c.refusals.probesSucceeded.Store(0)
		if !c.refusals.refusing.Swap(true) {
			c.log.Warn("Redis refuses writes: until it accepts them, its data is read from SQL", "error", err)
		}
		return
	}
}

// CheckWrites writes one key on each master: one round trip. The error is UNAVAILABLE if a master refused; refusalsHook has
// noted that refusal by then. Probes that all masters accept are counted here: probesUntilTrusted of them in a row end the refusal.
func (c *Client) CheckWrites(ctx context.Context) error {
	// The keys have no expiry: they are written again and again, and an expiry would be work for Redis.
	probed, err := c.writeProbes(ctx, 0)
	// Without a key there was no probe, and that is no success.
	if err != nil || !probed {
		return err
	}
	// Two successes in a row are needed: a single one may come from the moment before the next refusal.
	if c.refusals.refusing.Load() && c.refusals.probesSucceeded.Add(1) >= probesUntilTrusted {
		c.refusals.refusing.Store(false)
		c.log.Info("Redis accepts writes again")
	}
	return nil
}

// writeProbes writes one key on each master, which expires after a time unless that is 0. probed reports whether there was a key.
func (c *Client) writeProbes(ctx context.Context, expiry time.Duration) (probed bool, err error) {
	commands, err := c.Pipeline(withoutRoundTripCount(ctx), func(p redis.Pipeliner) {
		for _, key := range c.probeKeys(ctx) {
			p.Set(ctx, key, c.nodeID, expiry)
		}
	})
	return len(commands) > 0, err
}

// probeKeys are one key for each master. A master with so few slots that no key is found for it is not probed.
func (c *Client) probeKeys(ctx context.Context) []string {
	cluster, ok := c.redis.(*redis.ClusterClient)
	if !ok {
		return []string{probeKey}
	}
	keys, known := []string{}, map[string]bool{}
	// Keys are spread at random: of ten masters, one given master gets none of 64 keys about once in a thousand times.
	for i := range probeAttempts {
		key := probeKey + strconv.Itoa(i)
		master, err := cluster.MasterForKey(ctx, key)
		if err == nil && !known[master.Options().Addr] {
			known[master.Options().Addr] = true
			keys = append(keys, key)
		}
	}
	return keys
}

// refusalsHook is a hook for go-redis. It sees the answers to all commands, and notes refused writes.
type refusalsHook struct{ client *Client }

// DialHook changes nothing: dialling writes nothing.
func (refusalsHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook sees the answer to a single command.
func (h refusalsHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err != nil && !errors.Is(err, redis.Nil) {
			h.client.noteRefusal(err)
		}
		return err
	}
}

// ProcessPipelineHook sees each answer of a pipeline: a refused write among them has an error of its own.
func (h refusalsHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if err == nil {
			return nil
		}
		for _, cmd := range cmds {
			if err := cmd.Err(); err != nil {
				h.client.noteRefusal(err)
			}
		}
		return err
	}
}
