package notifications

import (
	"context"

	"tidings/services"
	"tidings/services/sql"
)

// newestActions reads, in each group, the causes from the time of the $3-th newest on. It reads all causes of that time, and the
// caller drops those beyond the limit.
var newestActions = sql.NewStatement("newest causes of notifications", `
SELECT c.i, n.actor, n.object FROM {rows $2 i BIGINT, category TEXT, subject BIGINT, bucket BIGINT} AS c CROSS JOIN notification_causes n
WHERE `+inGroupCondition("n")+` AND n.at >= COALESCE((SELECT m.at FROM notification_causes m WHERE `+inGroupCondition("m")+` ORDER BY m.at DESC LIMIT 1 OFFSET $3 - 1), 0)
ORDER BY c.i, n.at DESC, n.object DESC, n.actor DESC`)

// Action is one of the actions that a notification groups. Callers read its contents by Actor and Object.
type Action struct {
	Actor  services.UserID
	Object services.SortableID // COMMENT: the comment; host categories: the host notification; else 0
}

// Actions reads the newest actions behind some of a user's notifications, newest first, at most limit of each. The i-th list
// belongs to the i-th notification. One query reads all.
func (s *Service) Actions(ctx context.Context, user services.UserID, of []Notification, limit int) ([][]Action, error) {
	// Each row returns i, the index of its group. A group without a standing cause has no rows, and its list stays nil.
	asked, actions := make(sql.RowsParameter, len(of)), make([][]Action, len(of))
	for i, n := range of {
		// The time of the newest cause gives the half day of the group.
		asked[i] = []any{i, n.Category, n.Subject, halfDayOf(sql.Micros(n.At))}
	}
	err := s.db.Each(ctx, newestActions, []any{user, asked, limit}, func(scan func(...any) error) error {
		var i int
		var action Action
		err := scan(&i, &action.Actor, &action.Object)
		// The statement cuts at a time and not at a row, so the causes of the last time may exceed the limit.
		if len(actions[i]) < limit {
			actions[i] = append(actions[i], action)
		}
		return err
	})
	return actions, err
}
