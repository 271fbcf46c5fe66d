package rdb

import (
	"context"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"tidings/services"
	"tidings/services/redis"
)

// documentMemory keeps the documents of the last readers. One that is kept is used only if Redis says, at the same read, that it has
// not changed: every script that changes what a document says raises its version n, and a document that was lost is born again with
// a later rm, because a lost n may be counted anew. So a reader gets what a read of the whole document would have given, but for two
// things that end with the user's next change: the fields of a category that was removed, on a node that has not heard of it; and a
// field that something else broke, which every other reader of documents finds.
type documentMemory struct {
	mu    sync.Mutex // simplelru has no lock of its own
	users *lru.LRU[services.UserID, keptDocument]
}

// keptDocument is a document with what it was read by. Readers share what it points to: nobody changes that.
type keptDocument struct {
	layout   *layout
	epoch    string
	version  string // n as Redis has it
	born     string // rm as Redis has it
	document Document
}

const (
	// How many documents are kept. One takes about 1.5 KB.
	documentsKept = 10_000
	// The bytes of the values of a document that is kept. Parsed they take up to three times that, so that all documents take at most
	// 60 MB. A user who follows thousands of huge authors has more.
	longestKept = 2 << 10
)

// checkedFields say whether a document is the same. After them come the plain fields of sources that expire, of which, as of the day,
// each has the present value, and then bornField.
var checkedFields = []string{"st", "e", "n", "d"}

// bornField is the stamp of a document's birth, or of the last removal from its inbox.
const bornField = "rm"

// newDocumentMemory makes an empty memory.
func newDocumentMemory() *documentMemory {
	users, err := lru.NewLRU[services.UserID, keptDocument](documentsKept, nil)
	if err != nil {
		panic("rdb: " + err.Error()) // happens only for sizes below 1
	}
	return &documentMemory{users: users}
}

// of returns the documents that are kept of users and were read by a layout; without a layout for one that is not.
func (m *documentMemory) of(users []services.UserID, layout *layout) []keptDocument {
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

// keep keeps a document.
func (m *documentMemory) keep(user services.UserID, one keptDocument) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users.Add(user, one)
}

// forget drops a document.
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

// ForgetDocument drops what this node keeps of a user's document.
func (c *Projections) ForgetDocument(user services.UserID) { c.memory.forget(user) }

// DocumentsOfReaders is Documents for users who may have been read before on this node: of a document that has not changed since,
// Redis is asked for its version alone. One that has changed costs a second round trip, and is not ready if that fails.
func (c *Projections) DocumentsOfReaders(ctx context.Context, users []services.UserID) ([]Document, error) {
	if err := c.Trusted(); err != nil {
		return nil, err
	}
	layout := c.layout.Load()
	kept := c.memory.of(users, layout)
	reads := make([]redis.KeyRead, len(users))
	for i, user := range users {
		reads[i] = redis.KeyRead{Key: DocumentKey(user), Of: layout.readBorn}
		if kept[i].layout != nil {
			reads[i].Of = layout.check
		}
	}
	documents := make([]Document, len(users))
	var changed []int
	ctx, epoch := redis.Reading(ctx), ""
	err := c.ReadEach(ctx, reads, func(i int, texts []string) {
		if i == 0 { // as in Documents
			epoch = c.Epoch()
		}
		switch {
		case kept[i].layout == nil:
			documents[i] = c.learn(users[i], layout, texts, epoch)
		case !layout.same(&kept[i], texts, epoch):
			changed = append(changed, i)
		default:
			documents[i] = layout.current(&kept[i], texts)
		}
	})
	if err != nil || len(changed) == 0 {
		return documents, err
	}
	reads = reads[:0]
	for _, i := range changed {
		reads = append(reads, redis.KeyRead{Key: DocumentKey(users[i]), Of: layout.readBorn})
	}
	// Those who have not changed are answered also without it.
	_ = c.ReadEach(ctx, reads, func(at int, texts []string) {
		if at == 0 {
			epoch = c.Epoch()
		}
		documents[changed[at]] = c.learn(users[changed[at]], layout, texts, epoch)
	})
	return documents, nil
}

// learn reads a document from its fields and rm, and keeps it if it is ready and not too long.
func (c *Projections) learn(user services.UserID, layout *layout, texts []string, epoch string) Document {
	length := 0
	for _, text := range texts {
		length += len(text)
	}
	// Copies: all texts are parts of one string, with values that nobody needs any more.
	version, born := strings.Clone(texts[2]), strings.Clone(texts[len(texts)-1])
	document := layout.parseTexts(texts[:len(texts)-1], epoch)
	if document.Ready && length <= longestKept {
		c.memory.keep(user, keptDocument{layout, epoch, version, born, document})
	} else {
		c.memory.forget(user)
	}
	return document
}

// same reports whether a document is still the one that was kept.
func (l *layout) same(kept *keptDocument, texts []string, epoch string) bool {
	return texts[0] == "1" && texts[1] == epoch && kept.epoch == epoch && texts[2] == kept.version && texts[len(texts)-1] == kept.born
}

// current is a document that is still the same, with the fields that change without a new version; not ready if one of them is
// broken.
func (l *layout) current(kept *keptDocument, texts []string) Document {
	p := &parser{texts: texts[3:]}
	document := kept.document
	document.Day = int64(p.number())
	l.expiring(p, &document)
	if p.failed {
		return Document{}
	}
	return document
}

// expiring reads the plain fields that a document has where items leave the counts by age.
func (l *layout) expiring(p *parser, d *Document) {
	if l.expiry.Expires(services.SourceHomeFeed) {
		d.FeedAged = p.place(p.next())
	}
	if l.expiry.Expires(services.SourceConversations) {
		d.Conversations.LeavesOn = int64(p.number())
	}
}
