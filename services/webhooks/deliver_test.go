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
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		t := b.T
		w := newWorld(b)
		users := b.MakeUsers("ann", "bob")
		w.like(1, users[1])
		s := w.newNode()
		w.add(s, Filter{})
		d := delivererOf(s, "app")
		w.settle(d)
		sqltest.Equal(t, len(w.receiver.take()), 0) // only what comes later
		w.like(3, users[0])
		w.settle(d)
		got := w.receiver.take()
		if len(got) != 1 || got[0].Type != ChangedEvent || !got[0].Accepted {
			t.Fatalf("%+v", got)
		}
		e := got[0].Data
		if e.UserID != "user:ann" || e.Key != "ann" || e.Total != 3 || e.Silent || e.Cause == nil || e.Cause.ItemID != "notification:1" || len(e.Sources) != 1 || !e.Sources[0].Changed {
			t.Errorf("%s", got[0].body)
		}
		if got[0].ID != "app_"+e.Version || !strings.Contains(got[0].body, `"timestamp":"`) {
			t.Errorf("the id is %s: %s", got[0].ID, got[0].body)
		}
		w.settle(d)
		w.like(1, users[0])
		w.settle(d)
		got = w.receiver.take()
		if len(got) != 1 || got[0].Data.Total != 1 || !got[0].Data.Silent || got[0].Data.Cause != nil {
			t.Errorf("after a fall: %+v", got)
		}
		if e := w.endpoint(s); e.Delivered != 2 || e.State() != "ok" || e.Waiting+e.Dead != 0 || !e.Since.IsZero() || e.OKAt.IsZero() {
			t.Errorf("%+v", e)
		}
	})
}

// An endpoint with FromStart gets everybody's present state first, which alerts nobody.
func TestFromStart(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		w := newWorld(b)
		users := b.MakeUsers("ann", "bob")
		w.like(2, users...)
		s := w.newNode()
		sqltest.Must(s.Add(b.Ctx, NewEndpoint{Name: "app", URL: w.receiver.server.URL, FromStart: true}))(b.T)
		w.settle(delivererOf(s, "app"))
		got := w.receiver.take()
		sqltest.Equal(b.T, w.totals(got), map[string]int{"ann": 2, "bob": 2})
		for _, d := range got {
			if !d.Data.Silent {
				b.T.Errorf("%s", d.body)
			}
		}
	})
}

// A burst becomes one event a user, also if the receiver is slower than the changes.
func TestBurstIsOneEventOfAUser(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		w := newWorld(b)
		users := b.MakeUsers("ann", "bob", "cat", "dan")
		s := w.newNode()
		w.add(s, Filter{})
		d := delivererOf(s, "app")
		w.settle(d)
		for i := range 50 {
			w.like(i+1, users...)
		}
		w.settle(d)
		got := w.receiver.take()
		if len(got) != len(users) {
			b.T.Errorf("%d events for %d users", len(got), len(users))
		}
		sqltest.Equal(b.T, w.totals(got), map[string]int{"ann": 50, "bob": 50, "cat": 50, "dan": 50})
	})
}

// A user whose events fail is tried again after a pause, under one id. The user delays nobody else, and gets the newest change in the end.
func TestAFailingUserDelaysNoOther(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		t := b.T
		w := newWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		w.add(s, Filter{})
		d := delivererOf(s, "app")
		w.settle(d)
		w.receiver.setAnswer(func(to http.ResponseWriter, d delivery) {
			if d.Data.Key == "ann" {
				to.WriteHeader(http.StatusInternalServerError)
			}
		})
		w.like(1, users...)
		w.settle(d)
		sqltest.Equal(t, w.totals(w.receiver.take()), map[string]int{"bob": 1})
		w.settle(d)
		sqltest.Equal(t, len(w.receiver.take()), 0) // not before the pause
		ids := map[string]int{}
		for range 4 {
			b.Clock.Advance(time.Hour)
			w.settle(d)
			for _, d := range w.receiver.take() {
				ids[d.ID]++
			}
		}
		if len(ids) != 1 {
			t.Errorf("ids of one event: %v", ids)
		}
		if e := w.endpoint(s); e.Waiting != 1 || e.Down() || e.Error != "the receiver answered 500" {
			t.Errorf("%+v", e)
		}
		w.like(2, users...)
		w.settle(d)
		w.receiver.answerWith(http.StatusOK)
		w.like(3, users[1])
		b.Clock.Advance(time.Hour)
		w.settle(d)
		got := w.receiver.take()
		sqltest.Equal(t, w.totals(got), map[string]int{"ann": 2, "bob": 3})
		for _, d := range got {
			if d.Data.Key == "ann" && d.Accepted && d.Data.Silent {
				t.Errorf("the alert was lost: %s", d.body)
			}
		}
		if e := w.endpoint(s); e.Waiting != 0 || e.Failures != 0 {
			t.Errorf("%+v", e)
		}
	})
}

// An endpoint that fails as a whole gets single requests. All other changes wait in the stream, and arrive in their newest state.
func TestDownAndUp(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		t := b.T
		w := newWorld(b)
		var keys []string
		for i := range 100 {
			keys = append(keys, fmt.Sprintf("u%02d", i))
		}
		users := b.MakeUsers(keys...)
		s := w.newNode()
		w.add(s, Filter{})
		d := delivererOf(s, "app")
		w.settle(d)
		w.receiver.answerWith(http.StatusServiceUnavailable)
		w.like(1, users...)
		w.settle(d)
		if got := len(w.receiver.take()); got < failuresUntilDown || got > failuresUntilDown+s.cfg.ParallelRequests {
			t.Errorf("%d requests until the endpoint was known to be down", got)
		}
		if e := w.endpoint(s); e.State() != "down" || e.Since.IsZero() || e.RetryAt.IsZero() || e.RetryAt.Sub(b.Clock.Now()) > 5*time.Second {
			t.Errorf("after failures at once the first trial is not soon: %+v", e)
		}
		for range 12 {
			b.Clock.Advance(outbound.LongestDown)
			w.settle(d)
		}
		if got := len(w.receiver.take()); got != 12 {
			t.Errorf("%d requests in 12 pauses", got)
		}
		w.like(2, users...)
		w.receiver.answerWith(http.StatusOK)
		b.Clock.Advance(outbound.LongestDown)
		w.settle(d)
		got := w.receiver.take()
		if len(got) != len(users) {
			t.Errorf("%d events for %d users", len(got), len(users))
		}
		for key, total := range w.totals(got) {
			if total != 2 {
				t.Errorf("%s has %d", key, total)
			}
		}
		if e := w.endpoint(s); e.State() != "ok" || e.Waiting != 0 || !e.Since.IsZero() {
			t.Errorf("%+v", e)
		}
	})
}

// After a day an event is given up, is shown, and can be replayed.
func TestDeadLetters(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		t := b.T
		w := newWorld(b)
		users := b.MakeUsers("ann", "bob", "cat")
		s := w.newNode()
		w.add(s, Filter{})
		d := delivererOf(s, "app")
		w.settle(d)
		bad := func(to http.ResponseWriter, d delivery) {
			if d.Data.Key != "cat" {
				to.WriteHeader(http.StatusUnprocessableEntity)
			}
		}
		w.receiver.setAnswer(bad)
		w.like(1, users...)
		for range 30 {
			w.settle(d)
			b.Clock.Advance(time.Hour)
		}
		dead := sqltest.Must(s.DeadLetters(b.Ctx, "app", 10))(t)
		if len(dead) != 2 || dead[0].Status != 422 || dead[0].DeadAt.Sub(dead[0].FirstAt) < outbound.RetryFor || dead[0].Attempts < 10 {
			t.Fatalf("%+v", dead)
		}
		w.receiver.take()
		b.Clock.Advance(48 * time.Hour)
		w.settle(d)
		sqltest.Equal(t, len(w.receiver.take()), 0)
		sqltest.Equal(t, sqltest.Must(s.Replay(b.Ctx, "app", "ann"))(t), 1)
		w.settle(d)
		if got := w.receiver.take(); len(got) != 1 || got[0].Data.Key != "ann" {
			t.Errorf("a replay that fails: %+v", got)
		}
		w.receiver.answerWith(http.StatusOK)
		w.like(2, users[1]) // a newer change comes by itself
		w.settle(d)
		sqltest.Equal(t, sqltest.Must(s.Replay(b.Ctx, "app", ""))(t), 0)
		b.Clock.Advance(time.Hour)
		w.settle(d)
		sqltest.Equal(t, w.totals(w.receiver.take()), map[string]int{"ann": 1, "bob": 2})
		if e := w.endpoint(s); e.Dead+e.Waiting != 0 {
			t.Errorf("%+v", e)
		}
		_, err := s.Replay(b.Ctx, "app", "nobody")
		sqltest.WantCode(t, err, services.NotFound)
		_, err = s.DeadLetters(b.Ctx, "none", 10)
		sqltest.WantCode(t, err, services.NotFound)
	})
}

// Nothing is sent about users with an open socket until they have closed it. The event then does not alert of items that the
// socket showed.
func TestAwayFilterWaitsForTheClose(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		t := b.T
		w := newWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		w.add(s, Filter{Away: true})
		d := delivererOf(s, "app")
		w.settle(d)
		w.setOnline(users[0], true)
		w.like(1, users...)
		w.settle(d)
		sqltest.Equal(t, w.totals(w.receiver.take()), map[string]int{"bob": 1})
		b.Clock.Advance(time.Hour)
		w.like(2, users[0])
		w.settle(d)
		sqltest.Equal(t, len(w.receiver.take()), 0)
		w.setOnline(users[0], false)
		b.Clock.Advance(maxRecheckInterval)
		w.settle(d)
		got := w.receiver.take()
		if len(got) != 1 || got[0].Data.Total != 2 || !got[0].Data.Silent {
			t.Errorf("%+v", got)
		}
		w.like(3, users[0])
		w.settle(d)
		if got := w.receiver.take(); len(got) != 1 || got[0].Data.Silent {
			t.Errorf("away: %+v", got)
		}
	})
}

// A change after the last socket was closed alerts at once, whether or not a change that the socket showed still waits.
func TestAwayAlertsAtOnceAfterTheClose(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		t := b.T
		w := newWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		w.add(s, Filter{Away: true})
		d := delivererOf(s, "app")
		w.setOnline(users[0], true)
		w.setOnline(users[1], true)
		w.settle(d)
		w.like(1, users[0]) // ann sees it, bob saw nothing
		w.settle(d)
		sqltest.Equal(t, len(w.receiver.take()), 0)
		w.setOnline(users[0], false)
		w.setOnline(users[1], false)
		b.Clock.Advance(time.Second)
		w.like(2, users...)
		w.settle(d)
		got := w.receiver.take()
		sqltest.Equal(t, w.totals(got), map[string]int{"ann": 2, "bob": 2})
		for _, one := range got {
			if one.Data.Silent || one.Data.Cause == nil {
				t.Errorf("after the close: %+v", one)
			}
		}
		b.Clock.Advance(maxRecheckInterval)
		w.settle(d)
		sqltest.Equal(t, len(w.receiver.take()), 0)
		w.setOnline(users[0], true) // back, and away again before the next look
		w.like(3, users[0])
		w.settle(d)
		w.setOnline(users[0], false)
		b.Clock.Advance(minRecheckInterval)
		w.settle(d)
		if got := w.receiver.take(); len(got) != 1 || got[0].Data.Total != 3 || !got[0].Data.Silent || got[0].Data.Cause != nil {
			t.Errorf("what the socket showed: %+v", got)
		}
	})
}

// A receiver that says it is gone gets nothing more until it is replayed; a receiver that asks to wait gets nothing for that
// time.
func TestGoneAndRetryAfter(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		t := b.T
		w := newWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		w.add(s, Filter{})
		d := delivererOf(s, "app")
		w.settle(d)
		w.receiver.setAnswer(func(to http.ResponseWriter, _ delivery) {
			to.Header().Set("Retry-After", "600")
			to.WriteHeader(http.StatusTooManyRequests)
		})
		w.like(1, users[0])
		w.settle(d)
		w.receiver.take()
		w.receiver.answerWith(http.StatusGone)
		w.like(1, users[1])
		b.Clock.Advance(9 * time.Minute)
		w.settle(d)
		sqltest.Equal(t, len(w.receiver.take()), 0)
		b.Clock.Advance(2 * time.Minute)
		w.settle(d)
		if e := w.endpoint(s); e.State() != "gone" || len(w.receiver.take()) == 0 {
			t.Errorf("%+v", e)
		}
		w.receiver.answerWith(http.StatusOK)
		b.Clock.Advance(24 * time.Hour)
		w.settle(d)
		sqltest.Equal(t, len(w.receiver.take()), 0)
		sqltest.Must(s.Replay(b.Ctx, "app", ""))(t)
		w.settle(d)
		sqltest.Equal(t, w.totals(w.receiver.take()), map[string]int{"ann": 1, "bob": 1})
	})
}

// A user who is forgotten leaves no letter, and a letter whose user has no change any more is dropped.
func TestForgottenUsersLeaveNoLetters(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		t := b.T
		w := newWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newNode()
		w.add(s, Filter{})
		d := delivererOf(s, "app")
		w.settle(d)
		w.receiver.answerWith(http.StatusInternalServerError)
		w.like(1, users...)
		w.settle(d)
		sqltest.Equal(t, w.endpoint(s).Waiting, 2)
		b.MustWrite(func(tx *sql.Tx) error {
			removed, err := forget(b.Ctx, tx, users[0])
			sqltest.Equal(t, removed, 1)
			return err
		})
		sqltest.Equal(t, w.endpoint(s).Waiting, 1)
		b.MustWrite(func(tx *sql.Tx) error { _, err := stream.Forget(b.Ctx, tx, users[1]); return err })
		b.Clock.Advance(time.Hour)
		w.receiver.take()
		w.settle(d)
		sqltest.Equal(t, w.endpoint(s).Waiting, 0)
		sqltest.Equal(t, len(w.receiver.take()), 0)
	})
}
