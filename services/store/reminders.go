package store

import (
	"context"

	"tidings/services"
	"tidings/services/sql"
)

var (
	insertReminder = sql.NewStatement("insert a reminder", `INSERT INTO reminders (show, user_number, made) VALUES ($1, $2, $3)
		ON CONFLICT (show, user_number) DO NOTHING`)

	deleteReminder = sql.NewStatement("delete a reminder", `DELETE FROM reminders WHERE show = $1 AND user_number = $2`)

	remindersOf = sql.NewStatement("reminders of a show", `SELECT m.user_number FROM reminders m CROSS JOIN shows s
		WHERE m.show = $1 AND m.user_number > $2 AND s.id = $1
			AND 0 = (SELECT count(*) FROM blocks b WHERE b.blocker = s.host AND b.blocked = m.user_number)
		ORDER BY m.user_number LIMIT $3`)

	remindsOf = sql.NewStatement("reminders of a user", `SELECT show FROM reminders WHERE user_number = $1 AND {in show $2 BIGINT}`)

	countReminders = sql.NewStatement("count reminders", `SELECT count(*) FROM (
		SELECT 1 FROM (SELECT m.show FROM reminders m WHERE m.user_number = $1 ORDER BY m.show DESC LIMIT $3) AS newest
		CROSS JOIN shows s WHERE s.id = newest.show AND s.status = 0 LIMIT $2) AS counted`)
)

// RemindersLooked is how many reminders a count looks at for each that it may count.
const RemindersLooked = 4

// AddReminder notes that a user wants to be told when a show starts; false when that is noted already. The caller has locked
// the show, so that it does not start meanwhile.
func (tx *Tx) AddReminder(ctx context.Context, show services.PostID, user services.UserID) (added bool, err error) {
	inserted, err := tx.Run(ctx, insertReminder, show, user, tx.Now)
	return inserted > 0, err
}

// DropReminder notes that a user does not want to be told any more; false when he did not.
func (tx *Tx) DropReminder(ctx context.Context, show services.PostID, user services.UserID) (dropped bool, err error) {
	deleted, err := tx.Run(ctx, deleteReminder, show, user)
	return deleted > 0, err
}

// CountReminders says of how many shows that are still upcoming a user wants to be told, counting no further than limit, and
// among those that were made known last: the reminders of shows that are over stay, and a count must not grow with them.
func (tx *Tx) CountReminders(ctx context.Context, user services.UserID, limit int) (count int, err error) {
	_, err = tx.One(ctx, countReminders, []any{user, limit, limit * RemindersLooked}, &count)
	return count, err
}

// Reminders lists who wants to be told of a show's start, by their numbers, those greater than after, at most limit. Whom its
// host has blocked since is left out, as he could not ask for it now.
func (s *Store) Reminders(ctx context.Context, show services.PostID, after services.UserID, limit int) ([]services.UserID, error) {
	return numbers(ctx, s.DB.Runner, remindersOf, show, after, limit)
}

// RemindsOf says of which of some shows a user wants to be told.
func (s *Store) RemindsOf(ctx context.Context, user services.UserID, shows []services.PostID) (map[services.PostID]bool, error) {
	reminds := make(map[services.PostID]bool)
	err := s.Each(ctx, remindsOf, []any{user, shows}, func(scan func(...any) error) error {
		var show services.PostID
		err := scan(&show)
		reminds[show] = true
		return err
	})
	return reminds, err
}
