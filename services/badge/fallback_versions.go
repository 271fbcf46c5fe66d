package badge

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"tidings/services"
	"tidings/services/rdb"
)

// fallbackVersions remembers which users were answered from SQL, and on which own half their versions rest. Such a version is
// newer than the document that Redis still has: the document's is raised above it before it is shown again, or else clients
// would drop the exact numbers.
type fallbackVersions struct {
	mu       sync.Mutex
	versions map[services.UserID]uint64
	count    atomic.Int64 // of versions: a read that finds none takes no lock
	latest   atomic.Int64 // the latest moment that a version has, in microseconds
}

// maxFallbackVersions bounds the memory. Beyond it a document is news again with its next change.
const maxFallbackVersions = 100_000

// after is the moment for the version of an answer that is made now: later than those of all answers before, also where the clock
// was set back, or stands still.
func (f *fallbackVersions) after(now time.Time) time.Time {
	const apart = 10 // microseconds that versions tell apart
	for {
		latest := f.latest.Load()
		next := max(now.UnixMicro(), latest+apart)
		if f.latest.CompareAndSwap(latest, next) {
			return time.UnixMicro(next)
		}
	}
}

func (f *fallbackVersions) note(user services.UserID, version uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.versions == nil {
		f.versions = map[services.UserID]uint64{}
	}
	if _, known := f.versions[user]; known || len(f.versions) < maxFallbackVersions {
		f.versions[user] = max(version, f.versions[user])
	}
	f.count.Store(int64(len(f.versions)))
}

func (f *fallbackVersions) none() bool { return f.count.Load() == 0 }

// list is all that is remembered, or with users what is remembered of them.
func (f *fallbackVersions) list(of []services.UserID) map[services.UserID]uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if of == nil {
		return maps.Clone(f.versions)
	}
	found := map[services.UserID]uint64{}
	for _, user := range of {
		if version, known := f.versions[user]; known {
			found[user] = version
		}
	}
	return found
}

// forget drops the versions that were passed, unless a newer one came meanwhile.
func (f *fallbackVersions) forget(users []services.UserID, passed map[services.UserID]uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, user := range users {
		if f.versions[user] == passed[user] {
			delete(f.versions, user)
		}
	}
	f.count.Store(int64(len(f.versions)))
}

// PassFallbacks raises the documents of all users who were answered from SQL, and answers how many are done. A document that is
// not there yet waits for its rebuild.
func (s *Service) PassFallbacks(ctx context.Context) (int, error) { return s.pass(ctx, nil) }

// pass raises the documents of users who were answered from SQL; nil: of all. A document that lacks what this node has
// acknowledged is not raised: it would win over what the user was told.
func (s *Service) pass(ctx context.Context, of []services.UserID) (int, error) {
	passed := s.fallbacks.list(of)
	maps.DeleteFunc(passed, func(user services.UserID, _ uint64) bool { return s.fanout.OwesUpdate(user) })
	if len(passed) == 0 {
		return 0, nil
	}
	users, versions := make([]services.UserID, 0, len(passed)), make([]uint64, 0, len(passed))
	for user, version := range passed {
		users, versions = append(users, user), append(versions, version)
	}
	done, err := s.fanout.RaiseVersions(ctx, users, versions)
	s.fallbacks.forget(done, passed)
	return len(done), err
}

// documentsBut are the documents of users, absent where Redis does not answer. Where all are read from the facts it is not asked: it
// has missed what they did, and if it hangs they would wait for it.
func (s *Service) documentsBut(ctx context.Context, users []services.UserID, stale map[services.UserID]bool) (documents []rdb.Document, err error) {
	if len(stale) < len(users) {
		documents, err = s.documents(ctx, users)
	}
	if documents == nil {
		documents = make([]rdb.Document, len(users))
	}
	return documents, err
}

// documents reads documents, none of which is older than what this node has answered from SQL: a further round trip for users
// of whom that is so, once. A document that cannot be raised is not there.
func (s *Service) documents(ctx context.Context, users []services.UserID) ([]rdb.Document, error) {
	// What was answered is looked up before the documents are read as well: a version that is passed while they are on their way
	// is forgotten when they arrive, and they may be from before.
	before := s.answered(users)
	documents, err := s.redis.Documents(ctx, users)
	if err != nil {
		return nil, err
	}
	answered := s.answered(users)
	if answered == nil {
		answered = before
	}
	for user, version := range before {
		answered[user] = max(version, answered[user])
	}
	var newer, older []services.UserID
	for i, user := range users {
		switch version, known := answered[user]; {
		case !known || !documents[i].Ready:
		case documents[i].N > version:
			newer = append(newer, user)
		default:
			older = append(older, user)
		}
	}
	s.fallbacks.forget(newer, answered)
	if len(older) == 0 {
		return documents, nil
	}
	if _, err := s.pass(ctx, older); err == nil {
		if documents, err = s.redis.Documents(ctx, users); err != nil {
			return nil, err
		}
	}
	for i, user := range users {
		if version, known := answered[user]; known && documents[i].N <= version {
			documents[i].Ready = false
		}
	}
	return documents, nil
}

// answered is which of some users were answered from SQL, and on which own half their versions rest; nil while nobody was.
func (s *Service) answered(users []services.UserID) map[services.UserID]uint64 {
	if s.fallbacks.none() {
		return nil
	}
	return s.fallbacks.list(users)
}

// Raise makes the documents of users newer than versions under which they were shown.
func (s *Service) Raise(ctx context.Context, users []services.UserID, shown []uint64) error {
	_, err := s.fanout.RaiseVersions(ctx, users, shown)
	return err
}

// Holds notes that a client holds a version. One that was answered from SQL, perhaps by a node that is gone, is passed like this
// node's own.
func (s *Service) Holds(user services.UserID, version string) {
	own, stale := services.StaleHalf(version)
	if stale && own <= uint64(s.clock.Now().UnixMicro()) {
		s.fallbacks.note(user, own)
	}
}
