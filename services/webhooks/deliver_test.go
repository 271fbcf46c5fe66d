package webhooks

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/outbound"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/services/stream"
)

// An event has the data of its change, with an id and a signature by the specification; without an error nothing is sent twice.
func TestChangesAreDelivered(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob")
		w.changeLikes(1, users[1])
		s := w.newNode()
		w.addEndpoint(s, Filter{})
		d := delivererOf(s, "app")
		w.deliverAll(d)
		sqltest.Equal(t, len(w.receiver.takeDeliveries()), 0) // only what comes later
		w.changeLikes(3, users[0])
		w.deliverAll(d)
		got := w.receiver.takeDeliveries()
		if len(got) != 1 || got[0].Type != changedEvent || !got[0].Accepted {
			t.Fatalf("%+v", got)
		}
		e := got[0].Data
		if e.UserID != "user:ann" || e.Key != "ann" || e.Total != 3 || e.Silent || e.Cause == nil || e.Cause.ItemID != "notification:1" || len(e.Sources) != 1 || !e.Sources[0].Changed {
			t.Errorf("%s", got[0].body)
		}
		if got[0].ID != "app_"+e.Version || !strings.Contains(got[0].body, `"timestamp":"`) {
			t.Errorf("the id is %s: %s", got[0].ID, got[0].body)
		}
		w.deliverAll(d)
		w.changeLikes(1, users[0])
		w.deliverAll(d)
		got = w.receiver.takeDeliveries()
		if len(got) != 1 || got[0].Data.Total != 1 || !got[0].Data.Silent || got[0].Data.Cause != nil {
			t.Errorf("after a fall: %+v", got)
		}
		if e := w.endpoint(s); e.DeliveredEvents != 2 || e.State() != "ok" || e.WaitingUsers+e.DeadLetters != 0 || !e.OldestUnsentAt.IsZero() || e.LastSuccessAt.IsZero() {
			t.Errorf("%+v", e)
		}
	})
}

// An endpoint with FromStart gets everybody's present state first, which alerts nobody.
func TestFromStartDeliversThePresentStateWithoutAlerts(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob")
		w.changeLikes(2, users...)
		s := w.newNode()
		sqltest.Must(s.Add(b.Ctx, NewEndpoint{Name: "app", URL: w.receiver.server.URL, FromStart: true}))(b.T)
		w.deliverAll(delivererOf(s, "app"))
		got := w.receiver.takeDeliveries()
		sqltest.Equal(b.T, w.acceptedTotals(got), map[string]int{"ann": 2, "bob": 2})
		for _, d := range got {
			if !d.Data.Silent {
				b.T.Errorf("%s", d.body)
			}
		}
	})
}

// A burst becomes one event a user, also if the receiver is slower than the changes.
func TestABurstIsConflatedToOneEventPerUser(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob", "cat", "dan")
		s := w.newNode()
		w.addEndpoint(s, Filter{})
		d := delivererOf(s, "app")
		w.deliverAll(d)
		for i := range 50 {
			w.changeLikes(i+1, users...)
		}
		w.deliverAll(d)
		got := w.receiver.takeDeliveries()
		if len(got) != len(users) {
			b.T.Errorf("%d events for %d users", len(got), len(users))
		}
		sqltest.Equal(b.T, w.acceptedTotals(got), map[string]int{"ann": 50, "bob": 50, "cat": 50, "dan": 50})
	})
}

// A user whose events fail is tried again after a pause, under one id. The user delays nobody else, and gets the newest change in
// the end.
func TestAFailingUserDelaysNoOther(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		w.addEndpoint(s, Filter{})
		d := delivererOf(s, "app")
		w.deliverAll(d)
		w.receiver.setAnswer(func(to http.ResponseWriter, d delivery) {
			if d.Data.Key == "ann" {
				to.WriteHeader(http.StatusInternalServerError)
			}
		})
		w.changeLikes(1, users...)
		w.deliverAll(d)
		sqltest.Equal(t, w.acceptedTotals(w.receiver.takeDeliveries()), map[string]int{"bob": 1})
		w.deliverAll(d)
		sqltest.Equal(t, len(w.receiver.takeDeliveries()), 0) // not before the pause
		ids := map[string]int{}
		for range 4 {
			b.Clock.Advance(time.Hour)
			w.deliverAll(d)
			for _, d := range w.receiver.takeDeliveries() {
				ids[d.ID]++
			}
		}
		if len(ids) != 1 {
			t.Errorf("ids of one event: %v", ids)
		}
		if e := w.endpoint(s); e.WaitingUsers != 1 || e.Down() || e.LastError != "the receiver answered 500" {
			t.Errorf("%+v", e)
		}
		w.changeLikes(2, users...)
		w.deliverAll(d)
		w.receiver.answerWith(http.StatusOK)
		w.changeLikes(3, users[1])
		b.Clock.Advance(time.Hour)
		w.deliverAll(d)
		got := w.receiver.takeDeliveries()
		sqltest.Equal(t, w.acceptedTotals(got), map[string]int{"ann": 2, "bob": 3})
		for _, d := range got {
			if d.Data.Key == "ann" && d.Accepted && d.Data.Silent {
				t.Errorf("the alert was lost: %s", d.body)
			}
		}
		if e := w.endpoint(s); e.WaitingUsers != 0 || e.FailuresInRow != 0 {
			t.Errorf("%+v", e)
		}
	})
}

// An endpoint that fails as a whole gets single requests. All other changes wait in the stream, and arrive in their newest state.
func TestADownEndpointGetsSingleRequestsUntilItIsUp(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		var keys []string
		for i := range 100 {
			keys = append(keys, fmt.Sprintf("u%02d", i))
		}
		users := b.MakeUsers(keys...)
		s := w.newNode()
		w.addEndpoint(s, Filter{})
		d := delivererOf(s, "app")
		w.deliverAll(d)
		w.receiver.answerWith(http.StatusServiceUnavailable)
		w.changeLikes(1, users...)
		w.deliverAll(d)
		if got := len(w.receiver.takeDeliveries()); got < failuresUntilDown || got > failuresUntilDown+s.cfg.ParallelRequests {
			t.Errorf("%d requests until the endpoint was known to be down", got)
		}
		if e := w.endpoint(s); e.State() != "down" || e.OldestUnsentAt.IsZero() || e.RetryAt.IsZero() || e.RetryAt.Sub(b.Clock.Now()) > 5*time.Second {
			t.Errorf("after failures at once the first trial is not soon: %+v", e)
		}
		for range 12 {
			b.Clock.Advance(outbound.LongestDownPause)
			w.deliverAll(d)
		}
		if got := len(w.receiver.takeDeliveries()); got != 12 {
			t.Errorf("%d requests in 12 pauses", got)
		}
		w.changeLikes(2, users...)
		w.receiver.answerWith(http.StatusOK)
		b.Clock.Advance(outbound.LongestDownPause)
		w.deliverAll(d)
		got := w.receiver.takeDeliveries()
		if len(got) != len(users) {
			t.Errorf("%d events for %d users", len(got), len(users))
		}
		for key, total := range w.acceptedTotals(got) {
			if total != 2 {
				t.Errorf("%s has %d", key, total)
			}
		}
		if e := w.endpoint(s); e.State() != "ok" || e.WaitingUsers != 0 || !e.OldestUnsentAt.IsZero() {
			t.Errorf("%+v", e)
		}
	})
}

// After a day an event is given up, is shown, and can be replayed.
func TestDeadLetters(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob", "cat")
		s := w.newNode()
		w.addEndpoint(s, Filter{})
		d := delivererOf(s, "app")
		w.deliverAll(d)
		bad := func(to http.ResponseWriter, d delivery) {
			if d.Data.Key != "cat" {
				to.WriteHeader(http.StatusUnprocessableEntity)
			}
		}
		w.receiver.setAnswer(bad)
		w.changeLikes(1, users...)
		for range 30 {
			w.deliverAll(d)
			b.Clock.Advance(time.Hour)
		}
		dead := sqltest.Must(s.DeadLetters(b.Ctx, "app", 10))(t)
		if len(dead) != 2 || dead[0].Status != 422 || dead[0].DeadAt.Sub(dead[0].StartedAt) < outbound.RetryFor || dead[0].Attempts < 10 {
			t.Fatalf("%+v", dead)
		}
		w.receiver.takeDeliveries()
		b.Clock.Advance(48 * time.Hour)
		w.deliverAll(d)
		sqltest.Equal(t, len(w.receiver.takeDeliveries()), 0)
		sqltest.Equal(t, sqltest.Must(s.ReplayDeadLetters(b.Ctx, "app", "ann"))(t), 1)
		w.deliverAll(d)
		if got := w.receiver.takeDeliveries(); len(got) != 1 || got[0].Data.Key != "ann" {
			t.Errorf("a replay that fails: %+v", got)
		}
		w.receiver.answerWith(http.StatusOK)
		w.changeLikes(2, users[1]) // a newer change comes by itself
		w.deliverAll(d)
		sqltest.Equal(t, sqltest.Must(s.ReplayDeadLetters(b.Ctx, "app", ""))(t), 0)
		b.Clock.Advance(time.Hour)
		w.deliverAll(d)
		sqltest.Equal(t, w.acceptedTotals(w.receiver.takeDeliveries()), map[string]int{"ann": 1, "bob": 2})
		if e := w.endpoint(s); e.DeadLetters+e.WaitingUsers != 0 {
			t.Errorf("%+v", e)
		}
		_, err := s.ReplayDeadLetters(b.Ctx, "app", "nobody")
		sqltest.WantCode(t, err, services.NotFound)
		_, err = s.DeadLetters(b.Ctx, "none", 10)
		sqltest.WantCode(t, err, services.NotFound)
	})
}

// Nothing is sent about users with an open socket until they have closed it. The event then does not alert of items that the
// socket showed.
func TestAwayFilterWaitsForTheClose(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		w.addEndpoint(s, Filter{OnlyAway: true})
		d := delivererOf(s, "app")
		w.deliverAll(d)
		w.setOnline(users[0], true)
		w.changeLikes(1, users...)
		w.deliverAll(d)
		sqltest.Equal(t, w.acceptedTotals(w.receiver.takeDeliveries()), map[string]int{"bob": 1})
		b.Clock.Advance(time.Hour)
		w.changeLikes(2, users[0])
		w.deliverAll(d)
		sqltest.Equal(t, len(w.receiver.takeDeliveries()), 0)
		w.setOnline(users[0], false)
		b.Clock.Advance(maxOnlineRecheckInterval)
		w.deliverAll(d)
		got := w.receiver.takeDeliveries()
		if len(got) != 1 || got[0].Data.Total != 2 || !got[0].Data.Silent {
			t.Errorf("%+v", got)
		}
		w.changeLikes(3, users[0])
		w.deliverAll(d)
		if got := w.receiver.takeDeliveries(); len(got) != 1 || got[0].Data.Silent {
			t.Errorf("away: %+v", got)
		}
	})
}

// A change after the last socket was closed alerts at once, whether or not a change that the socket showed still waits.
func TestAwayAlertsAtOnceAfterTheClose(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		w.addEndpoint(s, Filter{OnlyAway: true})
		d := delivererOf(s, "app")
		w.setOnline(users[0], true)
		w.setOnline(users[1], true)
		w.deliverAll(d)
		w.changeLikes(1, users[0]) // ann sees it, bob saw nothing
		w.deliverAll(d)
		sqltest.Equal(t, len(w.receiver.takeDeliveries()), 0)
		w.setOnline(users[0], false)
		w.setOnline(users[1], false)
		b.Clock.Advance(time.Second)
		w.changeLikes(2, users...)
		w.deliverAll(d)
		got := w.receiver.takeDeliveries()
		sqltest.Equal(t, w.acceptedTotals(got), map[string]int{"ann": 2, "bob": 2})
		for _, one := range got {
			if one.Data.Silent || one.Data.Cause == nil {
				t.Errorf("after the close: %+v", one)
			}
		}
		b.Clock.Advance(maxOnlineRecheckInterval)
		w.deliverAll(d)
		sqltest.Equal(t, len(w.receiver.takeDeliveries()), 0)
		w.setOnline(users[0], true) // back, and away again before the next look
		w.changeLikes(3, users[0])
		w.deliverAll(d)
		w.setOnline(users[0], false)
		b.Clock.Advance(minOnlineRecheckInterval)
		w.deliverAll(d)
		if got := w.receiver.takeDeliveries(); len(got) != 1 || got[0].Data.Total != 3 || !got[0].Data.Silent || got[0].Data.Cause != nil {
			t.Errorf("what the socket showed: %+v", got)
		}
	})
}

// A receiver that says it is gone gets nothing more until it is replayed; a receiver that asks to wait gets nothing for that
// time.
func TestGoneAndRetryAfter(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		w.addEndpoint(s, Filter{})
		d := delivererOf(s, "app")
		w.deliverAll(d)
		w.receiver.setAnswer(func(to http.ResponseWriter, _ delivery) {
			to.Header().Set("Retry-After", "600")
			to.WriteHeader(http.StatusTooManyRequests)
		})
		w.changeLikes(1, users[0])
		w.deliverAll(d)
		w.receiver.takeDeliveries()
		w.receiver.answerWith(http.StatusGone)
		w.changeLikes(1, users[1])
		b.Clock.Advance(9 * time.Minute)
		w.deliverAll(d)
		sqltest.Equal(t, len(w.receiver.takeDeliveries()), 0)
		b.Clock.Advance(2 * time.Minute)
		w.deliverAll(d)
		if e := w.endpoint(s); e.State() != "gone" || len(w.receiver.takeDeliveries()) == 0 {
			t.Errorf("%+v", e)
		}
		w.receiver.answerWith(http.StatusOK)
		b.Clock.Advance(24 * time.Hour)
		w.deliverAll(d)
		sqltest.Equal(t, len(w.receiver.takeDeliveries()), 0)
		sqltest.Must(s.ReplayDeadLetters(b.Ctx, "app", ""))(t)
		w.deliverAll(d)
		sqltest.Equal(t, w.acceptedTotals(w.receiver.takeDeliveries()), map[string]int{"ann": 1, "bob": 1})
	})
}

// A user who is forgotten leaves no letter, and a letter whose user has no change any more is dropped.
func TestForgottenUsersLeaveNoLetters(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		w.addEndpoint(s, Filter{})
		d := delivererOf(s, "app")
		w.deliverAll(d)
		w.receiver.answerWith(http.StatusInternalServerError)
		w.changeLikes(1, users...)
		w.deliverAll(d)
		sqltest.Equal(t, w.endpoint(s).WaitingUsers, 2)
		b.MustWrite(func(tx *sql.Tx) error {
			removed, err := forget(b.Ctx, tx, users[0])
			sqltest.Equal(t, removed, 1)
			return err
		})
		sqltest.Equal(t, w.endpoint(s).WaitingUsers, 1)
		b.MustWrite(func(tx *sql.Tx) error { _, err := stream.Forget(b.Ctx, tx, users[1]); return err })
		b.Clock.Advance(time.Hour)
		w.receiver.takeDeliveries()
		w.deliverAll(d)
		sqltest.Equal(t, w.endpoint(s).WaitingUsers, 0)
		sqltest.Equal(t, len(w.receiver.takeDeliveries()), 0)
	})
}
