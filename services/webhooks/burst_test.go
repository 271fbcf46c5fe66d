package webhooks

import (
	"fmt"
	"testing"
	"time"

	"tidings/services/people/peopletest"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
)

// A receiver gets one request for each user, however often the users' badges change: the stream is the queue, and it holds only the
// newest change of each user. The badges of a thousand users change 10 times each, and 100 times in the full run.
func TestManyChangesOfAUserAreOneRequest(t *testing.T) {
	const people = 1000
	changes := histories.ShortOrFull(t, 10, 100)
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	w := newTestWorld(b)
	var keys []string
	for i := range people {
		keys = append(keys, fmt.Sprintf("u%03d", i))
	}
	users := b.MakeUsers(keys...)
	s := w.newNode()
	w.addEndpoint(s, Filter{})
	d := delivererOf(s, "app")
	w.deliverAll(d)
	began := time.Now()
	for i := range changes {
		w.changeLikes(i+1, users...)
	}
	if written := w.stream.Stats().Changes; written != uint64(people*changes) {
		t.Fatalf("%d changes were written", written)
	}
	wrote := time.Since(began)
	w.deliverAll(d)
	got := w.receiver.takeDeliveries()
	t.Logf("%d changes in %v, %d requests in %v", people*changes, wrote, len(got), time.Since(began)-wrote)
	if len(got) != people {
		t.Errorf("%d requests", len(got))
	}
	totals := w.acceptedTotals(got)
	for _, key := range keys {
		if totals[key] != changes {
			t.Errorf("%s has %d", key, totals[key])
		}
	}
	sqltest.Equal(t, w.endpoint(s).WaitingUsers, 0)
}
