package transport

import (
	"bytes"
	"hash/maphash"
	"sync"
)

// textMemory remembers values by texts, those used recently, within a number of bytes. It has two generations: when the young
// one is full it becomes the old one, and a value that is used in the old one moves to the young one. So a read takes no
// exclusive lock as a rule. It is safe for concurrent use; values are shared and must not be changed.
type textMemory[V any] struct {
	limit int // bytes of a generation
	seed  maphash.Seed

	mu         sync.RWMutex
	young, old map[uint64]remembered[V]
	bytes      int // of the young one
}

type remembered[V any] struct {
	text  []byte
	value V
	size  int
}

// newTextMemory makes a memory of about limit bytes.
func newTextMemory[V any](limit int) *textMemory[V] {
	return &textMemory[V]{limit: limit / 2, seed: maphash.MakeSeed(), young: map[uint64]remembered[V]{}}
}

// get returns the value of a text.
func (m *textMemory[V]) get(text []byte) (value V, known bool) {
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
		m.keep(key, found)
	}
	return found.value, true
}

// put remembers a value. size is the bytes that it takes beside the text, which is copied.
func (m *textMemory[V]) put(text []byte, value V, size int) {
	m.keep(maphash.Bytes(m.seed, text), remembered[V]{bytes.Clone(text), value, size + len(text)})
}

func (m *textMemory[V]) keep(key uint64, one remembered[V]) {
	if one.size > m.limit {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes -= m.young[key].size
	if m.bytes+one.size > m.limit {
		delete(m.young, key)
		m.old, m.young, m.bytes = m.young, make(map[uint64]remembered[V], len(m.young)), 0
	}
	m.young[key] = one
	m.bytes += one.size
}
