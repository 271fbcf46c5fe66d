package transport

import (
	"bytes"
	"hash/maphash"
	"sync"
)

// textCache is a cache of values by text, bounded in bytes, that keeps those used recently. It has two generations: when the
// young one is full, it becomes the old one, and a value that is used in the old one moves to the young one. So most reads take
// no exclusive lock, whereas an LRU list takes one for each read. It is safe for concurrent use; values are shared and must not
// be changed.
type textCache[V any] struct {
	limit int          // the most bytes of a generation
	seed  maphash.Seed // of the hashes

	// The maps have hashes as keys, so that a lookup copies no text. The seed is random: nobody can choose texts that collide.
	mu         sync.RWMutex                 // guards the fields below
	young, old map[uint64]textCacheEntry[V] // the two generations, by the hash of the text
	bytes      int                          // the size of the entries in young
}

// textCacheEntry is a value with its whole text. Of two texts with one hash, the later one replaces the other.
//
// The text is compared at each use: a hash alone would give one client the value of another.
type textCacheEntry[V any] struct {
	text  []byte
	value V
	size  int // bytes, with the text
}

// newTextCache makes a cache of about limit bytes, half of them for each generation.
func newTextCache[V any](limit int) *textCache[V] {
	return &textCache[V]{limit: limit / 2, seed: maphash.MakeSeed(), young: map[uint64]textCacheEntry[V]{}}
}

// get returns the value of a text. An old value that is used survives the next change of generations.
func (m *textCache[V]) get(text []byte) (value V, known bool) {
	key := maphash.Bytes(m.seed, text)
	m.mu.RLock()
	found, young := m.young[key]
	if !young {
		found = m.old[key]
	}
	m.mu.RUnlock()
	if found.text == nil || !bytes.Equal(found.text, text) {
		return value, false
	}
	if !young {
		m.putYoung(key, found)
	}
	return found.value, true
}

// put remembers a value. size is the bytes that it takes beside the text, which is copied. A value larger than a generation is not
// remembered.
func (m *textCache[V]) put(text []byte, value V, size int) {
	m.putYoung(maphash.Bytes(m.seed, text), textCacheEntry[V]{bytes.Clone(text), value, size + len(text)})
}

// putYoung puts a value into the young generation, in place of one with the same hash. If the young generation is full, it becomes
// the old one, and the generation that was old until then is dropped as a whole, without a walk.
func (m *textCache[V]) putYoung(key uint64, one textCacheEntry[V]) {
	// A larger value would push out a whole generation, and the next value would push out the larger value.
	if one.size > m.limit {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes -= m.young[key].size
	if m.bytes+one.size > m.limit {
		delete(m.young, key)
		m.old, m.young, m.bytes = m.young, make(map[uint64]textCacheEntry[V], len(m.young)), 0
	}
	m.young[key] = one
	m.bytes += one.size
}
