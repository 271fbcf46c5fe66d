package transport

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
)

// The measured memory of a document beside its text: for each name with its position, and for each value with its position.
const (
	documentBytes = 1 << 10
	partBytes     = 224
)

// documentCache remembers documents by their text, the most recently used ones, within a number and a number of bytes. Only
// documents that passed every check are in it, so whoever finds one may execute it.
type documentCache struct {
	limit int64 // bytes

	mu sync.Mutex
	// bytes is the sum over the entries; the callback of the list lowers it, also for an entry that another pushed out.
	bytes int64
	byLRU *lru.LRU[string, cachedDocument]
}

// cachedDocument is an entry, with the bytes by which it was counted when it came: as many go with it.
type cachedDocument struct {
	doc   *document
	bytes int64
}

// newDocumentCache makes an empty cache. most bounds the list itself; the bytes are what bounds it in practice.
func newDocumentCache(most int, bytes int64) *documentCache {
	c := &documentCache{limit: bytes}
	var err error
	c.byLRU, err = lru.NewLRU(most, func(_ string, left cachedDocument) { c.bytes -= left.bytes })
	if err != nil {
		panic("transport: " + err.Error()) // only for a capacity below 1
	}
	return c
}

// get returns the document of a text, nil for an unknown one. It is an exclusive lock, because a use moves the entry.
func (c *documentCache) get(text string) *document {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, _ := c.byLRU.Get(text)
	return known.doc
}

// add remembers a document and returns the one to use: if one text was parsed several times at once, all callers get the same
// document. A document larger than the whole cache is not remembered.
func (c *documentCache) add(text string, doc *document, parts int) *document {
	size := int64(documentBytes + len(text) + parts*partBytes)
	c.mu.Lock()
	defer c.mu.Unlock()
	// Subscriptions share what belongs to one document by its address (see shared), so there may be one only.
	if known, ok := c.byLRU.Get(text); ok {
		return known.doc
	}
	if size > c.limit {
		return doc
	}
	c.bytes += size
	c.byLRU.Add(text, cachedDocument{doc, size})
	// It ends: the new entry alone is within the limit.
	for c.bytes > c.limit {
		c.byLRU.RemoveOldest()
	}
	return doc
}
