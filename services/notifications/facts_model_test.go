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
	id, parent     services.PostID // parent is 0 if it answers nothing
	author         services.UserID
	mentionsMe     bool                // it mentions the recipient
	mentionedSince services.SortableID // ID of the time of the edit that added the mention; 0: since it was published
	deleted        bool
}

// hostNotificationModel is the model of a host notification.
type hostNotificationModel struct {
	sentAt    time.Time
	withdrawn bool
	content   HostNotificationContent
}

// groupKey identifies a group in the model: the causes that a list shows as one line.
type groupKey struct {
	category services.Category
	subject  services.SortableID // what the causes are about: see Cause.Subject
	halfDay  int64               // the number of the half day since 1970
}

// readState is the model of a group's row: up to which position the group was read.
type readState struct {
	readTo, readToBeforeMark services.NotificationID // now, and before the mark undoableMarkNumber
	// markedUnreadGeneration is the generation in which the group was last marked unread; undoableMarkNumber is the number of the
	// mark that readToBeforeMark belongs to.
	markedUnreadGeneration, undoableMarkNumber uint64
	lowestPosition                             services.NotificationID // the group's ID: its least position when it came into being
}

// storedCauseModel is the model of a stored cause.
type storedCauseModel struct {
	position        services.NotificationID // its position
	happenedAt      time.Time
	counts          bool // its fact exists, so it counts
	hasPastPosition bool // it was reported with its time, and its position is of that time
}

// notificationsModel is a simple model of one user's notifications.
type notificationsModel struct {
	recipient         services.UserID
	likes             map[Cause]time.Time           // the likes that exist, each with its time
	follows           map[services.UserID]time.Time // by follower: when the follow began
	incomingPosts     map[services.PostID]*incomingPost
	hostNotifications map[Cause]*hostNotificationModel
	deletedPosts      map[services.PostID]bool // of the recipient's posts

	// storedCauses has the stored causes, and readStates has the stored groups.
	storedCauses   map[Cause]*storedCauseModel
	readStates     map[groupKey]*readState
	newestPosition services.NotificationID                       // the newest position of any cause
	markGeneration uint64                                        // rises when notifications become unread again
	lastMarkNumber uint64                                        // the number of the last mark of everything
	undoableMarkAt time.Time                                     // when that mark happened; zero if it cannot be undone
	versions       map[services.Category]uint64                  // of the counts
	newestShown    map[services.Category]services.NotificationID // the greatest position that was ever shown
	seenTo         map[services.Category]services.NotificationID // the position up to which each category is seen
	// readTo is the position up to which each category was marked read, and readToBeforeMark is what it was before the last mark
	// that can be undone.
	readTo, readToBeforeMark map[services.Category]services.NotificationID
}

func newNotificationsModel(me services.UserID) *notificationsModel {
	return &notificationsModel{
		recipient: me, likes: map[Cause]time.Time{}, follows: map[services.UserID]time.Time{},
		incomingPosts: map[services.PostID]*incomingPost{}, hostNotifications: map[Cause]*hostNotificationModel{}, deletedPosts: map[services.PostID]bool{}, storedCauses: map[Cause]*storedCauseModel{},
		readStates: map[groupKey]*readState{}, versions: map[services.Category]uint64{},
		newestShown: map[services.Category]services.NotificationID{}, seenTo: map[services.Category]services.NotificationID{},
		readTo: map[services.Category]services.NotificationID{}, readToBeforeMark: map[services.Category]services.NotificationID{},
	}
}

// countingCauses are the causes that count according to the facts, each with its time.
func (m *notificationsModel) countingCauses() map[Cause]time.Time {
	facts := map[Cause]time.Time{}
	for like, at := range m.likes {
		if !m.deletedPosts[services.PostID(like.Subject)] {
			facts[like] = at
		}
	}
	for follower, at := range m.follows {
		facts[Cause{Recipient: m.recipient, Category: services.CategoryFollow, Actor: follower}] = at
	}
	for c, t := range m.hostNotifications {
		if !t.withdrawn {
			facts[c] = t.sentAt
		}
	}
	for id, a := range m.incomingPosts {
		c := Cause{Recipient: m.recipient, Category: services.CategoryMention, Subject: services.SortableID(id), Actor: a.author}
		if !a.mentionsMe {
			c.Category, c.Subject, c.Object = services.CategoryComment, services.SortableID(a.parent), services.SortableID(id)
		}
		if !a.deleted && (a.mentionsMe || a.parent != 0 && !m.deletedPosts[a.parent]) {
			facts[c] = services.SortableID(id).OrderedTime()
			if a.mentionsMe && a.mentionedSince != 0 {
				facts[c] = a.mentionedSince.OrderedTime()
			}
		}
	}
	return facts
}

// groupOf is the group of a stored cause.
func (m *notificationsModel) groupOf(c Cause) groupKey {
	return groupKey{c.Category, c.Subject, m.storedCauses[c].happenedAt.Unix() / (12 * 3600)}
}

// jobCovers reports whether the job of cause also serves other: they are equal, or cause stands for every actor of the subject.
func jobCovers(cause, other Cause) bool {
	return cause == other || cause.Actor == 0 && cause.Category != hostOrders && cause.Category != hostCalls && cause.Category == other.Category && cause.Subject == other.Subject
}

// postOf is the post behind a cause. Causes of one time are ordered by the IDs of their posts.
func postOf(c Cause) services.SortableID {
	if c.Category == services.CategoryMention {
		return c.Subject
	}
	return c.Object
}

// compareCauses compares causes by their keys.
func compareCauses(a, b Cause) int {
	return cmp.Or(cmp.Compare(a.Category, b.Category), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Actor, b.Actor), cmp.Compare(a.Object, b.Object))
}

// applyCauses does in the model what the function applyCauses does in SQL: it makes causes agree with the facts.
func (m *notificationsModel) applyCauses(now time.Time, causes []Cause) {
	facts := m.countingCauses()
	causes, moments := splitEventMoments(causes)
	changed := map[services.Category]bool{}
	var fresh []Cause
	for _, c := range slices.Concat(slices.Collect(maps.Keys(facts)), slices.Collect(maps.Keys(m.storedCauses)), slices.Collect(maps.Keys(moments))) {
		if !slices.ContainsFunc(causes, func(cause Cause) bool { return jobCovers(cause, c) }) {
			continue
		}
		_, stands := facts[c]
		if k := m.storedCauses[c]; k != nil && k.counts != stands {
			k.counts, changed[c.Category] = stands, true
			if stands { // it may have ended before it was ever shown
				m.newestShown[c.Category] = max(m.newestShown[c.Category], k.position)
			}
		} else if k == nil && !slices.Contains(fresh, c) {
			fresh = append(fresh, c)
		}
	}
	at := map[Cause]time.Time{}
	for _, c := range fresh {
		fact, stands := facts[c]
		if at[c] = fact; moments[c] != 0 && (!stands || moments[c].OrderedTime().Before(fact)) {
			at[c] = moments[c].OrderedTime()
		}
	}
	slices.SortFunc(fresh, func(a, b Cause) int {
		if (moments[a] != 0) != (moments[b] != 0) { // those of a past time come first
			return cmp.Compare(moments[b], moments[a])
		}
		return cmp.Or(at[a].Compare(at[b]), cmp.Compare(postOf(a), postOf(b)), compareCauses(a, b))
	})
	tops := map[groupKey]services.NotificationID{} // before the new causes
	for of := range m.readStates {
		tops[of] = m.highestPosition(of, false)
	}
	for _, c := range fresh {
		_, stands := facts[c]
		position := max(m.newestPosition+1, services.FirstNotificationPosition(now, m.recipient))
		if moments[c] != 0 {
			position = m.nextPastPosition(moments[c])
		}
		m.newestPosition = max(m.newestPosition, position)
		position = m.positionOfNewCause(c, position, causes)
		m.storedCauses[c] = &storedCauseModel{position: position, happenedAt: at[c], counts: stands, hasPastPosition: moments[c] != 0}
		if stands {
			m.newestShown[c.Category], changed[c.Category] = max(m.newestShown[c.Category], position), true
		}
		if m.readStates[m.groupOf(c)] == nil {
			m.readStates[m.groupOf(c)] = &readState{lowestPosition: position}
		}
		r := m.readStates[m.groupOf(c)]
		if tops[m.groupOf(c)] == 0 {
			r.lowestPosition = min(r.lowestPosition, position)
		}
		if position <= lowestPositionRange(m.recipient, true).last && (r.markedUnreadGeneration == 0 || r.readTo >= tops[m.groupOf(c)]) {
			r.readTo = max(r.readTo, position)
		}
	}
	for _, c := range fresh {
		if position := m.storedCauses[c].position; m.storedCauses[c].hasPastPosition && position <= m.readTo[c.Category] {
			m.coverByEarlierMark(m.groupOf(c), position, tops[m.groupOf(c)])
		}
	}
	m.incrementVersions(changed)
}

// incrementVersions raises the versions of the changed categories.
func (m *notificationsModel) incrementVersions(changed map[services.Category]bool) {
	for category := range changed {
		m.versions[category]++
	}
}

// highestPosition is the greatest position in a group, of the standing causes or of all.
func (m *notificationsModel) highestPosition(of groupKey, standing bool) (top services.NotificationID) {
	for c, k := range m.storedCauses {
		if m.groupOf(c) == of && (k.counts || !standing) {
			top = max(top, k.position)
		}
	}
	return top
}

// allPositions are the positions of all causes. A line shows all of its causes: when the newest is undone, the line falls back to the
// position of another cause that was also shown. An undone cause has a position too: a mark covers it, so that it is read when it
// begins again.
func (m *notificationsModel) allPositions() (positions []services.NotificationID) {
	for _, k := range m.storedCauses {
		positions = append(positions, k.position)
	}
	return positions
}

// markSeen marks categories of the model seen up to a position, as the function markSeen does in SQL.
func (m *notificationsModel) markSeen(categories []services.Category, upTo services.NotificationID) {
	for _, category := range categories {
		if upTo = cmp.Or(upTo, m.newestPosition); upTo > m.seenTo[category] {
			m.seenTo[category] = upTo
			m.versions[category]++
		}
	}
}

// groupAt is the group that contains a position.
func (m *notificationsModel) groupAt(position services.NotificationID) (of groupKey, found bool) {
	for c, k := range m.storedCauses {
		if k.position == position {
			return m.groupOf(c), true
		}
	}
	return of, false
}

// markShownRead marks the notifications at some positions of the model read, each up to the position.
func (m *notificationsModel) markShownRead(gen uint64, positions []services.NotificationID) {
	changed := map[services.Category]bool{}
	reach := map[groupKey]services.NotificationID{}
	for _, position := range positions {
		of, _ := m.groupAt(position)
		reach[of] = max(reach[of], position)
	}
	for of, position := range reach {
		if r := m.readStates[of]; r.markedUnreadGeneration <= gen && (r.readTo < position || r.undoableMarkNumber != 0 && r.readToBeforeMark < position) {
			r.readTo, r.readToBeforeMark, changed[of.category] = max(r.readTo, position), max(r.readToBeforeMark, position), true
		}
	}
	m.incrementVersions(changed)
}

// markReadTo marks a group read up to a position. undo is the number of a mark that can be undone; with 0, the undo of the mark
// before is kept.
func (r *readState) markReadTo(upTo services.NotificationID, undo uint64) {
	if undo != 0 {
		r.undoableMarkNumber, r.readToBeforeMark = undo, r.readTo
	}
	r.readTo = upTo
}

// markCategoriesRead marks categories of the model read up to a position. It reports whether a visible group changed.
func (m *notificationsModel) markCategoriesRead(gen uint64, categories []services.Category, upTo services.NotificationID, undo uint64) bool {
	upTo = cmp.Or(upTo, m.newestPosition)
	changed := map[services.Category]bool{}
	var undone []*readState // none of these is shown, so marking them read changes nothing visible
	for of, r := range m.readStates {
		switch {
		case !slices.Contains(categories, of.category) || m.highestPosition(of, false) <= r.readTo || r.readTo >= upTo || r.markedUnreadGeneration > gen:
		case m.highestPosition(of, true) > r.readTo:
			r.markReadTo(upTo, undo)
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
			m.readToBeforeMark[category] = m.readTo[category]
		}
		m.readTo[category] = max(m.readTo[category], upTo)
	}
	for _, r := range undone {
		r.markReadTo(upTo, undo)
	}
	m.incrementVersions(changed)
	return len(changed) > 0
}

// undoAllRead undoes the last "mark all read" of the model.
func (m *notificationsModel) undoAllRead() {
	m.markGeneration, m.undoableMarkAt = m.markGeneration+1, time.Time{}
	changed := map[services.Category]bool{}
	for of, r := range m.readStates {
		if r.undoableMarkNumber == m.lastMarkNumber {
			r.readTo, r.undoableMarkNumber, r.markedUnreadGeneration, changed[of.category] = r.readToBeforeMark, 0, m.markGeneration, true
		}
	}
	maps.Copy(m.readTo, m.readToBeforeMark)
	m.incrementVersions(changed)
}

// markUnread marks the notification at a position of the model unread.
func (m *notificationsModel) markUnread(position services.NotificationID) {
	of, _ := m.groupAt(position)
	m.markGeneration++
	r := m.readStates[of]
	r.readTo, r.undoableMarkNumber, r.markedUnreadGeneration = 0, 0, m.markGeneration
	m.versions[of.category]++
}

// expectedList is the list of the panel: the newest event first, whatever the order of arrival.
func (m *notificationsModel) expectedList(now time.Time, expiry ExpiryDays) (list []Notification) {
	groups := map[groupKey][]Cause{}
	for c, k := range m.storedCauses {
		if k.counts {
			groups[m.groupOf(c)] = append(groups[m.groupOf(c)], c)
		}
	}
	for of, causes := range groups {
		slices.SortFunc(causes, func(a, b Cause) int {
			return cmp.Or(m.storedCauses[b].happenedAt.Compare(m.storedCauses[a].happenedAt), cmp.Compare(b.Object, a.Object), cmp.Compare(b.Actor, a.Actor))
		})
		last := m.highestPosition(of, true)
		n := Notification{ID: m.readStates[of].lowestPosition, NewestPosition: last, Category: of.category, Subject: of.subject, At: m.storedCauses[causes[0]].happenedAt,
			Read: last <= m.readStates[of].readTo, Seen: last <= max(m.seenTo[of.category], m.readStates[of].readTo)}
		n.ExpiredUnseen = !n.Seen && of.halfDay/2 < expiry.oldestCountedDay(of.category, now.Unix()/86400)
		if host := m.hostNotifications[causes[0]]; host != nil {
			n.Host = &host.content
		}
		for _, c := range causes {
			if c.Actor != 0 && !slices.Contains(n.SampleActors, c.Actor) {
				n.SampleActors = append(n.SampleActors, c.Actor)
			}
		}
		n.ActorCount = len(n.SampleActors)
		n.SampleActors = n.SampleActors[:min(len(n.SampleActors), maxSampleActors)]
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b Notification) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Category, a.Category), cmp.Compare(b.Subject, a.Subject))
	})
	return list
}

// withMarkAllUpTo sets MarkAllUpTo in the first entry of a whole list: the position up to which a mark of that list reaches.
func (m *notificationsModel) withMarkAllUpTo(list []Notification) []Notification {
	if len(list) == 0 {
		return list
	}
	for of, r := range m.readStates {
		if last := m.highestPosition(of, true); last > max(r.readTo, list[0].NewestPosition) {
			list[0].MarkAllUpTo = max(list[0].MarkAllUpTo, last)
		}
	}
	return list
}

// expectedState is the expected state of a category in a document.
func (m *notificationsModel) expectedState(now time.Time, category services.Category) categoryState {
	state := categoryState{Recipient: m.recipient, Category: category, Version: m.versions[category],
		NewestShown: m.newestShown[category], SeenTo: m.seenTo[category], NewestDay: now.Unix() / 86400}
	for of, r := range m.readStates {
		if newest := m.highestPosition(of, true); of.category == category && newest > max(m.seenTo[category], r.readTo) {
			if ago := max(state.NewestDay-of.halfDay/2, 0); ago < 8 {
				state.UnseenByDay[ago]++
			} else {
				state.OlderUnseen++
			}
		}
	}
	return state
}
