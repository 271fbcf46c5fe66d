package notifications

import (
	"context"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/posts"
	"tidings/services/sql"
)

// A mention by an edit of a past time that ended before it was applied has the time of the edit, and not that of its post.
func TestAnEndedMentionHasTheTimeOfItsEdit(t *testing.T) {
	each(t, func(t *testing.T, n node) {
		users := n.Users(2)
		post := n.Posts(users[1], 1)[0]
		n.Clock.Advance(time.Hour)
		edited := services.NewIDClock(n.Clock, 1).NextAt(n.Clock.Now())
		n.Clock.Advance(time.Hour)
		cause := Cause{Recipient: users[0], Category: services.CategoryMention, Subject: post, Actor: users[1]}
		apply := func(moment services.PostID, mentions ...services.UserID) {
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
		if list := n.listed(users[0], 10); len(list) != 1 || !list[0].At.Equal(edited.Moment()) {
			t.Errorf("listed are %+v, want one notification at %s", list, edited.Moment())
		}
	})
}

// More causes have come in a millisecond than the range of one event holds. Causes of that millisecond that are reported later get
// free positions behind them.
func TestAPastCauseFindsAPlaceInAFullMillisecond(t *testing.T) {
	each(t, func(t *testing.T, n node) {
		users := n.Users(2)
		list := n.Posts(users[0], 3)
		at := n.Clock.Now().Truncate(time.Millisecond)
		n.Write(func(ctx context.Context, tx *sql.Tx) error {
			b, err := lockCounters(ctx, tx, []counter{{users[0], services.CategoryFollow}})
			if err != nil {
				return err
			}
			first := services.FirstPosition(at, users[0])
			var full []newCause
			for i := range services.PostID(2 * positionsPerEvent) {
				full = append(full, newCause{Cause: Cause{Recipient: users[0], Category: services.CategoryFollow, Actor: services.UserID(1000 + i)}, at: sql.Micros(at), place: first + i})
			}
			b.heads[users[0]].place, b.heads[users[0]].changed = full[len(full)-1].place, true
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
				causes = append(causes, Cause{Recipient: users[0], Category: services.CategoryLike, Subject: post, Actor: users[1], Moment: moments.NextAt(at)})
			}
			_, err := applyCauses(ctx, tx, causes)
			return err
		})
		if got := len(n.listed(users[0], 10)); got != len(list) {
			t.Errorf("%d notifications are listed, want %d", got, len(list))
		}
	})
}
