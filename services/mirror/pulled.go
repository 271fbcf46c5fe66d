package mirror

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/store"
)

const (
	pulledKept  = services.Retention + 32 // posts of an author after a load or a trim
	pulledSlack = 32                      // and so many more before the next trim
	pulledBatch = 200                     // authors in one SELECT
	// recentFor is how long a change is remembered for loads that began before it, and a deletion for a publication that the
	// log brings after it.
	recentFor = 30 * time.Second
)

// pulled are the newest posts of the authors whose posts nobody writes into inboxes. Every node has all of them.
type pulled struct {
	mu      sync.RWMutex
	authors map[services.UserNumber]*pulledAuthor
	stamp   uint64                       // the newest that was given: what is learnt later has a greater one
	recent  []recentChange               // made again on what a load brings, which may have read before them
	gone    map[services.PostID]struct{} // the deletions among them
	wanted  map[services.UserNumber]struct{}
	readers *readers[services.UserNumber]
}

// pulledAuthor is one author's posts. Who has read posts may keep them: only what is after their end is ever written.
type pulledAuthor struct {
	posts []services.PostID // the oldest first
	floor services.PostID   // the newest that is older than these, 0 when there is none
	stamp uint64            // of the last change (us)
}

type recentChange struct {
	PullChange
	at time.Time // when this node heard of it
}

// PulledPosts are the newest posts of an author whom a reader follows, the oldest first; not to be changed.
type PulledPosts struct {
	services.FollowedAuthor
	Posts []services.PostID
	Floor services.PostID // the newest that is older than these, 0 when there is none
}

func newPulled() pulled {
	return pulled{
		authors: map[services.UserNumber]*pulledAuthor{}, gone: map[services.PostID]struct{}{},
		wanted: map[services.UserNumber]struct{}{}, readers: newReaders[services.UserNumber](),
	}
}

// LearnPulled reads the authors of whom nothing is known yet, in one SELECT for each 200: rarely any, because all that there
// are were read at the start. When SQL does not answer, what is read from memory says so.
func (m *Mirror) LearnPulled(ctx context.Context, lists ...[]services.FollowedAuthor) {
	missing := map[services.UserNumber]struct{}{}
	m.pulled.mu.RLock()
	for _, list := range lists {
		for _, author := range list {
			if m.pulled.authors[author.Author] == nil {
				missing[author.Author] = struct{}{}
			}
		}
	}
	m.pulled.mu.RUnlock()
	if len(missing) == 0 {
		return
	}
	authors := slices.Sorted(maps.Keys(missing))
	if err := m.readPulled(ctx, authors, 0); err != nil {
		m.pulled.want(authors)
		if ctx.Err() == nil {
			m.log.Warn("the posts of authors with a huge audience could not be read", "error", err)
		}
	}
}

// CountPulled counts the posts of the authors that are newer than what the reader has seen and than his follows.
func (m *Mirror) CountPulled(authors []services.FollowedAuthor, seen services.PostID) (count services.PulledCount) {
	m.pulled.mu.RLock()
	defer m.pulled.mu.RUnlock()
	for _, author := range authors {
		known := m.pulled.authors[author.Author]
		if known == nil {
			count.Behind = true
			continue
		}
		after := max(seen, author.Since)
		at, _ := slices.BinarySearch(known.posts, after+1)
		count.New += len(known.posts) - at
		count.More = count.More || known.floor > after
		count.Stamp = max(count.Stamp, known.stamp)
	}
	return count
}

// Pulled are the posts of the authors. known is false when of some nothing is known.
func (m *Mirror) Pulled(authors []services.FollowedAuthor) (list []PulledPosts, known bool) {
	known = true
	list = make([]PulledPosts, 0, len(authors))
	m.pulled.mu.RLock()
	defer m.pulled.mu.RUnlock()
	for _, author := range authors {
		if one := m.pulled.authors[author.Author]; one != nil {
			list = append(list, PulledPosts{FollowedAuthor: author, Posts: one.posts, Floor: one.floor})
		} else {
			known = false
		}
	}
	return list, known
}

// PulledChanged lets this node see its own change of a pulled post at once, before the log brings it.
func (m *Mirror) PulledChanged(change PullChange, at time.Time) {
	m.pulled.apply(change, at, m.clock.Now())
	tellReaders(m, m.pulled.readers)
}

func (m *Mirror) applyPull(entry store.LogEntry) {
	change, err := ParsePullChange(entry)
	if err != nil {
		m.log.Error("a change of pulled posts cannot be read", "error", err)
		return
	}
	m.pulled.apply(change, entry.At, m.clock.Now())
}

// loadPulled reads the newest posts of all authors who ever had a pulled one. All of it has the stamp of the newest change
// that the log knows, which is at least that of every change that is in it.
func (m *Mirror) loadPulled(ctx context.Context) error {
	m.pulled.forgetRecent()
	var at uint64
	head, _, err := m.facts.LogHead(ctx, LogPull)
	if err != nil {
		return err
	}
	if head > 0 {
		newest, err := m.facts.LogAfter(ctx, LogPull, head-1, 1)
		if err != nil {
			return err
		}
		if len(newest) > 0 {
			at = uint64(newest[0].At.UnixMicro())
		}
	}
	for after := services.UserNumber(0); ; {
		authors, err := m.facts.PullAuthors(ctx, after, pulledBatch)
		if err != nil || len(authors) == 0 {
			return err
		}
		if err := m.readPulled(ctx, authors, at); err != nil {
			return err
		}
		after = authors[len(authors)-1]
	}
}

// readPulled reads authors anew.
func (m *Mirror) readPulled(ctx context.Context, authors []services.UserNumber, at uint64) error {
	for part := range slices.Chunk(authors, pulledBatch) {
		read, err := m.facts.PulledPosts(ctx, part, pulledKept)
		if err != nil {
			return err
		}
		m.pulled.install(part, read, at, m.clock.Now())
	}
	return nil
}

// readWanted reads the authors who were named and are not known, or of whom too little is left, and tells their readers.
func (m *Mirror) readWanted(ctx context.Context) error {
	m.pulled.mu.Lock()
	wanted := slices.Sorted(maps.Keys(m.pulled.wanted))
	m.pulled.mu.Unlock()
	err := m.readPulled(ctx, wanted, 0)
	tellReaders(m, m.pulled.readers)
	return err
}

// forgetRecent is for a load of everything: the log goes on after what is read then, and would not bring the deletion of a
// post again whose publication was heard of before.
func (p *pulled) forgetRecent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent = nil
	clear(p.gone)
}

func (p *pulled) want(authors []services.UserNumber) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, author := range authors {
		p.wanted[author] = struct{}{}
	}
}

// install puts in what was read of authors, and makes again what changed since it may have been read.
func (p *pulled) install(authors []services.UserNumber, read map[services.UserNumber]store.PulledPosts, at uint64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stamp := max(p.stamp+1, at)
	changes := map[services.UserNumber][]PullChange{}
	for _, change := range p.recent {
		// What is gone would only push others out.
		if _, gone := p.gone[change.Post]; now.Sub(change.at) <= recentFor && (!gone || change.Deleted) {
			changes[change.Author] = append(changes[change.Author], change.PullChange)
		}
	}
	for _, author := range authors {
		next := &pulledAuthor{posts: read[author].Posts, floor: read[author].Floor}
		for _, change := range changes[author] {
			next.apply(change)
		}
		delete(p.wanted, author)
		former := p.authors[author]
		if former != nil && former.floor == next.floor && slices.Equal(former.posts, next.posts) {
			continue
		}
		p.stamp, next.stamp = stamp, stamp
		p.authors[author] = next
		p.readers.moved(author)
	}
}

// apply makes one change, which may be known already. Two changes of one moment are two versions of every badge that shows
// them.
func (p *pulled) apply(change PullChange, at, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, gone := p.gone[change.Post]; gone && !change.Deleted {
		return // what was deleted stays so
	}
	p.remember(change, now)
	author := p.authors[change.Author]
	if author == nil {
		p.wanted[change.Author] = struct{}{}
		return
	}
	if !author.apply(change) {
		return
	}
	if len(author.posts) < services.Retention && author.floor > 0 {
		p.wanted[change.Author] = struct{}{} // there are older ones
	}
	p.stamp = max(p.stamp+1, uint64(at.UnixMicro()))
	author.stamp = p.stamp
	p.readers.moved(change.Author)
}

// remember keeps a change for a while. It looks for what it may forget whenever it would need more room.
func (p *pulled) remember(change PullChange, now time.Time) {
	if len(p.recent) == cap(p.recent) {
		old := 0
		for ; old < len(p.recent) && now.Sub(p.recent[old].at) > recentFor; old++ {
			delete(p.gone, p.recent[old].Post)
		}
		p.recent = slices.Delete(p.recent, 0, old)
	}
	p.recent = append(p.recent, recentChange{change, now})
	if change.Deleted {
		p.gone[change.Post] = struct{}{}
	}
}

// apply makes a change and says whether it was news.
func (a *pulledAuthor) apply(change PullChange) bool {
	at, known := slices.BinarySearch(a.posts, change.Post)
	switch {
	case change.Deleted && known:
		a.posts = slices.Concat(a.posts[:at], a.posts[at+1:])
	case change.Deleted || known || change.Post <= a.floor: // with no post at all it is not above any floor
		return false
	case at == len(a.posts):
		a.posts = append(a.posts, change.Post)
	default:
		a.posts = slices.Concat(a.posts[:at], []services.PostID{change.Post}, a.posts[at:])
	}
	if over := len(a.posts) - pulledKept; over > pulledSlack {
		a.floor = a.posts[over-1]
		a.posts = slices.Clone(a.posts[over:])
	}
	return true
}
