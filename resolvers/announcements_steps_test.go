package resolvers

import (
	"context"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"tidings/services/announcements"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// publish is a step, as is each method below: it does something on a node and does the same in the model. It publishes an announcement.
func (m *announcementsModel) publish() {
	n := m.drawNode()
	e := &modelAnnouncement{}
	draft := announcements.Draft{Title: "title"}
	draft.Segments, e.segments = m.drawSegments("for ")
	if e.starts = m.now(); rapid.Bool().Draw(m.T, "planned") {
		e.starts = e.starts.Add(time.Duration(rapid.IntRange(-1, 3).Draw(m.T, "starts")) * time.Second)
		draft.StartsAt = e.starts
	}
	if rapid.Bool().Draw(m.T, "ends") {
		from := e.starts
		if from.Before(m.now()) {
			from = m.now()
		}
		e.ends = from.Add(time.Duration(rapid.IntRange(1, 4).Draw(m.T, "for")) * time.Second)
		draft.EndsAt = e.ends
	}
	cmd, err := n.announcements.Publish(draft)
	id, err := announcements.ParseID("id", m.commit(n, cmd, err).IDs()[0])
	m.must(err)
	e.id = id
	m.entries = append(m.entries, e)
}

// edit is a step: it edits an announcement, perhaps to show it again or to remove its end.
func (m *announcementsModel) edit() {
	if len(m.entries) == 0 {
		return
	}
	n, e := m.drawNode(), rapid.SampledFrom(m.entries).Draw(m.T, "entry")
	if e.withdrawn {
		return
	}
	edit := announcements.Edit{ShowAgain: rapid.Bool().Draw(m.T, "again")}
	if rapid.Bool().Draw(m.T, "no end") {
		edit.NoEnd, e.ends = true, time.Time{}
	}
	if edit.ShowAgain && e.isOver(m.now()) {
		return
	}
	cmd, err := n.announcements.Edit(e.id, edit)
	m.commit(n, cmd, err)
	if started := e.position > 0; !e.isOver(m.now()) && (edit.ShowAgain || !started) {
		e.position, e.endedBeforeStart = 0, false // it gets its position at once, or when it starts
	}
}

// withdraw is a step: it withdraws an announcement.
func (m *announcementsModel) withdraw() {
	if len(m.entries) == 0 {
		return
	}
	n, e := m.drawNode(), rapid.SampledFrom(m.entries).Draw(m.T, "entry")
	if !e.withdrawn {
		m.commit(n, n.announcements.Withdraw(e.id), nil)
		e.withdrawn = true
	}
}

// markRead is a step: it marks the announcements of a user as read, all or up to an old cursor.
func (m *announcementsModel) markRead() {
	n, u := m.drawNode(), m.drawUser()
	upTo, at := announcements.ReadUpTo{}, m.lastIssuedStamp()
	if len(u.shownCursors) > 0 && rapid.IntRange(0, 3).Draw(m.T, "up to") > 0 { // an old cursor, as a late device may send
		position, err := announcementCursor.parse("upTo", u.id, rapid.SampledFrom(u.shownCursors).Draw(m.T, "page"))
		m.must(err)
		upTo, at = announcements.ReadUpTo{Position: position}, position
	}
	u.recordVisit(m.now(), m.lastIssuedStamp())
	if at > u.readPosition {
		u.readPosition, u.rowChangedAt = at, m.now()
	}
	for range rapid.IntRange(1, 2).Draw(m.T, "times") {
		m.commit(n, n.announcements.MarkRead(u.id, upTo), nil)
	}
}

// raiseDot is a step: it raises a dot for some segments or for everybody.
func (m *announcementsModel) raiseDot() {
	n, dot := m.drawNode(), rapid.SampledFrom([]string{"shop", "wallet"}).Draw(m.T, "dot")
	names, bits := m.drawSegments("lit for ")
	cmd, err := n.announcements.RaiseDot(dot, names)
	m.commit(n, cmd, err)
	m.dotRaises = append(m.dotRaises, modelDotRaise{dot, bits, m.lastIssuedStamp()})
}

// clearDot is a step: it clears a dot of a user.
func (m *announcementsModel) clearDot() {
	n, u, dot := m.drawNode(), m.drawUser(), rapid.SampledFrom([]string{"shop", "wallet"}).Draw(m.T, "dot")
	cmd, err := n.announcements.ClearDot(u.id, dot)
	m.commit(n, cmd, err)
	u.clearStampByDot[dot] = m.lastIssuedStamp()
}

// setSegments is a step: it sets the segments of a user.
func (m *announcementsModel) setSegments() {
	n, u := m.drawNode(), m.drawUser()
	names, bits := m.drawSegments("of ")
	cmd, err := n.announcements.SetSegments(u.id, names)
	m.commit(n, cmd, err)
	u.segments = bits
}

// loseRedisData deletes something from Redis at random: everything, a user's document, some of its fields, or the user's inbox.
func (m *announcementsModel) loseRedisData() {
	u := m.drawUser()
	switch server := m.nodes[0].RedisServer; rapid.IntRange(0, 3).Draw(m.T, "lost") {
	case 0:
		server.Flush()
	case 1:
		server.Do("DEL", fmt.Sprintf("{u%d}:b", u.id))
	case 2:
		server.Do("HDEL", fmt.Sprintf("{u%d}:b", u.id), "A", "G")
	default:
		server.Do("DEL", fmt.Sprintf("{u%d}:i", u.id))
	}
}

// repeatJobs queues jobs again that were done already, as when a worker is taken for dead that is not.
func (m *announcementsModel) repeatJobs() {
	u := m.drawUser()
	m.must(m.nodes[0].DB.Write(context.Background(), func(tx *sql.Tx) error {
		queued := []jobs.NewJob{announcements.UserJob(u.id)}
		for _, e := range m.entries {
			if e.position > 0 || e.withdrawn || e.endedBeforeStart { // an announcement that waits still has its job
				queued = append(queued, announcements.StartJob(announcements.Announcement{ID: e.id}))
			}
		}
		return jobs.Enqueue(context.Background(), tx, queued...)
	}))
}
