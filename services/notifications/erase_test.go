package notifications

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"tidings/services/erase"
	"tidings/services/sql"
)

// What a user caused for one recipient is removed by pages: a transaction for all of it would keep the recipient's others waiting.
func TestAnActorIsErasedByPages(t *testing.T) {
	const count = 2*erase.Batch + erase.Batch/2
	n := served(t, nil, causesPerPage)
	users := n.Users(3)
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		for i := range count {
			if _, err := tx.Lines(ctx, fmt.Sprintf(`INSERT INTO notification_causes (recipient, category, subject, actor, object, place, bucket, at, standing)
				VALUES (%d, 'LIKE', %d, %d, 0, %d, 1, 1, %v)`, users[0], i+1, users[1], i+1, i%2 == 0)); err != nil {
				return err
			}
		}
		return nil
	})
	step := slices.IndexFunc(Erase, func(one erase.Step) bool { return one.Name == "causes" })
	removed, steps := 0, 0
	for more, at := true, (erase.At{User: users[1]}); more; steps++ {
		n.Write(func(ctx context.Context, tx *sql.Tx) error {
			done, err := Erase[step].Run(ctx, tx, at)
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
