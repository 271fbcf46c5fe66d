package live

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/sql"
)

// Schedule is the command by which a host announces a show; the command's one ID is the show's. The error is INVALID for a text that
// does not fit or a plan that is not in the future or too far ahead, and CONFLICT if too many shows of the host are upcoming.
func (s *Service) Schedule(host services.UserID, draft ShowDraft) *jobs.Command {
	return &jobs.Command{
		Name: "scheduleShow", Actor: host,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			// The lock comes before the ID: two past events of one millisecond take their IDs one after the other.
			if err := s.lockLog(ctx, tx); err != nil {
				return nil, err
			}
			id, err := tx.NewIDInTable(ctx, s.ids, newestOfMillisecond)
			if err != nil {
				return nil, err
			}
			show, err := scheduleShow(services.ShowID(id), host, draft, s.now(tx))
			if err != nil {
				return nil, err
			}
			// The lock of the log is held: two announcements at once cannot both be the thousandth.
			upcoming, err := countUpcoming(ctx, tx, host, maxUpcomingShows)
			if err != nil {
				return nil, err
			}
			if upcoming >= maxUpcomingShows {
				return nil, services.Errorf(services.Conflict, "at most %d shows of one host can be upcoming", maxUpcomingShows)
			}
			show, err = s.addShow(ctx, tx, show)
			return []string{show.GlobalID()}, err
		},
		AfterCommit: s.Memory.Refresh, CoalesceKey: showsCoalesceKey,
	}
}

// showsCoalesceKey is the CoalesceKey of the commands of shows, which all update this node's cache of shows. One Refresh after the
// commit serves all commands of an actor that were committed together.
const showsCoalesceKey = "shows"

// Reschedule is the command by which a host edits their show. The error is INVALID for a text that does not fit, a plan that is not
// in the future or too far ahead, or an edit without a field, and CONFLICT if the show was cancelled, or if its plan changes and it
// is not upcoming or its end was reported. This command and all commands below fail with NOT_FOUND if there is no such show or it
// is hidden, and with FORBIDDEN for another host's show. A change that is already in effect is no error.
func (s *Service) Reschedule(host services.UserID, id services.ShowID, edit ShowEdit) (*jobs.Command, error) {
	if edit == (ShowEdit{}) {
		return nil, services.Errorf(services.Invalid, "plannedAt, title, coverUrl, url and data: at least one of them is needed")
	}
	return s.changeCommand("rescheduleShow", host, id, func(show Show, now time.Time) (Show, bool, error) {
		return show.reschedule(edit, now)
	}), nil
}

// Relabel is the command by which a host changes the labels of a show. The show itself does not change. The error is CONFLICT if the
// show was cancelled.
func (s *Service) Relabel(host services.UserID, id services.ShowID) *jobs.Command {
	return s.changeCommand("rescheduleShow", host, id, func(show Show, now time.Time) (Show, bool, error) {
		return show.reschedule(ShowEdit{}, now)
	})
}

// Start is the command by which a host's show goes live, at a time; the zero time is now. The error is CONFLICT if the show was
// cancelled, and INVALID for a time in the future or before the show was scheduled. The command notifies the users with a
// reminder.
func (s *Service) Start(host services.UserID, id services.ShowID, at time.Time) *jobs.Command {
	return s.changeCommand("startShow", host, id, func(show Show, now time.Time) (Show, bool, error) {
		return show.start(at, now)
	})
}

// End is the command by which a host's show ends, at a time; the zero time is now. replayURL is the address of the replay, "" for
// none yet. An end that is reported before the start is kept until the start is reported. The error is CONFLICT if the show was
// cancelled, and INVALID for a bad address, or for a time in the future or before the show was scheduled or started.
func (s *Service) End(host services.UserID, id services.ShowID, at time.Time, replayURL string) *jobs.Command {
	return s.changeCommand("endShow", host, id, func(show Show, now time.Time) (Show, bool, error) {
		return show.end(at, replayURL, now)
	})
}

// Cancel is the command by which a host cancels their show. The error is CONFLICT if it is live or over, or its end was reported.
func (s *Service) Cancel(host services.UserID, id services.ShowID) *jobs.Command {
	return s.changeCommand("cancelShow", host, id, Show.cancel)
}

// SetReplay is the command by which a host sets the address of a show's replay; "" removes it. The error is CONFLICT if the show
// was cancelled, and INVALID for a bad address.
func (s *Service) SetReplay(host services.UserID, id services.ShowID, replayURL string) *jobs.Command {
	return s.changeCommand("setReplay", host, id, func(show Show, now time.Time) (Show, bool, error) {
		return show.setReplay(replayURL, now)
	})
}

// changeCommand is a command that changes one show of a host by a transition, or changes nothing when the show is already as
// requested. The command's one ID is the show's.
func (s *Service) changeCommand(name string, host services.UserID, id services.ShowID,
	transition func(show Show, now time.Time) (Show, bool, error)) *jobs.Command {
	return &jobs.Command{
		Name: name, Actor: host,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			before, err := s.lockAndRead(ctx, tx, id)
			if err := people.CheckIsAuthor(ctx, tx, host, before.Host, err, "showId", services.GlobalID(services.ShowType, id.String()), "show"); err != nil {
				return nil, err
			}
			// This comes before the transition, so that the transition is judged by the state of the show at the time of the event.
			if before, err = s.closeIfOverdue(ctx, tx, before); err != nil {
				return nil, err
			}
			after, changed, err := transition(before, s.now(tx))
			if err == nil && !changed {
				err = jobs.ErrUnchanged
			}
			if err != nil {
				return []string{before.GlobalID()}, err
			}
			_, err = s.changeShow(ctx, tx, before, after)
			return []string{after.GlobalID()}, err
		},
		AfterCommit: s.Memory.Refresh, CoalesceKey: showsCoalesceKey,
	}
}

// closeIfOverdue closes a show that was overdue when a past event happened. Had the event been reported in time, a job would have
// closed the show first, so the event must find it closed.
func (s *Service) closeIfOverdue(ctx context.Context, tx *sql.Tx, before Show) (Show, error) {
	// For an event of the present, the job closes the show. If a host reports a late start just before the job runs, the show
	// starts as if the limit had not passed.
	if tx.EventMoment() == 0 {
		return before, nil
	}
	closed, changed := s.limits.close(before, tx.EventTime())
	if !changed {
		return before, nil
	}
	return s.changeShow(ctx, tx, before, closed)
}

// now is the time of a transaction's event: the transaction's time, but not before the newest ID that this node has made or seen.
// So no report seems to come from the future after the clock was set back.
func (s *Service) now(tx *sql.Tx) time.Time {
	if tx.EventMoment() != 0 {
		return tx.EventTime()
	}
	if latest := tx.ReadClock(s.ids.Now); latest.After(tx.Now) {
		return latest
	}
	return tx.Now
}
