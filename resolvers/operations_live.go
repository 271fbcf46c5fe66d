package resolvers

import (
	"context"
	"time"

	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/live"
)

// scheduleShow makes a show of the actor. An empty cover counts as none. The actor is the host: a show is made with the host's
// own token, or by the application for them.
var scheduleShow = &operation[graph.ScheduleShowInput]{
	operationSpec: operationSpec{name: "scheduleShow", createdType: services.ShowType},
	command: func(_ context.Context, c *operationCall, in *graph.ScheduleShowInput) (*jobs.Command, error) {
		in.CoverURL = orNull(orEmpty(in.CoverURL))
		draft := live.ShowDraft{Title: in.Title, PlannedAt: in.PlannedAt, CoverURL: orEmpty(in.CoverURL)}
		return c.r.Live.Schedule(c.actor, draft), nil
	},
}

// rescheduleShow changes the fields that the input names. If only the label changes, the show itself does not change, and nobody
// is notified. So an input with a label alone is valid, although an input without any change is an error.
var rescheduleShow = &operation[graph.RescheduleShowInput]{
	operationSpec: operationSpec{name: "rescheduleShow", createdType: services.ShowType},
	command: func(_ context.Context, c *operationCall, in *graph.RescheduleShowInput) (*jobs.Command, error) {
		show, err := c.showID(in.ShowID)
		if err != nil {
			return nil, err
		}
		edit := live.ShowEdit{CoverURL: clearableValue(in.CoverURL)}
		if edit.PlannedAt, err = nonNullValue("plannedAt", in.PlannedAt); err != nil {
			return nil, err
		}
		if edit.Title, err = nonNullValue("title", in.Title); err != nil {
			return nil, err
		}
		if edit == (live.ShowEdit{}) && (in.URL.IsSet() || in.Data.IsSet()) {
			return c.r.Live.Relabel(c.actor, show), nil
		}
		return c.r.Live.Reschedule(c.actor, show, edit)
	},
}

// startShow reports a start, now or at an earlier time. It may come after the report of the end. The application's reports
// may come late and out of order, so the time of the event counts and not that of the report.
var startShow = &operation[graph.StartShowInput]{
	operationSpec: operationSpec{name: "startShow", createdType: services.ShowType},
	command: func(_ context.Context, c *operationCall, in *graph.StartShowInput) (*jobs.Command, error) {
		show, err := c.showID(in.ShowID)
		return c.r.Live.Start(c.actor, show, timeOrZero(in.At)), err
	},
}

// endShow reports an end, possibly before the start was reported: the show then waits for that report. Reports of one show may
// come through several nodes, so no order can be required.
var endShow = &operation[graph.EndShowInput]{
	operationSpec: operationSpec{name: "endShow", createdType: services.ShowType},
	command: func(_ context.Context, c *operationCall, in *graph.EndShowInput) (*jobs.Command, error) {
		in.ReplayURL = orNull(orEmpty(in.ReplayURL))
		show, err := c.showID(in.ShowID)
		return c.r.Live.End(c.actor, show, timeOrZero(in.At), orEmpty(in.ReplayURL)), err
	},
}

// cancelShow removes a show that has not started from all boards. A live show cannot be cancelled: endShow ends it.
var cancelShow = &operation[graph.CancelShowInput]{
	operationSpec: operationSpec{name: "cancelShow", createdType: services.ShowType},
	command: func(_ context.Context, c *operationCall, in *graph.CancelShowInput) (*jobs.Command, error) {
		show, err := c.showID(in.ShowID)
		return c.r.Live.Cancel(c.actor, show), err
	},
}

// setReplay sets the address of a show's replay; null removes it. The input must name the field, because leaving it out would be an
// accident. A replay is listed before it has an address, and is then not ready.
var setReplay = &operation[graph.SetReplayInput]{
	operationSpec: operationSpec{name: "setReplay", createdType: services.ShowType},
	command: func(_ context.Context, c *operationCall, in *graph.SetReplayInput) (*jobs.Command, error) {
		show, err := c.showID(in.ShowID)
		if err == nil && !in.ReplayURL.IsSet() {
			err = services.Errorf(services.Invalid, "replayUrl: it is required; null removes the present one")
		}
		if err != nil {
			return nil, err
		}
		return c.r.Live.SetReplay(c.actor, show, orEmpty(in.ReplayURL.Value())), nil
	},
}

// remindMe sets a reminder of an upcoming show, and cancelReminder removes it; after the start, cancelReminder removes its
// notification too. They are two entries of the table, because an entry has the name of one mutation.
var remindMe = &operation[graph.RemindMeInput]{
	operationSpec: operationSpec{name: "remindMe", createdType: services.ShowType},
	command: func(_ context.Context, c *operationCall, in *graph.RemindMeInput) (*jobs.Command, error) {
		show, err := c.showID(in.ShowID)
		return c.r.Live.Remind(c.actor, show, true), err
	},
}

// cancelReminder is the reverse of remindMe.
var cancelReminder = &operation[graph.CancelReminderInput]{
	operationSpec: operationSpec{name: "cancelReminder", createdType: services.ShowType},
	command: func(_ context.Context, c *operationCall, in *graph.CancelReminderInput) (*jobs.Command, error) {
		show, err := c.showID(in.ShowID)
		return c.r.Live.Remind(c.actor, show, false), err
	},
}

// markLiveBoardSeen marks the board of a session: shows that went live after that board are still new. Without a session it
// marks the present board.
var markLiveBoardSeen = &operation[graph.MarkLiveBoardSeenInput]{
	operationSpec: operationSpec{name: "markLiveBoardSeen"},
	command: func(ctx context.Context, c *operationCall, in *graph.MarkLiveBoardSeenInput) (*jobs.Command, error) {
		return c.r.Live.MarkSeen(ctx, c.actor, in.SessionID)
	},
}

// timeOrZero is an optional time; the zero time if it is absent. The service gives it a meaning: the present for a start, never for
// the end of an announcement.
func timeOrZero(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return *at
}
