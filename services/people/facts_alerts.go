package people

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// The end of a mute raises a follower's counts, and so does a mode in which more counts. What came before is no news then: the user did
// not want to hear of it when it was.
var (
	setAlertsFrom = sql.NewStatement("alert of later items only", `UPDATE users SET alerts_from = $2 WHERE number = $1`)

	alertsFrom = sql.NewStatement("when alerts of users begin", `SELECT number, alerts_from FROM users WHERE {in number $1 BIGINT} AND alerts_from > 0`)
)

// alertFromNow keeps posts and shows from before this transaction from alerting a user whose follows let them count again.
func alertFromNow(ctx context.Context, tx *sql.Tx, user services.UserID) error {
	_, err := tx.Run(ctx, setAlertsFrom, user, tx.Now)
	return err
}

// AlertsFrom reads from when on posts and shows alert some users. A user whom all of them alert is absent.
func AlertsFrom(ctx context.Context, r sql.Reader, users []services.UserID) (map[services.UserID]time.Time, error) {
	from := map[services.UserID]time.Time{}
	if len(users) == 0 {
		return from, nil
	}
	err := r.Each(ctx, alertsFrom, []any{users}, func(scan func(...any) error) error {
		var user services.UserID
		var at int64
		err := scan(&user, &at)
		from[user] = sql.FromMicros(at)
		return err
	})
	return from, err
}
