package mirror

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
)

// memory keeps the values that were used last. It knows each value's last change: an older copy never replaces a
// newer one, nor the note that a newer one exists.
type memory[K comparable, V any] struct {
	changedAt func(V) time.Time

	mu    sync.Mutex
	items *lru.LRU[K, item[V]]
}

// item is a value, or (known false) the note that copies from before `at` are out of date.
type item[V any] struct {
	value V
	at    time.Time
	known bool
}

func newMemory[K comparable, V any](capacity int, changedAt func(V) time.Time) *memory[K, V] {
	items, err := lru.NewLRU[K, item[V]](capacity, nil)
	if err != nil {
		panic("mirror: capacity " + err.Error()) // only for capacities below 1, which Config rules out
	}
	return &memory[K, V]{changedAt: changedAt, items: items}
}

func (m *memory[K, V]) one(key K) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.items.Get(key)
	return found.value, ok && found.known
}

func (m *memory[K, V]) many(keys []K) (found map[K]V, missing []K) {
	found = make(map[K]V, len(keys))
	asked := make(map[K]struct{}, len(keys))
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		if _, twice := asked[key]; twice {
			continue
		}
		asked[key] = struct{}{}
		if item, ok := m.items.Get(key); ok && item.known {
			found[key] = item.value
		} else {
			missing = append(missing, key)
		}
	}
	return found, missing
}

// take moves what was read into found and into memory, and answers what is still missing of the keys. What memory
// knows to be out of date is left missing.
func (m *memory[K, V]) take(found, read map[K]V, keys []K) (missing []K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, value := range read {
		if m.put(key, value) || keys == nil {
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

func (m *memory[K, V]) keep(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(key, value)
}

// put answers false for a copy that is known to be out of date.
func (m *memory[K, V]) put(key K, value V) bool {
	at := m.changedAt(value)
	if had, ok := m.items.Peek(key); ok && had.at.After(at) {
		return false
	}
	m.items.Add(key, item[V]{value: value, at: at, known: true})
	return true
}

// changed notes that the value changed at a moment; a copy of that moment or later is kept.
func (m *memory[K, V]) changed(key K, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if had, ok := m.items.Peek(key); ok && !had.at.Before(at) {
		return
	}
	m.items.Add(key, item[V]{at: at})
}

func (m *memory[K, V]) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.items.Purge()
}
