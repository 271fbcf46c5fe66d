package rdb

import (
	"context"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"tidings/services"
	"tidings/services/redis"
)

// documentMemory keeps the documents of the last readers. One that is kept is used only if Redis says, at the same read, that it has
// not changed: every script that changes what a document says raises its version n, which never comes again in an epoch. So a
// reader gets what a read of the whole document would have given.
type documentMemory struct {
	mu    sync.Mutex // simplelru has no lock of its own
	users *lru.LRU[services.UserID, keptDocument]
}

// keptDocument is a document with what it was read by. Readers share what it points to: nobody changes that.
type keptDocument struct {
	layout   *layout
	epoch    string
	version  string // n as Redis has it
	document Document
}

const (
	// How many documents are kept. One takes about 2 KB.
	documentsKept = 10_000
	// The most followed authors and conversations in a document that is kept, some 30 bytes each with their text: few users have more,
	// and those could have thousands.
	mostKeptEntries = 100
)

// checkedFields say whether a document is the same; after them come the plain fields of sources that expire, and of these and of
// the day each has the present value.
var checkedFields = []string{"st", "e", "n", "d"}

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

// ForgetDocument drops what this node keeps of a user's document.
func (c *Projections) ForgetDocument(user services.UserID) { c.memory.forget(user) }

// DocumentsOfReaders is Documents for users who may have been read before on this node: of a document that has not changed since,
// Redis is asked for its version alone. One that has changed costs a second round trip.
func (c *Projections) DocumentsOfReaders(ctx context.Context, users []services.UserID) ([]Document, error) {
	if err := c.Trusted(); err != nil {
		return nil, err
	}
	layout := c.layout.Load()
	kept := c.memory.of(users, layout)
	reads := make([]redis.HashRead, len(users))
	for i, user := range users {
		reads[i] = redis.HashRead{Key: DocumentKey(user), Fields: layout.read}
		if kept[i].layout != nil {
			reads[i].Fields = layout.check
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
		reads = append(reads, redis.HashRead{Key: DocumentKey(users[i]), Fields: layout.read})
	}
	err = c.ReadEach(ctx, reads, func(at int, texts []string) {
		if at == 0 {
			epoch = c.Epoch()
		}
		documents[changed[at]] = c.learn(users[changed[at]], layout, texts, epoch)
	})
	return documents, err
}

// learn reads a document, and keeps it if it is ready and not too large.
func (c *Projections) learn(user services.UserID, layout *layout, texts []string, epoch string) Document {
	version := texts[2]
	document := layout.parseTexts(texts, epoch)
	if document.Ready && len(document.Pulled)+len(document.Hosts)+len(document.Conversations.ReadSide) <= mostKeptEntries {
		c.memory.keep(user, keptDocument{layout, epoch, version, document})
	} else {
		c.memory.forget(user)
	}
	return document
}

// same reports whether a document is still the one that was kept.
func (l *layout) same(kept *keptDocument, texts []string, epoch string) bool {
	return texts[0] == "1" && texts[1] == epoch && kept.epoch == epoch && texts[2] == kept.version
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
