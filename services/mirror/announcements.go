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

// LogNotice is store.LogNotice: an announcement or a dot has changed. Memory is loaded anew.
const LogNotice = store.LogNotice

// AnnouncementFacts is what SQL knows of announcements and dots.
type AnnouncementFacts interface {
	Notices(ctx context.Context) (store.Notices, error)
	Announcements(ctx context.Context, ids []services.PostID) (map[services.PostID]services.Announcement, error)
}

// Notices is what all users share of announcements and dots, as it is at a moment. It does not change.
type Notices struct {
	Version       uint64                  // of the log
	Ended         uint64                  // how many announcements have ended; more where this node's clock was set back
	Announcements []services.Announcement // those that run, the newest first, without their texts
	Dots          []services.RaisedDot    // by their names

	from, until time.Time // it holds for moments in between, until not included
}

// Announcements is this node's memory of announcements and dots. It is safe for concurrent use.
type Announcements struct {
	sql     AnnouncementFacts
	log     *changelog.Follower
	setDots func(names []string)
	texts   *changelog.Cache[services.PostID, services.Announcement]
	current atomic.Pointer[Notices]

	mu     sync.Mutex
	facts  *store.Notices // nil: never loaded
	lifted uint64         // added to Ended, so that sequences of this node do not fall when its clock is set back
}

// NewAnnouncements makes an empty memory that follows the log. setDots is called with the names of all dots before memory has
// them.
func NewAnnouncements(log *changelog.Follower, facts AnnouncementFacts, setDots func(names []string)) *Announcements {
	n := &Announcements{
		sql: facts, log: log, setDots: setDots,
		// As many again as run at once: some are read that do not, and it knows of changes of those that nobody read.
		texts: changelog.NewCache[services.PostID](2*services.MaxAnnouncements, func(a services.Announcement) time.Time { return a.UpdatedAt }),
	}
	log.Register(changelog.Kind{Name: LogNotice, Load: n.load, Shared: true})
	log.RegisterStream(changelog.Stream{Learned: n.learned})
	return n
}

// learned leaves out what time alone changes.
func (n *Announcements) learned(_ []services.UserID, sums []uint64) {
	learned := 2 * n.version()
	for i := range sums {
		sums[i] += learned
	}
}

// At answers what all users share at a moment. It is UNAVAILABLE only when SQL did not answer since this node began.
func (n *Announcements) At(ctx context.Context, now time.Time) (*Notices, error) {
	current := n.current.Load()
	if current.holdsAt(now) {
		return current, nil
	}
	if current == nil || now.Before(n.readAt().Add(-tolerance)) {
		// The clock was set back, and what has ended since is not in memory.
		if err := n.Refresh(ctx); err != nil && current == nil {
			return nil, err
		}
	}
	return n.shownAt(now), nil
}

// tolerance is how far behind others a reader may be who asked for the time and was held up. They are shown what the others
// are, or else an announcement that has just ended would flicker.
const tolerance = time.Second

// noticesHold is for how long what was made of the facts holds where nothing ends.
const noticesHold = 24 * time.Hour

func (n *Notices) holdsAt(now time.Time) bool {
	return n != nil && now.After(n.from.Add(-tolerance)) && now.Before(n.until)
}

// Refresh lets this node see its own change at once, before the log brings it, and notifies those who watch. When SQL does not
// answer, memory stays.
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

// CatchUp sees to it that memory knows of a change by its stamp: many that were committed together are read once.
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

// Whole reads whole announcements, in whatever state, from memory and what is missing from SQL. What never was is
// not in the map.
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

// take puts in what was read, unless something newer is there, and empties what was made of the former. before runs first.
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

// shownAt makes the notices of a moment. The memory was loaded.
func (n *Announcements) shownAt(now time.Time) *Notices {
	n.mu.Lock()
	defer n.mu.Unlock()
	if current := n.current.Load(); current.holdsAt(now) {
		return current
	}
	return n.show(now)
}

// show makes the notices of a moment and keeps them as the current ones. They depend on nothing but the facts and the moment,
// so that every node makes the same, one that has just started too.
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

// Sequence rises with every change, also with those that time makes, and is the same on every node that knows the same at the
// same time: a change may take one end back, and counts twice.
func (n *Notices) Sequence() uint64 { return 2*n.Version + n.Ended }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Unread lists the announcements that are meant for a user and stand after his position, the newest first. Who has no
// position has none unread.
func (n *Notices) Unread(state services.NoticeState, segments services.SegmentBits) (list []services.Announcement) {
	n.eachUnread(state, segments, func(a *services.Announcement) { list = append(list, *a) })
	return list
}

// CountUnread counts what Unread lists, and says when the first of it ends; the zero time when nothing does.
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

// Visible lists the announcements that are meant for a user, those before a position, the newest first, at most limit.
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

// Shows says whether an announcement runs and is meant for a user, and answers it without its texts.
func (n *Notices) Shows(id services.PostID, segments services.SegmentBits) (services.Announcement, bool) {
	for _, announcement := range n.Announcements {
		if announcement.ID == id && announcement.Segments.Reaches(segments) {
			return announcement, true
		}
	}
	return services.Announcement{}, false
}

// Lights are all dots, lit or not, for a user who has cleared some up to a stamp. Who has no position has clicked on all.
func (n *Notices) Lights(state services.NoticeState, segments services.SegmentBits, cleared map[string]uint64) []services.Dot {
	dots := make([]services.Dot, len(n.Dots))
	for i, dot := range n.Dots {
		dots[i].Name = dot.Name
		dots[i].Lit = state.Version > 0 && dot.LitFor(segments, max(state.DotsFrom, cleared[dot.Name]))
	}
	return dots
}
