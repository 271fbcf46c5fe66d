package mirror

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/store"
)

// LogNotice is store.LogNotice: an announcement or a dot has changed. The cache is loaded anew.
const LogNotice = store.LogNotice

// AnnouncementFacts reads announcements and dots from SQL.
type AnnouncementFacts interface {
	Notices(ctx context.Context) (store.Notices, error)
	Announcements(ctx context.Context, ids []services.PostID) (map[services.PostID]services.Announcement, error)
}

// Notices are the announcements and dots that all users share, as they are at a moment. It is immutable.
type Notices struct {
	Version       uint64                  // of the log
	Ended         uint64                  // how many announcements have ended; raised further where this node's clock was set back
	Announcements []services.Announcement // the running ones, the newest first, without their texts
	Dots          []services.RaisedDot    // by their names

	from, until time.Time // the time in which it is valid, until excluded
}

// Announcements is this node's cache of announcements and dots. It is safe for concurrent use.
type Announcements struct {
	sql     AnnouncementFacts
	log     *changelog.Follower
	setDots func(names []string)
	texts   *changelog.Cache[services.PostID, services.Announcement]
	current atomic.Pointer[Notices]

	mu     sync.Mutex
	facts  *store.Notices // nil: never loaded
	lifted uint64         // added to Ended, so that this node's sequences do not fall when its clock is set back
}

// NewAnnouncements makes an empty cache that follows the log. It calls setDots with the names of all dots before it installs
// them.
func NewAnnouncements(log *changelog.Follower, facts AnnouncementFacts, setDots func(names []string)) *Announcements {
	n := &Announcements{
		sql: facts, log: log, setDots: setDots,
		// Twice as many as can run at once: texts of announcements that do not run are read too, and the cache also holds
		// changes of texts that nobody has read.
		texts: changelog.NewCache[services.PostID](2*services.MaxAnnouncements, func(a services.Announcement) time.Time { return a.UpdatedAt }),
	}
	log.Register(changelog.Kind{Name: LogNotice, Load: n.load, Shared: true})
	log.RegisterStream(changelog.Stream{Learned: n.learned})
	return n
}

// learned leaves out the changes that time alone makes: every node makes those by itself.
func (n *Announcements) learned(_ []services.UserID, sums []uint64) {
	learned := 2 * n.version()
	for i := range sums {
		sums[i] += learned
	}
}

// At returns what all users share at a moment. It is UNAVAILABLE only when SQL has not answered since this node started.
func (n *Announcements) At(ctx context.Context, now time.Time) (*Notices, error) {
	current := n.current.Load()
	if current.holdsAt(now) {
		return current, nil
	}
	if current == nil || now.Before(n.readAt().Add(-tolerance)) {
		// The clock was set back, and the cache lacks what has ended since.
		if err := n.Refresh(ctx); err != nil && current == nil {
			return nil, err
		}
	}
	return n.shownAt(now), nil
}

// tolerance is how far behind the newest reader another reader's time may be: a reader who took the time and was delayed. Such
// a reader gets the newest state, since otherwise an announcement that has just ended would flicker.
const tolerance = time.Second

// noticesHold is how long a state made of the facts is valid when nothing ends.
const noticesHold = 24 * time.Hour

func (n *Notices) holdsAt(now time.Time) bool {
	return n != nil && now.After(n.from.Add(-tolerance)) && now.Before(n.until)
}

// Refresh makes this node see its own change at once, before the log brings it, and notifies the watchers. When SQL does not
// answer, the cache stays as it is.
func (n *Announcements) Refresh(ctx context.Context) error {
	before := n.stamp()
	if err := n.load(ctx); err != nil {
		return err
	}
	if n.stamp() != before {
		n.log.NotifyShared()
	}
	return nil
}

// CatchUp makes sure that the cache contains the change with a stamp. Many changes that were committed together are read once.
func (n *Announcements) CatchUp(ctx context.Context, stamp uint64) error {
	if n.stamp() >= stamp {
		return nil
	}
	return n.Refresh(ctx)
}

func (n *Announcements) load(ctx context.Context) error {
	facts, err := n.sql.Notices(ctx)
	if err != nil {
		return err
	}
	names := make([]string, len(facts.Dots))
	for i, dot := range facts.Dots {
		names[i] = dot.Name
	}
	if n.take(&facts, func() { n.setDots(names) }) {
		for _, announcement := range facts.Announcements {
			n.texts.Changed(announcement.ID, announcement.UpdatedAt)
		}
	}
	return nil
}

// Whole reads whole announcements, in any state, from the cache and the missing ones from SQL. Unknown ids are absent.
func (n *Announcements) Whole(ctx context.Context, ids []services.PostID) (map[services.PostID]services.Announcement, error) {
	found, missing := n.texts.GetAll(ids)
	if len(missing) == 0 {
		return found, nil
	}
	facts, err := n.sql.Announcements(ctx, missing)
	if err != nil {
		return nil, err
	}
	n.texts.Take(found, facts, nil)
	return found, nil
}

// take installs facts that were read, unless the cache has newer ones, and drops the state made of the former facts. before
// runs first.
func (n *Announcements) take(facts *store.Notices, before func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.facts != nil && facts.Stamp < n.facts.Stamp {
		return false
	}
	before()
	n.facts = facts
	n.show(facts.At)
	return true
}

func (n *Announcements) stamp() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.facts == nil {
		return 0
	}
	return n.facts.Stamp
}

func (n *Announcements) version() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.facts == nil {
		return 0
	}
	return n.facts.Version
}

func (n *Announcements) readAt() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.facts == nil {
		return time.Time{}
	}
	return n.facts.At
}

// shownAt makes the notices of a moment. The facts must have been loaded.
func (n *Announcements) shownAt(now time.Time) *Notices {
	n.mu.Lock()
	defer n.mu.Unlock()
	if current := n.current.Load(); current.holdsAt(now) {
		return current
	}
	return n.show(now)
}

// show makes the notices of a moment and keeps them as the current ones. They depend only on the facts and the moment, so that
// all nodes make the same, even one that has just started.
func (n *Announcements) show(now time.Time) *Notices {
	if now.Before(n.facts.At) {
		now = n.facts.At
	}
	shown := &Notices{Dots: n.facts.Dots, Version: n.facts.Version, Ended: n.facts.Ended, from: n.facts.At, until: now.Add(noticesHold)}
	passes := func(end time.Time) bool {
		switch {
		case end.IsZero():
		case !now.Before(end):
			shown.Ended++
			shown.from = later(shown.from, end)
			return true
		case end.Before(shown.until):
			shown.until = end
		}
		return false
	}
	for _, announcement := range n.facts.Announcements {
		if !passes(announcement.EndsAt) {
			shown.Announcements = append(shown.Announcements, announcement)
		}
	}
	for _, end := range n.facts.HiddenEnds {
		passes(end)
	}
	shown.Ended += n.lifted
	if last := n.current.Load(); last != nil {
		same := shown.Version == last.Version && shown.Ended == last.Ended
		if sequence := last.Sequence(); shown.Sequence() < sequence || shown.Sequence() == sequence && !same {
			more := sequence - shown.Sequence() + 1 // the content differs from that of the last sequence
			shown.Ended, n.lifted = shown.Ended+more, n.lifted+more
		}
	}
	n.current.Store(shown)
	return shown
}

// Sequence rises with every change, those that time makes included, and is the same on every node that has the same facts at
// the same time. Version counts twice because a change may lower Ended by one.
func (n *Notices) Sequence() uint64 { return 2*n.Version + n.Ended }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Unread lists the announcements that are addressed to a user and lie after the user's position, the newest first. A user
// without a position has none unread.
func (n *Notices) Unread(state services.NoticeState, segments services.SegmentBits) (list []services.Announcement) {
	n.eachUnread(state, segments, func(a *services.Announcement) { list = append(list, *a) })
	return list
}

// CountUnread counts the list of Unread, and returns when the first of it ends; the zero time when none ends.
func (n *Notices) CountUnread(state services.NoticeState, segments services.SegmentBits) (count int, ends time.Time) {
	n.eachUnread(state, segments, func(a *services.Announcement) {
		count++
		if end := a.EndsAt; !end.IsZero() && (ends.IsZero() || end.Before(ends)) {
			ends = end
		}
	})
	return count, ends
}

func (n *Notices) eachUnread(state services.NoticeState, segments services.SegmentBits, do func(*services.Announcement)) {
	if state.Version == 0 {
		return
	}
	for i := range n.Announcements {
		announcement := &n.Announcements[i]
		if announcement.Position <= state.Position {
			break
		}
		if announcement.Segments.Reaches(segments) {
			do(announcement)
		}
	}
}

// Visible lists the announcements that are addressed to a user, those before a position, the newest first, at most limit.
func (n *Notices) Visible(segments services.SegmentBits, before uint64, limit int) (list []services.Announcement) {
	for _, announcement := range n.Announcements {
		if len(list) == limit {
			break
		}
		if announcement.Position < before && announcement.Segments.Reaches(segments) {
			list = append(list, announcement)
		}
	}
	return list
}

// Shows reports whether an announcement runs and is addressed to a user, and returns it without its texts.
func (n *Notices) Shows(id services.PostID, segments services.SegmentBits) (services.Announcement, bool) {
	for _, announcement := range n.Announcements {
		if announcement.ID == id && announcement.Segments.Reaches(segments) {
			return announcement, true
		}
	}
	return services.Announcement{}, false
}

// Lights are all dots, lit or not, for a user who has cleared some up to a stamp. For a user without a position all are
// cleared.
func (n *Notices) Lights(state services.NoticeState, segments services.SegmentBits, cleared map[string]uint64) []services.Dot {
	dots := make([]services.Dot, len(n.Dots))
	for i, dot := range n.Dots {
		dots[i].Name = dot.Name
		dots[i].Lit = state.Version > 0 && dot.LitFor(segments, max(state.DotsFrom, cleared[dot.Name]))
	}
	return dots
}
