package live

import (
	"context"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/notifications"
	"tidings/services/sql"
)

// Remind is the command by which a user sets or cancels a reminder of an upcoming show; the command's one ID is the show's. A reminder
// that is as requested already stays. Cancelling a reminder after the start also removes its notification. The error is NOT_FOUND if
// there is no such show or it is hidden from the user; CONFLICT for setting a reminder when the show has started or was
// cancelled, or when the user has too many reminders; and INVALID for the user's own show.
func (s *Service) Remind(user services.UserID, id services.ShowID, remind bool) *jobs.Command {
	name := "remindMe"
	if !remind {
		name = "cancelReminder"
	}
	return &jobs.Command{
		Name: name, Actor: user,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			show, err := visibleShow(ctx, tx, user, "showId", id)
			if err != nil {
				return nil, err
			}
			if tx.EventMoment() != 0 { // the show may have been due for closing before this past event, although its job has not run
				show, _ = s.limits.close(show, tx.EventTime())
			}
			var changed bool
			if remind {
				changed, err = addReminder(ctx, tx, user, show)
			} else {
				changed, err = dropReminder(ctx, tx, user, show)
			}
			if err == nil && !changed {
				err = jobs.ErrUnchanged
			}
			return []string{show.GlobalID()}, err
		},
	}
}

// addReminder sets a user's reminder of an upcoming show, and checks how many reminders they have; false if it was set already.
func addReminder(ctx context.Context, tx *sql.Tx, user services.UserID, show Show) (added bool, err error) {
	if show.Host == user {
		return false, services.Errorf(services.Invalid, "showId: %s is your own show", show.GlobalID())
	}
	// This comes before the checks of the status and the limit: repeating a reminder that was set in time changes nothing, whatever
	// the show's status is by now.
	if added, err = putReminder(ctx, tx, show.ID, user); err != nil || !added {
		return false, err
	}
	if show.Status != ShowUpcoming { // a reminder that was set in time returned above, unchanged
		return false, services.Errorf(services.Conflict, "showId: %s is %s: only an upcoming show can be waited for", show.GlobalID(), show.Status)
	}
	reminders, err := countReminders(ctx, tx, user, maxReminders+1) // including this reminder, which an error rolls back
	if err == nil && reminders > maxReminders {
		err = services.Errorf(services.Conflict, "showId: at most %d upcoming shows can be waited for", maxReminders)
	}
	tx.EnforceLimit(upcomingReminderLimit, user, maxReminders)
	return true, err
}

// dropReminder removes a user's reminder and, after the start of the show, its notification; false if there was no reminder.
func dropReminder(ctx context.Context, tx *sql.Tx, user services.UserID, show Show) (dropped bool, err error) {
	dropped, err = removeReminder(ctx, tx, show.ID, user)
	if err != nil || !dropped || show.StartedAt.IsZero() {
		return dropped, err
	}
	// The show has started, so the reminder's notification exists or will soon. The job reads the facts of its cause: it finds no
	// reminder, and removes the notification.
	notify, err := notifications.NotifyJob(notifications.Cause{Recipient: user, Category: services.CategoryReminder, Subject: services.SortableID(show.ID), Actor: show.Host, Moment: tx.EventMoment()})
	if err != nil {
		return false, err
	}
	return true, jobs.Enqueue(ctx, tx, notify)
}

// RemindedShows returns which of the given shows a user has a reminder of.
func (s *Service) RemindedShows(ctx context.Context, user services.UserID, shows []services.ShowID) (map[services.ShowID]bool, error) {
	return remindedShows(ctx, s.db, user, shows)
}

// Shows reads shows as they are now: from SQL if facts is set, because the cache may lack a change that was just made.
func (s *Service) Shows(ctx context.Context, ids []services.ShowID, facts bool) (map[services.ShowID]Show, error) {
	if facts {
		return readShows(ctx, s.db.Runner, ids)
	}
	return s.Memory.Shows(ctx, ids)
}
