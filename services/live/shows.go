package live

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/jobs"
	"tidings/services/mirror"
	"tidings/services/sql"
	"tidings/services/store"
)

// Schedule is the command by which a host announces a show; its one id is the show's. INVALID for a text that does not fit or a plan
// that is not in the future; CONFLICT when too many of his are upcoming.
func (s *Service) Schedule(host services.UserID, draft services.ShowDraft) *jobs.Command {
	return &jobs.Command{
		Name: "scheduleShow", Actor: host,
		Apply: func(ctx context.Context, in *sql.Tx) ([]string, error) {
			tx := store.In(in)
			show, err := services.ScheduleShow(tx.NewID(s.ids), host, draft, s.now(tx))
			if err != nil {
				return nil, err
			}
			if _, err := changelog.LockLog(ctx, tx.Tx, mirror.LogShow); err != nil {
				return nil, err
			}
			upcoming, err := tx.CountUpcoming(ctx, host, services.MaxUpcomingShows)
			if err != nil {
				return nil, err
			}
			if upcoming >= services.MaxUpcomingShows {
				return nil, services.Errorf(services.Conflict, "at most %d shows of one host can be upcoming", services.MaxUpcomingShows)
			}
			show, err = s.fanout.AddShow(ctx, tx, show)
			return []string{show.GlobalID()}, err
		},
		AfterCommit: s.shows.Refresh, CoalesceKey: ownShows,
	}
}

// ownShows names what the commands of shows bring up to date: this node's memory of all of them.
const ownShows = "shows"

// Reschedule is the command by which a host changes what he said of a show of his. INVALID for a text that does not fit, a plan that
// is not in the future, or nothing to change; CONFLICT when the show was cancelled, or its plan is to change and it is not upcoming. This
// and all below: NOT_FOUND when there is no such show or it is hidden, FORBIDDEN when it is another's; what is so already is no error.
func (s *Service) Reschedule(host services.UserID, id services.PostID, edit services.ShowEdit) (*jobs.Command, error) {
	if edit == (services.ShowEdit{}) {
		return nil, services.Errorf(services.Invalid, "plannedAt, title and coverUrl: at least one of them is needed")
	}
	return s.change("rescheduleShow", host, id, func(show services.Show, now time.Time) (services.Show, bool, error) {
		return show.Reschedule(edit, now)
	}), nil
}

// Start is the command by which a show of a host's goes live, at a time; the zero time is now. CONFLICT when it was cancelled,
// INVALID for a time in the future or from before it was scheduled. Who wants to be reminded is told.
func (s *Service) Start(host services.UserID, id services.PostID, at time.Time) *jobs.Command {
	return s.change("startShow", host, id, func(show services.Show, now time.Time) (services.Show, bool, error) {
		return show.Start(at, now)
	})
}

// End is the command by which a show of a host's ends, at a time; the zero time is now. replayURL is where it can be seen then, ""
// for not yet. An end before the start is kept until that comes. CONFLICT when the show was cancelled, INVALID for a time in the
// future or from before it started.
func (s *Service) End(host services.UserID, id services.PostID, at time.Time, replayURL string) *jobs.Command {
	return s.change("endShow", host, id, func(show services.Show, now time.Time) (services.Show, bool, error) {
		return show.End(at, replayURL, now)
	})
}

// Cancel is the command by which a show of a host's will not be. CONFLICT when it runs, ran, or its end was told.
func (s *Service) Cancel(host services.UserID, id services.PostID) *jobs.Command {
	return s.change("cancelShow", host, id, services.Show.Cancel)
}

// SetReplay is the command by which a host says where a show of his can be seen when it is over; "" takes that away. CONFLICT when
// it was cancelled.
func (s *Service) SetReplay(host services.UserID, id services.PostID, replayURL string) *jobs.Command {
	return s.change("setReplay", host, id, func(show services.Show, now time.Time) (services.Show, bool, error) {
		return show.SetReplay(replayURL, now)
	})
}

// change is a command that changes one show of a host's, or finds it as it is wanted; its one id is the show's.
func (s *Service) change(name string, host services.UserID, id services.PostID,
	transition func(show services.Show, now time.Time) (services.Show, bool, error)) *jobs.Command {
	return &jobs.Command{
		Name: name, Actor: host,
		Apply: func(ctx context.Context, in *sql.Tx) ([]string, error) {
			tx := store.In(in)
			// Before the show: everybody who changes one takes the two locks in this order.
			if _, err := changelog.LockLog(ctx, tx.Tx, mirror.LogShow); err != nil {
				return nil, err
			}
			before, err := tx.ShowForUpdate(ctx, id)
			if err := tx.OwnShow(ctx, host, "showId", id, before.Host, err); err != nil {
				return nil, err
			}
			after, changed, err := transition(before, s.now(tx))
			if err == nil && !changed {
				err = jobs.ErrUnchanged
			}
			if err != nil {
				return []string{before.GlobalID()}, err
			}
			_, err = s.fanout.ChangeShow(ctx, tx, before, after)
			return []string{after.GlobalID()}, err
		},
		AfterCommit: s.shows.Refresh, CoalesceKey: ownShows,
	}
}

// now is the time of a transaction, and no earlier than what this node has made or seen: a clock that was set back makes
// nothing be told of the future.
func (s *Service) now(tx *store.Tx) time.Time {
	if latest := tx.Moment(s.ids.Now); latest.After(tx.Now) {
		return latest
	}
	return tx.Now
}
