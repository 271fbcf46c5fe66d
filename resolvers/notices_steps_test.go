package resolvers

import (
	"context"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/notice"
	"tidings/services/store"
)

func (m *noticeModel) publish() {
	n := m.node()
	e := &modelEntry{}
	draft := notice.Draft{Title: "title"}
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
	cmd, err := n.notice.Publish(draft)
	id, err := services.ParseAnnouncementID("id", m.commit(n, cmd, err).IDs()[0])
	m.must(err)
	e.id = id
	m.entries = append(m.entries, e)
}

func (m *noticeModel) edit() {
	if len(m.entries) == 0 {
		return
	}
	n, e := m.node(), rapid.SampledFrom(m.entries).Draw(m.T, "entry")
	if e.withdrawn {
		return
	}
	edit := notice.Edit{ShowAgain: rapid.Bool().Draw(m.T, "again")}
	if rapid.Bool().Draw(m.T, "no end") {
		edit.NoEnd, e.ends = true, time.Time{}
	}
	if edit.ShowAgain && e.over(m.now()) {
		return
	}
	cmd, err := n.notice.Edit(e.id, edit)
	m.commit(n, cmd, err)
	if started := e.place > 0; !e.over(m.now()) && (edit.ShowAgain || !started) {
		e.place, e.missed = 0, false // it takes its place at once, or when it starts
	}
}

func (m *noticeModel) withdraw() {
	if len(m.entries) == 0 {
		return
	}
	n, e := m.node(), rapid.SampledFrom(m.entries).Draw(m.T, "entry")
	if !e.withdrawn {
		m.commit(n, n.notice.Withdraw(e.id), nil)
		e.withdrawn = true
	}
}

func (m *noticeModel) mark() {
	n, u := m.node(), m.drawUser()
	upTo, place := notice.UpTo{}, m.head()
	if len(u.pages) > 0 && rapid.IntRange(0, 3).Draw(m.T, "up to") > 0 { // late as it may be
		position, err := announcementCursor.parse("upTo", u.number, rapid.SampledFrom(u.pages).Draw(m.T, "page"))
		m.must(err)
		upTo, place = notice.UpTo{Position: position}, position
	}
	u.visit(m.now(), m.head())
	if place > u.place {
		u.place, u.changed = place, m.now()
	}
	for range rapid.IntRange(1, 2).Draw(m.T, "times") {
		m.commit(n, n.notice.MarkRead(u.number, upTo), nil)
	}
}

func (m *noticeModel) raise() {
	n, dot := m.node(), rapid.SampledFrom([]string{"shop", "wallet"}).Draw(m.T, "dot")
	names, bits := m.drawSegments("lit for ")
	cmd, err := n.notice.RaiseDot(dot, names)
	m.commit(n, cmd, err)
	m.raises = append(m.raises, modelRaise{dot, bits, m.head()})
}

func (m *noticeModel) clear() {
	n, u, dot := m.node(), m.drawUser(), rapid.SampledFrom([]string{"shop", "wallet"}).Draw(m.T, "dot")
	cmd, err := n.notice.ClearDot(u.number, dot)
	m.commit(n, cmd, err)
	u.cleared[dot] = m.head()
}

func (m *noticeModel) setSegments() {
	n, u := m.node(), m.drawUser()
	names, bits := m.drawSegments("of ")
	cmd, err := n.notice.SetSegments(u.number, names)
	m.commit(n, cmd, err)
	u.segments = bits
}

func (m *noticeModel) lose() {
	u := m.drawUser()
	switch server := m.nodes[0].Server; rapid.IntRange(0, 3).Draw(m.T, "lost") {
	case 0:
		server.Flush()
	case 1:
		server.Do("DEL", fmt.Sprintf("{u%d}:b", u.number))
	case 2:
		server.Do("HDEL", fmt.Sprintf("{u%d}:b", u.number), "A", "G")
	default:
		server.Do("DEL", fmt.Sprintf("{u%d}:i", u.number))
	}
}

// repeat lets jobs come again, as after a worker that was taken for dead.
func (m *noticeModel) repeat() {
	u := m.drawUser()
	m.must(m.nodes[0].Store.Write(context.Background(), func(tx *store.Tx) error {
		queued := []jobs.NewJob{fanout.NoticesJob(u.number)}
		for _, e := range m.entries {
			if e.place > 0 || e.withdrawn || e.missed { // of those that wait the job is still there
				queued = append(queued, fanout.StartJob(services.Announcement{ID: e.id}))
			}
		}
		return jobs.Enqueue(context.Background(), tx.Tx, queued...)
	}))
}
