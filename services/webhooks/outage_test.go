package webhooks

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"tidings/services/outbound"
	"tidings/services/people/peopletest"
	"tidings/services/sql/sqltest"
)

// An endpoint goes down in the middle of a round whose last item needs no request: the position stays before the users whose
// changes were not sent, and their alerts come later.
func TestThePositionStaysBeforeUnsentChanges(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		var keys []string
		for i := range 40 {
			keys = append(keys, fmt.Sprintf("u%02d", i))
		}
		users := b.MakeUsers(keys...)
		s := w.newNode()
		w.addEndpoint(s, Filter{OnlyAway: true})
		d := delivererOf(s, "app")
		w.deliverAll(d)
		last := len(users) - 1
		w.setOnline(users[last], true)
		w.receiver.answerWith(http.StatusServiceUnavailable)
		for _, user := range users {
			w.changeLikes(1, user) // one by one: the user with the socket is the last
		}
		w.deliverAll(d)
		if got := len(w.receiver.takeDeliveries()); got >= last {
			t.Fatalf("%d requests: the round was not cut", got)
		}
		w.receiver.answerWith(http.StatusOK)
		b.Clock.Advance(outbound.LongestDownPause)
		w.deliverAll(d)
		loud := map[string]int{}
		for _, one := range w.receiver.takeDeliveries() {
			if !one.Data.Silent {
				loud[one.Data.Key]++
			}
		}
		want := map[string]int{}
		for _, key := range keys[:last] {
			want[key] = 1
		}
		sqltest.Equal(t, loud, want)
	})
}

// The receiver never answers for some users. Their letters do not delay the changes of the others.
func TestUnansweredLettersDelayNoOtherUser(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		slow := b.MakeUsers("s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9")
		ann := b.MakeUsers("ann")[0]
		s := w.newNode()
		w.addEndpoint(s, Filter{})
		d := delivererOf(s, "app")
		w.deliverAll(d)
		w.receiver.setAnswer(func(to http.ResponseWriter, d delivery) {
			if d.Data.Key != "ann" {
				to.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		for i, user := range slow { // never many in a row: the endpoint is up
			w.changeLikes(1, user)
			w.deliverAll(d)
			w.changeLikes(i+1, ann)
			w.deliverAll(d)
		}
		sqltest.Equal(t, w.endpoint(s).WaitingUsers, len(slow))
		w.receiver.takeDeliveries()
		reported := make(chan struct{})
		var report sync.Once
		w.receiver.setAnswer(func(to http.ResponseWriter, d delivery) {
			if d.Data.Key == "ann" {
				report.Do(func() { close(reported) })
				return
			}
			select {
			case <-reported:
			case <-d.senderGone:
				t.Error("a letter that hangs holds ann's change up")
			}
			to.WriteHeader(http.StatusServiceUnavailable)
		})
		b.Clock.Advance(time.Hour)
		w.changeLikes(100, ann)
		w.deliverAll(d)
		if got := w.acceptedTotals(w.receiver.takeDeliveries()); got["ann"] != 100 || len(got) != 1 {
			t.Errorf("these came: %v", got)
		}
		if e := w.endpoint(s); e.Down() || e.WaitingUsers != len(slow) {
			t.Errorf("%+v", e)
		}
	})
}

// A change that waited for its user to be away is tried for the first time. If such changes fail in a row, the endpoint is down. They
// arrive once it is up again.
func TestChangesThatWaitedCountAgainstTheEndpoint(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		var keys []string
		for i := range 3 * failuresUntilDown {
			keys = append(keys, fmt.Sprintf("u%02d", i))
		}
		users := b.MakeUsers(keys...)
		s := w.newNode()
		w.addEndpoint(s, Filter{OnlyAway: true})
		d := delivererOf(s, "app")
		w.deliverAll(d)
		for _, user := range users {
			w.setOnline(user, true)
		}
		w.changeLikes(1, users...)
		w.deliverAll(d)
		w.receiver.answerWith(http.StatusServiceUnavailable)
		for _, user := range users {
			w.setOnline(user, false)
		}
		b.Clock.Advance(maxOnlineRecheckInterval)
		w.deliverAll(d)
		if e := w.endpoint(s); !e.Down() {
			t.Errorf("after %d failures it is up: %+v", len(w.receiver.takeDeliveries()), e)
		}
		w.receiver.answerWith(http.StatusOK)
		b.Clock.Advance(outbound.LongestDownPause)
		w.deliverAll(d)
		if e := w.endpoint(s); e.Down() || e.WaitingUsers != 0 {
			t.Errorf("after the outage: %+v", e)
		}
	})
}

// Letters that failed many times wait long; once the endpoint is up again, all of them are tried at once.
func TestAllLettersAreRetriedWhenTheEndpointIsUp(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob", "cat", "dan", "eve", "fay")
		s := w.newNode()
		w.addEndpoint(s, Filter{})
		d := delivererOf(s, "app")
		w.deliverAll(d)
		w.receiver.answerWith(http.StatusServiceUnavailable)
		w.changeLikes(1, users...)
		w.deliverAll(d)
		for range 15 * len(users) {
			b.Clock.Advance(outbound.LongestDownPause)
			w.deliverAll(d)
		}
		var farthest time.Time
		for _, letter := range sqltest.Must(listLetters(b.Ctx, b.DB, lettersOf, "app", users))(t) {
			farthest = later(farthest, letter.DueAt)
		}
		if farthest.Before(b.DB.Now().Add(2 * outbound.LongestDownPause)) {
			t.Fatalf("the last letter is due at %v already", farthest)
		}
		w.receiver.takeDeliveries()
		w.receiver.answerWith(http.StatusOK)
		b.Clock.Advance(outbound.LongestDownPause)
		w.deliverAll(d)
		if got := w.acceptedTotals(w.receiver.takeDeliveries()); len(got) != len(users) {
			t.Errorf("at once came %v", got)
		}
		sqltest.Equal(t, w.endpoint(s).WaitingUsers, 0)
	})
}
