package badge

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"tidings/services"
	"tidings/services/rdb"
)

// overflowCounts remembers the number of new posts of readers whose inbox does not hold them all. An inbox keeps the newest
// posts, including the reader's own: without the remembered number, a user who posts much would see fewer new posts than there
// are.
type overflowCounts struct {
	// simplelru has no lock of its own.
	mu    sync.Mutex
	users *lru.LRU[services.UserID, overflowCount]
}

// overflowCount is a number of new posts, and the versions of its inputs: every change of an input raises one of the versions. So
// an entry needs no expiry: it is right or it is not used.
type overflowCount struct {
	documentVersion, pulledVersion uint64          // the versions of the document and of the pulled posts
	agedUpTo                       services.PostID // posts up to this ID were too old to count
	unread                         int             // the number of new posts
}

// maxOverflowCounts is the number of readers that are remembered.
const maxOverflowCounts = 20_000

// newOverflowCounts makes an empty memory of maxOverflowCounts readers.
func newOverflowCounts() *overflowCounts {
	users, err := lru.NewLRU[services.UserID, overflowCount](maxOverflowCounts, nil)
	if err != nil {
		panic("badge: " + err.Error()) // happens only for sizes below 1
	}
	return &overflowCounts{users: users}
}

// of returns the number of new posts that was counted for this state of the inputs.
func (b *overflowCounts) of(user services.UserID, document *rdb.Document, aged services.PostID) (unread int, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	had, known := b.users.Get(user)
	return had.unread, known && had.documentVersion == document.N && had.pulledVersion == document.PulledCount.Sequence && had.agedUpTo == aged
}

// keep remembers the document's Unread, which was counted for this state of the inputs.
func (b *overflowCounts) keep(user services.UserID, document *rdb.Document, aged services.PostID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.users.Add(user, overflowCount{document.N, document.PulledCount.Sequence, aged, document.Unread})
}
