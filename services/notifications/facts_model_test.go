package notifications

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"tidings/services"
)

// incomingPost is somebody else's post that answers a post of the recipient, mentions the recipient, or both.
type incomingPost struct {
	id, parent services.PostID // parent is 0 if it answers nothing
	author     services.UserID
	mentionsMe bool            // it mentions the recipient
	since      services.PostID // of the edit by which it mentions the recipient; 0: since it was published
	deleted    bool
}

// hostNotificationModel is the model of a host notification.
type hostNotificationModel struct {
	at        time.Time
	withdrawn bool
	content   HostContent
}

// groupKey is the model of a group, which a list shows as one line.
type groupKey struct {
	category services.Category
	subject  services.PostID
	bucket   int64
}

// readState is the model of a group's row: up to which position the group was read.
type readState struct {
	to, undoTo services.PostID
	// gen is the generation in which the group was last marked unread; undo is the number of the mark that undoTo belongs to.
	gen, undo uint64
	first     services.PostID // the group's ID: its least position when it came into being
}

// storedCauseModel is the model of a stored cause.
type storedCauseModel struct {
	place  services.PostID
	at     time.Time
	counts bool // its fact exists, so it counts
	past   bool // it was reported with its time, and its place is of that time
}

// panelModel is a simple model of one user's notifications.
type panelModel struct {
	me       services.UserID
	likes    map[Cause]time.Time
	follows  map[services.UserID]time.Time
	incoming map[services.PostID]*incomingPost
	told     map[Cause]*hostNotificationModel
	deleted  map[services.PostID]bool // of my posts

	// known has the stored causes, and read has the stored groups.
	known    map[Cause]*storedCauseModel
	read     map[groupKey]*readState
	head     services.PostID // the newest position of any cause
	gen      uint64          // the generation of marks
	undo     uint64          // the number of the last mark of everything
	undoAt   time.Time       // when that mark happened; zero if it cannot be undone
	versions map[services.Category]uint64
	heads    map[services.Category]services.PostID // the greatest position that was ever shown
	seen     map[services.Category]services.PostID // the position up to which each category is seen
	// readTo is the position up to which each category was marked read, and undoTo is what it was before the last mark that can be undone.
	readTo, undoTo map[services.Category]services.PostID
}

func newPanelModel(me services.UserID) *panelModel {
	return &panelModel{
		me: me, likes: map[Cause]time.Time{}, follows: map[services.UserID]time.Time{},
		incoming: map[services.PostID]*incomingPost{}, told: map[Cause]*hostNotificationModel{}, deleted: map[services.PostID]bool{}, known: map[Cause]*storedCauseModel{},
		read: map[groupKey]*readState{}, versions: map[services.Category]uint64{},
		heads: map[services.Category]services.PostID{}, seen: map[services.Category]services.PostID{},
		readTo: map[services.Category]services.PostID{}, undoTo: map[services.Category]services.PostID{},
	}
}

// facts are the causes that count according to the facts.
func (m *panelModel) facts() map[Cause]time.Time {
	facts := map[Cause]time.Time{}
	for like, at := range m.likes {
		if !m.deleted[like.Subject] {
			facts[like] = at
		}
	}
	for follower, at := range m.follows {
		facts[Cause{Recipient: m.me, Category: services.CategoryFollow, Actor: follower}] = at
	}
	for c, t := range m.told {
		if !t.withdrawn {
			facts[c] = t.at
		}
	}
	for id, a := range m.incoming {
		c := Cause{Recipient: m.me, Category: services.CategoryMention, Subject: id, Actor: a.author}
		if !a.mentionsMe {
			c.Category, c.Subject, c.Object = services.CategoryComment, a.parent, id
		}
		if !a.deleted && (a.mentionsMe || a.parent != 0 && !m.deleted[a.parent]) {
			facts[c] = id.Moment()
			if a.mentionsMe && a.since != 0 {
				facts[c] = a.since.Moment()
			}
		}
	}
	return facts
}

// keyOf is the group of a stored cause.
func (m *panelModel) keyOf(c Cause) groupKey {
	return groupKey{c.Category, c.Subject, m.known[c].at.Unix() / (12 * 3600)}
}

// serves reports whether the job of cause also serves other: they are equal, or cause stands for every actor of the subject.
func serves(cause, other Cause) bool {
	return cause == other || cause.Actor == 0 && cause.Category != hostOrders && cause.Category != hostCalls && cause.Category == other.Category && cause.Subject == other.Subject
}

// postOf is the post behind a cause. Causes of one time are ordered by the IDs of their posts.
func postOf(c Cause) services.PostID {
	if c.Category == services.CategoryMention {
		return c.Subject
	}
	return c.Object
}

// byKey compares causes by their keys.
func byKey(a, b Cause) int {
	return cmp.Or(cmp.Compare(a.Category, b.Category), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Actor, b.Actor), cmp.Compare(a.Object, b.Object))
}

// apply is the model of applyCauses.
func (m *panelModel) apply(now time.Time, causes []Cause) {
	facts := m.facts()
	causes, moments := splitMoments(causes)
	changed := map[services.Category]bool{}
	var fresh []Cause
	for _, c := range slices.Concat(slices.Collect(maps.Keys(facts)), slices.Collect(maps.Keys(m.known)), slices.Collect(maps.Keys(moments))) {
		if !slices.ContainsFunc(causes, func(cause Cause) bool { return serves(cause, c) }) {
			continue
		}
		_, stands := facts[c]
		if k := m.known[c]; k != nil && k.counts != stands {
			k.counts, changed[c.Category] = stands, true
			if stands { // it may have ended before it was ever shown
				m.heads[c.Category] = max(m.heads[c.Category], k.place)
			}
		} else if k == nil && !slices.Contains(fresh, c) {
			fresh = append(fresh, c)
		}
	}
	at := map[Cause]time.Time{}
	for _, c := range fresh {
		fact, stands := facts[c]
		if at[c] = fact; moments[c] != 0 && (!stands || moments[c].Moment().Before(fact)) {
			at[c] = moments[c].Moment()
		}
	}
	slices.SortFunc(fresh, func(a, b Cause) int {
		if (moments[a] != 0) != (moments[b] != 0) { // those of a past time come first
			return cmp.Compare(moments[b], moments[a])
		}
		return cmp.Or(at[a].Compare(at[b]), cmp.Compare(postOf(a), postOf(b)), byKey(a, b))
	})
	tops := map[groupKey]services.PostID{} // before the new causes
	for of := range m.read {
		tops[of] = m.top(of, false)
	}
	for _, c := range fresh {
		_, stands := facts[c]
		place := max(m.head+1, services.FirstPosition(now, m.me))
		if moments[c] != 0 {
			place = m.pastPlace(moments[c])
		}
		m.head = max(m.head, place)
		place = m.carry(c, place, causes)
		m.known[c] = &storedCauseModel{place: place, at: at[c], counts: stands, past: moments[c] != 0}
		if stands {
			m.heads[c.Category], changed[c.Category] = max(m.heads[c.Category], place), true
		}
		if m.read[m.keyOf(c)] == nil {
			m.read[m.keyOf(c)] = &readState{first: place}
		}
		r := m.read[m.keyOf(c)]
		if tops[m.keyOf(c)] == 0 {
			r.first = min(r.first, place)
		}
		if place <= lowestPlaces(m.me, true).last && (r.gen == 0 || r.to >= tops[m.keyOf(c)]) {
			r.to = max(r.to, place)
		}
	}
	for _, c := range fresh {
		if place := m.known[c].place; m.known[c].past && place <= m.readTo[c.Category] {
			m.cover(m.keyOf(c), place, tops[m.keyOf(c)])
		}
	}
	m.raise(changed)
}

// raise raises the versions of the changed categories.
func (m *panelModel) raise(changed map[services.Category]bool) {
	for category := range changed {
		m.versions[category]++
	}
}

// top is the greatest position in a group, of the standing causes or of all.
func (m *panelModel) top(of groupKey, standing bool) (top services.PostID) {
	for c, k := range m.known {
		if m.keyOf(c) == of && (k.counts || !standing) {
			top = max(top, k.place)
		}
	}
	return top
}

// places are the positions of all causes. A line shows all of its causes: when the newest is undone, the line falls back to the
// position of another cause that was also shown. An undone cause has a position too: a mark covers it, so that it is read when it begins
// again.
func (m *panelModel) places() (places []services.PostID) {
	for _, k := range m.known {
		places = append(places, k.place)
	}
	return places
}

// see is the model of raiseSeen.
func (m *panelModel) see(categories []services.Category, upTo services.PostID) {
	for _, category := range categories {
		if upTo = cmp.Or(upTo, m.head); upTo > m.seen[category] {
			m.seen[category] = upTo
			m.versions[category]++
		}
	}
}

// placed is the group that contains a position.
func (m *panelModel) placed(place services.PostID) (of groupKey, found bool) {
	for c, k := range m.known {
		if k.place == place {
			return m.keyOf(c), true
		}
	}
	return of, false
}

// readOnes is the model of a mark of shown positions.
func (m *panelModel) readOnes(gen uint64, places []services.PostID) {
	changed := map[services.Category]bool{}
	reach := map[groupKey]services.PostID{}
	for _, place := range places {
		of, _ := m.placed(place)
		reach[of] = max(reach[of], place)
	}
	for of, place := range reach {
		if r := m.read[of]; r.gen <= gen && (r.to < place || r.undo != 0 && r.undoTo < place) {
			r.to, r.undoTo, changed[of.category] = max(r.to, place), max(r.undoTo, place), true
		}
	}
	m.raise(changed)
}

// readAll marks a group read up to a position. undo is the number of a mark that can be undone; with 0, the undo of the mark before is
// kept.
func (r *readState) readAll(upTo services.PostID, undo uint64) {
	if undo != 0 {
		r.undo, r.undoTo = undo, r.to
	}
	r.to = upTo
}

// readAll is the model of a mark of categories, or of everything. It reports whether a visible group changed.
func (m *panelModel) readAll(gen uint64, categories []services.Category, upTo services.PostID, undo uint64) bool {
	upTo = cmp.Or(upTo, m.head)
	changed := map[services.Category]bool{}
	var undone []*readState // none of these is shown, so marking them read changes nothing visible
	for of, r := range m.read {
		switch {
		case !slices.Contains(categories, of.category) || m.top(of, false) <= r.to || r.to >= upTo || r.gen > gen:
		case m.top(of, true) > r.to:
			r.readAll(upTo, undo)
			changed[of.category] = true
		default:
			undone = append(undone, r)
		}
	}
	if len(changed) == 0 {
		undo = 0
	}
	for _, category := range categories {
		if undo != 0 {
			m.undoTo[category] = m.readTo[category]
		}
		m.readTo[category] = max(m.readTo[category], upTo)
	}
	for _, r := range undone {
		r.readAll(upTo, undo)
	}
	m.raise(changed)
	return len(changed) > 0
}

// undoAll is the model of undoAllRead.
func (m *panelModel) undoAll() {
	m.gen, m.undoAt = m.gen+1, time.Time{}
	changed := map[services.Category]bool{}
	for of, r := range m.read {
		if r.undo == m.undo {
			r.to, r.undo, r.gen, changed[of.category] = r.undoTo, 0, m.gen, true
		}
	}
	maps.Copy(m.readTo, m.undoTo)
	m.raise(changed)
}

// markUnread is the model of the function of that name.
func (m *panelModel) markUnread(place services.PostID) {
	of, _ := m.placed(place)
	m.gen++
	r := m.read[of]
	r.to, r.undo, r.gen = 0, 0, m.gen
	m.versions[of.category]++
}

// list is the list of the panel: the newest event first, whatever the order of arrival.
func (m *panelModel) list(now time.Time, expiry Expiry) (list []Notification) {
	groups := map[groupKey][]Cause{}
	for c, k := range m.known {
		if k.counts {
			groups[m.keyOf(c)] = append(groups[m.keyOf(c)], c)
		}
	}
	for of, causes := range groups {
		slices.SortFunc(causes, func(a, b Cause) int {
			return cmp.Or(m.known[b].at.Compare(m.known[a].at), cmp.Compare(b.Object, a.Object), cmp.Compare(b.Actor, a.Actor))
		})
		last := m.top(of, true)
		n := Notification{First: m.read[of].first, Place: last, Category: of.category, Subject: of.subject, At: m.known[causes[0]].at,
			Read: last <= m.read[of].to, Seen: last <= max(m.seen[of.category], m.read[of].to)}
		n.Older = !n.Seen && of.bucket/2 < expiry.oldestDay(of.category, now.Unix()/86400)
		if told := m.told[causes[0]]; told != nil {
			n.Host = &told.content
		}
		for _, c := range causes {
			if c.Actor != 0 && !slices.Contains(n.Sample, c.Actor) {
				n.Sample = append(n.Sample, c.Actor)
			}
		}
		n.Actors = len(n.Sample)
		n.Sample = n.Sample[:min(len(n.Sample), maxSample)]
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b Notification) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Category, a.Category), cmp.Compare(b.Subject, a.Subject))
	})
	return list
}

// withReach sets Reach in the first entry of a whole list: the position up to which a mark of that list reaches.
func (m *panelModel) withReach(list []Notification) []Notification {
	if len(list) == 0 {
		return list
	}
	for of, r := range m.read {
		if last := m.top(of, true); last > max(r.to, list[0].Place) {
			list[0].Reach = max(list[0].Reach, last)
		}
	}
	return list
}

// state is the expected state of a category in a document.
func (m *panelModel) state(now time.Time, category services.Category) State {
	state := State{Recipient: m.me, Category: category, Version: m.versions[category],
		Head: m.heads[category], Seen: m.seen[category], Day: now.Unix() / 86400}
	for of, r := range m.read {
		if newest := m.top(of, true); of.category == category && newest > max(m.seen[category], r.to) {
			if ago := max(state.Day-of.bucket/2, 0); ago < 8 {
				state.Days[ago]++
			} else {
				state.Older++
			}
		}
	}
	return state
}
