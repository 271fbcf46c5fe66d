package mirror

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/store"
)

const (
	pulledKept  = services.Retention + 32 // posts of an author after a load or a trim
	pulledSlack = 32                      // and so many more before the next trim
	pulledBatch = 200                     // authors in one SELECT
)

// PulledFacts is what SQL knows of pulled posts.
type PulledFacts interface {
	PullAuthors(ctx context.Context, after services.UserID, limit int) ([]services.UserID, error)
	PulledPosts(ctx context.Context, authors []services.UserID, limit int) (map[services.UserID]store.PulledPosts, error)
}

// Pulled is this node's memory of the newest posts of the authors whose posts nobody writes into inboxes: of all of them. It is
// safe for concurrent use.
type Pulled struct {
	facts PulledFacts
	log   *slog.Logger

	mu      sync.RWMutex
	authors map[services.UserID]*pulledAuthor
	early   map[uint64]PullChange // by version: this node's own changes that no author's version has reached yet
	wanted  map[services.UserID]struct{}
	readers *changelog.Readers[services.UserID]
}

// pulledAuthor is one author's posts. Callers may retain posts: only what is after their end is ever written.
type pulledAuthor struct {
	posts   []services.PostID // the oldest first
	floor   services.PostID   // the newest that is older than these, 0 when there is none
	version uint64            // of the log: all changes up to it are made
	early   uint64            // how many changes after it are made besides
}

// PulledPosts are the newest posts of an author whom a reader follows, the oldest first; not to be changed.
type PulledPosts struct {
	services.FollowedAuthor
	Posts []services.PostID
	Floor services.PostID // the newest that is older than these, 0 when there is none
}

// NewPulled makes an empty memory that follows the log.
func NewPulled(log *changelog.Follower, facts PulledFacts) *Pulled {
	p := &Pulled{
		facts: facts, log: log.Logger(),
		authors: map[services.UserID]*pulledAuthor{}, early: map[uint64]PullChange{},
		wanted: map[services.UserID]struct{}{}, readers: changelog.NewReaders[services.UserID](log),
	}
	log.Register(changelog.Kind{Name: LogPull, Load: p.load, Apply: changelog.Each(p.apply)})
	log.RegisterTurn(changelog.Turn{Name: "pulled posts", When: changelog.AfterLook, Run: p.readWanted})
	log.RegisterStream(changelog.Stream{Learned: p.learned, Unfollow: p.readers.Unfollow})
	return p
}

// Follow says which authors are in the badges of a user who is watched here: see changelog.Readers.
func (p *Pulled) Follow(user services.UserID, authors []services.FollowedAuthor) {
	p.readers.Follow(user, len(authors), func(i int) services.UserID { return authors[i].Author })
}

func (p *Pulled) learned(users []services.UserID, sums []uint64) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.readers.Each(users, func(i int, author services.UserID) {
		if known := p.authors[author]; known != nil {
			sums[i] += known.sequence()
		}
	})
}

// Learn reads the authors of whom nothing is known yet, in one SELECT for each 200: rarely any, because all that there
// are were read at the start. When SQL does not answer, what is read from memory says so.
func (p *Pulled) Learn(ctx context.Context, lists ...[]services.FollowedAuthor) {
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
		p.want(authors)
		if ctx.Err() == nil {
			p.log.Warn("the posts of authors with a huge audience could not be read", "error", err)
		}
	}
}

// Count counts the posts of the authors that are newer than what the reader has seen and than their follows.
func (p *Pulled) Count(authors []services.FollowedAuthor, seen services.PostID) (count services.PulledCount) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, author := range authors {
		known := p.authors[author.Author]
		if known == nil {
			count.Behind = true
			continue
		}
		after := max(seen, author.Since)
		at, _ := slices.BinarySearch(known.posts, after+1)
		count.New += len(known.posts) - at
		count.More = count.More || known.floor > after
		count.Sequence += known.sequence()
	}
	return count
}

// Of lists the posts of the authors. known is false when of some nothing is known.
func (p *Pulled) Of(authors []services.FollowedAuthor) (list []PulledPosts, known bool) {
	known = true
	list = make([]PulledPosts, 0, len(authors))
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, author := range authors {
		if one := p.authors[author.Author]; one != nil {
			list = append(list, PulledPosts{FollowedAuthor: author, Posts: one.posts, Floor: one.floor})
		} else {
			known = false
		}
	}
	return list, known
}

// Changed lets this node see its own change of a pulled post at once, before the log brings it with its version.
func (p *Pulled) Changed(change PullChange, version uint64) {
	p.applyOwn(change, version)
	p.readers.Notify()
}

func (p *Pulled) apply(entry changelog.Entry) {
	change, err := ParsePullChange(entry)
	if err != nil {
		p.log.Error("a change of pulled posts cannot be read", "error", err)
		return
	}
	p.applyLogged(change, entry.Version)
}

// load reads the newest posts of all authors who ever had a pulled one.
func (p *Pulled) load(ctx context.Context) error {
	for after := services.UserID(0); ; {
		authors, err := p.facts.PullAuthors(ctx, after, pulledBatch)
		if err != nil || len(authors) == 0 {
			return err
		}
		if err := p.read(ctx, authors); err != nil {
			return err
		}
		after = authors[len(authors)-1]
	}
}

// read reads authors anew.
func (p *Pulled) read(ctx context.Context, authors []services.UserID) error {
	for part := range slices.Chunk(authors, pulledBatch) {
		read, err := p.facts.PulledPosts(ctx, part, pulledKept)
		if err != nil {
			return err
		}
		p.install(part, read)
	}
	return nil
}

// readWanted reads the authors who were named and are not known, or of whom too little is left, and tells their readers.
func (p *Pulled) readWanted(ctx context.Context) error {
	p.mu.Lock()
	wanted := slices.Sorted(maps.Keys(p.wanted))
	p.mu.Unlock()
	err := p.read(ctx, wanted)
	p.readers.Notify()
	return err
}

func (p *Pulled) want(authors []services.UserID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, author := range authors {
		p.wanted[author] = struct{}{}
	}
}

// install puts in what was read of authors, and makes again what this node has changed since. What was read before memory
// came to where it is changes nothing: who was wanted is read again.
func (p *Pulled) install(authors []services.UserID, read map[services.UserID]store.PulledPosts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, author := range authors {
		former, facts := p.authors[author], read[author]
		if former != nil && facts.Version < former.version {
			continue
		}
		next := &pulledAuthor{posts: facts.Posts, floor: facts.Floor, version: facts.Version}
		for _, version := range slices.Sorted(maps.Keys(p.early)) {
			switch change := p.early[version]; {
			case change.Author != author:
			case version <= next.version:
				delete(p.early, version)
			default:
				next.early++
				next.apply(change)
			}
		}
		delete(p.wanted, author)
		p.authors[author] = next
		if former == nil || former.sequence() != next.sequence() || former.floor != next.floor || !slices.Equal(former.posts, next.posts) {
			p.readers.Moved(author)
		}
	}
}

// applyLogged makes the change that the log has at a version. Changes come in the order of their versions; one that memory has
// already, by a load or because this node made it early, changes no posts.
func (p *Pulled) applyLogged(change PullChange, version uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, early := p.early[version]
	delete(p.early, version)
	author := p.authors[change.Author]
	switch {
	case author == nil:
		p.wanted[change.Author] = struct{}{}
	case version <= author.version:
	case early:
		author.version = version
		author.early--
	default:
		author.version = version
		if !p.deletedEarly(change) {
			p.change(author, change)
		}
		p.readers.Moved(change.Author)
	}
}

// deletedEarly says whether this node has deleted a post already whose publication the log brings now.
func (p *Pulled) deletedEarly(change PullChange) bool {
	for _, early := range p.early {
		if early.Deleted && early.Post == change.Post {
			return true
		}
	}
	return false
}

// applyOwn makes a change of this node, which the log may have brought already.
func (p *Pulled) applyOwn(change PullChange, version uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	author := p.authors[change.Author]
	if _, known := p.early[version]; known || author != nil && version <= author.version {
		return
	}
	p.early[version] = change
	if author == nil {
		p.wanted[change.Author] = struct{}{}
		return
	}
	author.early++
	p.change(author, change)
	p.readers.Moved(change.Author)
}

// change makes a change of an author, and has the author read again where that leaves too few posts and there are older ones.
func (p *Pulled) change(author *pulledAuthor, change PullChange) {
	author.apply(change)
	if author.short() {
		p.wanted[change.Author] = struct{}{}
	}
}

// sequence rises with every change, in whatever order this node learns of them, and is greatest where all are known: versions
// are whole numbers, so that the version of the last change is no less than that of an earlier one and the changes in between.
// It counts twice, and is one less while older posts are still to be read.
func (a *pulledAuthor) sequence() uint64 {
	sequence := 2 * (a.version + a.early)
	if a.short() {
		sequence--
	}
	return sequence
}

// short says that deletions have left too few posts, and that there are older ones.
func (a *pulledAuthor) short() bool { return len(a.posts) < services.Retention && a.floor > 0 }

// apply makes a change of the posts.
func (a *pulledAuthor) apply(change PullChange) {
	at, known := slices.BinarySearch(a.posts, change.Post)
	switch {
	case change.Deleted && known:
		a.posts = slices.Concat(a.posts[:at], a.posts[at+1:])
	case change.Deleted || known || change.Post <= a.floor: // with no post at all it is not above any floor
		return
	case at == len(a.posts):
		a.posts = append(a.posts, change.Post)
	default:
		a.posts = slices.Concat(a.posts[:at], []services.PostID{change.Post}, a.posts[at:])
	}
	if over := len(a.posts) - pulledKept; over > pulledSlack {
		a.floor = a.posts[over-1]
		a.posts = slices.Clone(a.posts[over:])
	}
}
