package live

import (
	"time"

	"tidings/services"
)

// maxShowAhead bounds how far ahead a show can be planned: a year and a day.
const maxShowAhead = 366 * 24 * time.Hour

// maxReportSkew is how far the clock of a caller that reports on a show may differ from this node's: a time that is no further in the
// future is accepted as it is.
const maxReportSkew = time.Minute

// ShowDraft is a show to be scheduled.
type ShowDraft struct {
	Title     string
	CoverURL  string // "" for none
	PlannedAt time.Time
}

// ShowEdit is a change of a show; nil fields stay.
type ShowEdit struct {
	Title     *string
	CoverURL  *string // "" removes it
	PlannedAt *time.Time
}

// scheduleShow makes an upcoming show. The error is INVALID for a text that does not fit or a plan that is not in the future or more
// than maxShowAhead ahead.
//
// scheduleShow and the transitions below are pure functions of a show and the time: commands, jobs, past events and erasure share
// them, and a retried transaction runs them again. If a show is already as requested, changed is false and the error is nil.
func scheduleShow(id services.ShowID, host services.UserID, draft ShowDraft, now time.Time) (Show, error) {
	show := Show{ID: id, Host: host, Title: draft.Title, CoverURL: draft.CoverURL, Status: ShowUpcoming, PlannedAt: wholeMillis(draft.PlannedAt), UpdatedAt: now}
	if err := services.CheckFilled("title", show.Title, maxShowTitle); err != nil {
		return Show{}, err
	}
	if err := services.CheckURL("coverUrl", show.CoverURL); err != nil {
		return Show{}, err
	}
	return show, checkPlan(show.PlannedAt, now)
}

// reschedule changes a show's texts and plan; without a change of the plan the show keeps its position. The error is CONFLICT for
// a new plan if the show is not upcoming or its end was reported, and for any change if the show was cancelled. It is INVALID for a
// text that does not fit, or a new plan that is not in the future or more than maxShowAhead ahead. changed is false if nothing
// differs.
func (s Show) reschedule(edit ShowEdit, now time.Time) (_ Show, changed bool, err error) {
	after := s
	if edit.Title != nil {
		after.Title = *edit.Title
		if err := services.CheckFilled("title", after.Title, maxShowTitle); err != nil {
			return s, false, err
		}
	}
	if edit.CoverURL != nil {
		after.CoverURL = *edit.CoverURL
		if err := services.CheckURL("coverUrl", after.CoverURL); err != nil {
			return s, false, err
		}
	}
	if edit.PlannedAt != nil {
		after.PlannedAt = wholeMillis(*edit.PlannedAt)
	}
	if s.Status == ShowCancelled {
		return s, false, s.cancelledError()
	}
	// An edit that repeats the present plan does not change the plan, so a client may send all fields of its form, also after
	// the start.
	if !after.PlannedAt.Equal(s.PlannedAt) {
		switch {
		case s.Status != ShowUpcoming:
			return s, false, services.Errorf(services.Conflict, "plannedAt: %s is %s: only an upcoming show can be rescheduled", s.GlobalID(), s.Status)
		// The show is over in fact, and only the report of its start is missing. With a new plan, boards would list it as a show
		// that is still to come.
		case !s.EndedAt.IsZero():
			return s, false, services.Errorf(services.Conflict, "plannedAt: the end of %s at %s was already reported; only its start can follow", s.GlobalID(), timeText(s.EndedAt))
		}
		if err := checkPlan(after.PlannedAt, now); err != nil {
			return s, false, err
		}
	}
	return s.changedTo(after, now)
}

// start starts a show at a time; the zero time is now. It changes nothing if the show runs or is over. A show whose end was
// reported before becomes a replay at once. The error is CONFLICT if the show was cancelled, and INVALID for a time in the future
// or from before the show was scheduled.
func (s Show) start(at, now time.Time) (_ Show, changed bool, err error) {
	if at, err = s.eventTime("at", at, now); err != nil {
		return s, false, err
	}
	// A show that is live or over stays as it is: starts are reported more than once, and the first report holds.
	after := s
	switch s.Status {
	case ShowCancelled:
		return s, false, s.cancelledError()
	case ShowUpcoming:
		after.Status, after.StartedAt = ShowLive, at
		// The reports came in the wrong order: the end waited in EndedAt for this start.
		if !s.EndedAt.IsZero() {
			after = s.toReplay(at)
		}
	}
	return s.changedTo(after, now)
}

// toReplay turns an upcoming show whose end was reported first into a replay, when its start is reported. A start after the end is set
// to the end.
func (s Show) toReplay(startedAt time.Time) Show {
	s.Status, s.StartedAt = ShowReplay, startedAt
	if s.EndedAt.Before(startedAt) {
		s.StartedAt = s.EndedAt
	}
	return s
}

// end ends a show at a time; the zero time is now. replayURL is where the replay can be seen, "" for none yet. An end that is
// reported before the start is kept until the start is reported: the show stays upcoming. The first end holds; a later one may
// add a missing replay URL. The error is CONFLICT if the show was cancelled, and INVALID for a bad address, or for a time in the
// future or from before the show started or was scheduled.
func (s Show) end(at time.Time, replayURL string, now time.Time) (_ Show, changed bool, err error) {
	if err := services.CheckURL("replayUrl", replayURL); err != nil {
		return s, false, err
	}
	unsaid := at.IsZero()
	if at, err = s.eventTime("at", at, now); err != nil {
		return s, false, err
	}
	after := s
	switch s.Status {
	case ShowCancelled:
		return s, false, s.cancelledError()
	case ShowLive:
		if unsaid && at.Before(s.StartedAt) { // the start was recorded by another node's clock, which may be ahead
			at = s.StartedAt
		}
		if at.Before(s.StartedAt) {
			return s, false, services.Errorf(services.Invalid, "at: %s is before %s started, %s", timeText(at), s.GlobalID(), timeText(s.StartedAt))
		}
		after.Status, after.EndedAt = ShowReplay, at
	case ShowUpcoming:
		// The end is kept aside until the start. The status stays, because a show that never started must not appear among the
		// replays.
		if s.EndedAt.IsZero() {
			after.EndedAt = at
		}
	}
	// A repeated report must not replace an address that the host has set by setReplay meanwhile.
	if after.ReplayURL == "" {
		after.ReplayURL = replayURL
	}
	return s.changedTo(after, now)
}

// cancel removes a show that never ran from all boards. It changes nothing if the show is cancelled. The error is CONFLICT if the
// show runs or ran, or its end was reported.
func (s Show) cancel(now time.Time) (_ Show, changed bool, err error) {
	after := s
	switch {
	case s.Status == ShowCancelled:
		return s, false, nil
	case s.Status != ShowUpcoming:
		return s, false, services.Errorf(services.Conflict, "showId: %s is %s: only an upcoming show can be cancelled", s.GlobalID(), s.Status)
	case !s.EndedAt.IsZero():
		return s, false, services.Errorf(services.Conflict, "showId: the end of %s at %s was already reported; only its start can follow", s.GlobalID(), timeText(s.EndedAt))
	}
	after.Status, after.CancelledAt = ShowCancelled, wholeMillis(now)
	return s.changedTo(after, now)
}

// setReplay sets where the replay of a show can be seen; "" removes the address. The error is CONFLICT if the show was cancelled, and
// INVALID for a bad address.
func (s Show) setReplay(replayURL string, now time.Time) (_ Show, changed bool, err error) {
	if err := services.CheckURL("replayUrl", replayURL); err != nil {
		return s, false, err
	}
	if s.Status == ShowCancelled {
		return s, false, s.cancelledError()
	}
	after := s
	after.ReplayURL = replayURL
	return s.changedTo(after, now)
}

// closesAt is when a show is closed if nothing is reported until then; it is the zero time for a show that is over or cancelled.
func (l ShowLimits) closesAt(s Show) time.Time {
	switch s.Status {
	case ShowUpcoming:
		return s.PlannedAt.Add(l.CloseUnstartedAfter)
	case ShowLive:
		return s.StartedAt.Add(l.CloseLiveAfter)
	}
	return time.Time{}
}

// close closes an overdue show: an unstarted show is cancelled or, if its end was reported, becomes a replay that began as
// planned; an unended show is over. The result depends on the show's times and not on the time of the call, so it does not
// matter how late the job runs, nor on which node, nor whether a past event closes the show first (closeIfOverdue).
func (l ShowLimits) close(s Show, now time.Time) (_ Show, changed bool) {
	at := wholeMillis(l.closesAt(s))
	if at.IsZero() || at.After(now) {
		return s, false
	}
	after := s
	switch {
	case s.Status == ShowLive:
		after.Status, after.EndedAt = ShowReplay, at
	case s.EndedAt.IsZero():
		after.Status, after.CancelledAt = ShowCancelled, at
	default:
		after = s.toReplay(s.PlannedAt)
	}
	// changedTo has no error of its own: it returns one only so that transitions can end with it.
	after, changed, _ = s.changedTo(after, now)
	return after, changed
}

// Late reports whether a show should have started already.
func (s Show) Late(now time.Time) bool { return s.Status == ShowUpcoming && s.PlannedAt.Before(now) }

// moved reports whether a change moved the show on boards: its status or its position differs.
func (s Show) moved(before Show) bool {
	// If the end of an upcoming show is reported before its start, status and position stay: the log has it as a change of texts.
	return s.Status != before.Status || s.Position() != before.Position()
}

// changedTo is the show after a change. UpdatedAt rises even if the clock did not advance or was set back: node caches use it to
// decide which of two states of one version is newer (showState.put, changelog.Cache).
func (s Show) changedTo(after Show, now time.Time) (Show, bool, error) {
	if after == s {
		return s, false, nil
	}
	if after.UpdatedAt = now; !now.After(s.UpdatedAt) {
		after.UpdatedAt = s.UpdatedAt.Add(time.Microsecond)
	}
	return after, true, nil
}

// eventTime checks the reported time of an event of a show; the zero time is now.
func (s Show) eventTime(field string, at, now time.Time) (time.Time, error) {
	if at.IsZero() {
		return wholeMillis(now), nil
	}
	at = wholeMillis(at)
	switch scheduled := s.ID.Time(); {
	case at.After(now.Add(maxReportSkew)):
		return at, services.Errorf(services.Invalid, "%s: %s is in the future; it is now %s", field, timeText(at), timeText(now))
	// The ID holds the time of the announcement. An earlier report is about another show, or its unit is wrong.
	case at.Before(scheduled.Add(-maxReportSkew)):
		return at, services.Errorf(services.Invalid, "%s: %s is before %s was scheduled, %s", field, timeText(at), s.GlobalID(), timeText(scheduled))
	}
	return at, nil
}

// cancelledError is the error for a change of a show that was cancelled.
func (s Show) cancelledError() error {
	return services.Errorf(services.Conflict, "showId: %s was cancelled, %s", s.GlobalID(), timeText(s.CancelledAt))
}

// checkPlan returns an error unless a plan is in the future, and by at most maxShowAhead.
func checkPlan(at, now time.Time) error {
	switch latest := now.Add(maxShowAhead); {
	case !at.After(now):
		return services.Errorf(services.Invalid, "plannedAt: %s is in the past; it is now %s", timeText(at), timeText(now))
	case at.After(latest):
		return services.Errorf(services.Invalid, "plannedAt: %s is more than %d days ahead", timeText(at), maxShowAhead/(24*time.Hour))
	}
	return nil
}

// wholeMillis cuts a time to milliseconds, because scores and members of lists hold nothing smaller. Without the cut, two times could
// differ and still give the same position.
func wholeMillis(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
