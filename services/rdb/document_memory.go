package rdb

import (
	"context"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"tidings/services"
	"tidings/services/redis"
)

// documentMemory keeps the documents of the last readers. A kept document is used only if Redis confirms, in the same read,
// that it has not changed: every script that changes the content of a document raises its version n. A document that was lost
// may get the same n again, but is born with a later rm. So a reader gets what a read of the whole document would give, with
// two exceptions, which end with the user's next change: the fields of a removed category, on a node that has not learned of
// the removal, and a field that another program broke, which all other reads of documents find.
type documentMemory struct {
	mu        sync.Mutex                              // simplelru has no lock of its own
	users     *lru.LRU[services.UserID, keptDocument] // the document of each of the last readers
	keptBytes int                                     // the estimated memory of all kept documents
}

// keptDocument is a document with the layout, epoch and stamps under which it was read. Readers share the data that it points
// to, which must not be changed.
type keptDocument struct {
	layout      *documentLayout
	epoch       string
	version     string // n as Redis has it
	birthStamp  string // rm as Redis has it
	memoryBytes int    // its estimated memory
	document    Document
}

const (
	// maxKeptDocuments is the greatest number of kept documents.
	maxKeptDocuments = 10_000
	// maxKeptBytes bounds the estimated memory of all kept documents together. Most take about 2 KB.
	maxKeptBytes = 80 << 20
	// The memory of a kept document: keptDocumentOverheadBytes, keptCategoryBytes for each category of notifications, whether or not it
	// has any, and, for each byte in Redis, up to bytesPerValueByte of parsed values.
	keptDocumentOverheadBytes = 1 << 10
	keptCategoryBytes         = 120 // of a services.CategoryCounts
	bytesPerValueByte         = 3
	// maxKeptDocumentBytes is the greatest length of a kept document in Redis, in bytes: longer ones would push out too many others. A host
	// or a huge author takes 12 bytes of a document, and a conversation that is counted when read takes 8.
	maxKeptDocumentBytes = 32 << 10
)

// changeCheckFields are read to find whether a kept document is still the same. They are followed by the unversioned fields of
// sources that expire, and by birthStampField. The day (d) and the fields of sources that expire change without a new version: their
// present values are used.
var changeCheckFields = []string{"st", "e", "n", "d"}

// birthStampField is the stamp of a document's birth, or of the last removal from its inbox.
const birthStampField = "rm"

// newDocumentMemory makes an empty memory.
func newDocumentMemory() *documentMemory {
	m := &documentMemory{}
	users, err := lru.NewLRU(maxKeptDocuments, func(_ services.UserID, one keptDocument) { m.keptBytes -= one.memoryBytes })
	if err != nil {
		panic("rdb: " + err.Error()) // happens only for sizes below 1
	}
	m.users = users
	return m
}

// keptDocumentsOf returns the kept documents of users, in their order. A result without a layout stands for a document that is not
// kept, or was read by another layout.
func (m *documentMemory) keptDocumentsOf(users []services.UserID, layout *documentLayout) []keptDocument {
	kept := make([]keptDocument, len(users))
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, user := range users {
		if one, ok := m.users.Get(user); ok && one.layout == layout {
			kept[i] = one
		}
	}
	return kept
}

// keep stores a document for the user's next reads. If the memory is full, it drops the documents that were used longest ago.
func (m *documentMemory) keep(user services.UserID, one keptDocument) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users.Remove(user) // Add would replace it without a call to the function that subtracts its memory
	m.users.Add(user, one)
	for m.keptBytes += one.memoryBytes; m.keptBytes > maxKeptBytes; {
		m.users.RemoveOldest()
	}
}

// forget drops a user's document, if it is kept.
func (m *documentMemory) forget(user services.UserID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users.Remove(user)
}

// ForgetDocuments drops all documents that this node keeps.
func (c *Projections) ForgetDocuments() {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	c.memory.users.Purge()
}

// ForgetDocument drops a user's document, if this node keeps it.
func (c *Projections) ForgetDocument(user services.UserID) { c.memory.forget(user) }

// DocumentsCached reads the badge documents of the users, in their order. Of a document that this node keeps from an earlier read it
// reads only the fields that show whether the document has changed. A document that has changed costs a second round trip, and is
// not ready if the second one fails.
func (c *Projections) DocumentsCached(ctx context.Context, users []services.UserID) ([]Document, error) {
	if err := c.Client.CheckTrusted(); err != nil {
		return nil, err
	}
	layout := c.layout.Load()
	kept := c.memory.keptDocumentsOf(users, layout)
	reads := make([]redis.KeyRead, len(users))
	for i, user := range users {
		reads[i] = redis.KeyRead{Key: DocumentKey(user), Read: layout.readWithBirthStamp}
		if kept[i].layout != nil {
			reads[i].Read = layout.changeCheck
		}
	}
	documents := make([]Document, len(users))
	var changed []int
	ctx, epoch := redis.WithReadGuard(ctx), ""
	err := c.Client.ReadEach(ctx, reads, func(i int, texts []string) {
		if i == 0 { // after the answers, as in Documents
			epoch = c.Client.Epoch()
		}
		switch {
		case kept[i].layout == nil:
			documents[i] = c.parseAndKeep(users[i], layout, texts, epoch)
		case !layout.isSameDocument(&kept[i], texts, epoch):
			changed = append(changed, i)
		default:
			documents[i] = layout.refreshKept(&kept[i], texts)
		}
	})
	if err != nil || len(changed) == 0 {
		return documents, err
	}
	reads = reads[:0]
	for _, i := range changed {
		reads = append(reads, redis.KeyRead{Key: DocumentKey(users[i]), Read: layout.readWithBirthStamp})
	}
	// An error is ignored: users whose documents have not changed are answered anyway.
	_ = c.Client.ReadEach(ctx, reads, func(at int, texts []string) {
		if at == 0 {
			epoch = c.Client.Epoch()
		}
		documents[changed[at]] = c.parseAndKeep(users[changed[at]], layout, texts, epoch)
	})
	return documents, nil
}

// parseAndKeep reads a document from its fields and rm, and keeps it if it is ready and not too long.
func (c *Projections) parseAndKeep(user services.UserID, layout *documentLayout, texts []string, epoch string) Document {
	length := 0
	for _, text := range texts {
		length += len(text)
	}
	// Both are copied, because all texts are parts of one string, which would otherwise stay in memory as a whole.
	version, birthStamp := strings.Clone(texts[2]), strings.Clone(texts[len(texts)-1])
	document := layout.parseTexts(texts[:len(texts)-1], epoch)
	if document.Ready && length <= maxKeptDocumentBytes {
		memory := keptDocumentOverheadBytes + len(document.Notifications)*keptCategoryBytes + length*bytesPerValueByte
		c.memory.keep(user, keptDocument{layout, epoch, version, birthStamp, memory, document})
	} else {
		c.memory.forget(user)
	}
	return document
}

// isSameDocument reports whether a document is still the one that was kept.
func (l *documentLayout) isSameDocument(kept *keptDocument, texts []string, epoch string) bool {
	return texts[0] == "1" && texts[1] == epoch && kept.epoch == epoch && texts[2] == kept.version && texts[len(texts)-1] == kept.birthStamp
}

// refreshKept returns a kept document that is still the same, with the present values of the fields that change without a new
// version. It is not ready if one of these is broken.
func (l *documentLayout) refreshKept(kept *keptDocument, texts []string) Document {
	p := &documentParser{texts: texts[3:]}
	document := kept.document
	document.LastActiveDay = int64(p.number())
	l.readExpiryFields(p, &document)
	if p.failed {
		return Document{}
	}
	return document
}

// readExpiryFields reads the unversioned fields of the sources whose items leave the counts by age.
func (l *documentLayout) readExpiryFields(p *documentParser, d *Document) {
	if l.expiry.Expires(services.SourceHomeFeed) {
		d.FeedExpiredUpTo = p.postPosition(p.next())
	}
	if l.expiry.Expires(services.SourceConversations) {
		d.Conversations.NextExpiryDay = int64(p.number())
	}
}
