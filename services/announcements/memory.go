package announcements

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/sql"
)

// factsReader reads announcements and dots from SQL.
type factsReader interface {
	facts(ctx context.Context) (Facts, error)
	announcements(ctx context.Context, ids []services.AnnouncementID) (map[services.AnnouncementID]Announcement, error)
}

// sqlReader is the factsReader of a node.
type sqlReader struct{ db *sql.DB }

func (d sqlReader) facts(ctx context.Context) (Facts, error) { return readFacts(ctx, d.db) }

func (d sqlReader) announcements(ctx context.Context, ids []services.AnnouncementID) (map[services.AnnouncementID]Announcement, error) {
	return Read(ctx, d.db.Runner, ids)
}

// SharedState is the announcements and dots that all users share, as they are at a moment. It is immutable.
type SharedState struct {
	LogVersion    uint64         // the version of the changelog that the state includes
	EndedCount    uint64         // how many announcements have ended, a part of sequence(); a clock that is set back does not lower it
	Announcements []Announcement // the running ones, the newest first, without their texts
	Dots          []Dot          // in the order of their names

	validFrom, validUntil time.Time // the time in which it is valid, validUntil excluded
}

// Memory is this node's cache of announcements and dots. It is safe for concurrent use.
type Memory struct {
	reader factsReader
	log    *changelog.Follower // of this node
	// setDocumentDots is rdb.Projections.SetDots: from then on documents are read with the fields of these dots. It is called before a
	// new dot is shown.
	setDocumentDots func(names []string)
	texts           *changelog.Cache[services.AnnouncementID, Announcement] // whole announcements, with their texts, for lists
	current         atomic.Pointer[SharedState]                             // the state that was made last

	// mu guards facts and endedCountOffset, and the making of current; readers of current take no lock.
	mu               sync.Mutex
	facts            *Facts // nil: never loaded
	endedCountOffset uint64 // added to EndedCount, so that sequence does not fall when this node's clock is set back
}

// newMemory makes an empty cache that follows the log. Before the cache shows the dots of a load, it calls setDots with their names.
func newMemory(log *changelog.Follower, from factsReader, setDots func(names []string)) *Memory {
	m := &Memory{
		reader: from, log: log, setDocumentDots: setDots,
		// Twice as many as can run at once: texts of announcements that do not run are read too, and the cache also holds
		// changes of texts that nobody has read.
		texts: changelog.NewCache[services.AnnouncementID](2*maxListedAnnouncements, func(a Announcement) time.Time { return a.UpdatedAt }),
	}
	log.Register(changelog.Kind{Name: ChangelogKind, Load: m.load, ConcernsAllUsers: true})
	log.RegisterVersionPart(changelog.VersionPart{AddVersions: m.addVersions})
	return m
}

// addVersions adds to each user's sum what the cache contains of the changelog: twice the version, as it counts in the sequence of a
// SharedState. It omits the ends of announcements, because every node counts these by its own clock.
func (m *Memory) addVersions(_ []services.UserID, sums []uint64) {
	learned := 2 * m.cachedVersion()
	for i := range sums {
		sums[i] += learned
	}
}

// At returns what all users share at a moment. The error is UNAVAILABLE, and only if SQL has not answered since this node started.
func (m *Memory) At(ctx context.Context, now time.Time) (*SharedState, error) {
	// The common case takes no lock: each rendering of badges comes here.
	current := m.current.Load()
	if current.isValidAt(now) {
		return current, nil
	}
	if current == nil || now.Before(m.cachedFacts().ReadAt.Add(-readerLagTolerance)) {
		// Nothing was loaded yet; or the clock was set back, and the cache no longer has the announcements that ended meanwhile.
		if err := m.Refresh(ctx); err != nil && current == nil {
			return nil, err
		}
	}
	return m.stateAt(now), nil
}

// readerLagTolerance is how far a reader's time may be behind the newest reader's, as when the reader took the time and was then
// delayed. Such a reader gets the newest state. Otherwise an announcement that has just ended would flicker.
const readerLagTolerance = time.Second

// stateLifetime is how long a state is valid if no announcement ends.
const stateLifetime = 24 * time.Hour

// isValidAt reports whether the state is valid at a moment. A nil state never is.
func (s *SharedState) isValidAt(now time.Time) bool {
	return s != nil && now.After(s.validFrom.Add(-readerLagTolerance)) && now.Before(s.validUntil)
}

// Refresh makes this node see its own change at once, before the log brings it, and notifies the watchers. When SQL does not
// answer, the cache stays as it is. Unlike changelog.KindFollower.Refresh it does not read the log: load reads everything anyway.
// It may run beside the log's own load, since installIfNewer keeps the newer of two loads.
func (m *Memory) Refresh(ctx context.Context) error {
	before := m.cachedStamp()
	if err := m.load(ctx); err != nil {
		return err
	}
	// A refresh that brings nothing new wakes nobody.
	if m.cachedStamp() != before {
		m.log.NotifySharedChange()
	}
	return nil
}

// catchUp makes sure that the cache contains the change with a stamp. Many changes that were committed together are read once.
func (m *Memory) catchUp(ctx context.Context, stamp uint64) error {
	if m.cachedStamp() >= stamp {
		return nil
	}
	return m.Refresh(ctx)
}

// load reads everything anew. It drops the cached texts of announcements that have changed since the texts were read.
func (m *Memory) load(ctx context.Context) error {
	facts, err := m.reader.facts(ctx)
	if err != nil {
		return err
	}
	names := services.Map(facts.Dots, func(dot Dot) string { return dot.Name })
	if m.installIfNewer(&facts, func() { m.setDocumentDots(names) }) {
		for _, announcement := range facts.Announcements {
			m.texts.RecordChange(announcement.ID, announcement.UpdatedAt)
		}
	}
	return nil
}

// readWithTexts reads whole announcements, in any state, from the cache and the missing ones from SQL. Unknown ids are absent.
func (m *Memory) readWithTexts(ctx context.Context, ids []services.AnnouncementID) (map[services.AnnouncementID]Announcement, error) {
	found, missing := m.texts.GetAll(ids)
	if len(missing) == 0 {
		return found, nil
	}
	facts, err := m.reader.announcements(ctx, missing)
	if err != nil {
		return nil, err
	}
	// The texts are kept for the next reader, unless a change came while they were read.
	m.texts.AddReadValues(found, facts, nil)
	return found, nil
}

// installIfNewer installs facts that were read, and makes the current state from them. Before it changes anything, it calls before. It
// returns false, and does nothing, if the cache has newer facts.
func (m *Memory) installIfNewer(facts *Facts, before func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Two loads ran beside each other, and this one read first.
	if m.facts != nil && facts.LastChangeStamp < m.facts.LastChangeStamp {
		return false
	}
	before()
	m.facts = facts
	m.makeState(facts.ReadAt)
	return true
}

// cachedStamp is the stamp of the last change that is cached; 0 before the first load.
func (m *Memory) cachedStamp() uint64 { return m.cachedFacts().LastChangeStamp }

// cachedVersion is the changelog's version at the last change that is cached; 0 before the first load.
func (m *Memory) cachedVersion() uint64 { return m.cachedFacts().LogVersion }

// cachedFacts returns the cached facts, which nobody may change; empty facts before the first load.
func (m *Memory) cachedFacts() *Facts {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.facts == nil {
		return &Facts{}
	}
	return m.facts
}

// stateAt makes the state of a moment. The facts must have been loaded.
func (m *Memory) stateAt(now time.Time) *SharedState {
	m.mu.Lock()
	defer m.mu.Unlock()
	if current := m.current.Load(); current.isValidAt(now) {
		return current
	}
	return m.makeState(now)
}

// makeState makes the state of a moment and keeps it as the current one. It depends only on the facts and the moment, so that all
// nodes make the same state, even one that has just started. Only on a node whose clock was set back, endedCountOffset is added.
func (m *Memory) makeState(now time.Time) *SharedState {
	// The facts leave out what had ended when they were read, so no earlier moment can be shown.
	if now.Before(m.facts.ReadAt) {
		now = m.facts.ReadAt
	}
	shown := &SharedState{Dots: m.facts.Dots, LogVersion: m.facts.LogVersion, EndedCount: m.facts.EndedCount, validFrom: m.facts.ReadAt, validUntil: now.Add(stateLifetime)}
	// passes reports whether an end is in the past, and narrows the time in which the state is valid.
	passes := func(end time.Time) bool {
		switch {
		case end.IsZero():
		case !now.Before(end):
			shown.EndedCount++
			shown.validFrom = later(shown.validFrom, end)
			return true
		case end.Before(shown.validUntil):
			shown.validUntil = end
		}
		return false
	}
	for _, announcement := range m.facts.Announcements {
		if !passes(announcement.EndsAt) {
			shown.Announcements = append(shown.Announcements, announcement)
		}
	}
	// Every node counts the same ends, also the ends of announcements that are not shown, so that their sequences agree.
	for _, end := range m.facts.UnlistedEnds {
		passes(end)
	}
	shown.EndedCount += m.endedCountOffset
	if last := m.current.Load(); last != nil {
		same := shown.LogVersion == last.LogVersion && shown.EndedCount == last.EndedCount
		if sequence := last.sequence(); shown.sequence() < sequence || shown.sequence() == sequence && !same {
			more := sequence - shown.sequence() + 1 // so the sequence becomes one more than the last, which stands for other content
			shown.EndedCount, m.endedCountOffset = shown.EndedCount+more, m.endedCountOffset+more
		}
	}
	m.current.Store(shown)
	return shown
}

// sequence rises with every change, including the changes that time makes, and is the same on every node that has the same facts at
// the same time. LogVersion counts twice because a change may lower EndedCount by one.
func (s *SharedState) sequence() uint64 { return 2*s.LogVersion + s.EndedCount }

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// unread lists the announcements that are addressed to a user and lie after the user's position, the newest first. A user
// without a position has none unread.
func (s *SharedState) unread(state services.AnnouncementState, segments Segments) (list []Announcement) {
	s.eachUnread(state, segments, func(a *Announcement) { list = append(list, *a) })
	return list
}

// countUnread counts a user's unread announcements, and returns the time at which the first of them ends; zero if none ends.
func (s *SharedState) countUnread(state services.AnnouncementState, segments Segments) (count int, ends time.Time) {
	s.eachUnread(state, segments, func(a *Announcement) {
		count++
		if end := a.EndsAt; !end.IsZero() && (ends.IsZero() || end.Before(ends)) {
			ends = end
		}
	})
	return count, ends
}

// eachUnread calls do with each announcement that a user has not read. The list is in descending order of positions, so the first that is
// read ends the walk: a badge costs as much as is unread.
func (s *SharedState) eachUnread(state services.AnnouncementState, segments Segments, do func(*Announcement)) {
	if state.Version == 0 {
		return
	}
	for i := range s.Announcements {
		announcement := &s.Announcements[i]
		if announcement.Position <= state.Position {
			break
		}
		if announcement.Segments.reaches(segments) {
			do(announcement)
		}
	}
}

// visible lists at most limit announcements that are addressed to a user and lie before a position, the newest first.
func (s *SharedState) visible(segments Segments, before uint64, limit int) (list []Announcement) {
	for _, announcement := range s.Announcements {
		if len(list) == limit {
			break
		}
		if announcement.Position < before && announcement.Segments.reaches(segments) {
			list = append(list, announcement)
		}
	}
	return list
}

// findVisible reports whether an announcement runs and is addressed to a user, and returns it without its texts.
func (s *SharedState) findVisible(id services.AnnouncementID, segments Segments) (Announcement, bool) {
	for _, announcement := range s.Announcements {
		if announcement.ID == id && announcement.Segments.reaches(segments) {
			return announcement, true
		}
	}
	return Announcement{}, false
}

// dotsFor returns all dots, lit or not, for a user who has cleared some of them up to a stamp. Without a position no dot is lit.
func (s *SharedState) dotsFor(state services.AnnouncementState, segments Segments, cleared map[string]uint64) []services.Dot {
	dots := make([]services.Dot, len(s.Dots))
	for i, dot := range s.Dots {
		dots[i].Name = dot.Name
		dots[i].Lit = state.Version > 0 && dot.litFor(segments, max(state.DotsDismissedUpTo, cleared[dot.Name]))
	}
	return dots
}
