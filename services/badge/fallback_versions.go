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

// fallbackVersions remembers which users were answered from SQL, with the user's half of each answer's version. Such a
// version is newer than the document that Redis still has: the document must be raised above it before it is shown again, or
// clients would drop the exact counts.
type fallbackVersions struct {
	mu           sync.Mutex                 // guards versions
	versions     map[services.UserID]uint64 // the user's half of the newest version from SQL
	count        atomic.Int64               // number of versions: a read that finds zero takes no lock
	latestMicros atomic.Int64               // the latest moment of any version, in microseconds
}

const (
	// maxFallbackVersions bounds the memory. Beyond it clients accept a document again only after its next change.
	maxFallbackVersions = 100_000
	// maxHostFallbackVersions is the number of users above which reads for others, such as the host application, add no user. The host
	// application may keep and pass on what it reads, so its versions are remembered too. But it may read everybody while Redis is
	// away, and must leave room for users who read their own badges.
	maxHostFallbackVersions = maxFallbackVersions / 2
)

// nextVersionTime returns the time for the version of an answer that is given now. It is later than the times of all earlier answers,
// even if the clock was set back or has stopped.
func (f *fallbackVersions) nextVersionTime(now time.Time) time.Time {
	const apart = 10 // the least distance between two versions, in microseconds
	for {
		latest := f.latestMicros.Load()
		next := max(now.UnixMicro(), latest+apart)
		if f.latestMicros.CompareAndSwap(latest, next) {
			return time.UnixMicro(next)
		}
	}
}

// remember remembers that a user was shown a version from SQL. If it remembers the given number of users already, it adds no user
// and only updates those it has.
func (f *fallbackVersions) remember(user services.UserID, version uint64, limit int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// The map is made when SQL answers for the first time: most nodes never need it.
	if f.versions == nil {
		f.versions = map[services.UserID]uint64{}
	}
	if _, known := f.versions[user]; known || len(f.versions) < limit {
		f.versions[user] = max(version, f.versions[user])
	}
	f.count.Store(int64(len(f.versions)))
}

// isEmpty reports whether no user was answered from SQL. Nearly every read asks this first, so it takes no lock.
func (f *fallbackVersions) isEmpty() bool { return f.count.Load() == 0 }

// list returns the entries of some users; nil means all users.
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

// forget drops the entries of users whose documents have passed the given versions, except entries to which a newer version
// was added since.
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

// rememberFallbackVersion remembers that ctx's reader was shown a version of a user from SQL.
func (s *Service) rememberFallbackVersion(ctx context.Context, user services.UserID, version uint64) {
	most := maxFallbackVersions
	if services.Observed(ctx) {
		most = maxHostFallbackVersions
	}
	s.fallbacks.remember(user, version, most)
}

// raiseDocumentsAboveFallbacks raises the documents of all users who were answered from SQL above the versions of these answers, and
// returns how many users need no further raise. Users without a document are forgotten too, unless their version is ahead of the clock
// of Redis.
func (s *Service) raiseDocumentsAboveFallbacks(ctx context.Context) (int, error) {
	return s.raiseDocumentsAboveFallbacksOf(ctx, nil)
}

// raiseDocumentsAboveFallbacksOf raises the documents of some users above the versions that SQL answered them with; nil means all users.
// It does not raise a document that lacks a command that this node has acknowledged, because such a document would replace the newer
// counts that its user was shown.
func (s *Service) raiseDocumentsAboveFallbacksOf(ctx context.Context, of []services.UserID) (int, error) {
	passed := s.fallbacks.list(of)
	maps.DeleteFunc(passed, func(user services.UserID, _ uint64) bool { return s.jobs.OwesUpdate(user) })
	if len(passed) == 0 {
		return 0, nil
	}
	users, versions := make([]services.UserID, 0, len(passed)), make([]uint64, 0, len(passed))
	for user, version := range passed {
		users, versions = append(users, user), append(versions, version)
	}
	// done has the users whose entries are not needed any more, and must not fill the memory: their documents are above the version,
	// or will be when they are made. A missing document may be made with a lower version while the version is ahead of the clock of
	// Redis: then the entry stays.
	done, err := s.projector.RaiseVersions(ctx, users, versions)
	s.fallbacks.forget(done, passed)
	return len(done), err
}

// documentsOrEmpty reads the documents of users; all count as missing if Redis does not answer. If all users are stale, Redis is
// not asked: it lacks their last commands, and if it hangs they would wait for it.
func (s *Service) documentsOrEmpty(ctx context.Context, users []services.UserID, stale map[services.UserID]bool) (documents []rdb.Document, err error) {
	if len(stale) < len(users) {
		documents, err = s.documents(ctx, users)
	}
	// No document is ready, so the caller reads each user in another way.
	if documents == nil {
		documents = make([]rdb.Document, len(users))
	}
	return documents, err
}

// documents reads documents that are not older than this node's answers from SQL. For users who had such answers, documents are
// raised and read again, once. A document that cannot be raised counts as missing.
func (s *Service) documents(ctx context.Context, users []services.UserID) ([]rdb.Document, error) {
	// The versions are looked up before the read too, and not only after it: during the read another call may raise a document and
	// forget its version, while the documents read here may be from before the raise.
	before := s.fallbackVersionsOf(users)
	documents, err := s.redis.Documents(ctx, users)
	if err != nil {
		return nil, err
	}
	return s.raiseOlderDocuments(ctx, before, users, documents)
}

// raiseOlderDocuments raises and reads again the documents that are not newer than this node's answers from SQL, including the answers
// that were known before the read.
func (s *Service) raiseOlderDocuments(ctx context.Context, before map[services.UserID]uint64, users []services.UserID, documents []rdb.Document) ([]rdb.Document, error) {
	answered := s.fallbackVersionsOf(users)
	if answered == nil {
		answered = before
	}
	// An answer may have been forgotten between the two lookups, because its document was raised; the documents may have been
	// read before the raise.
	for user, version := range before {
		answered[user] = max(version, answered[user])
	}
	var newer, older []services.UserID
	for i, user := range users {
		switch version, known := answered[user]; {
		case !known || !documents[i].Ready:
		case documents[i].Version > version:
			// The document has changed since by itself, so it needs no raise.
			newer = append(newer, user)
		default:
			older = append(older, user)
		}
	}
	s.fallbacks.forget(newer, answered)
	if len(older) == 0 {
		return documents, nil
	}
	_, err := s.raiseDocumentsAboveFallbacksOf(ctx, older)
	if err == nil {
		if documents, err = s.redis.Documents(ctx, users); err != nil {
			return nil, err
		}
	}
	for i, user := range users {
		if version, known := answered[user]; known && documents[i].Version <= version {
			// The document could not be raised, or another master answered. Counting in SQL is better than a version that
			// clients would drop.
			documents[i].Ready = false
		}
	}
	return documents, nil
}

// fallbackVersionsOf returns the users, among the given ones, who were answered from SQL, with the user's half of their versions.
// It is nil if this node has answered no user from SQL.
func (s *Service) fallbackVersionsOf(users []services.UserID) map[services.UserID]uint64 {
	if s.fallbacks.isEmpty() {
		return nil
	}
	return s.fallbacks.list(users)
}

// RaiseDocumentsAbove makes the documents of users newer than versions that the users were shown: for the push hub, which sends badges to
// subscribers and found two contents under one version.
func (s *Service) RaiseDocumentsAbove(ctx context.Context, users []services.UserID, shown []uint64) error {
	_, err := s.projector.RaiseVersions(ctx, users, shown)
	return err
}

// NoteClientVersion records that a client holds a version. If the version came from SQL, perhaps through a node that is gone, the
// document is raised above it, as it is above this node's own answers.
func (s *Service) NoteClientVersion(user services.UserID, version string) {
	own, stale := services.StaleDocumentHalf(version)
	// A client may send any version. A version from the future is made up, and would raise the document's version too far.
	if stale && own <= uint64(s.clock.Now().UnixMicro()) {
		s.fallbacks.remember(user, own, maxFallbackVersions)
	}
}
