package people_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/sql"
)

func TestEnsureUsers(t *testing.T) {
	eachStore(t, func(b *testStore) {
		wantEqual(b.t, b.makeUsers("carol", "alice"), []services.UserID{1, 2})
		wantEqual(b.t, b.makeUsers("bob", "alice", "dave", "bob"), []services.UserID{3, 2, 4, 3})
		wantEqual(b.t, b.makeUsers("alice", "alice"), []services.UserID{2, 2})
		b.write(func(tx *sql.Tx) error {
			ids, err := people.Ensure(b.ctx, tx, nil)
			if len(ids) != 0 {
				b.t.Errorf("nobody has the numbers %v", ids)
			}
			return err
		})
	})
}

func TestUserIDsStayDenseWhenAWriteIsUndone(t *testing.T) {
	eachStore(t, func(b *testStore) {
		err := b.Write(b.ctx, func(tx *sql.Tx) error {
			_, err := people.Ensure(b.ctx, tx, []string{"a", "b", "c"})
			return errors.Join(err, errTest)
		})
		if !errors.Is(err, errTest) {
			b.t.Fatal(err)
		}
		wantEqual(b.t, b.makeUsers("d"), []services.UserID{1})
	})
}

func TestUserIDsStayDenseUnderConcurrency(t *testing.T) {
	eachStore(t, func(b *testStore) {
		const writers, users = 8, 40
		var all sync.WaitGroup
		for writer := range writers {
			all.Go(func() {
				for n := range users {
					// Each key is mentioned by several writers, at about the same time.
					keys := []string{fmt.Sprint("u", n), fmt.Sprint("u", (n+writer)%users)}
					err := b.Write(b.ctx, func(tx *sql.Tx) error { _, err := people.Ensure(b.ctx, tx, keys); return err })
					if err != nil {
						b.t.Error(err)
					}
				}
			})
		}
		all.Wait()
		var keys []string
		for n := range users {
			keys = append(keys, fmt.Sprint("u", n))
		}
		taken := make(map[services.UserID]string)
		for key, id := range must(people.IDs(b.ctx, b.TestStore.DB, keys))(b.t) {
			if id < 1 || id > users || taken[id] != "" {
				b.t.Errorf("%s has the number %d, as has %q", key, id, taken[id])
			}
			taken[id] = key
		}
		wantEqual(b.t, len(taken), users)
	})
}

func TestProfiles(t *testing.T) {
	eachStore(t, func(b *testStore) {
		b.makeUsers("alice", "bob")
		text := func(s string) *string { return &s }
		for _, step := range []struct{ name, avatar *string }{
			{text("Alice"), nil}, {nil, text("https://example.com/a.png")}, {nil, nil}, {text(""), nil}, {text("Älice 🦉"), nil},
		} {
			b.write(func(tx *sql.Tx) error {
				_, err := people.SetProfile(b.ctx, tx, 1, step.name, step.avatar)
				return err
			})
		}
		wantEqual(b.t, must(people.ByID(b.ctx, b.TestStore.DB, []services.UserID{1, 2, 9, 1}))(b.t), map[services.UserID]services.User{
			1: {ID: 1, Key: "alice", Name: "Älice 🦉", AvatarURL: "https://example.com/a.png", UpdatedAt: b.clock.Now().Truncate(time.Microsecond).Add(4 * time.Microsecond)},
			2: {ID: 2, Key: "bob", UpdatedAt: time.UnixMicro(0).UTC()},
		})
		err := b.Write(b.ctx, func(tx *sql.Tx) error {
			_, err := people.SetProfile(b.ctx, tx, 9, text("Nobody"), nil)
			return err
		})
		wantCode(b.t, err, services.NotFound)
		wantEqual(b.t, len(must(people.ByID(b.ctx, b.TestStore.DB, nil))(b.t)), 0)
	})
}

func TestFollows(t *testing.T) {
	eachStore(t, func(b *testStore) {
		b.makeUsers("alice", "bob", "carol")
		edge := services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 50, FollowedAt: 50}
		insert := func(edge services.FollowEdge) (created bool) {
			b.write(func(tx *sql.Tx) (err error) { created, err = people.InsertFollow(b.ctx, tx, edge); return err })
			return created
		}
		remove := func(follower, followee services.UserID) (deleted bool) {
			b.write(func(tx *sql.Tx) (err error) {
				deleted, err = people.DeleteFollow(b.ctx, tx, follower, followee)
				return err
			})
			return deleted
		}
		wantEqual(b.t, insert(edge), true)
		wantEqual(b.t, insert(services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 99}), false)
		found, ok, err := people.Edge(b.ctx, b.TestStore.DB, 1, 2)
		wantEqual(b.t, must(found, err)(b.t), edge)
		wantEqual(b.t, ok, true)
		found, ok, err = people.Edge(b.ctx, b.TestStore.DB, 2, 1)
		wantEqual(b.t, must(found, err)(b.t), services.FollowEdge{})
		wantEqual(b.t, ok, false)
		wantEqual(b.t, remove(1, 2), true)
		wantEqual(b.t, remove(1, 2), false)
		wantEqual(b.t, insert(services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 99}), true)
		found, _, err = people.Edge(b.ctx, b.TestStore.DB, 1, 2)
		wantEqual(b.t, must(found, err)(b.t).PostsCountAfter, services.PostID(99))
	})
}

func TestEdgesOfManyFollowers(t *testing.T) {
	eachStore(t, func(b *testStore) {
		b.follow(services.FollowEdge{Follower: 1, Followee: 9, PostsCountAfter: 5}, services.FollowEdge{Follower: 2, Followee: 9, PostsCountAfter: services.MaxPostID},
			services.FollowEdge{Follower: 3, Followee: 8, PostsCountAfter: 7}, services.FollowEdge{Follower: 1<<32 - 1, Followee: 9})
		wantEqual(b.t, must(people.Edges(b.ctx, b.TestStore.DB, []services.UserID{1, 2, 3, 4, 1<<32 - 1}, 9))(b.t), map[services.UserID]services.FollowEdge{
			1:         {Follower: 1, Followee: 9, PostsCountAfter: 5, FollowedAt: 5},
			2:         {Follower: 2, Followee: 9, PostsCountAfter: services.MaxPostID, FollowedAt: services.MaxSortableID},
			1<<32 - 1: {Follower: 1<<32 - 1, Followee: 9},
		})
	})
}

func TestEdgesOfManyFollowees(t *testing.T) {
	eachStore(t, func(b *testStore) {
		b.follow(services.FollowEdge{Follower: 9, Followee: 1, PostsCountAfter: 5}, services.FollowEdge{Follower: 9, Followee: 2, PostsCountAfter: services.MaxPostID},
			services.FollowEdge{Follower: 8, Followee: 3, PostsCountAfter: 7}, services.FollowEdge{Follower: 9, Followee: 1<<32 - 1})
		wantEqual(b.t, must(people.EdgesFrom(b.ctx, b.TestStore.DB, 9, []services.UserID{1, 2, 3, 4, 9, 1<<32 - 1}))(b.t), map[services.UserID]services.FollowEdge{
			1:         {Follower: 9, Followee: 1, PostsCountAfter: 5, FollowedAt: 5},
			2:         {Follower: 9, Followee: 2, PostsCountAfter: services.MaxPostID, FollowedAt: services.MaxSortableID},
			1<<32 - 1: {Follower: 9, Followee: 1<<32 - 1},
		})
	})
}

func TestCountFolloweesStopsAtTheLimit(t *testing.T) {
	eachStore(t, func(b *testStore) {
		for n := services.UserID(2); n <= 6; n++ {
			b.follow(services.FollowEdge{Follower: 1, Followee: n})
		}
		for limit, want := range map[int]int{0: 0, 3: 3, 5: 5, 100: 5} {
			for followee := services.UserID(1); followee <= 7; followee++ {
				b.write(func(tx *sql.Tx) error {
					count, follows, err := people.CountFollowees(b.ctx, tx, 1, followee, limit)
					if count != want || follows != (2 <= followee && followee <= 6) {
						b.t.Errorf("to %d: %d, want %d; follows %d: %t", limit, count, want, followee, follows)
					}
					return err
				})
			}
		}
	})
}

func TestImportFollows(t *testing.T) {
	eachStore(t, func(b *testStore) {
		b.follow(services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 5})
		var edges []services.FollowEdge
		for n := range services.UserID(700) {
			edges = append(edges, services.FollowEdge{Follower: 1, Followee: n + 2, PostsCountAfter: 9})
		}
		edges = append(edges, edges[10]) // twice in one call
		for _, want := range []int{699, 0} {
			b.write(func(tx *sql.Tx) error {
				inserted, err := people.ImportFollows(b.ctx, tx, edges)
				if inserted != want {
					b.t.Errorf("%d edges went in, want %d", inserted, want)
				}
				return err
			})
		}
		old, _, err := people.Edge(b.ctx, b.TestStore.DB, 1, 2)
		wantEqual(b.t, must(old, err)(b.t).PostsCountAfter, services.PostID(5))
		if waiting, _, _, err := jobs.JobCounts(b.ctx, b.DB); waiting != 0 || err != nil {
			b.t.Errorf("an import made %d jobs (%v)", waiting, err)
		}
	})
}

func TestFollowersByIDAndActivity(t *testing.T) {
	eachStore(t, func(b *testStore) {
		b.makeUsers("alice", "bob", "carol", "dave", "erin")
		for n := services.UserID(2); n <= 5; n++ {
			b.follow(services.FollowEdge{Follower: n, Followee: 1, PostsCountAfter: services.PostID(n)})
		}
		active := func(users ...services.UserID) {
			b.write(func(tx *sql.Tx) error { return people.MarkActive(b.ctx, tx, users) })
		}
		active(5, 2, 3)
		first := b.clock.Now()
		b.clock.advance(time.Hour)
		active(3)
		b.clock.advance(-2 * time.Hour)
		active(2) // a node whose clock is behind does not move a time back
		list := func(after services.UserID, limit int, since time.Time) (ids []services.UserID) {
			for _, edge := range must(people.Followers(b.ctx, b.TestStore.DB, 1, after, limit, since))(b.t) {
				wantEqual(b.t, edge, services.FollowEdge{Follower: edge.Follower, Followee: 1, PostsCountAfter: services.PostID(edge.Follower), FollowedAt: services.SortableID(edge.Follower)})
				ids = append(ids, edge.Follower)
			}
			return ids
		}
		wantEqual(b.t, list(0, 10, time.Time{}), []services.UserID{2, 3, 4, 5})
		wantEqual(b.t, list(2, 2, time.Time{}), []services.UserID{3, 4})
		wantEqual(b.t, list(0, 10, first), []services.UserID{2, 3, 5})
		wantEqual(b.t, list(0, 10, first.Add(time.Microsecond)), []services.UserID{3})
		wantEqual(b.t, list(5, 10, time.Time{}), []services.UserID(nil))
	})
}

func TestActiveUsers(t *testing.T) {
	eachStore(t, func(b *testStore) {
		b.makeUsers("alice", "bob", "carol", "dave")
		mark := func(users ...services.UserID) {
			b.write(func(tx *sql.Tx) error { return people.MarkActive(b.ctx, tx, users) })
		}
		mark(1, 2)
		b.clock.advance(time.Hour)
		since := b.clock.Now()
		mark(2, 4)
		active := func(after services.UserID, limit int) []services.UserID {
			return must(people.ActiveUsers(b.ctx, b.TestStore.DB, after, limit, since))(b.t)
		}
		wantEqual(b.t, active(0, 10), []services.UserID{2, 4})
		wantEqual(b.t, active(0, 1), []services.UserID{2})
		wantEqual(b.t, active(2, 10), []services.UserID{4})
		wantEqual(b.t, len(active(4, 10)), 0)
		inactive := func(after services.UserID, limit int) []services.UserID {
			return must(people.InactiveUsers(b.ctx, b.TestStore.DB, after, limit, since))(b.t)
		}
		wantEqual(b.t, inactive(0, 10), []services.UserID{1, 3})
		wantEqual(b.t, inactive(0, 1), []services.UserID{1})
		wantEqual(b.t, inactive(1, 10), []services.UserID{3})
		wantEqual(b.t, len(inactive(3, 10)), 0)
	})
}

// The previous visit stays the same, however often the present visit is recorded.
func TestThePreviousVisitStaysDuringAVisit(t *testing.T) {
	eachStore(t, func(b *testStore) {
		user := b.makeUsers("alice")[0]
		seen := func() {
			b.write(func(tx *sql.Tx) error { return people.MarkActive(b.ctx, tx, []services.UserID{user}) })
		}
		before := func(want time.Time) {
			b.t.Helper()
			got, err := people.PreviousVisit(b.ctx, b.TestStore.DB, user)
			if err != nil || !got.Equal(want) {
				b.t.Errorf("the visit before was at %v, %v; want %v", got, err, want)
			}
		}
		before(time.Time{})
		first := b.clock.Now().Truncate(time.Microsecond)
		seen()
		before(time.Time{})
		b.clock.advance(10 * time.Minute)
		seen() // still the same visit
		before(time.Time{})
		last := first.Add(10 * time.Minute)
		b.clock.advance(26 * time.Hour)
		seen()
		before(last)
		b.clock.advance(time.Minute)
		seen()
		before(last)
		if got, err := people.PreviousVisit(b.ctx, b.TestStore.DB, 999); err != nil || !got.IsZero() {
			b.t.Errorf("of nobody: %v, %v", got, err)
		}
	})
}

func TestLastVisits(t *testing.T) {
	eachStore(t, func(w *testStore) {
		t := w.t
		ids := w.makeUsers("ann", "bob")
		ann, bob := ids[0], ids[1]
		w.write(func(tx *sql.Tx) error { return people.MarkActive(t.Context(), tx, []services.UserID{ann}) })
		visits, err := people.LastVisits(t.Context(), w.TestStore.DB, []services.UserID{ann, bob, 99})
		if seen, never := visits[ann], visits[bob]; err != nil || len(visits) != 2 || !seen.Equal(w.clock.Now()) || !never.IsZero() {
			t.Errorf("%v, %v", visits, err)
		}
	})
}

// A mode keeps the time of the follow, and the end of the follow forgets the mode.
func TestModesOfFollows(t *testing.T) {
	eachStore(t, func(b *testStore) {
		b.makeUsers("alice", "bob", "carol")
		b.follow(services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 50}, services.FollowEdge{Follower: 1, Followee: 3, PostsCountAfter: 60}, services.FollowEdge{Follower: 3, Followee: 2, PostsCountAfter: 70})
		set := func(followee services.UserID, mode services.FollowMode, wantFollows, wantChanged bool) {
			b.t.Helper()
			b.write(func(tx *sql.Tx) error {
				follows, changed, err := people.SetFollowMode(b.ctx, tx, 1, followee, mode)
				wantEqual(b.t, []bool{follows, changed}, []bool{wantFollows, wantChanged})
				return err
			})
		}
		edge := func() services.FollowEdge {
			b.t.Helper()
			found, _, err := people.Edge(b.ctx, b.TestStore.DB, 1, 2)
			one := must(found, err)(b.t)
			wantEqual(b.t, must(people.Edges(b.ctx, b.TestStore.DB, []services.UserID{1}, 2))(b.t)[1], one)
			wantEqual(b.t, must(people.EdgesFrom(b.ctx, b.TestStore.DB, 1, []services.UserID{2}))(b.t)[2], one)
			wantEqual(b.t, must(people.Followers(b.ctx, b.TestStore.DB, 2, 0, 1, time.Time{}))(b.t)[0], one)
			return one
		}
		set(2, services.FollowAll, true, false)
		set(2, services.FollowLiveOnly, true, true)
		set(2, services.FollowLiveOnly, true, false)
		quiet := services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: services.MaxPostID, FollowedAt: 50, Mode: services.FollowLiveOnly}
		wantEqual(b.t, edge(), quiet)
		wantEqual(b.t, quiet.AsFollowedHost(), services.FollowedAuthor{Author: 2, ItemsCountAfter: 50})
		set(2, services.FollowNone, true, true)
		quiet.Mode = services.FollowNone
		wantEqual(b.t, edge(), quiet)
		wantEqual(b.t, quiet.AsFollowedHost(), services.FollowedAuthor{Author: 2, ItemsCountAfter: 50, CountsNothing: true})
		wantEqual(b.t, quiet.AsPulledAuthor(), services.FollowedAuthor{Author: 2, ItemsCountAfter: services.MaxSortableID})
		set(3, services.FollowLiveOnly, true, true)
		wantEqual(b.t, must(people.FolloweesInReducedMode(b.ctx, b.TestStore.DB, 1, services.ListStart, 9))(b.t), []services.UserID{3, 2})
		wantEqual(b.t, must(people.FolloweesInReducedMode(b.ctx, b.TestStore.DB, 1, 3, 9))(b.t), []services.UserID{2})
		modes := map[services.UserID]services.FollowMode{2: services.FollowNone, 3: services.FollowLiveOnly}
		wantEqual(b.t, must(people.FollowModesOf(b.ctx, b.TestStore.DB, 1))(b.t), modes)
		wantEqual(b.t, len(must(people.FollowModesOf(b.ctx, b.TestStore.DB, 3))(b.t)), 0)
		relations := must(people.Relations(b.ctx, b.TestStore.DB, 1, []services.UserID{2, 3}, b.clock.Now()))(b.t)
		wantEqual(b.t, relations[2].Mode, services.FollowNone)
		set(2, services.FollowAll, true, true)
		wantEqual(b.t, edge(), services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 50, FollowedAt: 50})
		set(2, services.FollowNone, true, true)
		b.write(func(tx *sql.Tx) error { _, err := people.DeleteFollow(b.ctx, tx, 1, 2); return err })
		set(2, services.FollowNone, false, false)
		b.follow(services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 80})
		wantEqual(b.t, edge(), services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 80, FollowedAt: 80})
		wantEqual(b.t, must(people.FollowModesOf(b.ctx, b.TestStore.DB, 1))(b.t), map[services.UserID]services.FollowMode{3: services.FollowLiveOnly})
	})
}
