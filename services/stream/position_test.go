package stream

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
)

// pager is a reader who reads pages, with the newest version of each user that it was alerted of.
type pager struct {
	*world
	s        *Service
	position Position
	heard    map[services.UserID]uint64 // by user: the number of the newest change that alerted this reader
	twice    int                        // changes whose only alert was one that the reader had received before
}

// read reads the next page, and notes the alerts that it has.
func (p *pager) read(size int) (more bool) {
	p.T.Helper()
	found := sqltest.Must(p.s.ChangesAfter(p.Ctx, p.position.ReadTo, size+1))(p.T)
	more = len(found) > size
	found = found[:min(size, len(found))]
	whole := p.position.FullTo == p.position.ReadTo
	for _, change := range found {
		if change.Silent(p.position.FullTo) {
			continue
		}
		if change.State.AlertVersion() <= p.heard[change.User] {
			p.twice++
			if whole {
				p.T.Errorf("%s: the alert of %d comes again at %d, to a reader who had everything at %d", change.Key, change.State.AlertVersion(), change.Seq, p.position.ReadTo)
			}
		}
		p.heard[change.User] = change.Seq
	}
	p.position = p.position.After(found, more)
	return more
}

// checkAlerts returns an error if a reader who has read everything has missed an alert.
func (p *pager) checkAlerts(users []services.UserID) error {
	for user, change := range sqltest.Must(p.s.ChangesOf(p.Ctx, users))(p.T) {
		if change.State.AlertVersion() > p.heard[user] {
			return fmt.Errorf("%s: the alert of %d, now at %d, did not come: the reader is at %+v", change.Key, change.State.AlertVersion(), change.Seq, p.position)
		}
	}
	return nil
}

// alter changes the number of a user's likes, by a new item if alert is true, and writes the change.
func (p *pager) alter(user services.UserID, likes int, alert bool) {
	p.T.Helper()
	id := ""
	if alert {
		id = fmt.Sprintf("notification:%d", time.Now().UnixNano())
	}
	p.set(user, likes, id, time.Now())
	sqltest.Equal(p.T, p.s.Mark(p.Ctx, []services.UserID{user}), nil)
	p.step(p.s)
}

// newPager makes a reader who has read nothing.
func newPager(b *peopletest.Bundle) *pager {
	w := newWorld(b)
	p := &pager{world: w, s: w.node(), heard: map[services.UserID]uint64{}}
	w.step(p.s)
	return p
}

// A silent change replaces a change with an alert before a reader in the middle of a backlog comes to it. The reader gets that alert
// all the same, and no alert twice.
func TestASilentChangeHidesNoEarlierAlert(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		p := newPager(b)
		users := b.MakeUsers("ann", "bob", "cat", "dan")
		for _, user := range users {
			p.alter(user, 1, false)
		}
		for p.read(2) {
		}
		p.alter(users[0], 5, true)
		for _, user := range users[1:] {
			p.alter(user, 2, true)
		}
		p.alter(users[0], 4, false) // the change is behind the others now, and its alert is older than theirs
		if !p.read(2) {
			b.T.Fatal("there is no backlog")
		}
		for p.read(2) {
		}
		if err := p.checkAlerts(users); err != nil {
			b.T.Error(err)
		}
		if p.position.FullTo != p.position.ReadTo || p.twice != 0 {
			b.T.Errorf("at the end: %+v, %d alerts twice", p.position, p.twice)
		}
	})
}

// No alert is lost, whatever changes between the pages of a reader, and a reader who has had everything gets no alert twice.
func TestPagesLoseNoAlert(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		users := b.MakeUsers("ann", "bob", "cat", "dan", "eve")
		p := newPager(b)
		random := rand.New(rand.NewPCG(1, 2))
		drained, backlogs := 0, 0
		for range histories.Number(b.T, 400, 4000) {
			user := users[random.IntN(len(users))]
			switch what := random.IntN(7); {
			case what < 3:
				p.alter(user, p.likes[user]+1+random.IntN(3), true)
			case what == 3:
				p.alter(user, max(0, p.likes[user]-1), false)
			case what == 4:
				p.alter(user, p.likes[user]+1, false) // marked unread: the item is not newer
			case !p.read(1 + random.IntN(2)):
				drained++
				if err := p.checkAlerts(users); err != nil {
					b.T.Fatal(err)
				}
			default:
				backlogs++
			}
		}
		if drained == 0 || backlogs == 0 || p.twice == 0 {
			b.T.Errorf("%d times at the end and %d times not, %d alerts twice: the reader was not in the middle of a backlog", drained, backlogs, p.twice)
		}
	})
}
