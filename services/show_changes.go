package services

import "time"

// MaxShowAhead bounds how far ahead a show can be planned: a year and a day.
const MaxShowAhead = 366 * 24 * time.Hour

// showSkew is by how much the clocks of those who tell of a show may differ from this node's.
const showSkew = time.Minute

// ShowDraft is a show to be scheduled.
type ShowDraft struct {
	Title     string
	CoverURL  string // "" for none
	PlannedAt time.Time
}

// ShowEdit is what to change of a show; nil leaves it.
type ShowEdit struct {
	Title     *string
	CoverURL  *string // "" removes it
	PlannedAt *time.Time
}

// ScheduleShow makes an upcoming show. INVALID for a text that does not fit or a plan that is not in the future.
func ScheduleShow(id PostID, host UserID, draft ShowDraft, now time.Time) (Show, error) {
	show := Show{ID: id, Host: host, Title: draft.Title, CoverURL: draft.CoverURL, Status: ShowUpcoming, PlannedAt: wholeMillis(draft.PlannedAt), UpdatedAt: now}
	if err := CheckFilled("title", show.Title, MaxShowTitle); err != nil {
		return Show{}, err
	}
	if err := CheckURL("coverUrl", show.CoverURL); err != nil {
		return Show{}, err
	}
	return show, checkPlan(show.PlannedAt, now)
}

// Reschedule changes what was said of a show, in its place where the plan stays. A plan is changed while the show is
// upcoming, texts until it is cancelled: else it is CONFLICT. INVALID as ScheduleShow. changed is false when it is as wanted.
func (s Show) Reschedule(edit ShowEdit, now time.Time) (_ Show, changed bool, err error) {
	after := s
	if edit.Title != nil {
		after.Title = *edit.Title
		if err := CheckFilled("title", after.Title, MaxShowTitle); err != nil {
			return s, false, err
		}
	}
	if edit.CoverURL != nil {
		after.CoverURL = *edit.CoverURL
		if err := CheckURL("coverUrl", after.CoverURL); err != nil {
			return s, false, err
		}
	}
	if edit.PlannedAt != nil {
		after.PlannedAt = wholeMillis(*edit.PlannedAt)
	}
	if s.Status == ShowCancelled {
		return s, false, s.cancelled()
	}
	if !after.PlannedAt.Equal(s.PlannedAt) {
		switch {
		case s.Status != ShowUpcoming:
			return s, false, Errorf(Conflict, "plannedAt: %s is %s: only an upcoming show can be put off", s.GlobalID(), s.Status)
		case !s.EndedAt.IsZero():
			return s, false, Errorf(Conflict, "plannedAt: %s is over since %s; it waits for its start alone", s.GlobalID(), showTime(s.EndedAt))
		}
		if err := checkPlan(after.PlannedAt, now); err != nil {
			return s, false, err
		}
	}
	return s.changedTo(after, now)
}

// Start lets a show run from a time on; the zero time is now. Of a show that runs or is over it changes nothing. One whose
// end was told before becomes a replay at once. CONFLICT when it was cancelled; INVALID for a time that is in the future or
// from before the show was scheduled.
func (s Show) Start(at, now time.Time) (_ Show, changed bool, err error) {
	if at, err = s.moment("at", at, now); err != nil {
		return s, false, err
	}
	after := s
	switch s.Status {
	case ShowCancelled:
		return s, false, s.cancelled()
	case ShowUpcoming:
		after.Status, after.StartedAt = ShowLive, at
		if !s.EndedAt.IsZero() {
			after = s.over(at)
		}
	}
	return s.changedTo(after, now)
}

// over is an upcoming show of which both is known: when it ended, and when it started, which was not later.
func (s Show) over(startedAt time.Time) Show {
	s.Status, s.StartedAt = ShowReplay, startedAt
	if s.EndedAt.Before(startedAt) {
		s.StartedAt = s.EndedAt
	}
	return s
}

// End ends a show at a time; the zero time is now. replayURL is where it can be seen from then on, "" for not yet. An end
// that comes before the start is kept until that comes: the show stays upcoming. The first end holds; a later one may bring
// the replay's URL where there was none. CONFLICT when the show was cancelled; INVALID for a time that is in the future or
// from before the show started, or was scheduled.
func (s Show) End(at time.Time, replayURL string, now time.Time) (_ Show, changed bool, err error) {
	if err := CheckURL("replayUrl", replayURL); err != nil {
		return s, false, err
	}
	unsaid := at.IsZero()
	if at, err = s.moment("at", at, now); err != nil {
		return s, false, err
	}
	after := s
	switch s.Status {
	case ShowCancelled:
		return s, false, s.cancelled()
	case ShowLive:
		if unsaid && at.Before(s.StartedAt) { // by the clock of the node that was told of the start
			at = s.StartedAt
		}
		if at.Before(s.StartedAt) {
			return s, false, Errorf(Invalid, "at: %s is before %s started, %s", showTime(at), s.GlobalID(), showTime(s.StartedAt))
		}
		after.Status, after.EndedAt = ShowReplay, at
	case ShowUpcoming:
		if s.EndedAt.IsZero() {
			after.EndedAt = at
		}
	}
	if after.ReplayURL == "" {
		after.ReplayURL = replayURL
	}
	return s.changedTo(after, now)
}

// Cancel takes a show that never ran off all boards. Of a cancelled show it changes nothing. CONFLICT when it runs, ran, or
// its end was told.
func (s Show) Cancel(now time.Time) (_ Show, changed bool, err error) {
	after := s
	switch {
	case s.Status == ShowCancelled:
		return s, false, nil
	case s.Status != ShowUpcoming:
		return s, false, Errorf(Conflict, "showId: %s is %s: only an upcoming show can be cancelled", s.GlobalID(), s.Status)
	case !s.EndedAt.IsZero():
		return s, false, Errorf(Conflict, "showId: %s is over since %s; it waits for its start alone", s.GlobalID(), showTime(s.EndedAt))
	}
	after.Status, after.CancelledAt = ShowCancelled, wholeMillis(now)
	return s.changedTo(after, now)
}

// SetReplay says where a show can be seen once it is over; "" takes that away. CONFLICT when it was cancelled.
func (s Show) SetReplay(replayURL string, now time.Time) (_ Show, changed bool, err error) {
	if err := CheckURL("replayUrl", replayURL); err != nil {
		return s, false, err
	}
	if s.Status == ShowCancelled {
		return s, false, s.cancelled()
	}
	after := s
	after.ReplayURL = replayURL
	return s.changedTo(after, now)
}

// ShowLimits say when shows are closed of which nobody tells any more.
type ShowLimits struct {
	LateAfter time.Duration // after the plan of one that nobody starts
	Longest   time.Duration // after the start of one that nobody ends
}

// ClosesAt is when a show is closed if nothing happens to it until then; the zero time for one that is over.
func (l ShowLimits) ClosesAt(s Show) time.Time {
	switch s.Status {
	case ShowUpcoming:
		return s.PlannedAt.Add(l.LateAfter)
	case ShowLive:
		return s.StartedAt.Add(l.Longest)
	}
	return time.Time{}
}

// Close closes a show whose time for that has come: one that nobody started is cancelled, or a replay from its plan on when
// its end was told; one that nobody ended is over. It goes by the times of the show and not by when it is called.
func (l ShowLimits) Close(s Show, now time.Time) (_ Show, changed bool) {
	at := wholeMillis(l.ClosesAt(s))
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
		after = s.over(s.PlannedAt)
	}
	after, changed, _ = s.changedTo(after, now)
	return after, changed
}

// Late says whether a show should have started already.
func (s Show) Late(now time.Time) bool { return s.Status == ShowUpcoming && s.PlannedAt.Before(now) }

// Moved says whether boards have the show elsewhere than before a change: its status or its place is another.
func (s Show) Moved(before Show) bool {
	return s.Status != before.Status || s.Place() != before.Place()
}

// changedTo is the show after a change, by a later time of its last change than it had.
func (s Show) changedTo(after Show, now time.Time) (Show, bool, error) {
	if after == s {
		return s, false, nil
	}
	if after.UpdatedAt = now; !now.After(s.UpdatedAt) {
		after.UpdatedAt = s.UpdatedAt.Add(time.Microsecond)
	}
	return after, true, nil
}

// moment checks a time at which something is said to have happened to a show; the zero time is now.
func (s Show) moment(field string, at, now time.Time) (time.Time, error) {
	if at.IsZero() {
		return wholeMillis(now), nil
	}
	at = wholeMillis(at)
	switch scheduled := s.ID.Time(); {
	case at.After(now.Add(showSkew)):
		return at, Errorf(Invalid, "%s: %s is in the future; it is %s", field, showTime(at), showTime(now))
	case at.Before(scheduled.Add(-showSkew)):
		return at, Errorf(Invalid, "%s: %s is before %s was scheduled, %s", field, showTime(at), s.GlobalID(), showTime(scheduled))
	}
	return at, nil
}

func (s Show) cancelled() error {
	return Errorf(Conflict, "showId: %s was cancelled, %s", s.GlobalID(), showTime(s.CancelledAt))
}

func checkPlan(at, now time.Time) error {
	switch latest := now.Add(MaxShowAhead); {
	case !at.After(now):
		return Errorf(Invalid, "plannedAt: %s is in the past; it is %s", showTime(at), showTime(now))
	case at.After(latest):
		return Errorf(Invalid, "plannedAt: %s is more than %d days ahead", showTime(at), MaxShowAhead/(24*time.Hour))
	}
	return nil
}

func wholeMillis(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

func showTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
