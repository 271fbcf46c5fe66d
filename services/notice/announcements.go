package notice

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/store"
)

// Draft is an announcement to be published. Segments nil is everyone.
type Draft struct {
	Title, Content string
	StartsAt       time.Time // zero: now
	EndsAt         time.Time // zero: never
	Segments       []string
}

// Publish is the command by which the host application publishes an announcement: it enters the list at once, or when it
// starts. Its ID is the command's. INVALID for a text that is too long or an end that is in the past or not after the start;
// CONFLICT if a segment would exceed their number.
func (s *Service) Publish(draft Draft) (*jobs.Command, error) {
	if err := checkTexts(&draft.Title, &draft.Content); err != nil {
		return nil, err
	}
	if err := checkTarget(draft.Segments); err != nil {
		return nil, err
	}
	draft.StartsAt, draft.EndsAt = draft.StartsAt.Truncate(time.Millisecond), draft.EndsAt.Truncate(time.Millisecond)
	if err := checkTimes(draft.StartsAt, draft.EndsAt); err != nil {
		return nil, err
	}
	return s.shared("publishAnnouncement", func(ctx context.Context, tx *store.Tx, stamp uint64) (string, string, error) {
		a := services.Announcement{
			ID: tx.NewID(s.ids), Title: draft.Title, Content: draft.Content, CreatedAt: tx.Now, UpdatedAt: tx.Now,
			StartsAt: draft.StartsAt, EndsAt: draft.EndsAt,
		}
		if a.StartsAt.IsZero() {
			a.StartsAt = tx.Now
		}
		if err := checkEnd(a, tx.Now); err != nil {
			return "", "", err
		}
		var err error
		if a.Segments, err = target(ctx, tx, draft.Segments); err != nil {
			return "", "", err
		}
		if !a.StartsAt.After(tx.Now) {
			a.Position = stamp
		} else if err := jobs.Enqueue(ctx, tx.Tx, fanout.StartJob(a)); err != nil {
			return "", "", err
		}
		if err := tx.InsertAnnouncement(ctx, a); err != nil {
			return "", "", err
		}
		return a.GlobalID(), a.GlobalID(), tx.TrimAnnouncements(ctx, services.MaxAnnouncements)
	}), nil
}

// Edit is what to change of an announcement; nil leaves it.
type Edit struct {
	Title, Content   *string
	StartsAt, EndsAt *time.Time
	NoEnd            bool     // it never ends; without EndsAt
	Segments         []string // nil leaves them
	ForEveryone      bool     // instead of for segments; without Segments
	ShowAgain        bool     // it gets a new position, at the end of the list: unread again for everybody
}

// Edit is the command by which the host application changes an announcement. NOT_FOUND if there is none. CONFLICT if it was
// withdrawn, if its start is changed after it has started and it is not shown again, or if it is to be shown again after its
// end. Otherwise as Publish.
func (s *Service) Edit(id services.PostID, edit Edit) (*jobs.Command, error) {
	if err := checkTexts(edit.Title, edit.Content); err != nil {
		return nil, err
	}
	if err := checkTarget(edit.Segments); err != nil {
		return nil, err
	}
	return s.shared("editAnnouncement", func(ctx context.Context, tx *store.Tx, stamp uint64) (string, string, error) {
		a, err := tx.AnnouncementForUpdate(ctx, id)
		if err != nil {
			return "", "", err
		}
		if a.Withdrawn {
			return "", "", services.Errorf(services.Conflict, "announcementId: %s was withdrawn", a.GlobalID())
		}
		if err := edit.apply(ctx, tx, &a, stamp); err != nil {
			return "", "", err
		}
		if a.Position == 0 && !a.OverAt(tx.Now) {
			if err := jobs.Enqueue(ctx, tx.Tx, fanout.StartJob(a)); err != nil {
				return "", "", err
			}
		}
		if err := tx.UpdateAnnouncement(ctx, a); err != nil {
			return "", "", err
		}
		return a.GlobalID(), a.GlobalID(), tx.TrimAnnouncements(ctx, services.MaxAnnouncements)
	}), nil
}

// apply changes the announcement as it stands in the transaction.
func (edit Edit) apply(ctx context.Context, tx *store.Tx, a *services.Announcement, stamp uint64) (err error) {
	started := a.Position > 0
	if edit.Title != nil {
		a.Title = *edit.Title
	}
	if edit.Content != nil {
		a.Content = *edit.Content
	}
	if edit.Segments != nil || edit.ForEveryone {
		if a.Segments, err = target(ctx, tx, edit.Segments); err != nil {
			return err
		}
	}
	if edit.StartsAt != nil {
		if started && !edit.ShowAgain {
			return services.Errorf(services.Conflict, "startsAt: %s has started; it can only be shown again", a.GlobalID())
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
	if edit.ShowAgain && a.OverAt(tx.Now) {
		return services.Errorf(services.Conflict, "showAgain: the time of %s is over since %s; give it another endsAt", a.GlobalID(), timeText(a.EndsAt))
	}
	switch {
	case started && !edit.ShowAgain:
	case a.StartsAt.After(tx.Now):
		a.Position = 0 // it enters the list when it starts
	case !a.OverAt(tx.Now):
		a.Position = stamp
	}
	a.UpdatedAt = later(tx.Now, a.UpdatedAt.Add(time.Microsecond)) // strictly later, so that no cache keeps the former text
	return nil
}

// Withdraw is the command by which the host application takes an announcement out of everybody's list and count, also one
// that has not started. NOT_FOUND when there is none. Withdrawing again changes nothing.
func (s *Service) Withdraw(id services.PostID) *jobs.Command {
	return s.shared("withdrawAnnouncement", func(ctx context.Context, tx *store.Tx, _ uint64) (string, string, error) {
		a, err := tx.AnnouncementForUpdate(ctx, id)
		if err != nil {
			return "", "", err
		}
		if a.Withdrawn {
			return a.GlobalID(), "", jobs.ErrUnchanged
		}
		a.Withdrawn = true
		return a.GlobalID(), a.GlobalID(), tx.UpdateAnnouncement(ctx, a)
	})
}

// UpTo is how far a user has read: up to an announcement at its present position, or up to a position at which the user saw
// one; the zero value is the end of the list.
type UpTo struct {
	Announcement services.PostID
	Position     uint64
}

// MarkRead is the command by which a user reads the list up to a position. The mark only grows. NOT_FOUND for an announcement
// that does not exist, or not for this user: one that has not started, was withdrawn, or is for other segments; INVALID for a
// position beyond the end.
func (s *Service) MarkRead(user services.UserID, upTo UpTo) *jobs.Command {
	return s.own("markAnnouncementsRead", user, func(ctx context.Context, tx *store.Tx) error {
		position, err := upTo.position(ctx, tx, user)
		if err != nil {
			return err
		}
		// A user who returns after a long time is treated as new first: the mark then covers what they have seen since.
		if err := s.fanout.Enter(ctx, tx, user); err != nil {
			return err
		}
		_, err = tx.RaiseAnnouncementsRead(ctx, user, position)
		return err
	})
}

func (upTo UpTo) position(ctx context.Context, tx *store.Tx, user services.UserID) (uint64, error) {
	if upTo.Announcement != 0 {
		found, err := tx.Announcements(ctx, []services.PostID{upTo.Announcement})
		if err != nil {
			return 0, err
		}
		standing, err := tx.UserNotices(ctx, user)
		if err != nil {
			return 0, err
		}
		a := found[upTo.Announcement]
		if a.Position == 0 || a.Withdrawn || !a.Segments.Reaches(services.SegmentBits(standing.Segments.Bits)) {
			return 0, services.Errorf(services.NotFound, "upTo: there is no announcement %s",
				services.GlobalID(services.AnnouncementType, upTo.Announcement.String()))
		}
		return a.Position, nil
	}
	head, err := tx.NoticeHead(ctx)
	switch {
	case err != nil:
		return 0, err
	case upTo.Position == 0:
		return head, nil
	case upTo.Position > head:
		return 0, services.Errorf(services.Invalid, "upTo: the cursor is beyond the end of the announcements")
	}
	return upTo.Position, nil
}

func checkTexts(title, content *string) error {
	if title != nil {
		if err := services.CheckFilled("title", *title, services.MaxAnnouncementTitle); err != nil {
			return err
		}
	}
	if content == nil {
		return nil
	}
	if len(*content) > services.MaxAnnouncementContent {
		return services.Errorf(services.Invalid, "content: up to %d bytes are allowed, got %d", services.MaxAnnouncementContent, len(*content))
	}
	return services.CheckText("content", *content, 0, services.MaxAnnouncementContent)
}

// checkTimes checks that an end is after its start; both may be left out.
func checkTimes(starts, ends time.Time) error {
	if !starts.IsZero() && !ends.IsZero() && !ends.After(starts) {
		return services.Errorf(services.Invalid, "endsAt: %s is not after the start, %s", timeText(ends), timeText(starts))
	}
	return nil
}

func checkEnd(a services.Announcement, now time.Time) error {
	if a.OverAt(now) {
		return services.Errorf(services.Invalid, "endsAt: %s is over already; it is %s", timeText(a.EndsAt), timeText(now))
	}
	return nil
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Item is an announcement as a user sees it.
type Item struct {
	services.Announcement
	Unread bool
}

// Page is a part of the list, the newest first.
type Page struct {
	Items   []Item
	HasNext bool
}

// End is after every position: a page before it is the first.
const End = 1<<63 - 1

// Page lists the current announcements for a user before a position: exactly those that the badge counts, and the read ones
// besides.
func (s *Service) Page(ctx context.Context, user services.UserID, before uint64, size int) (Page, error) {
	at, err := s.standing(ctx, user)
	if err != nil {
		return Page{}, err
	}
	list := at.notices.Visible(at.segments(), before, size+1)
	page := Page{HasNext: len(list) > size}
	page.Items, err = s.items(ctx, at, list[:min(size, len(list))])
	return page, err
}

// Visible returns those of some announcements that are current and meant for a user.
func (s *Service) Visible(ctx context.Context, user services.UserID, ids []services.PostID) (map[services.PostID]Item, error) {
	at, err := s.standing(ctx, user)
	if err != nil {
		return nil, err
	}
	var list []services.Announcement
	for _, id := range ids {
		if a, ok := at.notices.Shows(id, at.segments()); ok {
			list = append(list, a)
		}
	}
	items, err := s.items(ctx, at, list)
	visible := make(map[services.PostID]Item, len(items))
	for _, item := range items {
		visible[item.ID] = item
	}
	return visible, err
}

// items adds the texts to announcements of the list. Position and times come from the list itself.
func (s *Service) items(ctx context.Context, at standing, list []services.Announcement) ([]Item, error) {
	ids := make([]services.PostID, len(list))
	for i, a := range list {
		ids[i] = a.ID
	}
	texts, err := s.announcements.Whole(ctx, ids)
	if err != nil {
		return nil, err
	}
	unreadFrom := s.fanout.Expiry().AgedNotices(at.state, services.DayOf(s.clock.Now())).Position
	items := make([]Item, 0, len(list))
	for _, listed := range list {
		a, known := texts[listed.ID]
		if !known {
			continue
		}
		a.Position, a.EndsAt = listed.Position, listed.EndsAt
		items = append(items, Item{Announcement: a, Unread: at.state.Version > 0 && a.Position > unreadFrom})
	}
	return items, nil
}

// Announcement gives an announcement whatever its state: for the host application, which has just changed it.
func (s *Service) Announcement(ctx context.Context, id services.PostID) (services.Announcement, error) {
	found, err := s.store.Announcements(ctx, []services.PostID{id})
	return found[id], err
}
