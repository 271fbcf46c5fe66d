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

// device shows a list of an earlier moment: its marks arrive after later changes.
type device struct {
	gen    uint64
	places []services.PostID // of the lines
	known  []services.PostID // of every cause at that moment
	reach  services.PostID   // position up to which a mark of the whole list reaches
}

// These are the host application's categories of the state machine: a grouped one, and one whose notifications are single.
const (
	hostOrders services.Category = "orders"
	hostCalls  services.Category = "calls"
)

var panelCategories = append(slices.Clone(services.Categories), hostOrders, hostCalls)

// panel is the state machine: the store, its model, and the causes and marks in flight.
type panel struct {
	*bundle
	m            *panelModel
	t            *rapid.T
	ids          services.PostID   // the last ID that was given out
	posts        []services.PostID // by the recipient
	queuedCauses []Cause           // causes that have a job; it may run late, and again
	moments      *services.IDClock // makes the moments of causes of a past time
	devices      [2]device
	expiry       Expiry
}

// nextID returns a new ID of the present time.
func (p *panel) nextID() services.PostID {
	p.ids = max(p.ids+1, services.PostIDAt(p.Clock.Now()))
	return p.ids
}

// someone draws a user other than the recipient.
func (p *panel) someone() services.UserID {
	return p.m.me + services.UserID(rapid.IntRange(1, 10).Draw(p.t, "actor"))
}

func (p *panel) somePost() services.PostID { return rapid.SampledFrom(p.posts).Draw(p.t, "post") }

// like makes a user like a post of the recipient, or end the like.
func (p *panel) like() {
	c := Cause{Recipient: p.m.me, Category: services.CategoryLike, Subject: p.somePost(), Actor: p.someone()}
	if _, liked := p.m.likes[c]; liked && rapid.Bool().Draw(p.t, "unlike") {
		p.unlike(c.Subject, c.Actor)
		delete(p.m.likes, c)
	} else {
		p.bundle.like(c.Subject, c.Actor)
		if !liked {
			p.m.likes[c] = p.Clock.Now()
		}
	}
	p.queuedCauses = append(p.queuedCauses, c)
}

// follow makes a user follow the recipient, or end the follow.
func (p *panel) follow() {
	c := Cause{Recipient: p.m.me, Category: services.CategoryFollow, Actor: p.someone()}
	_, follows := p.m.follows[c.Actor]
	since := p.nextID()
	p.MustWrite(func(tx *sql.Tx) (err error) {
		if follows {
			_, err = people.DeleteFollow(p.Ctx, tx, c.Actor, p.m.me)
		} else {
			_, err = people.InsertFollow(p.Ctx, tx, services.Edge{Follower: c.Actor, Followee: p.m.me, Since: since})
		}
		return err
	})
	if follows {
		delete(p.m.follows, c.Actor)
	} else {
		p.m.follows[c.Actor] = since.Moment()
	}
	p.queuedCauses = append(p.queuedCauses, c)
}

// delete deletes a post.
func (p *panel) delete() {
	if len(p.m.incoming) > 0 && rapid.IntRange(0, 3).Draw(p.t, "whose") > 0 {
		a := p.someAnswer()
		p.remove(a.id)
		a.deleted = true
		p.queuedCauses = append(p.queuedCauses, p.causesOf(a)...)
		return
	}
	post := p.somePost()
	p.remove(post)
	p.m.deleted[post] = true
	for _, category := range []services.Category{services.CategoryLike, services.CategoryComment} {
		p.queuedCauses = append(p.queuedCauses, Cause{Recipient: p.m.me, Category: category, Subject: post})
	}
}

// tell makes the host application send a notification, with an actor or without one.
func (p *panel) tell() {
	told := HostNotification{Category: rapid.SampledFrom([]services.Category{hostOrders, hostCalls}).Draw(p.t, "category"), Title: "t",
		GroupKey: rapid.SampledFrom([]string{"", "a", "b"}).Draw(p.t, "key")}
	if rapid.Bool().Draw(p.t, "by somebody") {
		told.Actor = p.someone()
	}
	id := p.nextID()
	c := Cause{Recipient: p.m.me, Category: told.Category, Subject: told.subjectOf(id, told.Category == hostOrders), Actor: told.Actor, Object: id}
	p.MustWrite(func(tx *sql.Tx) error {
		_, err := tx.Run(p.Ctx, insertHostNotification, id, string(c.Category), c.Subject, told.GroupKey, c.Actor, "", 0, told.Title, "", tx.Now, 1)
		return err
	})
	p.m.told[c] = &hostNotificationModel{at: p.Clock.Now(), content: HostContent{ID: id, Title: told.Title, GroupKey: told.GroupKey}}
	p.queuedCauses = append(p.queuedCauses, c)
}

// withdraw makes the host application withdraw a notification.
func (p *panel) withdraw() {
	if len(p.m.told) == 0 {
		return
	}
	c := rapid.SampledFrom(slices.SortedFunc(maps.Keys(p.m.told), byKey)).Draw(p.t, "told")
	p.MustWrite(func(tx *sql.Tx) error {
		_, err := tx.Run(p.Ctx, withdrawHostNotification, c.Object, tx.Now)
		return err
	})
	p.m.told[c].withdrawn = true
	p.queuedCauses = append(p.queuedCauses, c)
}

// deliver applies causes to the store and to the model, and compares the states.
func (p *panel) deliver(causes ...Cause) {
	p.m.apply(p.Clock.Now(), causes)
	for _, state := range p.apply(causes...) {
		sqltest.Equal(p.t, state, p.m.state(p.Clock.Now(), state.Category))
	}
}

// loadList loads the list onto a device.
func (p *panel) loadList(d *device) {
	d.gen, d.places, d.reach = p.m.gen, nil, 0
	for _, n := range p.walk(everything) {
		d.places = append(d.places, n.Place)
		d.reach = max(d.reach, n.Reach)
	}
	if len(d.places) > 0 {
		d.reach = max(d.reach, d.places[0])
	}
	d.known = p.m.places()
}

// sendMark sends a mark of the list that a device loaded last.
func (p *panel) sendMark() {
	shown := &p.devices[rapid.IntRange(0, 1).Draw(p.t, "device")]
	if rapid.Bool().Draw(p.t, "looks first") {
		p.loadList(shown)
	}
	d, gen := *shown, shown.gen
	if rapid.Bool().Draw(p.t, "without a token") {
		gen = services.AnyGen
	}
	var upTo services.PostID
	if len(d.places) > 0 {
		if upTo = d.reach; rapid.Bool().Draw(p.t, "up to one of them") {
			upTo = rapid.SampledFrom(d.places).Draw(p.t, "place")
		}
	}
	categories := rapid.Permutation(panelCategories).Draw(p.t, "categories")[:rapid.IntRange(1, 4).Draw(p.t, "how many")]
	verb := rapid.IntRange(0, 5).Draw(p.t, "mark")
	before := p.unseen()
	p.mark(verb, d, gen, upTo, categories)
	after := p.unseen()
	for _, n := range before {
		if upTo != 0 && verb < 4 && !slices.Contains(after, n) && !slices.Contains(d.known, n) && !p.m.past(n) {
			p.t.Fatalf("mark %d up to %v took %v, which is newer than the list: it knew %v", verb, upTo, n, d.known)
		}
		if upTo == d.reach && upTo != 0 && verb == 0 && slices.Contains(d.places, n) && slices.Contains(after, n) && slices.Contains(categories, p.category(n)) {
			p.t.Fatalf("seen up to %v, %v is unseen, though it was shown", upTo, n)
		}
	}
}

// unseen are the positions that the count includes.
func (p *panel) unseen() (places []services.PostID) {
	for _, n := range p.walk(onlyUnseen) {
		places = append(places, n.Place)
	}
	return places
}

// category is the category of the notification at a position.
func (p *panel) category(place services.PostID) services.Category {
	of, _ := p.m.placed(place)
	return of.category
}

// mark makes the mark of the given kind (verb, 0 to 5) in the store and in the model.
func (p *panel) mark(verb int, d device, gen uint64, upTo services.PostID, categories []services.Category) {
	ctx, me := p.Ctx, p.m.me
	p.MustWrite(func(tx *sql.Tx) (err error) {
		switch {
		case verb == 0:
			_, err = raiseSeen(ctx, tx, me, categories, upTo)
		case verb == 1 && upTo != 0:
			_, err = markRead(ctx, tx, me, readMark{Shown: d.places[:1+len(d.places)/2], Gen: gen, AllCategories: panelCategories})
		case verb == 2:
			_, err = markRead(ctx, tx, me, readMark{Categories: categories, UpTo: upTo, Gen: gen, AllCategories: panelCategories})
		case verb == 3:
			_, _, err = markAllRead(ctx, tx, me, panelCategories, upTo, gen)
		case verb == 4:
			if _, err = undoAllRead(ctx, tx, me, panelCategories); services.CodeOf(err) == services.Conflict {
				err = nil
			}
		case verb == 5 && upTo != 0:
			of, _ := p.m.placed(upTo)
			if _, err = markUnread(ctx, tx, me, panelCategories, p.m.read[of].first); services.CodeOf(err) == services.NotFound {
				err = nil
			}
		}
		return err
	})
	now := p.Clock.Now()
	switch {
	case verb == 0:
		p.m.see(categories, upTo)
	case verb == 1 && upTo != 0:
		p.m.readOnes(gen, d.places[:1+len(d.places)/2])
	case verb == 2:
		p.m.readAll(gen, categories, upTo, 0)
		p.m.undoAt = time.Time{}
	case verb == 3:
		if p.m.readAll(gen, panelCategories, upTo, p.m.undo+1) {
			p.m.undo, p.m.undoAt = p.m.undo+1, now
		}
	case verb == 4 && !p.m.undoAt.IsZero() && now.Sub(p.m.undoAt) <= undoWithin:
		p.m.undoAll()
	case verb == 5 && upTo != 0:
		if of, _ := p.m.placed(upTo); p.m.top(of, true) != 0 {
			p.m.markUnread(upTo)
		}
	}
}

// checkAgainstModel compares the list and the count with the model and with each other.
func (p *panel) checkAgainstModel() {
	p.t.Helper()
	now := p.Clock.Now()
	all := p.m.list(now, p.expiry)
	wants := map[filter]func(n Notification) bool{
		everything: func(Notification) bool { return false },
		onlyUnread: func(n Notification) bool { return n.Read },
		onlyUnseen: func(n Notification) bool { return n.Seen || n.Older },
	}
	for only, leavesOut := range wants {
		sqltest.Equal(p.t, p.walk(only), p.m.withReach(append([]Notification{}, slices.DeleteFunc(slices.Clone(all), leavesOut)...)))
	}
	for _, state := range sqltest.Must(statesOfUser(p.Ctx, p.DB, p.m.me))(p.t) {
		sqltest.Equal(p.t, state, p.m.state(now, state.Category))
		value, _ := p.expiry.splitByExpiry(services.CategoryCounts{Category: state.Category, Older: state.Older, Day: state.Day, Days: state.Days}, state.Day)
		page := sqltest.Must(readPage(p.Ctx, p.DB, listQuery{user: p.m.me, categories: []services.Category{state.Category},
			only: onlyUnseen, limit: 1000, expiry: p.expiry}))(p.t)
		if value != len(page.Notifications) || page.Gen != p.m.gen {
			p.t.Fatalf("%s: the number is %d, the list has %d, generation %d of %d", state.Category, value, len(page.Notifications), page.Gen, p.m.gen)
		}
	}
}

// walk pages through a list.
func (p *panel) walk(only filter) []Notification {
	all, before := []Notification{}, Position{}
	for {
		page := sqltest.Must(readPage(p.Ctx, p.DB, listQuery{user: p.m.me, categories: panelCategories, only: only,
			before: before, limit: 3, expiry: p.expiry}))(p.t)
		all = append(all, page.Notifications...)
		if !page.More {
			return all
		}
		before = page.Next
	}
}

// TestNotificationsAgainstModel creates and undoes causes of every category but REMINDER, delivers their jobs late, twice and in any
// order, lets days pass, and has two devices mark lists that they loaded earlier. After every step the count equals the list. In the end,
// when every job has run, the notifications agree with the facts.
func TestNotificationsAgainstModel(t *testing.T) {
	histories.Reduce(t, 4)
	eachBundle(t, func(b *bundle) {
		history := services.UserID(0)
		rapid.Check(b.T, func(t *rapid.T) {
			history++
			me := history * 100
			p := &panel{bundle: b, t: t, m: newPanelModel(me), posts: []services.PostID{services.PostID(me) + 1, services.PostID(me) + 2},
				expiry:  Expiry{services.CategoryLike: 2, services.CategoryMention: services.Never, hostOrders: 3, hostCalls: services.Never},
				moments: services.NewIDClock(b.Clock, 1)}
			b.post(me, p.posts...)
			p.ids = services.PostIDAt(b.Clock.Now()) + services.PostID(me)<<10
			for _, step := range rapid.SliceOfN(rapid.IntRange(0, 26), 30, 60).Draw(t, "steps") {
				step = step * 7 % 27 // rapid draws small numbers more often: spread them over every kind
				b.Clock.Advance(time.Duration(rapid.IntRange(0, 3).Draw(t, "pause")) * 500 * time.Millisecond)
				switch {
				case step <= 2:
					p.like()
				case step <= 4:
					p.answer()
				case step <= 6:
					p.follow()
				case step == 7:
					p.delete()
				case step == 8:
					b.Clock.Advance(time.Duration(rapid.IntRange(0, 100).Draw(t, "hours")) * time.Hour)
				case step == 9:
					b.Clock.Advance(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
				case step == 10:
					p.loadList(&p.devices[rapid.IntRange(0, 1).Draw(t, "device")])
				case step <= 14:
					p.sendMark()
				case step <= 16:
					p.tell()
				case step == 17:
					p.withdraw()
				case step == 18:
					p.edit()
				case step <= 21:
					p.pastLike()
				default:
					if len(p.queuedCauses) > 0 {
						late := slices.Clone(p.queuedCauses)
						if rapid.Bool().Draw(t, "the last first") {
							slices.Reverse(late)
						}
						p.deliver(rapid.SliceOfN(rapid.SampledFrom(late), 1, 3).Draw(t, "delivered")...)
					}
				}
				p.checkAgainstModel()
			}
			if len(p.queuedCauses) > 0 {
				p.deliver(rapid.Permutation(p.queuedCauses).Draw(t, "in the end")...)
			}
			for c := range p.m.facts() {
				if k := p.m.known[c]; k == nil || !k.counts {
					t.Fatalf("the fact %v is known as %+v", c, k)
				}
			}
			p.checkAgainstModel()
		})
	})
}
