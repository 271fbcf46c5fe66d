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

// streamReader is a reader who reads pages, with the newest version of each user that it was alerted of.
type streamReader struct {
	*testWorld
	service        *Service
	position       Position
	newestAlertSeq map[services.UserID]uint64 // by user: the number of the newest change that alerted this reader
	repeatedAlerts int                        // changes whose only alert was one that the reader had received before
}

// readPage reads the next page, and notes the alerts that it has.
func (p *streamReader) readPage(size int) (more bool) {
	p.T.Helper()
	found := sqltest.Must(p.service.ChangesAfter(p.Ctx, p.position.ReadTo, size+1))(p.T)
	more = len(found) > size
	found = found[:min(size, len(found))]
	whole := p.position.DrainedTo == p.position.ReadTo
	for _, change := range found {
		if change.Silent(p.position.DrainedTo) {
			continue
		}
		if change.State.NewestAlertVersion() <= p.newestAlertSeq[change.User] {
			p.repeatedAlerts++
			if whole {
				p.T.Errorf("%s: the alert of %d comes again at %d, to a reader who had everything at %d", change.Key, change.State.NewestAlertVersion(), change.Seq, p.position.ReadTo)
			}
		}
		p.newestAlertSeq[change.User] = change.Seq
	}
	p.position = p.position.AfterReading(found, more)
	return more
}

// checkAlerts returns an error if a reader who has read everything has missed an alert.
func (p *streamReader) checkAlerts(users []services.UserID) error {
	for user, change := range sqltest.Must(p.service.ChangesOf(p.Ctx, users))(p.T) {
		if change.State.NewestAlertVersion() > p.newestAlertSeq[user] {
			return fmt.Errorf("%s: the alert of %d, now at %d, did not come: the reader is at %+v", change.Key, change.State.NewestAlertVersion(), change.Seq, p.position)
		}
	}
	return nil
}

// changeLikes changes the number of a user's likes, by a new item if alert is true, and writes the change.
func (p *streamReader) changeLikes(user services.UserID, likes int, alert bool) {
	p.T.Helper()
	id := ""
	if alert {
		id = fmt.Sprintf("notification:%d", time.Now().UnixNano())
	}
	p.setLikes(user, likes, id, time.Now())
	sqltest.Equal(p.T, p.service.Mark(p.Ctx, []services.UserID{user}), nil)
	p.runUntilIdle(p.service)
}

// newStreamReader makes a reader who has read nothing.
func newStreamReader(b *peopletest.TestDB) *streamReader {
	w := newTestWorld(b)
	p := &streamReader{testWorld: w, service: w.newService(), newestAlertSeq: map[services.UserID]uint64{}}
	w.runUntilIdle(p.service)
	return p
}

// A silent change replaces a change with an alert before a reader in the middle of a backlog comes to it. The reader gets that alert
// all the same, and no alert twice.
func TestASilentChangeHidesNoEarlierAlert(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		p := newStreamReader(b)
		users := b.MakeUsers("ann", "bob", "cat", "dan")
		for _, user := range users {
			p.changeLikes(user, 1, false)
		}
		for p.readPage(2) {
		}
		p.changeLikes(users[0], 5, true)
		for _, user := range users[1:] {
			p.changeLikes(user, 2, true)
		}
		p.changeLikes(users[0], 4, false) // the change is behind the others now, and its alert is older than theirs
		if !p.readPage(2) {
			b.T.Fatal("there is no backlog")
		}
		for p.readPage(2) {
		}
		if err := p.checkAlerts(users); err != nil {
			b.T.Error(err)
		}
		if p.position.DrainedTo != p.position.ReadTo || p.repeatedAlerts != 0 {
			b.T.Errorf("at the end: %+v, %d alerts twice", p.position, p.repeatedAlerts)
		}
	})
}

// No alert is lost, whatever changes between the pages of a reader, and a reader who has had everything gets no alert twice.
func TestPagesLoseNoAlert(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		users := b.MakeUsers("ann", "bob", "cat", "dan", "eve")
		p := newStreamReader(b)
		random := rand.New(rand.NewPCG(1, 2))
		drained, backlogs := 0, 0
		for range histories.ShortOrFull(b.T, 400, 4000) {
			user := users[random.IntN(len(users))]
			switch what := random.IntN(7); {
			case what < 3:
				p.changeLikes(user, p.likes[user]+1+random.IntN(3), true)
			case what == 3:
				p.changeLikes(user, max(0, p.likes[user]-1), false)
			case what == 4:
				p.changeLikes(user, p.likes[user]+1, false) // marked unread: the item is not newer
			case !p.readPage(1 + random.IntN(2)):
				drained++
				if err := p.checkAlerts(users); err != nil {
					b.T.Fatal(err)
				}
			default:
				backlogs++
			}
		}
		if drained == 0 || backlogs == 0 || p.repeatedAlerts == 0 {
			b.T.Errorf("%d times at the end and %d times not, %d alerts twice: the reader was not in the middle of a backlog", drained, backlogs, p.repeatedAlerts)
		}
	})
}
