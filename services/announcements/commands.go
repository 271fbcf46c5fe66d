package announcements

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// Draft is an announcement to be published. Segments nil is everyone.
type Draft struct {
	Title, Content string
	StartsAt       time.Time // zero: now
	EndsAt         time.Time // zero: never
	Segments       []string
}

// Publish is the command by which the host application publishes an announcement: it enters the list at once, or when it
// starts. The command's one ID is the announcement's. INVALID for a wrong text or name of a segment, and for an end that is in
// the past or not after the start; CONFLICT if there would be more than maxSegments segments.
func (s *Service) Publish(draft Draft) (*jobs.Command, error) {
	if err := checkTexts(&draft.Title, &draft.Content); err != nil {
		return nil, err
	}
	if err := checkTargetSegments(draft.Segments); err != nil {
		return nil, err
	}
	// Ends are whole milliseconds, and so even numbers of microseconds. Stamps are odd, so no version means both an end and a change.
	draft.StartsAt, draft.EndsAt = draft.StartsAt.Truncate(time.Millisecond), draft.EndsAt.Truncate(time.Millisecond)
	if err := checkTimes(draft.StartsAt, draft.EndsAt); err != nil {
		return nil, err
	}
	return s.sharedStateCommand("publishAnnouncement", func(ctx context.Context, tx *sql.Tx, stamp uint64) (string, string, error) {
		id, err := tx.NewIDInTable(ctx, s.ids, newestOfMillisecond)
		if err != nil {
			return "", "", err
		}
		now := tx.EventTime()
		a := Announcement{
			ID: services.AnnouncementID(id), Title: draft.Title, Content: draft.Content, CreatedAt: now, UpdatedAt: now,
			StartsAt: draft.StartsAt, EndsAt: draft.EndsAt,
		}
		if a.StartsAt.IsZero() {
			a.StartsAt = now
		}
		// The end is checked at the time of the event: a past announcement may be over by now, and then records what was shown.
		if err := checkEnd(a, now); err != nil {
			return "", "", err
		}
		// New segments get their bits in this transaction, and none if it fails.
		if a.Segments, err = ensureTargetSegments(ctx, tx, draft.Segments); err != nil {
			return "", "", err
		}
		// The start is compared with tx.Now, not with the event's time: an announcement that has started by now needs no job.
		if !a.StartsAt.After(tx.Now) {
			if a.Position, err = listPosition(ctx, tx, a, stamp); err != nil {
				return "", "", err
			}
		} else if err := jobs.Enqueue(ctx, tx, StartJob(a)); err != nil {
			return "", "", err
		}
		if err := insert(ctx, tx, a); err != nil {
			return "", "", err
		}
		return a.GlobalID(), a.GlobalID(), trimList(ctx, tx, maxListedAnnouncements)
	}), nil
}

// Edit is a change of an announcement. Fields that are nil change nothing.
type Edit struct {
	Title, Content   *string
	StartsAt, EndsAt *time.Time
	NoEnd            bool     // removes the end; excludes EndsAt
	Segments         []string // nil leaves the segments as they are
	ForEveryone      bool     // removes the segments; excludes Segments
	ShowAgain        bool     // gives it a new position, at the end of the list: it is unread again for everybody
}

// Edit is the command by which the host application changes an announcement. NOT_FOUND if there is none. CONFLICT if it was
// withdrawn, if its start is changed after it has started and it is not shown again, or if it is to be shown again after its end.
// All other errors are as in Publish, but an end in the past is allowed: it ends the announcement at once.
func (s *Service) Edit(id services.AnnouncementID, edit Edit) (*jobs.Command, error) {
	if err := checkTexts(edit.Title, edit.Content); err != nil {
		return nil, err
	}
	if err := checkTargetSegments(edit.Segments); err != nil {
		return nil, err
	}
	return s.sharedStateCommand("editAnnouncement", func(ctx context.Context, tx *sql.Tx, stamp uint64) (string, string, error) {
		// The stamp was taken under the lock of the announcements' clock. So every change locks in the same order: the clock, then the row.
		a, err := lock(ctx, tx, id)
		if err != nil {
			return "", "", err
		}
		if a.Withdrawn {
			return "", "", services.Errorf(services.Conflict, "announcementId: %s was withdrawn", a.GlobalID())
		}
		if err := edit.apply(ctx, tx, &a, stamp); err != nil {
			return "", "", err
		}
		// A job of the former start may still wait. It reads the row when it runs, so two jobs do no harm.
		if a.Position == 0 && !a.isOverAt(tx.Now) {
			if err := jobs.Enqueue(ctx, tx, StartJob(a)); err != nil {
				return "", "", err
			}
		}
		if err := update(ctx, tx, a); err != nil {
			return "", "", err
		}
		return a.GlobalID(), a.GlobalID(), trimList(ctx, tx, maxListedAnnouncements)
	}), nil
}

// apply applies the edit to an announcement that the transaction has locked. stamp is the announcement's new position if this
// edit brings it into the list: because it starts now, or is shown again.
func (edit Edit) apply(ctx context.Context, tx *sql.Tx, a *Announcement, stamp uint64) (err error) {
	started := a.Position > 0
	if edit.Title != nil {
		a.Title = *edit.Title
	}
	if edit.Content != nil {
		a.Content = *edit.Content
	}
	if edit.Segments != nil || edit.ForEveryone {
		if a.Segments, err = ensureTargetSegments(ctx, tx, edit.Segments); err != nil {
			return err
		}
	}
	// Once the announcement has started, its start can only change together with showing it again.
	if edit.StartsAt != nil {
		if started && !edit.ShowAgain {
			return services.Errorf(services.Conflict, "startsAt: %s has started; its start can only change together with showAgain", a.GlobalID())
		}
		a.StartsAt = edit.StartsAt.Truncate(time.Millisecond)
	}
	if edit.EndsAt != nil || edit.NoEnd {
		a.EndsAt = time.Time{}
		if edit.EndsAt != nil {
			a.EndsAt = edit.EndsAt.Truncate(time.Millisecond)
		}
		if err := checkTimes(a.StartsAt, a.EndsAt); err != nil {
			return err
		}
	} else if edit.StartsAt != nil {
		if err := checkTimes(a.StartsAt, a.EndsAt); err != nil {
			return err
		}
	}
	now := tx.EventTime()
	if edit.ShowAgain && a.isOverAt(now) {
		return services.Errorf(services.Conflict, "showAgain: %s ended at %s; set a later endsAt as well", a.GlobalID(), timeText(a.EndsAt))
	}
	switch {
	// The announcement keeps its position, so it stays read for users who have read it.
	case started && !edit.ShowAgain:
	case a.StartsAt.After(tx.Now):
		a.Position = 0 // it enters the list when it starts
	case !a.isOverAt(now):
		if a.Position, err = listPosition(ctx, tx, *a, stamp); err != nil {
			return err
		}
	}
	a.UpdatedAt = later(now, a.UpdatedAt.Add(time.Microsecond)) // strictly later, so that no cache keeps the former text
	return nil
}

// Withdraw is the command by which the host application takes an announcement out of everybody's list and count, also one
// that has not started. NOT_FOUND if there is none. Withdrawing again changes nothing.
func (s *Service) Withdraw(id services.AnnouncementID) *jobs.Command {
	return s.sharedStateCommand("withdrawAnnouncement", func(ctx context.Context, tx *sql.Tx, _ uint64) (string, string, error) {
		a, err := lock(ctx, tx, id)
		if err != nil {
			return "", "", err
		}
		if a.Withdrawn {
			return a.GlobalID(), "", jobs.ErrUnchanged
		}
		// The position stays, and so do marks up to it.
		a.Withdrawn = true
		return a.GlobalID(), a.GlobalID(), update(ctx, tx, a)
	})
}

// checkTexts checks the texts that are given; nil is not given.
func checkTexts(title, content *string) error {
	if title != nil {
		if err := services.CheckFilled("title", *title, maxTitleCharacters); err != nil {
			return err
		}
	}
	if content == nil {
		return nil
	}
	if len(*content) > maxContentBytes {
		return services.Errorf(services.Invalid, "content: up to %d bytes are allowed, got %d", maxContentBytes, len(*content))
	}
	return services.CheckText("content", *content, 0, maxContentBytes)
}

// checkTimes checks that an end is after its start; both may be left out.
func checkTimes(starts, ends time.Time) error {
	if !starts.IsZero() && !ends.IsZero() && !ends.After(starts) {
		return services.Errorf(services.Invalid, "endsAt: %s is not after the start, %s", timeText(ends), timeText(starts))
	}
	return nil
}

// checkEnd refuses an announcement that would be over before anybody sees it.
func checkEnd(a Announcement, now time.Time) error {
	if a.isOverAt(now) {
		return services.Errorf(services.Invalid, "endsAt: %s is in the past; it is now %s", timeText(a.EndsAt), timeText(now))
	}
	return nil
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
