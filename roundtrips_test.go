package main

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"tidings/services"
	"tidings/services/feed"
	"tidings/services/mirror"
	"tidings/services/rdb"
	"tidings/services/store"
)

// measured is how many round trips to Redis something takes.
func measured(t *testing.T, do func(ctx context.Context) error) int {
	t.Helper()
	ctx, trips := rdb.WithRoundTrips(t.Context())
	if err := do(ctx); err != nil {
		t.Fatal(err)
	}
	return trips.Count()
}

// numbersOf gives the numbers of users who need not have been mentioned yet.
func (n *node) numbersOf(keys ...string) []services.UserNumber {
	n.tb.Helper()
	numbers := make([]services.UserNumber, len(keys))
	err := n.store.Write(n.tb.Context(), func(tx *store.Tx) error {
		known, err := tx.EnsureUsers(n.tb.Context(), keys)
		for i, key := range keys {
			numbers[i] = known[key]
		}
		return err
	})
	if err != nil {
		n.tb.Fatal(err)
	}
	return numbers
}

// cold is the feed service of a node that remembers nothing.
func (n *node) cold() *feed.Service {
	memory := mirror.New(mirror.Config{Facts: n.store, Redis: n.redis, Log: n.log})
	return feed.New(feed.Config{Store: n.store, Redis: n.redis, Posts: memory.Posts, Reader: memory.Reader, Pulled: memory.Pulled, InFlight: memory.InFlight, Fanout: n.fanout, Clock: n.clock})
}

// The badges are one round trip, a page of the home feed is two, whatever the page's size and the number followed, and
// what a node remembers of it is one less; a push to 100 users is one.
func TestRoundTrips(t *testing.T) {
	eachPair(t, func(t *testing.T, options nodeOptions) {
		options.manual = true
		n := startNode(t, options)
		const most = 2000
		authors := make([]string, most)
		for i := range authors {
			authors[i] = fmt.Sprint("author", i)
		}
		followees := n.numbersOf(authors...)
		n.makeHuge(authors[:5]...) // and the others' posts are pushed
		followed := []int{0, 10, 200, most}
		var readers []services.UserNumber
		for _, count := range followed {
			reader := n.numbersOf(fmt.Sprint("reader", count))[0]
			readers = append(readers, reader)
			edges := make([]services.Edge, count)
			for i := range edges {
				edges[i] = services.Edge{Follower: reader, Followee: followees[i]}
			}
			if err := n.store.Write(t.Context(), func(tx *store.Tx) error {
				_, err := tx.ImportFollows(t.Context(), edges)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			n.badges(fmt.Sprint("reader", count)) // he is active from now on
		}
		for i := range 120 {
			n.publish(authors[i%10], fmt.Sprint(i))
		}
		n.settle()
		for i, reader := range readers {
			t.Run(fmt.Sprint("followed ", followed[i]), func(t *testing.T) { n.roundTrips(t, reader, followed[i]) })
		}
		t.Run("a push to 100", func(t *testing.T) { n.roundTripsOfPush(t) })
	})
}

func (n *node) roundTrips(t *testing.T, reader services.UserNumber, followed int) {
	want := map[bool]int{true: 120}[followed > 0]
	trips := measured(t, func(ctx context.Context) error {
		got, err := n.badge.Read(ctx, reader)
		if err == nil && (got.HomeFeed.Value != want || got.HomeFeed.Precision != services.Exact) {
			err = fmt.Errorf("%+v, want %d", got.HomeFeed, want)
		}
		return err
	})
	if trips != 1 {
		t.Errorf("badges: %d round trips, want 1", trips)
	}
	for _, first := range []int{1, 20, 100} {
		page := func(service *feed.Service) int {
			return measured(t, func(ctx context.Context) error {
				got, err := service.Page(ctx, reader, services.MaxPostID, first)
				if err == nil && len(got.Items) != min(first, want) {
					err = fmt.Errorf("%d posts, want %d", len(got.Items), min(first, want))
				}
				return err
			})
		}
		page(n.cold()) // puts the copies of profiles where all nodes find them
		cold := n.cold()
		if trips := page(cold); trips > 2 {
			t.Errorf("a page of %d: %d round trips, want 2 at most", first, trips)
		}
		if trips := page(cold); trips != 1 {
			t.Errorf("a page of %d that is remembered: %d round trips, want 1", first, trips)
		}
	}
}

func (n *node) roundTripsOfPush(t *testing.T) {
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprint("online", i)
		n.follow(keys[i], "author0")
		n.badges(keys[i])
	}
	n.publish("author0", "to all of them")
	n.settle()
	users := n.numbersOf(keys...)
	trips := measured(t, func(ctx context.Context) error {
		badges, errs := n.badge.ReadMany(ctx, users)
		if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
			return errs[i]
		}
		for i, got := range badges {
			if got.HomeFeed.Value != 1 || got.HomeFeed.Precision != services.Exact {
				return fmt.Errorf("%s: %+v, want 1", keys[i], got.HomeFeed)
			}
		}
		return nil
	})
	if trips != 1 {
		t.Errorf("%d round trips, want 1", trips)
	}
	if trips := measured(t, func(ctx context.Context) error {
		_, err := n.redis.Versions(ctx, users)
		return err
	}); trips != 1 {
		t.Errorf("the sweep: %d round trips, want 1", trips)
	}
}
