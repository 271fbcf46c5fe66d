package notifications

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/people/peopletest"
	"tidings/services/posts"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

const likeCategory = services.CategoryLike

// testDB is a database, and notifications in it.
type testDB struct{ *peopletest.TestDB }

// eachTestDB runs a test on each kind of database.
func eachTestDB(t *testing.T, test func(b *testDB)) {
	t.Helper()
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) { test(&testDB{b}) })
}

// insertPosts writes an author's posts.
func (b *testDB) insertPosts(author services.UserID, ids ...services.PostID) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error {
		for _, id := range ids {
			if err := posts.Insert(b.Ctx, tx, services.Post{ID: id, Author: author, Kind: services.PostKindPost, Body: "body"}); err != nil {
				return err
			}
		}
		return nil
	})
}

// like makes some users like a post.
func (b *testDB) like(post services.PostID, likers ...services.UserID) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error {
		for _, liker := range likers {
			if _, err := posts.InsertLike(b.Ctx, tx, post, liker, tx.Now); err != nil {
				return err
			}
		}
		return nil
	})
}

// unlike ends a like.
func (b *testDB) unlike(post services.PostID, liker services.UserID) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error { _, err := posts.DeleteLike(b.Ctx, tx, post, liker); return err })
}

// deletePost deletes a post.
func (b *testDB) deletePost(post services.PostID) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error { _, _, err := posts.Delete(b.Ctx, tx, post); return err })
}

// applyCauses makes the notifications of some causes agree with the facts, and returns the states of their categories.
func (b *testDB) applyCauses(causes ...Cause) (states []categoryState) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) (err error) { states, err = applyCauses(b.Ctx, tx, causes); return err })
	return states
}

// markLikesSeen marks the likes of user 1 seen up to a position.
func (b *testDB) markLikesSeen(upTo services.NotificationID) (state categoryState) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) (err error) {
		states, err := markSeen(b.Ctx, tx, 1, []services.Category{likeCategory}, upTo)
		if err == nil {
			state = states[0]
		}
		return err
	})
	return state
}

// newLikeCause is a like of a post of user 1.
func newLikeCause(post services.PostID, actor services.UserID) Cause {
	return Cause{Recipient: 1, Category: likeCategory, Subject: services.SortableID(post), Actor: actor}
}

// stateWithUnseenToday is the state of the likes of user 1, with some unseen groups of today and no others.
func (b *testDB) stateWithUnseenToday(version uint64, newest, seen services.NotificationID, groups int) categoryState {
	return categoryState{Recipient: 1, Category: likeCategory, Version: version, NewestShown: newest, SeenTo: seen,
		NewestDay: b.Clock.Now().Unix() / 86400, UnseenByDay: [8]int{groups}}
}

func TestLikeNotifiesOnce(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.insertPosts(1, 5, 6)
		b.like(5, 2)
		position := services.NotificationID(services.SortableIDAt(b.Clock.Now()))
		for range 3 { // redelivered
			sqltest.Equal(b.T, b.applyCauses(newLikeCause(5, 2), newLikeCause(5, 2)), []categoryState{b.stateWithUnseenToday(1, position, 0, 1)})
		}
		b.like(5, 3)
		b.like(6, 2)
		sqltest.Equal(b.T, b.applyCauses(newLikeCause(6, 2), newLikeCause(5, 3)), []categoryState{b.stateWithUnseenToday(2, position+2, 0, 2)})
		sqltest.Equal(b.T, sqltest.Must(statesOfUser(b.Ctx, b.DB, 1))(b.T), []categoryState{b.stateWithUnseenToday(2, position+2, 0, 2)})
	})
}

func TestAnUndoneLikeStopsCountingAndKeepsItsPosition(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.insertPosts(1, 5)
		b.like(5, 2)
		b.applyCauses(newLikeCause(5, 2))
		position := services.NotificationID(services.SortableIDAt(b.Clock.Now()))
		b.unlike(5, 2)
		sqltest.Equal(b.T, b.applyCauses(newLikeCause(5, 2)), []categoryState{b.stateWithUnseenToday(2, position, 0, 0)})
		sqltest.Equal(b.T, b.applyCauses(newLikeCause(5, 2)), []categoryState{b.stateWithUnseenToday(2, position, 0, 0)})
		sqltest.Equal(b.T, b.markLikesSeen(0), b.stateWithUnseenToday(3, position, position, 0))
		b.Clock.Advance(13 * time.Hour) // another half day, and today still
		b.like(5, 2)
		sqltest.Equal(b.T, b.applyCauses(newLikeCause(5, 2)), []categoryState{b.stateWithUnseenToday(4, position, position, 0)}) // seen, and stays seen
	})
}

func TestDeletedPostStopsNotifying(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.insertPosts(1, 5, 6)
		b.like(5, 2, 3, 4)
		b.like(6, 2)
		position := services.NotificationID(services.SortableIDAt(b.Clock.Now()))
		sqltest.Equal(b.T, b.applyCauses(newLikeCause(5, 0), newLikeCause(6, 0), newLikeCause(5, 3)), []categoryState{b.stateWithUnseenToday(1, position+3, 0, 2)})
		b.deletePost(5)
		sqltest.Equal(b.T, b.applyCauses(newLikeCause(5, 0)), []categoryState{b.stateWithUnseenToday(2, position+3, 0, 1)})
		b.like(5, 9)
		sqltest.Equal(b.T, b.applyCauses(newLikeCause(5, 9), newLikeCause(5, 0)), []categoryState{b.stateWithUnseenToday(2, position+3, 0, 1)})
	})
}

func TestOwnLikesAndAnswersToOthersDoNotNotify(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.insertPosts(1, 5)
		b.insertPosts(2, 6)
		b.like(5, 1)
		b.like(6, 3)
		sqltest.Equal(b.T, b.applyCauses(newLikeCause(5, 1), newLikeCause(5, 0), newLikeCause(6, 3), newLikeCause(6, 0), newLikeCause(7, 2)), []categoryState{b.stateWithUnseenToday(0, 0, 0, 0)})
	})
}

func TestGroupsAreHalfDaysOfTheLikesTime(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.insertPosts(1, 5)
		b.Clock.Set(time.Date(2026, 3, 14, 11, 59, 59, 999999000, time.UTC))
		b.like(5, 2)
		b.Clock.Advance(time.Microsecond)
		b.like(5, 3)
		b.Clock.Advance(12*time.Hour - time.Microsecond)
		b.like(5, 4)
		b.Clock.Advance(time.Microsecond) // the next day
		b.like(5, 6)
		position := services.NotificationID(services.SortableIDAt(b.Clock.Now()))
		want := b.stateWithUnseenToday(1, position+3, 0, 1)
		want.UnseenByDay[1] = 2
		sqltest.Equal(b.T, b.applyCauses(newLikeCause(5, 6), newLikeCause(5, 3), newLikeCause(5, 4), newLikeCause(5, 2)), []categoryState{want})
	})
}

func TestUnseenGroupsByDays(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		for day := range services.PostID(10) {
			b.insertPosts(1, 5+day)
			b.like(5+day, 2)
			b.applyCauses(newLikeCause(5+day, 2))
			b.Clock.Advance(24 * time.Hour)
		}
		b.Clock.Advance(-24 * time.Hour)
		state := sqltest.Must(statesOfUser(b.Ctx, b.DB, 1))(b.T)[0]
		sqltest.Equal(b.T, state.UnseenByDay, [8]int{1, 1, 1, 1, 1, 1, 1, 1})
		sqltest.Equal(b.T, state.OlderUnseen, 2)
		b.Clock.Advance(-24 * time.Hour) // a node whose clock is behind counts tomorrow's groups as of today
		state = sqltest.Must(statesOfUser(b.Ctx, b.DB, 1))(b.T)[0]
		sqltest.Equal(b.T, state.UnseenByDay, [8]int{2, 1, 1, 1, 1, 1, 1, 1})
		b.Clock.Advance(30 * 24 * time.Hour)
		state = sqltest.Must(statesOfUser(b.Ctx, b.DB, 1))(b.T)[0]
		sqltest.Equal(b.T, state.UnseenByDay, [8]int{})
		sqltest.Equal(b.T, state.OlderUnseen, 10)
		sqltest.Equal(b.T, state.Version, uint64(10))
	})
}

func TestRaiseNotificationsSeen(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		sqltest.Equal(b.T, b.markLikesSeen(0), b.stateWithUnseenToday(0, 0, 0, 0)) // without notifications there is nothing to mark
		b.insertPosts(1, 5, 6, 7)
		position := services.NotificationID(services.SortableIDAt(b.Clock.Now()))
		for _, post := range []services.PostID{5, 6, 7} {
			b.like(post, 2)
			b.applyCauses(newLikeCause(post, 2))
		}
		sqltest.Equal(b.T, b.markLikesSeen(position), b.stateWithUnseenToday(4, position+2, position, 2))
		sqltest.Equal(b.T, b.markLikesSeen(position), b.stateWithUnseenToday(4, position+2, position, 2))
		sqltest.Equal(b.T, b.markLikesSeen(position+1), b.stateWithUnseenToday(5, position+2, position+1, 1))
		sqltest.Equal(b.T, b.markLikesSeen(position), b.stateWithUnseenToday(5, position+2, position+1, 1)) // a late report
		err := b.Write(b.Ctx, func(tx *sql.Tx) error {
			_, err := markSeen(b.Ctx, tx, 1, []services.Category{likeCategory}, position+3)
			return err
		})
		sqltest.WantCode(b.T, err, services.Invalid)
		sqltest.Equal(b.T, b.markLikesSeen(0), b.stateWithUnseenToday(6, position+2, position+2, 0))
		sqltest.Equal(b.T, sqltest.Must(statesOfUser(b.Ctx, b.DB, 2))(b.T), []categoryState(nil))
	})
}

func TestApplyCausesOfManyRecipients(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		var causes []Cause
		for n := services.UserID(300); n > 0; n-- {
			b.insertPosts(n, services.PostID(n))
			b.like(services.PostID(n), 999)
			causes = append(causes, Cause{Recipient: n, Category: likeCategory, Subject: services.SortableID(n), Actor: 999})
		}
		states := b.applyCauses(causes...)
		sqltest.Equal(b.T, len(states), 300)
		for i, state := range states {
			if state.Recipient != services.UserID(i+1) || state.Version != 1 || state.UnseenByDay[0] != 1 {
				b.T.Fatalf("state %d is %+v", i, state)
			}
		}
		sqltest.Equal(b.T, len(b.applyCauses()), 0)
	})
}

// Transactions that name the same recipients in different orders wait for each other, and each sees the effect of the former
// holder of the lock: no version is assigned twice and no like is lost.
func TestApplyCausesAtOnce(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		const recipients, workers, rounds = 5, 6, 15
		for n := services.UserID(1); n <= recipients; n++ {
			b.insertPosts(n, services.PostID(n))
		}
		var all sync.WaitGroup
		for worker := range workers {
			all.Go(func() {
				for round := range rounds {
					actor := services.UserID(100 + worker*rounds + round)
					var causes []Cause
					for i := range services.UserID(recipients) {
						n := (i*services.UserID(1+worker%4)+services.UserID(worker))%recipients + 1
						causes = append(causes, Cause{Recipient: n, Category: likeCategory, Subject: services.SortableID(n), Actor: actor})
					}
					err := b.Write(b.Ctx, func(tx *sql.Tx) error {
						for _, cause := range causes {
							if _, err := posts.InsertLike(b.Ctx, tx, services.PostID(cause.Subject), actor, tx.Now); err != nil {
								return err
							}
						}
						return nil
					})
					err2 := b.Write(b.Ctx, func(tx *sql.Tx) error { _, err := applyCauses(b.Ctx, tx, causes); return err })
					if err := errors.Join(err, err2); err != nil {
						b.T.Error(err)
					}
				}
			})
		}
		all.Wait()
		for n := services.UserID(1); n <= recipients; n++ {
			state := sqltest.Must(statesOfUser(b.Ctx, b.DB, n))(b.T)[0]
			causes := sqltest.Must(sqltest.QueryLines(b.Ctx, b, "SELECT DISTINCT place FROM notification_causes WHERE recipient = $1 AND standing", n))(b.T)
			if state.Version != workers*rounds || len(causes) != workers*rounds || state.UnseenByDay[0] != 1 {
				b.T.Errorf("user %d has %d positions and the state %+v", n, len(causes), state)
			}
		}
	})
}

// The counts of a user are read from the unseen groups alone, by the index notification_groups_unread.
func TestARecountReadsOnlyUnseenGroups(t *testing.T) {
	b := &testDB{peopletest.NewTestDB(t, sqltest.SQLite(t))}
	plan := b.QueryPlan("notification states of a user")
	if !slices.Contains(plan, "SEARCH g USING COVERING INDEX notification_groups_unread (recipient=? AND category=? AND newest>?)") {
		t.Errorf("the plan is %q", plan)
	}
}

// versionsText formats the versions of the categories of user 1.
func (b *testDB) versionsText() string {
	b.T.Helper()
	states := sqltest.Must(statesOfUser(b.Ctx, b.DB, 1))(b.T)
	slices.SortFunc(states, func(a, b categoryState) int { return cmp.Compare(a.Category, b.Category) })
	text := ""
	for _, state := range states {
		text += fmt.Sprintf("%s %d ", state.Category, state.Version)
	}
	return text
}

// Neither a mark nor its error reveals a mention by an author who hides their posts from the user.
func TestMarksRevealNoHiddenCause(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		positions := b.likeThreePosts()
		b.markAllRead(1)
		b.Clock.Advance(time.Minute)
		probe := func() string {
			err := b.runMark(func(tx *sql.Tx) error {
				_, err := markSeen(b.Ctx, tx, 1, services.Categories, positions[2]+1)
				return err
			})
			return string(services.CodeOf(err))
		}
		before := probe()
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := people.Restrict(b.Ctx, tx, services.Restriction{Kind: services.Hide, Owner: 3, Other: 1, MadeAt: 50})
			return err
		})
		b.publishAnswer(60, 5, 3, 1)
		if list := b.firstPage(0); len(list) != 3 {
			t.Fatalf("the list is %+v", list)
		}
		if after := probe(); after != before {
			t.Errorf("a mark beyond the newest is %s, and after a hidden mention %s", before, after)
		}
		versions := b.versionsText()
		if until := b.markAllRead(2); !until.IsZero() {
			t.Errorf("all was read, and yet reading it can be undone until %v", until)
		}
		if now := b.versionsText(); now != versions {
			t.Errorf("the versions went from %s to %s", versions, now)
		}
	})
}
