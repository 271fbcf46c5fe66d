package notifications

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
)

// loadedList is a list of notifications as a device loaded it. Marks of this list may arrive after later changes.
type loadedList struct {
	markGeneration uint64                    // the generation of marks when the list was loaded
	groupPositions []services.NotificationID // the positions of the listed notifications, in the order of the list
	causePositions []services.NotificationID // the positions of all causes when the list was loaded
	markAllUpTo    services.NotificationID   // position up to which a mark of the whole list reaches
}

// These are the host application's categories of the state machine: a grouped one, and one whose notifications are single.
const (
	hostOrders services.Category = "orders"
	hostCalls  services.Category = "calls"
)

// modelCategories are the categories of the state machine: Tidings' own and the two of the host application.
var modelCategories = append(slices.Clone(services.Categories), hostOrders, hostCalls)

// stateMachine makes random changes to one recipient's notifications, in the store and in a model of them, and compares the two.
type stateMachine struct {
	*testDB
	model           *notificationsModel // what the store should have
	t               *rapid.T
	lastID          services.SortableID // the last ID that was given out
	posts           []services.PostID   // by the recipient
	queuedCauses    []Cause             // causes that have a job; it may run late, and again
	pastMomentClock *services.IDClock   // makes the moments of causes of a past time
	devices         [2]loadedList       // what each of the recipient's devices loaded last
	expiry          ExpiryDays
}

// nextID returns a new ID of the present time.
func (p *stateMachine) nextID() services.SortableID {
	p.lastID = max(p.lastID+1, services.SortableIDAt(p.Clock.Now()))
	return p.lastID
}

// drawActor draws a user other than the recipient.
func (p *stateMachine) drawActor() services.UserID {
	return p.model.recipient + services.UserID(rapid.IntRange(1, 10).Draw(p.t, "actor"))
}

// drawPost draws a post of the recipient.
func (p *stateMachine) drawPost() services.PostID {
	return rapid.SampledFrom(p.posts).Draw(p.t, "post")
}

// toggleLike makes a user like a post of the recipient, or end the like.
func (p *stateMachine) toggleLike() {
	c := Cause{Recipient: p.model.recipient, Category: services.CategoryLike, Subject: services.SortableID(p.drawPost()), Actor: p.drawActor()}
	if _, liked := p.model.likes[c]; liked && rapid.Bool().Draw(p.t, "unlike") {
		p.unlike(services.PostID(c.Subject), c.Actor)
		delete(p.model.likes, c)
	} else {
		p.testDB.like(services.PostID(c.Subject), c.Actor)
		if !liked {
			p.model.likes[c] = p.Clock.Now()
		}
	}
	p.queuedCauses = append(p.queuedCauses, c)
}

// toggleFollow makes a user follow the recipient, or end the follow.
func (p *stateMachine) toggleFollow() {
	c := Cause{Recipient: p.model.recipient, Category: services.CategoryFollow, Actor: p.drawActor()}
	_, follows := p.model.follows[c.Actor]
	since := p.nextID()
	p.MustWrite(func(tx *sql.Tx) (err error) {
		if follows {
			_, err = people.DeleteFollow(p.Ctx, tx, c.Actor, p.model.recipient)
		} else {
			_, err = people.InsertFollow(p.Ctx, tx, services.FollowEdge{Follower: c.Actor, Followee: p.model.recipient, PostsCountAfter: services.PostID(since)})
		}
		return err
	})
	if follows {
		delete(p.model.follows, c.Actor)
	} else {
		p.model.follows[c.Actor] = since.OrderedTime()
	}
	p.queuedCauses = append(p.queuedCauses, c)
}

// deleteRandomPost deletes a post.
func (p *stateMachine) deleteRandomPost() {
	if len(p.model.incomingPosts) > 0 && rapid.IntRange(0, 3).Draw(p.t, "whose") > 0 {
		a := p.drawAnswer()
		p.deletePost(a.id)
		a.deleted = true
		p.queuedCauses = append(p.queuedCauses, p.causesOfAnswer(a)...)
		return
	}
	post := p.drawPost()
	p.deletePost(post)
	p.model.deletedPosts[post] = true
	for _, category := range []services.Category{services.CategoryLike, services.CategoryComment} {
		p.queuedCauses = append(p.queuedCauses, Cause{Recipient: p.model.recipient, Category: category, Subject: services.SortableID(post)})
	}
}

// sendHostNotification makes the host application send a notification, with an actor or without one.
func (p *stateMachine) sendHostNotification() {
	notification := HostNotification{Category: rapid.SampledFrom([]services.Category{hostOrders, hostCalls}).Draw(p.t, "category"), Title: "t",
		GroupKey: rapid.SampledFrom([]string{"", "a", "b"}).Draw(p.t, "key")}
	if rapid.Bool().Draw(p.t, "by somebody") {
		notification.Actor = p.drawActor()
	}
	id := services.HostNotificationID(p.nextID())
	c := Cause{Recipient: p.model.recipient, Category: notification.Category, Subject: notification.subjectOf(id, notification.Category == hostOrders), Actor: notification.Actor, Object: services.SortableID(id)}
	p.MustWrite(func(tx *sql.Tx) error {
		_, err := tx.Run(p.Ctx, insertHostNotification, id, string(c.Category), c.Subject, notification.GroupKey, c.Actor, "", 0, notification.Title, "", tx.Now, 1)
		return err
	})
	p.model.hostNotifications[c] = &hostNotificationModel{sentAt: p.Clock.Now(), content: HostNotificationContent{ID: id, Title: notification.Title, GroupKey: notification.GroupKey}}
	p.queuedCauses = append(p.queuedCauses, c)
}

// withdrawRandomNotification makes the host application withdraw a notification.
func (p *stateMachine) withdrawRandomNotification() {
	if len(p.model.hostNotifications) == 0 {
		return
	}
	c := rapid.SampledFrom(slices.SortedFunc(maps.Keys(p.model.hostNotifications), compareCauses)).Draw(p.t, "sent")
	p.MustWrite(func(tx *sql.Tx) error {
		_, err := tx.Run(p.Ctx, withdrawHostNotification, c.Object, tx.Now)
		return err
	})
	p.model.hostNotifications[c].withdrawn = true
	p.queuedCauses = append(p.queuedCauses, c)
}

// applyAndCompare applies causes to the store and to the model, and compares the states.
func (p *stateMachine) applyAndCompare(causes ...Cause) {
	p.model.applyCauses(p.Clock.Now(), causes)
	for _, state := range p.applyCauses(causes...) {
		sqltest.Equal(p.t, state, p.model.expectedState(p.Clock.Now(), state.Category))
	}
}

// loadList loads the list onto a device.
func (p *stateMachine) loadList(d *loadedList) {
	d.markGeneration, d.groupPositions, d.markAllUpTo = p.model.markGeneration, nil, 0
	for _, n := range p.readAllPages(everything) {
		d.groupPositions = append(d.groupPositions, n.NewestPosition)
		d.markAllUpTo = max(d.markAllUpTo, n.MarkAllUpTo)
	}
	if len(d.groupPositions) > 0 {
		d.markAllUpTo = max(d.markAllUpTo, d.groupPositions[0])
	}
	d.causePositions = p.model.allPositions()
}

// sendMark sends a mark of the list that a device loaded last.
func (p *stateMachine) sendMark() {
	shown := &p.devices[rapid.IntRange(0, 1).Draw(p.t, "device")]
	if rapid.Bool().Draw(p.t, "looks first") {
		p.loadList(shown)
	}
	d, gen := *shown, shown.markGeneration
	if rapid.Bool().Draw(p.t, "without a token") {
		gen = services.AnyMarkGeneration
	}
	var upTo services.NotificationID
	if len(d.groupPositions) > 0 {
		if upTo = d.markAllUpTo; rapid.Bool().Draw(p.t, "up to one of them") {
			upTo = rapid.SampledFrom(d.groupPositions).Draw(p.t, "position")
		}
	}
	categories := rapid.Permutation(modelCategories).Draw(p.t, "categories")[:rapid.IntRange(1, 4).Draw(p.t, "how many")]
	verb := rapid.IntRange(0, 5).Draw(p.t, "mark")
	before := p.unseenPositions()
	p.applyMark(verb, d, gen, upTo, categories)
	after := p.unseenPositions()
	for _, n := range before {
		if upTo != 0 && verb < 4 && !slices.Contains(after, n) && !slices.Contains(d.causePositions, n) && !p.model.isPastPosition(n) {
			p.t.Fatalf("mark %d up to %v took %v, which is newer than the list: it knew %v", verb, upTo, n, d.causePositions)
		}
		if upTo == d.markAllUpTo && upTo != 0 && verb == 0 && slices.Contains(d.groupPositions, n) && slices.Contains(after, n) && slices.Contains(categories, p.categoryAt(n)) {
			p.t.Fatalf("seen up to %v, %v is unseen, though it was shown", upTo, n)
		}
	}
}

// unseenPositions are the positions of the unseen notifications, those that the count includes.
func (p *stateMachine) unseenPositions() (positions []services.NotificationID) {
	for _, n := range p.readAllPages(onlyUnseen) {
		positions = append(positions, n.NewestPosition)
	}
	return positions
}

// categoryAt is the category of the notification at a position.
func (p *stateMachine) categoryAt(position services.NotificationID) services.Category {
	of, _ := p.model.groupAt(position)
	return of.category
}

// applyMark makes the mark of the given kind (verb, 0 to 5) in the store and in the model.
func (p *stateMachine) applyMark(verb int, d loadedList, gen uint64, upTo services.NotificationID, categories []services.Category) {
	ctx, me := p.Ctx, p.model.recipient
	p.MustWrite(func(tx *sql.Tx) (err error) {
		switch {
		case verb == 0:
			_, err = markSeen(ctx, tx, me, categories, upTo)
		case verb == 1 && upTo != 0:
			_, err = markRead(ctx, tx, me, readMarkSelection{UpToPositions: d.groupPositions[:1+len(d.groupPositions)/2], MarkGeneration: gen, AllCategories: modelCategories})
		case verb == 2:
			_, err = markRead(ctx, tx, me, readMarkSelection{Categories: categories, UpTo: upTo, MarkGeneration: gen, AllCategories: modelCategories})
		case verb == 3:
			_, _, err = markAllRead(ctx, tx, me, modelCategories, upTo, gen)
		case verb == 4:
			if _, err = undoAllRead(ctx, tx, me, modelCategories); services.CodeOf(err) == services.Conflict {
				err = nil
			}
		case verb == 5 && upTo != 0:
			of, _ := p.model.groupAt(upTo)
			if _, err = markUnread(ctx, tx, me, modelCategories, p.model.readStates[of].lowestPosition); services.CodeOf(err) == services.NotFound {
				err = nil
			}
		}
		return err
	})
	now := p.Clock.Now()
	switch {
	case verb == 0:
		p.model.markSeen(categories, upTo)
	case verb == 1 && upTo != 0:
		p.model.markShownRead(gen, d.groupPositions[:1+len(d.groupPositions)/2])
	case verb == 2:
		p.model.markCategoriesRead(gen, categories, upTo, 0)
		p.model.undoableMarkAt = time.Time{}
	case verb == 3:
		if p.model.markCategoriesRead(gen, modelCategories, upTo, p.model.lastMarkNumber+1) {
			p.model.lastMarkNumber, p.model.undoableMarkAt = p.model.lastMarkNumber+1, now
		}
	case verb == 4 && !p.model.undoableMarkAt.IsZero() && now.Sub(p.model.undoableMarkAt) <= undoAllReadPeriod:
		p.model.undoAllRead()
	case verb == 5 && upTo != 0:
		if of, _ := p.model.groupAt(upTo); p.model.highestPosition(of, true) != 0 {
			p.model.markUnread(upTo)
		}
	}
}

// checkAgainstModel compares the list and the count with the model and with each other.
func (p *stateMachine) checkAgainstModel() {
	p.t.Helper()
	now := p.Clock.Now()
	all := p.model.expectedList(now, p.expiry)
	wants := map[listFilter]func(n Notification) bool{
		everything: func(Notification) bool { return false },
		onlyUnread: func(n Notification) bool { return n.Read },
		onlyUnseen: func(n Notification) bool { return n.Seen || n.ExpiredUnseen },
	}
	for only, leavesOut := range wants {
		sqltest.Equal(p.t, p.readAllPages(only), p.model.withMarkAllUpTo(append([]Notification{}, slices.DeleteFunc(slices.Clone(all), leavesOut)...)))
	}
	for _, state := range sqltest.Must(statesOfUser(p.Ctx, p.DB, p.model.recipient))(p.t) {
		sqltest.Equal(p.t, state, p.model.expectedState(now, state.Category))
		value, _ := p.expiry.splitByExpiry(services.CategoryCounts{Category: state.Category, OlderUnseen: state.OlderUnseen, NewestDay: state.NewestDay, CountByDay: state.UnseenByDay}, state.NewestDay)
		page := sqltest.Must(readPage(p.Ctx, p.DB, listQuery{user: p.model.recipient, categories: []services.Category{state.Category},
			filter: onlyUnseen, limit: 1000, expiry: p.expiry}))(p.t)
		if value != len(page.Notifications) || page.MarkGeneration != p.model.markGeneration {
			p.t.Fatalf("%s: the number is %d, the list has %d, generation %d of %d", state.Category, value, len(page.Notifications), page.MarkGeneration, p.model.markGeneration)
		}
	}
}

// readAllPages reads a whole list of the recipient, page by page.
func (p *stateMachine) readAllPages(only listFilter) []Notification {
	all, before := []Notification{}, Position{}
	for {
		page := sqltest.Must(readPage(p.Ctx, p.DB, listQuery{user: p.model.recipient, categories: modelCategories, filter: only,
			before: before, limit: 3, expiry: p.expiry}))(p.t)
		all = append(all, page.Notifications...)
		if !page.More {
			return all
		}
		before = page.Next
	}
}

// TestNotificationsAgainstModel creates and undoes causes of every category but REMINDER, delivers their jobs late, twice and in
// any order, lets days pass, and has two devices mark lists that they loaded earlier. After every step the count equals the list.
// In the end, when every job has run, the notifications agree with the facts.
func TestNotificationsAgainstModel(t *testing.T) {
	histories.ReduceRapidChecks(t, 4)
	eachTestDB(t, func(b *testDB) {
		history := services.UserID(0)
		rapid.Check(b.T, func(t *rapid.T) {
			history++
			me := history * 100
			p := &stateMachine{testDB: b, t: t, model: newNotificationsModel(me), posts: []services.PostID{services.PostID(me) + 1, services.PostID(me) + 2},
				expiry:          ExpiryDays{services.CategoryLike: 2, services.CategoryMention: services.NeverExpires, hostOrders: 3, hostCalls: services.NeverExpires},
				pastMomentClock: services.NewIDClock(b.Clock, 1)}
			b.insertPosts(me, p.posts...)
			p.lastID = services.SortableIDAt(b.Clock.Now()) + services.SortableID(me)<<10
			for _, step := range rapid.SliceOfN(rapid.IntRange(0, 26), 30, 60).Draw(t, "steps") {
				step = step * 7 % 27 // rapid draws small numbers more often: spread them over every kind
				b.Clock.Advance(time.Duration(rapid.IntRange(0, 3).Draw(t, "pause")) * 500 * time.Millisecond)
				switch {
				case step <= 2:
					p.toggleLike()
				case step <= 4:
					p.publishRandomAnswer()
				case step <= 6:
					p.toggleFollow()
				case step == 7:
					p.deleteRandomPost()
				case step == 8:
					b.Clock.Advance(time.Duration(rapid.IntRange(0, 100).Draw(t, "hours")) * time.Hour)
				case step == 9:
					b.Clock.Advance(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
				case step == 10:
					p.loadList(&p.devices[rapid.IntRange(0, 1).Draw(t, "device")])
				case step <= 14:
					p.sendMark()
				case step <= 16:
					p.sendHostNotification()
				case step == 17:
					p.withdrawRandomNotification()
				case step == 18:
					p.toggleMention()
				case step <= 21:
					p.likeAtPastTime()
				default:
					if len(p.queuedCauses) > 0 {
						late := slices.Clone(p.queuedCauses)
						if rapid.Bool().Draw(t, "the last first") {
							slices.Reverse(late)
						}
						p.applyAndCompare(rapid.SliceOfN(rapid.SampledFrom(late), 1, 3).Draw(t, "delivered")...)
					}
				}
				p.checkAgainstModel()
			}
			if len(p.queuedCauses) > 0 {
				p.applyAndCompare(rapid.Permutation(p.queuedCauses).Draw(t, "in the end")...)
			}
			for c := range p.model.countingCauses() {
				if k := p.model.storedCauses[c]; k == nil || !k.counts {
					t.Fatalf("the fact %v is known as %+v", c, k)
				}
			}
			p.checkAgainstModel()
		})
	})
}
