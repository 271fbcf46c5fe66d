package people_test

import (
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

func TestAMuteStandsUntilItsEnd(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		until := b.Clock.Now().Add(time.Hour).Truncate(time.Microsecond)
		stands := func(want time.Time, found bool) {
			b.T.Helper()
			b.MustWrite(func(tx *sql.Tx) error {
				got, is, err := people.MuteUntil(b.Ctx, tx, 1, 2)
				wantEqual(b.T, must(got, err)(b.T), want)
				wantEqual(b.T, is, found)
				return nil
			})
		}
		stands(time.Time{}, false)
		for i, want := range []time.Time{until, {}, until.Add(time.Hour)} {
			created, _ := b.Restrict(services.Restriction{Kind: services.Mute, Owner: 1, Other: 2, MadeAt: services.SortableID(9 + i), Until: want})
			wantEqual(b.T, created, i == 0)
			stands(want, true)
		}
		wantEqual(b.T, must(people.Restrictions(b.Ctx, b.TestDB.DB, services.Mute, 1, services.MaxSortableID, 5))(b.T),
			[]services.Restriction{{Kind: services.Mute, Owner: 1, Other: 2, MadeAt: 9, Until: until.Add(time.Hour)}})
		b.Unrestrict(services.Restriction{Kind: services.Mute, Owner: 1, Other: 2})
		stands(time.Time{}, false)
	})
}

// A block ends both follows, and prevents new ones in both directions until it is removed. A block by the other user is
// independent of it.
func TestBlocksEndFollows(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeUsers("one", "two", "three")
		there, back, third := services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 5}, services.FollowEdge{Follower: 2, Followee: 1, PostsCountAfter: 6}, services.FollowEdge{Follower: 1, Followee: 3}
		b.MakeFollows(there, back, third)
		block, against := services.Restriction{Kind: services.Block, Owner: 1, Other: 2, MadeAt: 9}, services.Restriction{Kind: services.Block, Owner: 2, Other: 1, MadeAt: 9}
		blocked := func(is, byFirst bool) {
			b.T.Helper()
			got, by, err := people.Blocked(b.Ctx, b.TestDB.DB, 1, 2)
			wantEqual(b.T, must([]bool{got, by}, err)(b.T), []bool{is, byFirst})
		}
		blocked(false, false)
		created, ended := b.Restrict(block)
		wantEqual(b.T, created, true)
		wantEqual(b.T, ended, []services.FollowEdge{{Follower: 1, Followee: 2}, {Follower: 2, Followee: 1}})
		blocked(true, true)
		created, ended = b.Restrict(block)
		wantEqual(b.T, created, false)
		wantEqual(b.T, len(ended), 0)
		b.Restrict(against)
		follow := func() (inserted int) {
			b.MustWrite(func(tx *sql.Tx) (err error) {
				inserted, err = people.ImportFollows(b.Ctx, tx, []services.FollowEdge{there, third, back})
				return err
			})
			return inserted
		}
		wantEqual(b.T, follow(), 0)
		wantEqual(b.T, b.Unrestrict(block), true)
		wantEqual(b.T, b.Unrestrict(block), false)
		blocked(true, false)
		wantEqual(b.T, follow(), 0)
		wantEqual(b.T, b.Unrestrict(against), true)
		wantEqual(b.T, follow(), 2)
		blocked(false, false)
	})
}

func TestRestrictionsAreListedAndCounted(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		for _, kind := range []services.RestrictionKind{services.Mute, services.Block, services.Hide} {
			var want []services.Restriction
			for n := services.UserID(2); n <= 6; n++ {
				r := services.Restriction{Kind: kind, Owner: 1, Other: n, MadeAt: services.SortableID(100 - n)}
				b.Restrict(r)
				want = append(want, r)
			}
			b.Restrict(services.Restriction{Kind: kind, Owner: 2, Other: 1, MadeAt: 97})
			wantEqual(b.T, must(people.Restrictions(b.Ctx, b.TestDB.DB, kind, 1, services.MaxSortableID, 10))(b.T), want)
			wantEqual(b.T, must(people.Restrictions(b.Ctx, b.TestDB.DB, kind, 1, 97, 2))(b.T), want[2:4])
			wantEqual(b.T, len(must(people.Restrictions(b.Ctx, b.TestDB.DB, kind, 9, services.MaxSortableID, 2))(b.T)), 0)
			for limit, count := range map[int]int{3: 3, 5: 5, 10: 5} {
				b.MustWrite(func(tx *sql.Tx) error {
					wantEqual(b.T, must(people.CountRestrictions(b.Ctx, tx, kind, 1, limit))(b.T), count)
					return nil
				})
			}
		}
	})
}

// A follow and a restriction between the same two users, committed concurrently, have the same result as one after the other: a
// follow that is not shown, or none.
func TestFollowsAndRestrictionsAtOnce(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeUsers("reader", "author")
		for round := range services.SortableID(60) {
			r := services.Restriction{Kind: services.Mute, Owner: 1, Other: 2, MadeAt: round + 1}
			switch round % 3 {
			case 1:
				r.Kind, r.Owner, r.Other = services.Hide, 2, 1
			case 2:
				r.Kind = services.Block
			}
			var both sync.WaitGroup
			both.Go(func() { b.MakeFollows(services.FollowEdge{Follower: 1, Followee: 2}) })
			both.Go(func() { b.Restrict(r) })
			both.Wait()
			if _, shown, err := people.Edge(b.Ctx, b.TestDB.DB, 1, 2); shown || err != nil {
				b.T.Fatalf("round %d: with %+v the follow is shown (%v)", round, r, err)
			}
			b.Unrestrict(r)
			b.MustWrite(func(tx *sql.Tx) error { _, err := people.DeleteFollow(b.Ctx, tx, 1, 2); return err })
		}
	})
}

// An author is hidden from the users that the author hides from or blocks, and from no others.
func TestHiddenAuthors(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeUsers("viewer", "hides", "blocks", "blocked", "muted", "stranger")
		for i, r := range []services.Restriction{
			{Kind: services.Hide, Owner: 2, Other: 1}, {Kind: services.Block, Owner: 3, Other: 1}, {Kind: services.Block, Owner: 1, Other: 4},
			{Kind: services.Mute, Owner: 1, Other: 5}, {Kind: services.Mute, Owner: 6, Other: 1}, {Kind: services.Hide, Owner: 3, Other: 1},
			{Kind: services.Hide, Owner: 1, Other: 6},
		} {
			r.MadeAt = services.SortableID(i + 1)
			b.Restrict(r)
		}
		wantEqual(b.T, must(people.HiddenAuthors(b.Ctx, b.TestDB.DB, 1, []services.UserID{1, 2, 3, 4, 5, 6, 7}))(b.T), map[services.UserID]bool{2: true, 3: true})
		wantEqual(b.T, must(people.HiddenAuthors(b.Ctx, b.TestDB.DB, 4, []services.UserID{1, 2, 3}))(b.T), map[services.UserID]bool{1: true})
		wantEqual(b.T, must(people.HiddenAuthors(b.Ctx, b.TestDB.DB, 1, nil))(b.T), map[services.UserID]bool{})
		b.Unrestrict(services.Restriction{Kind: services.Hide, Owner: 3, Other: 1})
		wantEqual(b.T, must(people.HiddenAuthors(b.Ctx, b.TestDB.DB, 1, []services.UserID{3}))(b.T), map[services.UserID]bool{3: true})
	})
}
