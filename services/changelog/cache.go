package changelog

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache keeps the most recently used values. It knows the time of each value's last change: an older copy never replaces a
// newer one, nor the note that a newer one exists. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	changedAt func(V) time.Time // the time of a value's last change

	mu    sync.Mutex // guards items
	items *lru.LRU[K, item[V]]
}

// item is a value and the time of its last change. If known is false, it is only a note: copies from before that time are stale.
type item[V any] struct {
	value V
	at    time.Time // the last change
	known bool      // false: there is no value, only the time of its change
}

// NewCache makes an empty cache for capacity values, at least one. changedAt is the time of a value's last change.
func NewCache[K comparable, V any](capacity int, changedAt func(V) time.Time) *Cache[K, V] {
	items, err := lru.NewLRU[K, item[V]](capacity, nil)
	if err != nil {
		panic("changelog: a cache: " + err.Error())
	}
	return &Cache[K, V]{changedAt: changedAt, items: items}
}

// Get finds a value; ok is false for a value that is missing or known to be stale.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.items.Get(key)
	return found.value, ok && found.known
}

// Each calls found with the value of each key, in the order of the keys. It ends at the first value that is missing or stale, and
// reports whether there was none. found must not use the cache. It is for pages, whose values are nearly always cached: unlike
// GetAll it makes no map.
func (c *Cache[K, V]) Each(keys []K, found func(i int, value V)) (all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, key := range keys {
		item, ok := c.items.Get(key)
		if !ok || !item.known {
			return false
		}
		found(i, item.value)
	}
	return true
}

// GetAll finds values, and lists each missing key once.
func (c *Cache[K, V]) GetAll(keys []K) (found map[K]V, missing []K) {
	found = make(map[K]V, len(keys))
	asked := make(map[K]struct{}, len(keys))
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		if _, twice := asked[key]; twice {
			continue
		}
		asked[key] = struct{}{}
		if item, ok := c.items.Get(key); ok && item.known {
			found[key] = item.value
		} else {
			missing = append(missing, key)
		}
	}
	return found, missing
}

// AddReadValues puts the values that were read into found and into the cache, and returns the keys that are still missing. A value
// that the cache knows to be stale stays missing. With nil keys the values come from the facts, and all of them are found.
func (c *Cache[K, V]) AddReadValues(found, read map[K]V, keys []K) (missing []K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, value := range read {
		// Without keys the values were read from SQL: this reader is shown them even if the log already tells of a newer change,
		// because they were true when the read began. With keys, a value that is known to be old stays missing.
		if c.put(key, value) || keys == nil {
			found[key] = value
		}
	}
	for _, key := range keys {
		if _, ok := found[key]; !ok {
			missing = append(missing, key)
		}
	}
	return missing
}

// Keep adds a value, unless the cache knows that it is stale.
func (c *Cache[K, V]) Keep(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(key, value)
}

// put adds a value. It returns false for a copy that is known to be stale; such a copy does not count as a use of the value.
func (c *Cache[K, V]) put(key K, value V) bool {
	at := c.changedAt(value)
	if had, ok := c.items.Peek(key); ok && had.at.After(at) {
		return false
	}
	c.items.Add(key, item[V]{value: value, at: at, known: true})
	return true
}

// RecordChange records that a value changed at a time. A copy of that time or later stays. The note takes the place of the
// value, and may evict another value.
func (c *Cache[K, V]) RecordChange(key K, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if had, ok := c.items.Peek(key); ok && !had.at.Before(at) {
		return
	}
	c.items.Add(key, item[V]{at: at})
}

// DropIf forgets a value if it meets a condition, and reports whether it did.
func (c *Cache[K, V]) DropIf(key K, meets func(V) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	had, ok := c.items.Peek(key)
	return ok && had.known && meets(had.value) && c.items.Remove(key)
}

// Clear forgets all values and all changes.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items.Purge()
}
