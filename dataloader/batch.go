package dataloader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"tidings/services/trace"
)

// batch reads values by their keys, each key at most once. Keys that one caller passes are read together. A caller that asks
// for a key which another caller is reading waits for that read. A key without a value is remembered like a key with one. A
// failed read is forgotten, so that the next caller tries again. The zero value is ready to use. A batch is safe for concurrent
// use.
//
// A batch never delays a read to collect more keys, as batches that wait for a tick do: each field would take longer, and
// timing would decide whether two fields share a read. A caller that knows more keys passes all of them at once.
type batch[K comparable, V any] struct {
	mu sync.Mutex // guards reads
	// reads has the read of each key that a caller has asked for. The read runs, or is done.
	reads map[K]*batchRead[K, V]
}

// batchRead is one read of several keys. Until done is closed, only the caller that owns the read may use found and err. After that,
// nobody changes them.
type batchRead[K comparable, V any] struct {
	done  chan struct{} // closed when the read has ended
	found map[K]V       // the values by key; a key without a value is absent
	err   error
}

// keysClaim says how one caller of a batch gets the values of its keys: from the read of each key. At most one of these reads, own, is
// to be done by the caller itself. The caller must settle it, or other callers wait for ever.
type keysClaim[K comparable, V any] struct {
	reads []*batchRead[K, V] // for each key of the caller, the read that has its value
	own   *batchRead[K, V]   // the read that the caller must do; nil if there is none
	keys  []K                // the keys that own reads
}

// errBroken is the error of callers that wait for another caller's read that panicked.
var errBroken = errors.New("dataloader: the read of these keys broke off")

// closedChannel is a closed channel: the field done of each batchRead whose values a caller has brought.
var closedChannel = func() chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

// loadMany returns the values of keys; a key without a value is absent. fetch reads the keys that were not read before. All calls
// on one batch must pass an equivalent fetch. One failed read fails the whole call.
func (b *batch[K, V]) loadMany(ctx context.Context, keys []K, fetch func(ctx context.Context, keys []K) (map[K]V, error)) (map[K]V, error) {
	return b.load(ctx, keys, b.claim(keys), fetch)
}

// load does the read that a claim owns, and then waits for the reads of other callers.
func (b *batch[K, V]) load(ctx context.Context, keys []K, c keysClaim[K, V], fetch func(ctx context.Context, keys []K) (map[K]V, error)) (map[K]V, error) {
	if c.own != nil {
		// These are the values and the error that other callers get if fetch panics.
		found, err := map[K]V(nil), errBroken
		func() {
			defer func() { b.settle(c, found, err) }() // runs also if fetch panics, so that no caller waits for ever
			if trace.Enabled() {
				var span trace.Span
				ctx, span = trace.Start(ctx, "load", fmt.Sprintf("%T", *new(V)))
				span.SetCount(len(c.keys))
				defer func() { span.End(err) }()
			}
			found, err = fetch(ctx, c.keys)
		}()
	}
	return b.collect(ctx, keys, c)
}

// loadOne returns the value of one key; found is false if it has none. If no caller has asked for the key yet, loadOne calls others,
// and reads the keys that it returns in the same read. So it costs no more to ask for each key of a long list than to read the list.
// Otherwise others is not called.
func (b *batch[K, V]) loadOne(ctx context.Context, key K, others func() []K, fetch func(ctx context.Context, keys []K) (map[K]V, error)) (value V, found bool, err error) {
	return b.loadOneBounded(ctx, key, func(others int) int { return others }, others, fetch)
}

// loadOneBounded returns the value of one key; found is false if it has none. If no caller has asked for the key yet, loadOneBounded
// reads it together with keys that others returns, but only with as many as most allows: loadOne has no such bound. most gets the
// number of other keys that could be read too, and returns how many of them may be. Keys that are known already do not count, so
// that with a bound of m a list of n items costs about n/m reads. most is called with the batch locked, at most once, and not if
// there are no other keys.
func (b *batch[K, V]) loadOneBounded(ctx context.Context, key K, most func(others int) int, others func() []K, fetch func(ctx context.Context, keys []K) (map[K]V, error)) (value V, found bool, err error) {
	keys := []K{key}
	// others is called without the lock, because it may be costly. If another caller claims the key meanwhile, claimOneBounded finds
	// that out.
	if !b.isRequested(key) {
		keys = append(keys, others()...)
	}
	keys, c := b.claimOneBounded(keys, most)
	values, err := b.load(ctx, keys, c, fetch)
	value, found = values[key]
	return value, found, err
}

// keep remembers a value that was not read by this batch. It replaces an older value.
func (b *batch[K, V]) keep(key K, value V) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(key, &batchRead[K, V]{done: closedChannel, found: map[K]V{key: value}})
}

// keepIfAbsent remembers values that were not read by this batch, for the keys that no caller has asked for yet. It replaces no value,
// because within a response a value must not change once a caller has seen it.
func (b *batch[K, V]) keepIfAbsent(values map[K]V) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := &batchRead[K, V]{done: closedChannel, found: values}
	for key := range values {
		if b.reads[key] == nil {
			b.put(key, kept)
		}
	}
}

// isRequested reports whether a key was read or is being read.
func (b *batch[K, V]) isRequested(key K) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reads[key] != nil
}

// keys returns all keys that were read or are being read, in any order.
func (b *batch[K, V]) keys() []K {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.reads))
}

// keysReadWith returns the keys of the read that a key is in, including the key. If nobody has asked for the key, it is the only one.
func (b *batch[K, V]) keysReadWith(key K) (keys []K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.reads[key]
	if of == nil {
		return []K{key}
	}
	for other, r := range b.reads {
		if r == of {
			keys = append(keys, other)
		}
	}
	return keys
}

// put records the read of a key. The caller holds the lock.
func (b *batch[K, V]) put(key K, r *batchRead[K, V]) {
	if b.reads == nil {
		b.reads = map[K]*batchRead[K, V]{}
	}
	b.reads[key] = r
}

// claim returns the reads of the keys. Keys that no caller has asked for get a new read, which the caller must do. A caller settles
// its own read before it waits for another one, so that two callers never wait for each other.
func (b *batch[K, V]) claim(keys []K) (c keysClaim[K, V]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.claimLocked(keys)
}

// claimOneBounded claims the first of keys, and of the other keys those that no caller has asked for yet, as many as most allows.
// If another caller has claimed the first key meanwhile, it adds no other keys. It returns the keys of the claim.
func (b *batch[K, V]) claimOneBounded(keys []K, most func(others int) int) ([]K, keysClaim[K, V]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// The capacity is 1, so that appending does not write into the caller's keys.
	taken := keys[:1:1]
	if b.reads[keys[0]] == nil {
		for _, other := range keys[1:] {
			if other != keys[0] && b.reads[other] == nil {
				taken = append(taken, other)
			}
		}
		if others := len(taken) - 1; others > 0 {
			taken = taken[:1+most(others)]
		}
	}
	return taken, b.claimLocked(taken)
}

// claimLocked is claim for a caller that holds the lock. It returns the reads of the keys, and makes one new read, which the caller
// must do, for the keys that no caller has asked for.
func (b *batch[K, V]) claimLocked(keys []K) (c keysClaim[K, V]) {
	c.reads = make([]*batchRead[K, V], len(keys))
	for i, key := range keys {
		known := b.reads[key]
		if known == nil {
			if c.own == nil {
				c.own = &batchRead[K, V]{done: make(chan struct{})}
			}
			known, c.keys = c.own, append(c.keys, key)
			b.put(key, known)
		}
		c.reads[i] = known
	}
	return c
}

// settle ends the read c.own of a claim with a result. After an error its keys can be claimed again, and the callers that wait for
// the read get the error.
func (b *batch[K, V]) settle(c keysClaim[K, V], found map[K]V, err error) {
	if c.own == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.own.found, c.own.err = found, err
	if err != nil {
		// The keys are forgotten, so that the next caller tries again.
		for _, key := range c.keys {
			delete(b.reads, key)
		}
	}
	close(c.own.done)
}

// collect waits for the reads of a claim and returns the values of its keys.
func (b *batch[K, V]) collect(ctx context.Context, keys []K, c keysClaim[K, V]) (map[K]V, error) {
	values := make(map[K]V, len(keys))
	for i, key := range keys {
		r := c.reads[i]
		select {
		// done is checked before ctx: a value that was read is returned even if ctx has just ended.
		case <-r.done:
		default:
			select {
			case <-r.done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if r.err != nil {
			return nil, r.err
		}
		if value, ok := r.found[key]; ok {
			values[key] = value
		}
	}
	return values, nil
}
