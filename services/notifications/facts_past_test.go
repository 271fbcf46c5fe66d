package notifications

import (
	"context"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/posts"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// An edit of a past time adds a mention, and the mention ends before its job runs. The stored cause has the time of the edit, and
// not the time of the post.
func TestAnEndedMentionHasTheTimeOfItsEdit(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		users := n.MakeUsers(2)
		post := n.InsertPosts(users[1], 1)[0]
		n.Clock.Advance(time.Hour)
		edited := services.NewIDClock(n.Clock, 1).NextAt(n.Clock.Now())
		n.Clock.Advance(time.Hour)
		cause := Cause{Recipient: users[0], Category: services.CategoryMention, Subject: services.SortableID(post), Actor: users[1]}
		apply := func(moment services.SortableID, mentions ...services.UserID) {
			n.Write(func(ctx context.Context, tx *sql.Tx) error {
				if err := posts.InsertMentions(ctx, tx, post, mentions, nil); err != nil {
					return err
				}
				cause.Moment = moment
				_, err := applyCauses(ctx, tx, []Cause{cause})
				return err
			})
		}
		apply(edited) // the mention has ended
		apply(0, users[0])
		if list := n.readAllPages(users[0], 10); len(list) != 1 || !list[0].At.Equal(edited.OrderedTime()) {
			t.Errorf("listed are %+v, want one notification at %s", list, edited.OrderedTime())
		}
	})
}

// More causes have come in a millisecond than the range of one event holds. Causes of that millisecond that are reported later get
// free positions after the taken ones.
func TestAPastCauseGetsAPositionInAFullMillisecond(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		users := n.MakeUsers(2)
		list := n.InsertPosts(users[0], 3)
		at := n.Clock.Now().Truncate(time.Millisecond)
		n.Write(func(ctx context.Context, tx *sql.Tx) error {
			b, err := lockCounters(ctx, tx, []counter{{users[0], services.CategoryFollow}})
			if err != nil {
				return err
			}
			first := services.FirstNotificationPosition(at, users[0])
			var full []newCause
			for i := range services.NotificationID(2 * positionsPerEvent) {
				full = append(full, newCause{Cause: Cause{Recipient: users[0], Category: services.CategoryFollow, Actor: services.UserID(1000 + i)}, atMicros: sql.Micros(at), position: first + i})
			}
			b.recipients[users[0]].lastPosition, b.recipients[users[0]].changed = full[len(full)-1].position, true
			if err := b.insert(ctx, full); err != nil {
				return err
			}
			_, err = b.save(ctx)
			return err
		})
		moments := services.NewIDClock(n.Clock, 1)
		n.Write(func(ctx context.Context, tx *sql.Tx) error {
			var causes []Cause
			for _, post := range list {
				if _, err := posts.InsertLike(ctx, tx, post, users[1], at); err != nil {
					return err
				}
				causes = append(causes, Cause{Recipient: users[0], Category: services.CategoryLike, Subject: services.SortableID(post), Actor: users[1], Moment: moments.NextAt(at)})
			}
			_, err := applyCauses(ctx, tx, causes)
			return err
		})
		if got := len(n.readAllPages(users[0], 10)); got != len(list) {
			t.Errorf("%d notifications are listed, want %d", got, len(list))
		}
	})
}

// One transaction applies two causes of one millisecond: one of the present, which takes the first position of the millisecond, and
// one that is reported with its time. Both count.
func TestPastAndPresentCausesOfOneMillisecondBothCount(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.insertPosts(1, 5, 6)
		b.like(5, 2)
		b.Clock.Advance(time.Second)
		b.like(6, 2)
		dated := newLikeCause(6, 2)
		dated.Moment = services.NewIDClock(b.Clock, 1).NextAt(b.Clock.Now())
		b.applyCauses(newLikeCause(5, 2), dated)
		b.wantUnseenAndUnread("both are there", 2, 2)
	})
}

// A user marks a notification unread, and causes of it that happened before a mark of everything are reported later. The
// notification stays unread. If all of it was read again before the mark of everything, the mark covers the causes.
func TestALateCauseLeavesANotificationUnread(t *testing.T) {
	for name, c := range map[string]struct {
		marks  func(b *testDB, positions []services.NotificationID)
		unread int // how many notifications are unread after the marks
	}{
		"marked unread": {func(b *testDB, positions []services.NotificationID) {
			b.markAllRead(services.AnyMarkGeneration)
			sqltest.Equal(b.T, b.markUnread(positions[0]), nil)
		}, 1},
		"left out by a mark of an older list": {func(b *testDB, positions []services.NotificationID) {
			sqltest.Equal(b.T, b.markUnread(positions[0]), nil)
			b.markAllRead(0)
		}, 1},
		"read in part since": {func(b *testDB, positions []services.NotificationID) {
			b.markAllRead(services.AnyMarkGeneration)
			sqltest.Equal(b.T, b.markUnread(positions[0]), nil)
			sqltest.Equal(b.T, b.markRead(withAllCategories(readMarkSelection{UpToPositions: positions[:1], MarkGeneration: services.AnyMarkGeneration})), nil)
		}, 1},
		"read before everything": {func(b *testDB, positions []services.NotificationID) {
			sqltest.Equal(b.T, b.markUnread(positions[0]), nil)
			sqltest.Equal(b.T, b.markRead(withAllCategories(readMarkSelection{UpToPositions: positions, MarkGeneration: services.AnyMarkGeneration})), nil)
			b.markAllRead(services.AnyMarkGeneration)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			eachTestDB(t, func(b *testDB) {
				b.insertPosts(1, 5, 6)
				liked := func(post services.PostID, liker services.UserID) services.NotificationID {
					b.like(post, liker)
					newest := b.applyCauses(newLikeCause(post, liker))[0].NewestShown
					b.Clock.Advance(time.Second)
					return newest
				}
				positions := []services.NotificationID{liked(5, 2), liked(5, 3)}
				moments := services.NewIDClock(b.Clock, 1)
				late := func(liker services.UserID) Cause {
					b.like(5, liker)
					one := newLikeCause(5, liker)
					one.Moment = moments.NextAt(b.Clock.Now())
					return one
				}
				hidden, shown := late(4), late(5)
				b.Restrict(services.Restriction{Kind: services.Block, Owner: 1, Other: 4, MadeAt: 50})
				b.Clock.Advance(time.Second)
				b.markLikesSeen(liked(6, 2))
				c.marks(b, positions)
				b.wantUnseenAndUnread("before", 0, c.unread)
				before := b.applyCauses(newLikeCause(6, 2)) // it changes nothing
				sqltest.Equal(b.T, b.applyCauses(hidden), before)
				b.wantUnseenAndUnread("a late cause that is hidden", 0, c.unread)
				b.applyCauses(shown)
				b.wantUnseenAndUnread("a late cause that is shown", 0, c.unread)
			})
		})
	}
}
