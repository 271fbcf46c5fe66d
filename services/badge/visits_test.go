package badge

import (
	"context"
	"errors"
	"testing"

	"tidings/services"
	"tidings/services/redis"
)

// visit calls Visit, and returns the round trips to Redis that it took.
func (n *node) visit(user services.UserID) int {
	n.TB.Helper()
	ctx, trips := redis.WithRoundTrips(n.TB.Context())
	n.Must(n.Visit(ctx, user))
	return trips.Count()
}

// A user who only sends mutations is active too: each day the first Visit does what a read does, and the others cost nothing.
func TestAVisitReadsOnceADay(t *testing.T) {
	n := served(t)
	author, reader := n.newLikedAuthor(0)
	for today := range 3 {
		if trips := n.visit(reader); trips == 0 {
			t.Errorf("day %d: the first visit reads nothing", today)
		}
		if trips := n.visit(reader); trips != 0 {
			t.Errorf("day %d: the second visit takes %d round trips", today, trips)
		}
		_, err := n.WriteVisits(t.Context())
		n.Must(err)
		if !n.active(author, reader, n.Clock.Now()) {
			t.Errorf("day %d: SQL does not know of the visit", today)
		}
		n.Clock.Advance(day)
	}
}

// A Visit that could not be written is made again.
func TestALostVisitIsMadeAgain(t *testing.T) {
	n := served(t)
	_, reader := n.newLikedAuthor(0)
	n.Clock.Advance(day)
	n.visit(reader)
	ctx, end := context.WithCancel(t.Context())
	end()
	if _, err := n.WriteVisits(ctx); err == nil {
		t.Fatal("written without an engine")
	}
	n.visit(reader)
	if count, err := n.WriteVisits(t.Context()); count != 1 || err != nil {
		t.Errorf("%d visits, %v", count, err)
	}
}

// Counts of SQL are no visit: after them the next Visit reads too.
func TestAVisitThatCountedInSQLIsMadeAgain(t *testing.T) {
	n := served(t)
	user := n.MakeUsers(1)[0]
	n.owe(user, func(context.Context) error { return errors.New("missed") })
	n.visit(user)
	if n.visits.cameToday(user) {
		t.Error("counts of SQL are taken for a visit")
	}
}

func TestRememberedVisitsAreBounded(t *testing.T) {
	n := served(t)
	for user := range services.UserID(maxCame + 10) {
		n.visits.rememberCame(user)
	}
	if len(n.visits.came) != maxCame {
		t.Errorf("%d are remembered", len(n.visits.came))
	}
	n.Clock.Advance(day)
	n.visits.rememberCame(1)
	if len(n.visits.came) != 1 {
		t.Errorf("%d are remembered on the next day", len(n.visits.came))
	}
}
