package live

import (
	"context"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/erase"
	"tidings/services/sql"
)

var (
	showsToErase = sql.NewStatement("shows to erase", `SELECT id FROM shows WHERE host = $1 AND id > $2 ORDER BY id LIMIT $3`)

	// A subselect with a limit bounds the transaction: PostgreSQL has no DELETE with LIMIT.
	deleteShowReminders = sql.NewStatement("reminders of erased shows", `DELETE FROM reminders
		WHERE (show, user_number) IN (SELECT show, user_number FROM reminders WHERE {in show $1 BIGINT} LIMIT $2)`)

	deleteShowHistory = sql.NewStatement("history of erased shows", `DELETE FROM show_history WHERE {in show $1 BIGINT}`)

	// The conditions on host and status are a safeguard: an earlier pass has cancelled all of these shows.
	deleteShows = sql.NewStatement("erase shows", `DELETE FROM shows WHERE {in id $1 BIGINT} AND host = $2 AND status = 3`)
)

// EraseSteps are the steps that remove a host's shows from all boards and lists, and a user's reminders. The row in hosts goes last:
// without it logChange would not append to the changelog the entries that take the shows off boards.
func (s *Service) EraseSteps() []erase.Step {
	return []erase.Step{
		erase.DeleteRows("reminders", "reminders", "user_number", "show, user_number"),
		{Name: "shows.reminders", Run: eraseReminders},
		erase.UndoFoundRows("shows", showsToErase, nil, s.eraseShows),
		erase.DeleteRows("", "hosts", "host", "host"),
	}
}

// eraseReminders deletes the reminders that others have of a host's shows. Another step erases the notifications of these
// reminders.
func eraseReminders(ctx context.Context, tx *sql.Tx, at erase.StepPosition) (erase.StepResult, error) {
	shows, err := sql.ReadColumn[int64](ctx, tx, showsToErase, at.User, at.ResumeAfter, erase.RowsPerRun)
	if err != nil || len(shows) == 0 {
		return erase.StepResult{}, err
	}
	n, err := tx.Run(ctx, deleteShowReminders, shows, erase.RowsPerRun)
	done := erase.StepResult{ResumeAfter: shows[len(shows)-1], More: len(shows) == erase.RowsPerRun}
	// This page of shows has more reminders than one step deletes: the next step begins with the same shows.
	if n == erase.RowsPerRun {
		done = erase.StepResult{ResumeAfter: at.ResumeAfter, More: true}
	}
	return done, err
}

// eraseShows cancels shows of any status and removes their texts. A later pass deletes their rows: by then no node has the
// shows on boards any more.
func (s *Service) eraseShows(ctx context.Context, tx *sql.Tx, at erase.StepPosition, found []int64) (map[string]int, error) {
	removed := 0
	for _, id := range found {
		show, err := s.lockAndRead(ctx, tx, services.ShowID(id))
		if err != nil {
			return nil, err
		}
		// An earlier pass has cancelled this show: no other show has an empty title.
		if show.Status == ShowCancelled && show.Title == "" {
			continue
		}
		removed++
		if show.Status == ShowLive { // followers see the show end
			ended, _, err := show.end(s.now(tx), "", s.now(tx))
			if err != nil {
				ended = show
			}
			if show, err = s.changeShow(ctx, tx, show, ended); err != nil {
				return nil, err
			}
		}
		gone := show
		gone.Status, gone.CancelledAt = ShowCancelled, wholeMillis(s.now(tx))
		gone.Title, gone.CoverURL, gone.ReplayURL = "", "", ""
		if gone, _, err = show.changedTo(gone, s.now(tx)); err != nil {
			return nil, err
		}
		if _, err := s.changeShow(ctx, tx, show, gone); err != nil {
			return nil, err
		}
	}
	if removed > 0 || !at.LaterPass {
		return erase.RemovedCounts("shows", removed), nil
	}
	// No board has these shows any more. Now their payloads in the changelog, their former positions and their rows are deleted.
	keys := services.Map(found, func(id int64) string { return services.ShowID(id).String() })
	// A blank entry makes a node that reads it later reload all shows.
	if err := changelog.BlankEntries(ctx, tx, ChangelogKind, keys); err != nil {
		return nil, err
	}
	if _, err := tx.Run(ctx, deleteShowHistory, found); err != nil {
		return nil, err
	}
	_, err := tx.Run(ctx, deleteShows, found, at.User)
	return nil, err
}
