package badge

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"tidings/services"
	"tidings/services/rdb"
)

// inboxOverflowCounts remembers the number of new posts of readers whose inbox does not hold them all. An inbox keeps the newest
// posts, including the reader's own: without the remembered number, a user who posts much would see fewer new posts than there
// are.
type inboxOverflowCounts struct {
	// mu guards users: simplelru has no lock of its own.
	mu    sync.Mutex
	users *lru.LRU[services.UserID, inboxOverflowCount] // the readers who were counted last
}

// inboxOverflowCount is a number of new posts, and the versions of its inputs: every change of an input raises one of the versions. So
// an entry needs no expiry: it is right or it is not used.
type inboxOverflowCount struct {
	documentVersion, pulledVersion uint64          // the versions of the document and of the pulled posts
	expiredUpTo                    services.PostID // posts up to this ID were too old to count
	unread                         int             // the number of new posts
}

// maxInboxOverflowCounts is the number of readers that are remembered.
const maxInboxOverflowCounts = 20_000

// newInboxOverflowCounts makes an empty memory for maxInboxOverflowCounts readers.
func newInboxOverflowCounts() *inboxOverflowCounts {
	users, err := lru.NewLRU[services.UserID, inboxOverflowCount](maxInboxOverflowCounts, nil)
	if err != nil {
		panic("badge: " + err.Error()) // happens only for sizes below 1
	}
	return &inboxOverflowCounts{users: users}
}

// get returns the number of new posts that was counted for this state of the inputs: the versions of the document and of the pulled
// posts, and aged, the ID up to which posts are too old to count.
func (b *inboxOverflowCounts) get(user services.UserID, document *rdb.Document, aged services.PostID) (unread int, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	had, known := b.users.Get(user)
	return had.unread, known && had.documentVersion == document.Version && had.pulledVersion == document.PulledCount.VersionSum && had.expiredUpTo == aged
}

// keep remembers the document's FeedUnread, which was counted for this state of the inputs.
func (b *inboxOverflowCounts) keep(user services.UserID, document *rdb.Document, aged services.PostID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.users.Add(user, inboxOverflowCount{document.Version, document.PulledCount.VersionSum, aged, document.FeedUnread})
}
