package resolvers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/announcements"
	"tidings/services/badge"
	"tidings/services/badge/source/sourcetest"
	"tidings/services/chat"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/messages"
	"tidings/services/notifications/notificationstest"
	"tidings/services/projector"
	"tidings/services/sql/sqltest"
	"tidings/services/views"
	"tidings/tests/histories"
)

// dormancy is the time without a visit after which users become dormant in Tidings by default. The model forgets them then.
const dormancy = 30 * 24 * time.Hour

// announcementsNode is one node as the model's test sees it.
type announcementsNode struct {
	*fanouttest.World
	badge         *badge.Service
	announcements *announcements.Service
}

// newAnnouncementsNode makes the services of a node over the caches and engines of w.
func newAnnouncementsNode(w *fanouttest.World) announcementsNode {
	announced := announcements.New(announcements.Config{DB: w.DB, Redis: w.Redis, Jobs: w.Fanout.Engine, Changelog: w.Caches.Changelog, Projector: w.Projector, IDs: w.IDs, Clock: w.Clock})
	letters := messages.New(messages.Config{DB: w.DB, Jobs: w.Fanout.Engine, Projector: w.Projector, IDs: w.IDs})
	conversations := chat.New(chat.Config{DB: w.DB, Redis: w.Redis, Changelog: w.Caches.Changelog, Jobs: w.Fanout.Engine, Projector: w.Projector, Clock: w.Clock})
	boards := live.New(live.Config{DB: w.DB, Redis: w.Redis, Reader: w.Caches.Reader, Changelog: w.Caches.Changelog, Jobs: w.Fanout.Engine, Projector: w.Projector, Fanout: w.Fanout.Fanout, IDs: w.IDs, Clock: w.Clock})
	lists := views.New(views.Config{DB: w.DB, Redis: w.Redis.Client, Jobs: w.Fanout.Engine, Projector: w.Projector, IDs: w.IDs, Clock: w.Clock, Log: w.Log})
	return announcementsNode{World: w, announcements: announced, badge: badge.New(badge.Config{
		DB: w.DB, Redis: w.Redis, Jobs: w.Fanout.Engine, Projector: w.Projector, Pulled: w.Caches.Pulled, Clock: w.Clock, Log: w.Log, SQLTimeout: time.Minute,
		Sources: sourcetest.Complete[badge.Source](announced.Source(), letters.Source(), conversations.Source(), boards.Source(), notificationstest.New(w).Source(), lists.Source()),
	})}
}

// modelAnnouncement is an announcement as the model has it.
type modelAnnouncement struct {
	id               services.AnnouncementID
	segments         announcements.Segments // its target; 0: everybody
	starts, ends     time.Time              // ends is zero if the announcement has no end
	position         uint64                 // its position; 0: it has none
	endedBeforeStart bool                   // it had ended before its late start was processed
	withdrawn        bool                   // it was taken back, and nobody sees it
}

// isOver reports whether the announcement has ended.
func (e *modelAnnouncement) isOver(now time.Time) bool {
	return !e.ends.IsZero() && !now.Before(e.ends)
}

// modelUser is a user as the model has them. It tells which announcements are unread for the user, and which dots are lit.
type modelUser struct {
	id                              services.UserID
	checkedEachStep                 bool                   // the badge of this user is read after every step
	hasSQLRows                      bool                   // whether the user has rows: they visited, and were not forgotten since
	readPosition, dotsDismissedUpTo uint64                 // the read position, and the stamp after which raises of dots count
	lastReadAt, rowChangedAt        time.Time              // when the user last read, and when their row last changed
	segments                        announcements.Segments // the segments that the user is in
	clearStampByDot                 map[string]uint64      // dot -> the stamp of the user's last clear
	newestVersionByNode             [2]string              // the newest version of badges that each node has shown
	contentByVersion                map[string]string      // version of badges -> the content shown under it
	shownCursors                    []string               // that the lists have shown, for marks up to them
}

// recordVisit notes that the user visits or marks. For a new or forgotten user, everything up to the stamp last counts as read.
func (u *modelUser) recordVisit(now time.Time, last uint64) {
	if away := now.Add(-dormancy); u.hasSQLRows && u.lastReadAt.Before(away) && u.rowChangedAt.Before(away) {
		u.hasSQLRows, u.clearStampByDot = false, map[string]uint64{}
	}
	if !u.hasSQLRows {
		u.hasSQLRows, u.readPosition, u.dotsDismissedUpTo, u.rowChangedAt = true, last, last, now
	}
}

// announcementsModel is the state that the nodes must show.
type announcementsModel struct {
	*rapid.T
	nodes        [2]announcementsNode
	entries      []*modelAnnouncement // all announcements, also the withdrawn ones
	users        []*modelUser
	dotRaises    []modelDotRaise // all raises of dots, in their order
	clockSetBack time.Duration   // how far the clock was set back in total
}

// modelDotRaise is one raise of a dot.
type modelDotRaise struct {
	dot    string                 // the name of the dot
	target announcements.Segments // its target; 0: everybody
	stamp  uint64                 // its stamp
}

func (m *announcementsModel) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// drawNode returns one of the nodes at random.
func (m *announcementsModel) drawNode() announcementsNode {
	return m.nodes[rapid.IntRange(0, 1).Draw(m.T, "node")]
}

func (m *announcementsModel) now() time.Time { return m.nodes[0].Clock.Now() }

// commit commits a command on a node. It fails the test if the command or the commit fails.
func (m *announcementsModel) commit(n announcementsNode, cmd *jobs.Command, err error) *jobs.Command {
	m.Helper()
	m.must(err)
	m.must(n.Fanout.Commit(context.Background(), cmd)[0])
	return cmd
}

// lastIssuedStamp is the stamp that was given last.
func (m *announcementsModel) lastIssuedStamp() (stamp uint64) {
	m.Helper()
	lines, err := sqltest.QueryLines(context.Background(), m.nodes[0].DB, `SELECT value FROM counters WHERE name = 'notices'`)
	m.must(err)
	stamp, err = strconv.ParseUint(lines[0], 10, 64)
	m.must(err)
	return stamp
}

// modelSegments are the segments of the model. The index of a segment is its bit in announcements.Segments.
var modelSegments = []string{"beta", "staff"}

// drawSegments draws segments, and returns them as names and as bits.
func (m *announcementsModel) drawSegments(label string) (names []string, bits announcements.Segments) {
	for i, name := range modelSegments {
		if rapid.IntRange(0, 3).Draw(m.T, label+name) == 0 {
			names, bits = append(names, name), bits|1<<i
		}
	}
	return names, bits
}

func (m *announcementsModel) drawUser() *modelUser {
	return rapid.SampledFrom(m.users).Draw(m.T, "user")
}

// runJobsAndReadPositions runs the due jobs and reads the positions that they gave to announcements. Each new position must be
// greater than the stamp before, which was the newest until the step.
func (m *announcementsModel) runJobsAndReadPositions(before uint64) {
	m.Helper()
	n := m.drawNode()
	n.RunDueJobs(n.Fanout)
	for i := range m.nodes {
		_, err := m.nodes[i].Caches.Changelog.RunOnce(context.Background())
		m.must(err)
	}
	ids := make([]services.AnnouncementID, len(m.entries))
	for i, e := range m.entries {
		ids[i] = e.id
	}
	facts, err := announcements.Read(context.Background(), n.DB.Runner, ids)
	m.must(err)
	for _, e := range m.entries {
		position := facts[e.id].Position
		if waits := e.position == 0 && !e.withdrawn && !e.endedBeforeStart && !e.starts.After(m.now()); !waits {
			if position != e.position && !e.withdrawn {
				m.Fatalf("announcement %s stands at %d, want %d", e.id, position, e.position)
			}
			continue
		}
		if e.isOver(m.now()) && position == 0 {
			e.endedBeforeStart = true
		} else if position <= before {
			m.Fatalf("announcement %s took the position %d, and %d was given before", e.id, position, before)
		} else {
			e.position = position
		}
	}
}

// visibleTo returns the announcements that a user must see, the newest position first.
func (m *announcementsModel) visibleTo(u *modelUser) (list []*modelAnnouncement) {
	for _, e := range m.entries {
		if e.position > 0 && !e.withdrawn && !e.isOver(m.now()) && (e.segments == 0 || e.segments&u.segments != 0) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *modelAnnouncement) int { return cmp.Compare(b.position, a.position) })
	return list
}

// isLit reports whether a user must see a dot lit.
func (m *announcementsModel) isLit(u *modelUser, dot string) bool {
	for _, raise := range m.dotRaises {
		if raise.dot == dot && raise.stamp > max(u.dotsDismissedUpTo, u.clearStampByDot[dot]) && (raise.target == 0 || raise.target&u.segments != 0) {
			return true
		}
	}
	return false
}

// checkUserAgainstModel reads a user's count, list and dots on one of the nodes, and compares them with the model.
func (m *announcementsModel) checkUserAgainstModel(u *modelUser) {
	m.Helper()
	ctx := context.Background()
	which := rapid.IntRange(0, 1).Draw(m.T, "reads from")
	n := m.nodes[which]
	u.recordVisit(m.now(), m.lastIssuedStamp())
	u.lastReadAt = m.now()
	want := ""
	unread := 0
	for _, e := range m.visibleTo(u) {
		if want += fmt.Sprintf("%s %t, ", e.id, e.position > u.readPosition); e.position > u.readPosition {
			unread++
		}
	}
	badges, err := n.badge.Read(ctx, u.id)
	m.must(err)
	if badges.Announcements.Value != unread || badges.Announcements.Precision != services.Exact {
		m.Fatalf("user %d has %+v unread, want %d of %s", u.id, badges.Announcements, unread, want)
	}
	page, err := n.announcements.Page(ctx, u.id, announcements.MaxPosition, 100)
	m.must(err)
	got := ""
	for _, item := range page.Items {
		got += fmt.Sprintf("%s %t, ", item.ID, item.Unread)
		u.shownCursors = append(u.shownCursors, announcementCursor.text(u.id, item.Position))
	}
	if got != want {
		m.Fatalf("user %d is listed %s want %s", u.id, got, want)
	}
	for _, dot := range badges.Dots {
		if dot.Lit != m.isLit(u, dot.Name) {
			m.Fatalf("user %d sees %+v with %+v after %+v", u.id, dot, u, m.dotRaises)
		}
	}
	_, err = n.badge.WriteVisits(ctx)
	m.must(err)
	m.checkBadgesVersion(u, which, badges)
}

// checkBadgesVersion checks that the version of a user's badges never falls on a node, and that one version always stands for the same
// content: on both nodes together or, once the clock was set back, on each node alone.
func (m *announcementsModel) checkBadgesVersion(u *modelUser, which int, badges *services.Badges) {
	m.Helper()
	if badges.Version < u.newestVersionByNode[which] {
		m.Fatalf("user %d: the version falls from %s to %s", u.id, u.newestVersionByNode[which], badges.Version)
	}
	u.newestVersionByNode[which] = badges.Version
	content := fmt.Sprint(badges.Announcements, badges.Dots)
	where := badges.Version
	if m.clockSetBack > 0 {
		where += fmt.Sprint(" on node ", which)
	}
	if had, known := u.contentByVersion[where]; known && had != content {
		m.Fatalf("user %d: the version %s stands for %s and for %s", u.id, where, had, content)
	}
	u.contentByVersion[where] = content
}

// TestAnnouncementsAgainstModel takes random steps on two nodes. Announcements are published, planned, started, ended, edited, shown
// again and withdrawn. Dots are raised and cleared. Users mark, also late, go away for more than a month, and return. Keys or all of
// Redis are lost, jobs are repeated, and the clock is set back. After every step the count, the list and the dots are those of the
// model.
func TestAnnouncementsAgainstModel(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{})
	nodes := [2]announcementsNode{newAnnouncementsNode(w), newAnnouncementsNode(w.AnotherNode())}
	first := &announcementsModel{nodes: nodes}
	for _, dot := range []string{"shop", "wallet"} {
		cmd, err := nodes[0].announcements.RaiseDot(dot, modelSegments) // so that the segments get their bits
		w.Must(err)
		w.Must(w.Fanout.Commit(t.Context(), cmd)[0])
	}
	former := first
	histories.ReduceRapidChecks(t, 3)
	rapid.Check(t, func(rt *rapid.T) {
		w.Clock.Advance(former.clockSetBack + time.Hour) // past every time of the former history, whose IDs must not be made again
		if former.clockSetBack > 0 {                     // new nodes too: the former ones keep their sequences until they restart
			again := w.AnotherNode()
			again.IDs = w.IDs
			nodes = [2]announcementsNode{newAnnouncementsNode(again), newAnnouncementsNode(w.AnotherNode())}
		}
		m := &announcementsModel{T: rt, nodes: nodes}
		for _, e := range former.entries {
			if !e.withdrawn {
				m.commit(nodes[0], nodes[0].announcements.Withdraw(e.id), nil)
			}
		}
		former = m
		w.RedisServer.Flush()
		for _, id := range w.MakeNeverSeenUsers(3) {
			m.users = append(m.users, &modelUser{id: id, clearStampByDot: map[string]uint64{}, contentByVersion: map[string]string{}})
		}
		m.users[0].checkedEachStep, m.users[1].checkedEachStep = true, true
		steps := []func(){
			m.publish, m.publish, m.publish, m.edit, m.withdraw, m.markRead, m.markRead, m.raiseDot, m.clearDot, m.setSegments, m.loseRedisData, m.repeatJobs,
			func() { u := m.drawUser(); u.checkedEachStep = !u.checkedEachStep },
			func() {
				w.Clock.Advance(time.Duration(rapid.IntRange(0, 3000).Draw(m.T, "ms")) * time.Millisecond)
			},
			func() { w.Clock.Advance(time.Duration(rapid.IntRange(0, 4).Draw(m.T, "s")) * time.Second) },
			func() { // by a lot: after a small step back, an announcement that has just ended would not return
				m.clockSetBack += 50 * time.Minute
				w.Clock.Advance(-50 * time.Minute)
			},
			func() {
				w.Clock.Advance(rapid.SampledFrom([]time.Duration{time.Hour, 40 * 24 * time.Hour}).Draw(m.T, "long"))
			},
			func() {
				_, err := projector.NewJanitor(m.drawNode().Projector).RunOnce(context.Background())
				m.must(err)
			},
		}
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, len(steps)-1), 1, 40).Draw(rt, "steps") {
			before := m.lastIssuedStamp()
			steps[step]()
			m.runJobsAndReadPositions(before)
			for _, u := range m.users {
				if u.checkedEachStep {
					m.checkUserAgainstModel(u)
				}
			}
		}
	})
}
