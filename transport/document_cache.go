package transport

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
)

// The measured memory of a document and of what is compiled of it, in addition to its text: documentOverheadBytes, and
// documentPartOverheadBytes for each name or value with its position.
const (
	documentOverheadBytes     = 1 << 10 // bytes of each document
	documentPartOverheadBytes = 400     // bytes of each part
)

// documentCache keeps the most recently used documents by their text, up to a number of documents and a number of bytes. Only
// documents that passed every check are in it, so a document that is found may be executed.
type documentCache struct {
	maxBytes int64 // the most that the field bytes may be

	mu sync.Mutex // guards the fields below
	// bytes is the estimated memory of all entries. A callback of documentByText lowers it for each entry that leaves, for any reason.
	bytes          int64
	documentByText *lru.LRU[string, cachedDocument]
}

// cachedDocument is an entry. add counts bytes for the entry, and the same number is subtracted when the entry leaves.
type cachedDocument struct {
	doc   *queryDocument
	bytes int64 // its estimated memory
}

// newDocumentCache makes an empty cache. most limits the number of documents, and bytes their estimated memory.
func newDocumentCache(most int, bytes int64) *documentCache {
	c := &documentCache{maxBytes: bytes}
	var err error
	c.documentByText, err = lru.NewLRU(most, func(_ string, left cachedDocument) { c.bytes -= left.bytes })
	if err != nil {
		panic("transport: " + err.Error()) // only for a capacity below 1
	}
	return c
}

// get returns the document of a text, nil for an unknown one. The lock is exclusive, because a use moves the entry in the list.
func (c *documentCache) get(text string) *queryDocument {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, _ := c.documentByText.Get(text)
	return known.doc
}

// add remembers a document and returns the document to use: if several goroutines have parsed the same text, all get the same
// document. A document larger than the whole cache is not remembered.
func (c *documentCache) add(text string, doc *queryDocument, parts int) *queryDocument {
	doc.memoryBytes = documentOverheadBytes + len(text) + parts*documentPartOverheadBytes
	size := int64(doc.memoryBytes)
	c.mu.Lock()
	defer c.mu.Unlock()
	// Subscriptions share memory by the address of their document (see sharedOperationContexts), so one text should have one document.
	if known, ok := c.documentByText.Get(text); ok {
		return known.doc
	}
	if size > c.maxBytes {
		return doc
	}
	c.bytes += size
	c.documentByText.Add(text, cachedDocument{doc, size})
	// The loop ends, because the new entry alone is within the limit.
	for c.bytes > c.maxBytes {
		c.documentByText.RemoveOldest()
	}
	return doc
}
