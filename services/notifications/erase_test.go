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
	const count = 2*erase.Batch + erase.Batch/2
	n := served(t, nil, causesPerPage)
	users := n.MakeUsers(3)
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		for i := range count {
			if _, err := tx.Lines(ctx, fmt.Sprintf(`INSERT INTO notification_causes (recipient, category, subject, actor, object, place, bucket, at, standing)
				VALUES (%d, 'LIKE', %d, %d, 0, %d, 1, 1, %v)`, users[0], i+1, users[1], i+1, i%2 == 0)); err != nil {
				return err
			}
		}
		return nil
	})
	step := slices.IndexFunc(EraseSteps, func(one erase.Step) bool { return one.Name == "causes" })
	removed, steps := 0, 0
	for more, at := true, (erase.Position{User: users[1]}); more; steps++ {
		n.Write(func(ctx context.Context, tx *sql.Tx) error {
			done, err := EraseSteps[step].Run(ctx, tx, at)
			if one := done.Removed["notificationsOfOthers"]; one > erase.Batch {
				t.Errorf("a step removed %d", one)
			} else {
				removed += one
			}
			at.After, more = done.After, done.More
			return err
		})
	}
	if removed != count || steps > 10 {
		t.Errorf("removed %d of %d in %d steps", removed, count, steps)
	}
}

// A position was shown, and then its row was deleted: its actor was erased, or the host category was removed. Other notifications
// have come since. A mark up to that position still works. Positions in other users' lists are still refused.
func TestAMarkMayEndAtADeletedPosition(t *testing.T) {
	const orders = services.Category("orders")
	for what, goes := range map[string]struct {
		shown Cause
		gone  func(b *bundle)
	}{
		"erased actor": {cause(5, 2), func(b *bundle) {
			b.unlike(5, 2)
			step := slices.IndexFunc(EraseSteps, func(one erase.Step) bool { return one.Name == "causes" })
			b.MustWrite(func(tx *sql.Tx) error {
				_, err := EraseSteps[step].Run(b.Ctx, tx, erase.Position{User: 2})
				return err
			})
		}},
		"removed category": {Cause{Recipient: 1, Category: orders, Subject: 70, Object: 70}, func(b *bundle) {
			b.MustWrite(func(tx *sql.Tx) error { return purgeRows(b.Ctx, tx, orders, []services.UserID{1}) })
		}},
	} {
		t.Run(what, func(t *testing.T) {
			eachBundle(t, func(b *bundle) {
				b.tellOrders(70)
				b.post(1, 5, 6)
				b.like(5, 2)
				shown := b.apply(goes.shown)[0].Head
				b.Clock.Advance(time.Second)
				others := b.notifyOther(shown)
				b.Clock.Advance(time.Second)
				b.like(6, 3)
				b.apply(cause(6, 3))
				goes.gone(b)
				if left := sqltest.Must(readAt(b.Ctx, b.DB, 1, []services.PostID{shown}, nil, nil))(b.T); len(left) > 0 {
					t.Fatalf("what was shown is there: %+v", left)
				}
				state := b.see(shown)
				if state.Seen != shown || state.Days[0] != 1 {
					t.Errorf("after the mark %+v, want seen up to %d and the later one unseen", state, shown)
				}
				if err := b.runMark(func(tx *sql.Tx) error {
					_, err := raiseSeen(b.Ctx, tx, 1, []services.Category{like}, others)
					return err
				}); services.CodeOf(err) != services.NotFound {
					t.Errorf("a mark up to another's: %v", err)
				}
			})
		})
	}
}

// notifyOther makes a notification of user 9 and returns its position, which is greater than the given position of user 1.
func (b *bundle) notifyOther(after services.PostID) services.PostID {
	b.T.Helper()
	b.post(9, 50)
	b.like(50, 2)
	place := b.apply(Cause{Recipient: 9, Category: like, Subject: 50, Actor: 2})[0].Head
	if place <= after {
		b.T.Fatalf("another's position %d is not after %d", place, after)
	}
	b.unlike(50, 2)
	return place
}

// tellOrders stores a host notification in the category orders.
func (b *bundle) tellOrders(id services.PostID) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error {
		_, err := tx.Lines(b.Ctx, fmt.Sprintf(`INSERT INTO host_notifications
			(id, category, subject, group_key, actor, about_type, about, title, body, at, recipients, withdrawn_at)
			VALUES (%d, 'orders', %d, '', 0, '', 0, 'sent', '', 1, 1, 0)`, id, id))
		return err
	})
}
