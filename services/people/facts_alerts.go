package people

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// The end of a mute raises a follower's counts, and so does a mode in which more counts. Items from before such a change do not
// alert the user, who did not want to be alerted when they came.
var (
	// setAlertsFrom is for posts and shows, and setMessagesAlertFrom for messages.
	setAlertsFrom = sql.NewStatement("alert of later items only", `UPDATE users SET alerts_from = $2 WHERE number = $1`)

	setMessagesAlertFrom = sql.NewStatement("alert of later messages only", `UPDATE users SET messages_alert_from = $2 WHERE number = $1`)

	alertsFrom = sql.NewStatement("when alerts of users begin", `SELECT number, alerts_from, messages_alert_from FROM users
WHERE {in number $1 BIGINT} AND (alerts_from > 0 OR messages_alert_from > 0)`)
)

// AlertStarts has the times from which on a user's items alert; the zero time means that all items do.
type AlertStarts struct {
	PostsAndShows time.Time // posts and shows
	Messages      time.Time // of conversations
}

// alertFollowsFromNow keeps posts and shows from before this transaction from alerting a user whose follows let them count again. It
// uses tx.Now also for a past event, because alerts are sent now.
func alertFollowsFromNow(ctx context.Context, tx *sql.Tx, user services.UserID) error {
	_, err := tx.Run(ctx, setAlertsFrom, user, tx.Now)
	return err
}

// AlertMessagesFromNow keeps messages from before this transaction from alerting a user after a conversation counts for them again.
func AlertMessagesFromNow(ctx context.Context, tx *sql.Tx, user services.UserID) error {
	_, err := tx.Run(ctx, setMessagesAlertFrom, user, tx.Now)
	return err
}

// ReadAlertStarts reads the AlertStarts of some users. A user that all items alert is absent.
func ReadAlertStarts(ctx context.Context, r sql.Reader, users []services.UserID) (map[services.UserID]AlertStarts, error) {
	if len(users) == 0 {
		return map[services.UserID]AlertStarts{}, nil
	}
	return sql.ReadByKey(ctx, r, alertsFrom, []any{users}, func(scan sql.Scan, user *services.UserID, from *AlertStarts) error {
		var follows, messages int64
		err := scan(user, &follows, &messages)
		*from = AlertStarts{sql.FromMicrosOrZero(follows), sql.FromMicrosOrZero(messages)}
		return err
	})
}
