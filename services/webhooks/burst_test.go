package webhooks

import (
	"fmt"
	"testing"
	"time"

	"tidings/services/people/peopletest"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
)

// However many changes a thousand users have, their receiver gets a thousand requests: a user has one change in the stream, and the
// stream is the queue. The full histories are a hundred thousand changes.
func TestManyChangesAreOneRequestOfAUser(t *testing.T) {
	const people = 1000
	changes := histories.Number(t, 10, 100)
	b := peopletest.NewBundle(t, sqltest.SQLite(t))
	w := newWorld(b)
	var keys []string
	for i := range people {
		keys = append(keys, fmt.Sprintf("u%03d", i))
	}
	users := b.MakeUsers(keys...)
	s := w.node()
	w.add(s, Filter{})
	d := deliver(s, "app")
	w.settle(d)
	began := time.Now()
	for i := range changes {
		w.like(i+1, users...)
	}
	if written := w.stream.Stats().Changes; written != uint64(people*changes) {
		t.Fatalf("%d changes were written", written)
	}
	wrote := time.Since(began)
	w.settle(d)
	got := w.receiver.take()
	t.Logf("%d changes in %v, %d requests in %v", people*changes, wrote, len(got), time.Since(began)-wrote)
	if len(got) != people {
		t.Errorf("%d requests", len(got))
	}
	totals := w.totals(got)
	for _, key := range keys {
		if totals[key] != changes {
			t.Errorf("%s has %d", key, totals[key])
		}
	}
	sqltest.Equal(t, w.endpoint(s).Waiting, 0)
}
