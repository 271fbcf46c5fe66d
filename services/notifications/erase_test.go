package notifications

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/erase"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// The notifications that a user caused for one recipient are removed by pages: one transaction for all of them would keep the
// recipient's other transactions waiting.
func TestAnActorIsErasedByPages(t *testing.T) {
	const count = 2*erase.RowsPerRun + erase.RowsPerRun/2
	n := newRedisServerNode(t, nil, causesPerPage)
	users := n.MakeUsers(3)
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		for i := range count {
			if _, err := sqltest.QueryLines(ctx, tx, fmt.Sprintf(`INSERT INTO notification_causes (recipient, category, subject, actor, object, place, bucket, at, standing)
				VALUES (%d, 'LIKE', %d, %d, 0, %d, 1, 1, %v)`, users[0], i+1, users[1], i+1, i%2 == 0)); err != nil {
				return err
			}
		}
		return nil
	})
	step := slices.IndexFunc(EraseSteps, func(one erase.Step) bool { return one.Name == "causes" })
	removed, steps := 0, 0
	for more, at := true, (erase.StepPosition{User: users[1]}); more; steps++ {
		n.Write(func(ctx context.Context, tx *sql.Tx) error {
			done, err := EraseSteps[step].Run(ctx, tx, at)
			if one := done.Removed["notificationsOfOthers"]; one > erase.RowsPerRun {
				t.Errorf("a step removed %d", one)
			} else {
				removed += one
			}
			at.ResumeAfter, more = done.ResumeAfter, done.More
			return err
		})
	}
	if removed != count || steps > 10 {
		t.Errorf("removed %d of %d in %d steps", removed, count, steps)
	}
}

// A position was shown, and then its row was deleted: its actor was erased, or the host category was removed. Other notifications
// have come since. A mark up to that position still works. Positions in other users' lists are still refused.
func TestAMarkUpToADeletedPositionWorks(t *testing.T) {
	const orders = services.Category("orders")
	for what, goes := range map[string]struct {
		shown Cause
		gone  func(b *testDB)
	}{
		"erased actor": {newLikeCause(5, 2), func(b *testDB) {
			b.unlike(5, 2)
			step := slices.IndexFunc(EraseSteps, func(one erase.Step) bool { return one.Name == "causes" })
			b.MustWrite(func(tx *sql.Tx) error {
				_, err := EraseSteps[step].Run(b.Ctx, tx, erase.StepPosition{User: 2})
				return err
			})
		}},
		"removed category": {Cause{Recipient: 1, Category: orders, Subject: 70, Object: 70}, func(b *testDB) {
			b.MustWrite(func(tx *sql.Tx) error { return purgeCategoryRows(b.Ctx, tx, orders, []services.UserID{1}) })
		}},
	} {
		t.Run(what, func(t *testing.T) {
			eachTestDB(t, func(b *testDB) {
				b.storeOrdersNotification(70)
				b.insertPosts(1, 5, 6)
				b.like(5, 2)
				shown := b.applyCauses(goes.shown)[0].NewestShown
				b.Clock.Advance(time.Second)
				others := b.notifyOtherUser(shown)
				b.Clock.Advance(time.Second)
				b.like(6, 3)
				b.applyCauses(newLikeCause(6, 3))
				goes.gone(b)
				if left := sqltest.Must(readNotificationsAt(b.Ctx, b.DB, 1, []services.NotificationID{shown}, nil, nil))(b.T); len(left) > 0 {
					t.Fatalf("what was shown is there: %+v", left)
				}
				state := b.markLikesSeen(shown)
				if state.SeenTo != shown || state.UnseenByDay[0] != 1 {
					t.Errorf("after the mark %+v, want seen up to %d and the later one unseen", state, shown)
				}
				if err := b.runMark(func(tx *sql.Tx) error {
					_, err := markSeen(b.Ctx, tx, 1, []services.Category{likeCategory}, others)
					return err
				}); services.CodeOf(err) != services.NotFound {
					t.Errorf("a mark up to another's: %v", err)
				}
			})
		})
	}
}

// notifyOtherUser makes a notification of user 9 and returns its position, which is greater than the given position of user 1.
func (b *testDB) notifyOtherUser(after services.NotificationID) services.NotificationID {
	b.T.Helper()
	b.insertPosts(9, 50)
	b.like(50, 2)
	position := b.applyCauses(Cause{Recipient: 9, Category: likeCategory, Subject: 50, Actor: 2})[0].NewestShown
	if position <= after {
		b.T.Fatalf("another's position %d is not after %d", position, after)
	}
	b.unlike(50, 2)
	return position
}

// storeOrdersNotification stores a host notification in the category orders.
func (b *testDB) storeOrdersNotification(id services.HostNotificationID) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error {
		_, err := sqltest.QueryLines(b.Ctx, tx, fmt.Sprintf(`INSERT INTO host_notifications
			(id, category, subject, group_key, actor, about_type, about, title, body, at, recipients, withdrawn_at)
			VALUES (%d, 'orders', %d, '', 0, '', 0, 'sent', '', 1, 1, 0)`, id, id))
		return err
	})
}
