package nodecache

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/posts"
)

// For each author the cache keeps the posts that a page can list, and some more, so that deletions seldom force a new read.
const (
	pulledPostsKeptPerAuthor = services.FeedRetention + 32 // posts of an author after a load or a trim
	pulledTrimSlack          = 32                          // how many more before the next trim
	pulledAuthorsPerRead     = 200                         // authors in one SELECT
)

// PulledFacts reads pulled posts from SQL.
type PulledFacts interface {
	PullAuthors(ctx context.Context, after services.UserID, limit int) ([]services.UserID, error)
	PulledPosts(ctx context.Context, authors []services.UserID, limit int) (map[services.UserID]posts.PulledPosts, error)
}

// PulledCache is this node's cache of the newest posts of all authors whose posts are pulled and not pushed into inboxes. It is safe
// for concurrent use.
type PulledCache struct {
	facts PulledFacts
	log   *slog.Logger

	// mu guards the maps and the authors in them. readers has a lock of its own, which may be taken under mu.
	mu                   sync.RWMutex
	authors              map[services.UserID]*pulledAuthor
	ownChangesAheadOfLog map[uint64]PullChange // by version: this node's own changes that the log has not brought yet
	// requestedAuthors are authors to be read from SQL after the next read of the changelog: they are not cached, or too few of their
	// posts are left.
	requestedAuthors map[services.UserID]struct{}
	// readers indexes the watched users by the authors in their badges.
	readers *changelog.ReaderIndex[services.UserID]
}

// pulledAuthor has the newest pulled posts of one author, and says which changes they include. Callers may retain slices of posts: only
// the space after their end is ever written.
type pulledAuthor struct {
	posts             []services.PostID // the oldest first
	nextOlder         services.PostID   // the newest post that is older than posts; 0 if there is none
	logVersion        uint64            // a version of the changelog: all changes up to it are applied
	changesAheadOfLog uint64            // how many of this node's changes after logVersion are applied already
}

// PulledPosts are the newest posts of a followed author, the oldest first. Callers must not modify them, and may keep them:
// the cache never writes into posts that it has returned.
type PulledPosts struct {
	services.FollowedAuthor
	Posts     []services.PostID
	NextOlder services.PostID // the newest post that is older than Posts; 0 if there is none
}

// newPulledCache makes an empty cache that follows the log.
func newPulledCache(log *changelog.Follower, facts PulledFacts) *PulledCache {
	p := &PulledCache{
		facts: facts, log: log.Logger(),
		authors: map[services.UserID]*pulledAuthor{}, ownChangesAheadOfLog: map[uint64]PullChange{},
		requestedAuthors: map[services.UserID]struct{}{}, readers: changelog.NewReaderIndex[services.UserID](log),
	}
	log.Register(changelog.Kind{Name: PullChangelogKind, Load: p.load, Apply: changelog.ApplyEach(p.apply)})
	log.RegisterPollTask(changelog.PollTask{Name: "pulled posts", Phase: changelog.AfterEachLogRead, Run: p.readRequested})
	log.RegisterVersionPart(changelog.VersionPart{AddVersions: p.addVersions, Unfollow: p.readers.Unfollow})
	return p
}

// SetFollowedAuthors sets the authors in the badges of a user who is watched on this node. The user is notified when pulled posts of
// these authors change: see changelog.ReaderIndex.
func (p *PulledCache) SetFollowedAuthors(user services.UserID, authors []services.FollowedAuthor) {
	p.readers.Follow(user, len(authors), func(i int) services.UserID { return authors[i].Author })
}

// addVersions adds to each user's sum the versions of the authors in their badges, as this node knows them. The shared half of the
// badges' version rises with the sum: see changelog.VersionPart.
func (p *PulledCache) addVersions(users []services.UserID, sums []uint64) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.readers.Each(users, func(i int, author services.UserID) {
		if known := p.authors[author]; known != nil {
			sums[i] += known.effectiveVersion()
		}
	})
}

// LoadMissing reads the authors that are not cached yet, with one SELECT for each 200. That is rare, because all authors are read at
// the start. When SQL does not answer, results of the cache say that they are incomplete.
func (p *PulledCache) LoadMissing(ctx context.Context, lists ...[]services.FollowedAuthor) {
	// Usually all authors are known, and a read lock is enough.
	missing := map[services.UserID]struct{}{}
	p.mu.RLock()
	for _, list := range lists {
		for _, author := range list {
			if p.authors[author.Author] == nil {
				missing[author.Author] = struct{}{}
			}
		}
	}
	p.mu.RUnlock()
	if len(missing) == 0 {
		return
	}
	authors := slices.Sorted(maps.Keys(missing))
	if err := p.read(ctx, authors); err != nil {
		p.requestRead(authors)
		if ctx.Err() == nil {
			p.log.Warn("the posts of huge authors could not be read", "error", err)
		}
	}
}

// Count counts the authors' posts that are newer than both the reader's seen position and the follow. AtLeast says that posts which
// the cache no longer holds may count too.
func (p *PulledCache) Count(authors []services.FollowedAuthor, seen services.PostID) (count services.PulledCount) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, author := range authors {
		known := p.authors[author.Author]
		if known == nil {
			count.CacheNotLoaded = true
			continue
		}
		// A follow that counts no posts has the greatest ID in ItemsCountAfter.
		after := max(seen, services.PostID(author.ItemsCountAfter))
		at, _ := slices.BinarySearch(known.posts, after+1)
		count.NewPosts += len(known.posts) - at
		count.AtLeast = count.AtLeast || known.nextOlder > after
		count.VersionSum += known.effectiveVersion()
	}
	return count
}

// PostsOf lists the posts of the authors. known is false when an author is not cached.
func (p *PulledCache) PostsOf(authors []services.FollowedAuthor) (list []PulledPosts, known bool) {
	known = true
	list = make([]PulledPosts, 0, len(authors))
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, author := range authors {
		if one := p.authors[author.Author]; one != nil {
			list = append(list, PulledPosts{FollowedAuthor: author, Posts: one.posts, NextOlder: one.nextOlder})
		} else {
			known = false
		}
	}
	return list, known
}

// ApplyOwnChange makes this node see its own change of a pulled post at once, before the log brings it with its version.
func (p *PulledCache) ApplyOwnChange(change PullChange, version uint64) {
	p.applyOwn(change, version)
	p.readers.Notify()
}

// apply applies an entry of the log. An entry that cannot be read was written by a newer version of this program.
func (p *PulledCache) apply(entry changelog.Entry) {
	change, err := ParsePullChange(entry)
	if err != nil {
		p.log.Error("a change of pulled posts cannot be read", "error", err)
		return
	}
	p.applyLogged(change, entry.Version)
}

// load reads the newest posts of all authors who ever had a pulled post. Authors that are cached stay until they are
// read: readers meanwhile see the older state and not an empty one.
func (p *PulledCache) load(ctx context.Context) error {
	for after := services.UserID(0); ; {
		authors, err := p.facts.PullAuthors(ctx, after, pulledAuthorsPerRead)
		if err != nil || len(authors) == 0 {
			return err
		}
		if err := p.read(ctx, authors); err != nil {
			return err
		}
		after = authors[len(authors)-1]
	}
}

// read reads the pulled posts of authors from SQL into the cache.
func (p *PulledCache) read(ctx context.Context, authors []services.UserID) error {
	for part := range slices.Chunk(authors, pulledAuthorsPerRead) {
		read, err := p.facts.PulledPosts(ctx, part, pulledPostsKeptPerAuthor)
		if err != nil {
			return err
		}
		p.install(part, read)
	}
	return nil
}

// readRequested reads the authors that were asked for and are not cached, and those with too few posts left, and notifies their
// readers.
func (p *PulledCache) readRequested(ctx context.Context) error {
	p.mu.Lock()
	wanted := slices.Sorted(maps.Keys(p.requestedAuthors))
	p.mu.Unlock()
	err := p.read(ctx, wanted)
	p.readers.Notify()
	return err
}

// requestRead asks for authors to be read from SQL after the next read of the changelog: see readRequested.
func (p *PulledCache) requestRead(authors []services.UserID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, author := range authors {
		p.requestedAuthors[author] = struct{}{}
	}
}

// install installs authors that were read from SQL, and applies again the changes that this node has made since. It ignores a read
// that is older than the cache: an author that is still requested is read again.
func (p *PulledCache) install(authors []services.UserID, read map[services.UserID]posts.PulledPosts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, author := range authors {
		former, facts := p.authors[author], read[author]
		if former != nil && facts.ChangelogVersion < former.logVersion {
			continue
		}
		next := &pulledAuthor{posts: facts.Posts, nextOlder: facts.NextOlder, logVersion: facts.ChangelogVersion}
		// This node's own changes that the read from SQL includes are dropped; later ones are applied on top, in their order.
		for _, version := range slices.Sorted(maps.Keys(p.ownChangesAheadOfLog)) {
			switch change := p.ownChangesAheadOfLog[version]; {
			case change.Author != author:
			case version <= next.logVersion:
				delete(p.ownChangesAheadOfLog, version)
			default:
				next.changesAheadOfLog++
				next.apply(change)
			}
		}
		delete(p.requestedAuthors, author)
		p.authors[author] = next
		if former == nil || former.effectiveVersion() != next.effectiveVersion() || former.nextOlder != next.nextOlder || !slices.Equal(former.posts, next.posts) {
			p.readers.RecordChange(author)
		}
	}
}

// applyLogged applies the log's change at a version. Changes arrive in the order of their versions. A change that the cache has
// already, from a load or because this node made it, changes no posts.
func (p *PulledCache) applyLogged(change PullChange, version uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, early := p.ownChangesAheadOfLog[version]
	delete(p.ownChangesAheadOfLog, version)
	author := p.authors[change.Author]
	switch {
	case author == nil:
		p.requestedAuthors[change.Author] = struct{}{}
	// The read from SQL had this change.
	case version <= author.logVersion:
	// This node has applied the change already: the posts stay as they are.
	case early:
		author.logVersion = version
		author.changesAheadOfLog--
	default:
		author.logVersion = version
		if !p.hasDeletedAlready(change) {
			p.applyToAuthor(author, change)
		}
		p.readers.RecordChange(change.Author)
	}
}

// hasDeletedAlready reports whether this node has already deleted a post whose publication the log brings only now.
func (p *PulledCache) hasDeletedAlready(change PullChange) bool {
	for _, early := range p.ownChangesAheadOfLog {
		if early.Deleted && early.Post == change.Post {
			return true
		}
	}
	return false
}

// applyOwn applies a change of this node, which the log may have brought already.
func (p *PulledCache) applyOwn(change PullChange, version uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	author := p.authors[change.Author]
	// The log has brought the change already, or a repeated command reports it a second time.
	if _, known := p.ownChangesAheadOfLog[version]; known || author != nil && version <= author.logVersion {
		return
	}
	p.ownChangesAheadOfLog[version] = change
	if author == nil {
		p.requestedAuthors[change.Author] = struct{}{}
		return
	}
	author.changesAheadOfLog++
	p.applyToAuthor(author, change)
	p.readers.RecordChange(change.Author)
}

// applyToAuthor applies a change of an author. If too few posts are left and there are older ones, it schedules a new read of the
// author.
func (p *PulledCache) applyToAuthor(author *pulledAuthor, change PullChange) {
	author.apply(change)
	if author.hasTooFewPosts() {
		p.requestedAuthors[change.Author] = struct{}{}
	}
}

// effectiveVersion is a version of the cached posts. It rises with every change, in whatever order this node learns of changes, and is
// greatest when the node knows all of them. The changes ahead of the log have versions above logVersion, which are whole numbers: the
// version of the last change is therefore at least logVersion + changesAheadOfLog. The sum is doubled, so that it can be one less while
// older posts still have to be read.
func (a *pulledAuthor) effectiveVersion() uint64 {
	sequence := 2 * (a.logVersion + a.changesAheadOfLog)
	if a.hasTooFewPosts() {
		sequence--
	}
	return sequence
}

// hasTooFewPosts reports whether deletions have left too few posts while older ones exist.
func (a *pulledAuthor) hasTooFewPosts() bool {
	return len(a.posts) < services.FeedRetention && a.nextOlder > 0
}

// apply applies a change to the posts.
func (a *pulledAuthor) apply(change PullChange) {
	at, known := slices.BinarySearch(a.posts, change.Post)
	switch {
	case change.Deleted && known:
		a.posts = slices.Concat(a.posts[:at], a.posts[at+1:])
	case change.Deleted || known || change.Post <= a.nextOlder: // Post 0, an author without a post, is never above nextOlder
		return
	case at == len(a.posts):
		a.posts = append(a.posts, change.Post)
	default:
		a.posts = slices.Concat(a.posts[:at], []services.PostID{change.Post}, a.posts[at:])
	}
	if over := len(a.posts) - pulledPostsKeptPerAuthor; over > pulledTrimSlack {
		a.nextOlder = a.posts[over-1]
		a.posts = slices.Clone(a.posts[over:])
	}
}
