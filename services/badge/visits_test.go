package badge

import (
	"context"
	"errors"
	"testing"

	"tidings/services"
	"tidings/services/redis"
)

// redisRoundTripsOfVisit calls Visit, and returns the round trips to Redis that it took.
func (n *node) redisRoundTripsOfVisit(user services.UserID) int {
	n.TB.Helper()
	ctx, trips := redis.WithRoundTrips(n.TB.Context())
	n.Must(n.Visit(ctx, user))
	return trips.Count()
}

// A user who only sends mutations is active too: each day the first Visit does what a read does, and the others cost nothing.
func TestOnlyTheFirstVisitOfADayReads(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newLikedAuthor(0)
	for today := range 3 {
		if trips := n.redisRoundTripsOfVisit(reader); trips == 0 {
			t.Errorf("day %d: the first visit reads nothing", today)
		}
		if trips := n.redisRoundTripsOfVisit(reader); trips != 0 {
			t.Errorf("day %d: the second visit takes %d round trips", today, trips)
		}
		_, err := n.WriteVisits(t.Context())
		n.Must(err)
		if !n.isActiveFollower(author, reader, n.Clock.Now()) {
			t.Errorf("day %d: SQL does not know of the visit", today)
		}
		n.Clock.Advance(day)
	}
}

// A Visit that could not be written is made again.
func TestALostVisitIsMadeAgain(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newLikedAuthor(0)
	n.Clock.Advance(day)
	n.redisRoundTripsOfVisit(reader)
	ctx, end := context.WithCancel(t.Context())
	end()
	if _, err := n.WriteVisits(ctx); err == nil {
		t.Fatal("written without an engine")
	}
	n.redisRoundTripsOfVisit(reader)
	if count, err := n.WriteVisits(t.Context()); count != 1 || err != nil {
		t.Errorf("%d visits, %v", count, err)
	}
}

// Counts of SQL are no visit: after them the next Visit reads too.
func TestAVisitThatCountedInSQLIsMadeAgain(t *testing.T) {
	n := redisServerNode(t)
	user := n.MakeUsers(1)[0]
	n.commitWithRedisUpdate(user, func(context.Context) error { return errors.New("missed") })
	n.redisRoundTripsOfVisit(user)
	if n.visits.hasVisitedToday(user) {
		t.Error("counts of SQL are taken for a visit")
	}
}

func TestRememberedVisitsAreBounded(t *testing.T) {
	n := redisServerNode(t)
	for user := range services.UserID(maxVisitedToday + 10) {
		n.visits.rememberVisitedToday(user)
	}
	if len(n.visits.visitedToday) != maxVisitedToday {
		t.Errorf("%d are remembered", len(n.visits.visitedToday))
	}
	n.Clock.Advance(day)
	n.visits.rememberVisitedToday(1)
	if len(n.visits.visitedToday) != 1 {
		t.Errorf("%d are remembered on the next day", len(n.visits.visitedToday))
	}
}
