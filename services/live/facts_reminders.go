package live

import (
	"context"
	"fmt"

	"tidings/services"
	"tidings/services/sql"
)

var (
	insertReminder = sql.NewStatement("insert a reminder", `INSERT INTO reminders (show, user_number, made) VALUES ($1, $2, $3)
		ON CONFLICT (show, user_number) DO NOTHING`)

	deleteReminder = sql.NewStatement("delete a reminder", `DELETE FROM reminders WHERE show = $1 AND user_number = $2`)

	// The join drops the reminders of a show whose row is gone. PostgreSQL plans a scalar count as one look-up by key for each
	// row; NOT EXISTS may become a join with all blocks of the host.
	showReminders = sql.NewStatement("reminders of a show", `SELECT m.user_number FROM reminders m CROSS JOIN shows s
		WHERE m.show = $1 AND m.user_number > $2 AND s.id = $1
			AND 0 = (SELECT count(*) FROM blocks b WHERE b.blocker = s.host AND b.blocked = m.user_number)
		ORDER BY m.user_number LIMIT $3`)

	userReminders = sql.NewStatement("reminders of a user", `SELECT show FROM reminders WHERE user_number = $1 AND {in show $2 BIGINT}`)

	// The inner limit bounds the reminders that are read, the outer limit those that are counted. The newest IDs are the shows
	// that were announced last.
	remindersCounted = sql.NewStatement("count reminders", `SELECT count(*) FROM (
		SELECT 1 FROM (SELECT m.show FROM reminders m WHERE m.user_number = $1 ORDER BY m.show DESC LIMIT $3) AS newest
		CROSS JOIN shows s WHERE s.id = newest.show AND s.status = 0 LIMIT $2) AS counted`)

	// remindersWithinLimit returns a row if no user of $1 has more reminders of upcoming shows than allowed. It reads a bounded number of
	// the newest reminders of each user, because the reminders of past shows stay: see remindersReadFactor.
	remindersWithinLimit = sql.NewStatement("whether users have too many reminders", fmt.Sprintf(`SELECT 1
		WHERE NOT EXISTS (SELECT 1 FROM {rows $1 owner BIGINT, most BIGINT} AS c WHERE c.most < (SELECT count(*) FROM (
			SELECT m.show FROM reminders m WHERE m.user_number = c.owner ORDER BY m.show DESC LIMIT %d) AS newest
			CROSS JOIN shows s WHERE s.id = newest.show AND s.status = 0))`, remindersReadFactor*(maxReminders+1)))
)

// upcomingReminderLimit is the limit of how many upcoming shows a user has reminders of.
var upcomingReminderLimit = sql.NewOwnerLimit("reminders", remindersWithinLimit)

// remindersReadFactor bounds the reminders that a count reads, as a multiple of the count's limit. If more than three of four of
// these reminders are of past shows, the count may be too low, and a user can exceed the limit. The count is never too high, so
// no reminder is refused wrongly.
const remindersReadFactor = 4

// putReminder records a user's wish to be notified when a show starts; false if it is recorded already. The caller has
// locked the show, so that it cannot start meanwhile.
func putReminder(ctx context.Context, tx *sql.Tx, show services.ShowID, user services.UserID) (added bool, err error) {
	inserted, err := tx.Run(ctx, insertReminder, show, user, tx.EventTime())
	return inserted > 0, err
}

// removeReminder removes a user's reminder of a show; false if there was none.
func removeReminder(ctx context.Context, tx *sql.Tx, show services.ShowID, user services.UserID) (dropped bool, err error) {
	deleted, err := tx.Run(ctx, deleteReminder, show, user)
	return deleted > 0, err
}

// countReminders counts a user's reminders of shows that are still upcoming, up to limit. It reads only the shows that were
// announced last: reminders of past shows stay, and the cost of a count must not grow with them.
func countReminders(ctx context.Context, tx *sql.Tx, user services.UserID, limit int) (count int, err error) {
	_, err = tx.One(ctx, remindersCounted, []any{user, limit, limit * remindersReadFactor}, &count)
	return count, err
}

// readReminders lists the users with a reminder of a show and a user ID above after, at most limit, in order of user ID. Users
// that the host has blocked since are omitted, because they could not set a reminder now.
func readReminders(ctx context.Context, db *sql.DB, show services.ShowID, after services.UserID, limit int) ([]services.UserID, error) {
	return sql.ReadColumn[services.UserID](ctx, db, showReminders, show, after, limit)
}

// remindedShows returns those of the given shows of which a user has a reminder.
func remindedShows(ctx context.Context, db *sql.DB, user services.UserID, shows []services.ShowID) (map[services.ShowID]bool, error) {
	return sql.ReadSet[services.ShowID](ctx, db, userReminders, user, sql.Numbers(shows))
}
