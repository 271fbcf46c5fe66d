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
	eachTestDB(t, func(b *testDB) {
		wantEqual(b.T, b.MakeUsers("carol", "alice"), []services.UserID{1, 2})
		wantEqual(b.T, b.MakeUsers("bob", "alice", "dave", "bob"), []services.UserID{3, 2, 4, 3})
		wantEqual(b.T, b.MakeUsers("alice", "alice"), []services.UserID{2, 2})
		b.MustWrite(func(tx *sql.Tx) error {
			ids, err := people.Ensure(b.Ctx, tx, nil)
			if len(ids) != 0 {
				b.T.Errorf("nobody has the numbers %v", ids)
			}
			return err
		})
	})
}

func TestUserIDsStayDenseWhenAWriteIsUndone(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		err := b.Write(b.Ctx, func(tx *sql.Tx) error {
			_, err := people.Ensure(b.Ctx, tx, []string{"a", "b", "c"})
			return errors.Join(err, errTest)
		})
		if !errors.Is(err, errTest) {
			b.T.Fatal(err)
		}
		wantEqual(b.T, b.MakeUsers("d"), []services.UserID{1})
	})
}

func TestUserIDsStayDenseUnderConcurrency(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		const writers, users = 8, 40
		var all sync.WaitGroup
		for writer := range writers {
			all.Go(func() {
				for n := range users {
					// Each key is mentioned by several writers, at about the same time.
					keys := []string{fmt.Sprint("u", n), fmt.Sprint("u", (n+writer)%users)}
					err := b.Write(b.Ctx, func(tx *sql.Tx) error { _, err := people.Ensure(b.Ctx, tx, keys); return err })
					if err != nil {
						b.T.Error(err)
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
		for key, id := range must(people.IDs(b.Ctx, b.TestDB.DB, keys))(b.T) {
			if id < 1 || id > users || taken[id] != "" {
				b.T.Errorf("%s has the number %d, as has %q", key, id, taken[id])
			}
			taken[id] = key
		}
		wantEqual(b.T, len(taken), users)
	})
}

func TestProfiles(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeUsers("alice", "bob")
		text := func(s string) *string { return &s }
		for _, step := range []struct{ name, avatar *string }{
			{text("Alice"), nil}, {nil, text("https://example.com/a.png")}, {nil, nil}, {text(""), nil}, {text("Älice 🦉"), nil},
		} {
			b.MustWrite(func(tx *sql.Tx) error {
				_, err := people.SetProfile(b.Ctx, tx, 1, step.name, step.avatar)
				return err
			})
		}
		wantEqual(b.T, must(people.ByID(b.Ctx, b.TestDB.DB, []services.UserID{1, 2, 9, 1}))(b.T), map[services.UserID]services.User{
			1: {ID: 1, Key: "alice", Name: "Älice 🦉", AvatarURL: "https://example.com/a.png", UpdatedAt: b.Clock.Now().Truncate(time.Microsecond).Add(4 * time.Microsecond)},
			2: {ID: 2, Key: "bob", UpdatedAt: time.UnixMicro(0).UTC()},
		})
		err := b.Write(b.Ctx, func(tx *sql.Tx) error {
			_, err := people.SetProfile(b.Ctx, tx, 9, text("Nobody"), nil)
			return err
		})
		wantCode(b.T, err, services.NotFound)
		wantEqual(b.T, len(must(people.ByID(b.Ctx, b.TestDB.DB, nil))(b.T)), 0)
	})
}

func TestFollows(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeUsers("alice", "bob", "carol")
		edge := services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 50, FollowedAt: 50}
		insert := func(edge services.FollowEdge) (created bool) {
			b.MustWrite(func(tx *sql.Tx) (err error) { created, err = people.InsertFollow(b.Ctx, tx, edge); return err })
			return created
		}
		remove := func(follower, followee services.UserID) (deleted bool) {
			b.MustWrite(func(tx *sql.Tx) (err error) {
				deleted, err = people.DeleteFollow(b.Ctx, tx, follower, followee)
				return err
			})
			return deleted
		}
		wantEqual(b.T, insert(edge), true)
		wantEqual(b.T, insert(services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 99}), false)
		found, ok, err := people.Edge(b.Ctx, b.TestDB.DB, 1, 2)
		wantEqual(b.T, must(found, err)(b.T), edge)
		wantEqual(b.T, ok, true)
		found, ok, err = people.Edge(b.Ctx, b.TestDB.DB, 2, 1)
		wantEqual(b.T, must(found, err)(b.T), services.FollowEdge{})
		wantEqual(b.T, ok, false)
		wantEqual(b.T, remove(1, 2), true)
		wantEqual(b.T, remove(1, 2), false)
		wantEqual(b.T, insert(services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 99}), true)
		found, _, err = people.Edge(b.Ctx, b.TestDB.DB, 1, 2)
		wantEqual(b.T, must(found, err)(b.T).PostsCountAfter, services.PostID(99))
	})
}

func TestEdgesOfManyFollowers(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeFollows(services.FollowEdge{Follower: 1, Followee: 9, PostsCountAfter: 5}, services.FollowEdge{Follower: 2, Followee: 9, PostsCountAfter: services.MaxPostID},
			services.FollowEdge{Follower: 3, Followee: 8, PostsCountAfter: 7}, services.FollowEdge{Follower: 1<<32 - 1, Followee: 9})
		wantEqual(b.T, must(people.Edges(b.Ctx, b.TestDB.DB, []services.UserID{1, 2, 3, 4, 1<<32 - 1}, 9))(b.T), map[services.UserID]services.FollowEdge{
			1:         {Follower: 1, Followee: 9, PostsCountAfter: 5, FollowedAt: 5},
			2:         {Follower: 2, Followee: 9, PostsCountAfter: services.MaxPostID, FollowedAt: services.MaxSortableID},
			1<<32 - 1: {Follower: 1<<32 - 1, Followee: 9},
		})
	})
}

func TestEdgesOfManyFollowees(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeFollows(services.FollowEdge{Follower: 9, Followee: 1, PostsCountAfter: 5}, services.FollowEdge{Follower: 9, Followee: 2, PostsCountAfter: services.MaxPostID},
			services.FollowEdge{Follower: 8, Followee: 3, PostsCountAfter: 7}, services.FollowEdge{Follower: 9, Followee: 1<<32 - 1})
		wantEqual(b.T, must(people.EdgesFrom(b.Ctx, b.TestDB.DB, 9, []services.UserID{1, 2, 3, 4, 9, 1<<32 - 1}))(b.T), map[services.UserID]services.FollowEdge{
			1:         {Follower: 9, Followee: 1, PostsCountAfter: 5, FollowedAt: 5},
			2:         {Follower: 9, Followee: 2, PostsCountAfter: services.MaxPostID, FollowedAt: services.MaxSortableID},
			1<<32 - 1: {Follower: 9, Followee: 1<<32 - 1},
		})
	})
}

func TestCountFolloweesStopsAtTheLimit(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		for n := services.UserID(2); n <= 6; n++ {
			b.MakeFollows(services.FollowEdge{Follower: 1, Followee: n})
		}
		for limit, want := range map[int]int{0: 0, 3: 3, 5: 5, 100: 5} {
			for followee := services.UserID(1); followee <= 7; followee++ {
				b.MustWrite(func(tx *sql.Tx) error {
					count, follows, err := people.CountFollowees(b.Ctx, tx, 1, followee, limit)
					if count != want || follows != (2 <= followee && followee <= 6) {
						b.T.Errorf("to %d: %d, want %d; follows %d: %t", limit, count, want, followee, follows)
					}
					return err
				})
			}
		}
	})
}

func TestImportFollows(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeFollows(services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 5})
		var edges []services.FollowEdge
		for n := range services.UserID(700) {
			edges = append(edges, services.FollowEdge{Follower: 1, Followee: n + 2, PostsCountAfter: 9})
		}
		edges = append(edges, edges[10]) // twice in one call
		for _, want := range []int{699, 0} {
			b.MustWrite(func(tx *sql.Tx) error {
				inserted, err := people.ImportFollows(b.Ctx, tx, edges)
				if inserted != want {
					b.T.Errorf("%d edges went in, want %d", inserted, want)
				}
				return err
			})
		}
		old, _, err := people.Edge(b.Ctx, b.TestDB.DB, 1, 2)
		wantEqual(b.T, must(old, err)(b.T).PostsCountAfter, services.PostID(5))
		if waiting, _, _, err := jobs.JobCounts(b.Ctx, b.DB); waiting != 0 || err != nil {
			b.T.Errorf("an import made %d jobs (%v)", waiting, err)
		}
	})
}

func TestFollowersByIDAndActivity(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeUsers("alice", "bob", "carol", "dave", "erin")
		for n := services.UserID(2); n <= 5; n++ {
			b.MakeFollows(services.FollowEdge{Follower: n, Followee: 1, PostsCountAfter: services.PostID(n)})
		}
		active := func(users ...services.UserID) {
			b.MustWrite(func(tx *sql.Tx) error { return people.MarkActive(b.Ctx, tx, users) })
		}
		active(5, 2, 3)
		first := b.Clock.Now()
		b.Clock.Advance(time.Hour)
		active(3)
		b.Clock.Advance(-2 * time.Hour)
		active(2) // a node whose clock is behind does not move a time back
		list := func(after services.UserID, limit int, since time.Time) (ids []services.UserID) {
			for _, edge := range must(people.Followers(b.Ctx, b.TestDB.DB, 1, after, limit, since))(b.T) {
				wantEqual(b.T, edge, services.FollowEdge{Follower: edge.Follower, Followee: 1, PostsCountAfter: services.PostID(edge.Follower), FollowedAt: services.SortableID(edge.Follower)})
				ids = append(ids, edge.Follower)
			}
			return ids
		}
		wantEqual(b.T, list(0, 10, time.Time{}), []services.UserID{2, 3, 4, 5})
		wantEqual(b.T, list(2, 2, time.Time{}), []services.UserID{3, 4})
		wantEqual(b.T, list(0, 10, first), []services.UserID{2, 3, 5})
		wantEqual(b.T, list(0, 10, first.Add(time.Microsecond)), []services.UserID{3})
		wantEqual(b.T, list(5, 10, time.Time{}), []services.UserID(nil))
	})
}

func TestActiveUsers(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeUsers("alice", "bob", "carol", "dave")
		mark := func(users ...services.UserID) {
			b.MustWrite(func(tx *sql.Tx) error { return people.MarkActive(b.Ctx, tx, users) })
		}
		mark(1, 2)
		b.Clock.Advance(time.Hour)
		since := b.Clock.Now()
		mark(2, 4)
		active := func(after services.UserID, limit int) []services.UserID {
			return must(people.ActiveUsers(b.Ctx, b.TestDB.DB, after, limit, since))(b.T)
		}
		wantEqual(b.T, active(0, 10), []services.UserID{2, 4})
		wantEqual(b.T, active(0, 1), []services.UserID{2})
		wantEqual(b.T, active(2, 10), []services.UserID{4})
		wantEqual(b.T, len(active(4, 10)), 0)
		inactive := func(after services.UserID, limit int) []services.UserID {
			return must(people.InactiveUsers(b.Ctx, b.TestDB.DB, after, limit, since))(b.T)
		}
		wantEqual(b.T, inactive(0, 10), []services.UserID{1, 3})
		wantEqual(b.T, inactive(0, 1), []services.UserID{1})
		wantEqual(b.T, inactive(1, 10), []services.UserID{3})
		wantEqual(b.T, len(inactive(3, 10)), 0)
	})
}

// The previous visit stays the same, however often the present visit is recorded.
func TestThePreviousVisitStaysDuringAVisit(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		user := b.MakeUsers("alice")[0]
		seen := func() {
			b.MustWrite(func(tx *sql.Tx) error { return people.MarkActive(b.Ctx, tx, []services.UserID{user}) })
		}
		before := func(want time.Time) {
			b.T.Helper()
			got, err := people.PreviousVisit(b.Ctx, b.TestDB.DB, user)
			if err != nil || !got.Equal(want) {
				b.T.Errorf("the visit before was at %v, %v; want %v", got, err, want)
			}
		}
		before(time.Time{})
		first := b.Clock.Now().Truncate(time.Microsecond)
		seen()
		before(time.Time{})
		b.Clock.Advance(10 * time.Minute)
		seen() // still the same visit
		before(time.Time{})
		last := first.Add(10 * time.Minute)
		b.Clock.Advance(26 * time.Hour)
		seen()
		before(last)
		b.Clock.Advance(time.Minute)
		seen()
		before(last)
		if got, err := people.PreviousVisit(b.Ctx, b.TestDB.DB, 999); err != nil || !got.IsZero() {
			b.T.Errorf("of nobody: %v, %v", got, err)
		}
	})
}

func TestLastVisits(t *testing.T) {
	eachTestDB(t, func(w *testDB) {
		t := w.T
		ids := w.MakeUsers("ann", "bob")
		ann, bob := ids[0], ids[1]
		w.MustWrite(func(tx *sql.Tx) error { return people.MarkActive(t.Context(), tx, []services.UserID{ann}) })
		visits, err := people.LastVisits(t.Context(), w.TestDB.DB, []services.UserID{ann, bob, 99})
		if seen, never := visits[ann], visits[bob]; err != nil || len(visits) != 2 || !seen.Equal(w.Clock.Now()) || !never.IsZero() {
			t.Errorf("%v, %v", visits, err)
		}
	})
}

// A mode keeps the time of the follow, and the end of the follow forgets the mode.
func TestModesOfFollows(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeUsers("alice", "bob", "carol")
		b.MakeFollows(services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 50}, services.FollowEdge{Follower: 1, Followee: 3, PostsCountAfter: 60}, services.FollowEdge{Follower: 3, Followee: 2, PostsCountAfter: 70})
		set := func(followee services.UserID, mode services.FollowMode, wantFollows, wantChanged bool) {
			b.T.Helper()
			b.MustWrite(func(tx *sql.Tx) error {
				follows, changed, err := people.SetFollowMode(b.Ctx, tx, 1, followee, mode)
				wantEqual(b.T, []bool{follows, changed}, []bool{wantFollows, wantChanged})
				return err
			})
		}
		edge := func() services.FollowEdge {
			b.T.Helper()
			found, _, err := people.Edge(b.Ctx, b.TestDB.DB, 1, 2)
			one := must(found, err)(b.T)
			wantEqual(b.T, must(people.Edges(b.Ctx, b.TestDB.DB, []services.UserID{1}, 2))(b.T)[1], one)
			wantEqual(b.T, must(people.EdgesFrom(b.Ctx, b.TestDB.DB, 1, []services.UserID{2}))(b.T)[2], one)
			wantEqual(b.T, must(people.Followers(b.Ctx, b.TestDB.DB, 2, 0, 1, time.Time{}))(b.T)[0], one)
			return one
		}
		set(2, services.FollowAll, true, false)
		set(2, services.FollowLiveOnly, true, true)
		set(2, services.FollowLiveOnly, true, false)
		quiet := services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: services.MaxPostID, FollowedAt: 50, Mode: services.FollowLiveOnly}
		wantEqual(b.T, edge(), quiet)
		wantEqual(b.T, quiet.AsFollowedHost(), services.FollowedAuthor{Author: 2, ItemsCountAfter: 50})
		set(2, services.FollowNone, true, true)
		quiet.Mode = services.FollowNone
		wantEqual(b.T, edge(), quiet)
		wantEqual(b.T, quiet.AsFollowedHost(), services.FollowedAuthor{Author: 2, ItemsCountAfter: 50, CountsNothing: true})
		wantEqual(b.T, quiet.AsPulledAuthor(), services.FollowedAuthor{Author: 2, ItemsCountAfter: services.MaxSortableID})
		set(3, services.FollowLiveOnly, true, true)
		wantEqual(b.T, must(people.FolloweesInReducedMode(b.Ctx, b.TestDB.DB, 1, services.ListStart, 9))(b.T), []services.UserID{3, 2})
		wantEqual(b.T, must(people.FolloweesInReducedMode(b.Ctx, b.TestDB.DB, 1, 3, 9))(b.T), []services.UserID{2})
		modes := map[services.UserID]services.FollowMode{2: services.FollowNone, 3: services.FollowLiveOnly}
		wantEqual(b.T, must(people.FollowModesOf(b.Ctx, b.TestDB.DB, 1))(b.T), modes)
		wantEqual(b.T, len(must(people.FollowModesOf(b.Ctx, b.TestDB.DB, 3))(b.T)), 0)
		relations := must(people.Relations(b.Ctx, b.TestDB.DB, 1, []services.UserID{2, 3}, b.Clock.Now()))(b.T)
		wantEqual(b.T, relations[2].Mode, services.FollowNone)
		set(2, services.FollowAll, true, true)
		wantEqual(b.T, edge(), services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 50, FollowedAt: 50})
		set(2, services.FollowNone, true, true)
		b.MustWrite(func(tx *sql.Tx) error { _, err := people.DeleteFollow(b.Ctx, tx, 1, 2); return err })
		set(2, services.FollowNone, false, false)
		b.MakeFollows(services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 80})
		wantEqual(b.T, edge(), services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 80, FollowedAt: 80})
		wantEqual(b.T, must(people.FollowModesOf(b.Ctx, b.TestDB.DB, 1))(b.T), map[services.UserID]services.FollowMode{3: services.FollowLiveOnly})
	})
}
