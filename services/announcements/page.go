package announcements

import (
	"context"

	"tidings/services"
)

// Item is an announcement as a user sees it.
type Item struct {
	Announcement
	Unread bool
}

// Page is a part of the list, the newest first.
type Page struct {
	Items   []Item
	HasNext bool
}

// MaxPosition is after every position: a page before it is the first. It is the greatest value that a cursor in SQL's numbers can
// have.
const MaxPosition = 1<<63 - 1

// Page lists a user's current announcements before a position: exactly the unread ones that the badge counts, and the read ones.
func (s *Service) Page(ctx context.Context, user services.UserID, before uint64, size int) (Page, error) {
	at, err := s.userView(ctx, user)
	if err != nil {
		return Page{}, err
	}
	// One more than the size is read, which tells whether more follow.
	list := at.shared.visible(at.segments, before, size+1)
	page := Page{HasNext: len(list) > size}
	page.Items, err = s.items(ctx, at, list[:min(size, len(list))])
	return page, err
}

// Visible returns the announcements, among some, that are current and addressed to a user.
func (s *Service) Visible(ctx context.Context, user services.UserID, ids []services.AnnouncementID) (map[services.AnnouncementID]Item, error) {
	at, err := s.userView(ctx, user)
	if err != nil {
		return nil, err
	}
	var list []Announcement
	for _, id := range ids {
		if a, ok := at.shared.findVisible(id, at.segments); ok {
			list = append(list, a)
		}
	}
	items, err := s.items(ctx, at, list)
	return services.KeyBy(items, func(item Item) services.AnnouncementID { return item.ID }), err
}

// items adds the texts to announcements of the list. Positions and ends come from the list, because the cache of texts may have
// older ones. An announcement that is gone from SQL is left out.
func (s *Service) items(ctx context.Context, at userView, list []Announcement) ([]Item, error) {
	ids := services.Map(list, func(a Announcement) services.AnnouncementID { return a.ID })
	// One SELECT for the texts that this node does not have, whatever their number.
	texts, err := s.Memory.readWithTexts(ctx, ids)
	if err != nil {
		return nil, err
	}
	// This is also the badge's rule, so that the announcements that are unread in the list are those that the badge counts.
	unreadFrom := s.projector.Expiry().SkipExpiredAnnouncements(at.userState, services.DayOf(s.clock.Now())).Position
	items := make([]Item, 0, len(list))
	for _, listed := range list {
		a, known := texts[listed.ID]
		if !known {
			continue
		}
		a.Position, a.EndsAt = listed.Position, listed.EndsAt
		items = append(items, Item{Announcement: a, Unread: at.userState.Version > 0 && a.Position > unreadFrom})
	}
	return items, nil
}

// Announcement returns an announcement in any state: for the host application, which has just changed it.
func (s *Service) Announcement(ctx context.Context, id services.AnnouncementID) (Announcement, error) {
	found, err := Read(ctx, s.db.Runner, []services.AnnouncementID{id})
	return found[id], err
}
