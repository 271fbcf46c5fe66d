package notifications

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// Source is the badge source of the unseen groups of notifications, by category. It implements badge.Source.
type Source struct {
	source.Plain
	db     *sql.DB
	expiry Expiry
}

// NewSource makes the source. Rendering needs no database.
func NewSource(db *sql.DB, expiry Expiry) Source { return Source{db: db, expiry: expiry} }

// Source is the service's badge source.
func (s *Service) Source() Source { return NewSource(s.db, s.expiry) }

// Name is the source's name.
func (Source) Name() string { return "notifications" }

// Key is the source's key.
func (Source) Key() services.Source { return services.SourceNotifications }

// Part is the count of the i-th category.
func (Source) Part(badges *services.Badges, i int) *services.Count {
	if i >= len(services.Categories) {
		return nil
	}
	return badges.Notifications.Of(services.Categories[i])
}

// Sum is the count of all categories.
func (Source) Sum(badges *services.Badges) *services.Count { return &badges.Notifications.Total }

// Carry keeps the position of the newest notification. The version of the list is not known.
func (Source) Carry(_ *source.View, badges *services.Badges, earlier source.Shown) {
	badges.Notifications.Newest, badges.Notifications.Version = earlier.Badges.Notifications.Newest, 0
}

// Facts counts every category from its rows.
func (s Source) Facts(ctx context.Context, user services.UserID, _ int64, document *rdb.Document) error {
	states, err := statesOfUser(ctx, s.db, user)
	for _, state := range states {
		if !slices.Contains(services.Categories, state.Category) {
			continue // a newer node's: this one does not show it
		}
		document.Notifications = append(document.Notifications, state.counts())
	}
	return err
}

// Render counts the unseen groups of the last days, by category. They leave day by day.
func (s Source) Render(v *source.View, badges *services.Badges) {
	today := v.Today()
	v.Passed(today)
	for _, category := range services.Categories {
		*badges.Notifications.Of(category) = source.Exact(0)
	}
	badges.Notifications.Version = 1 // a version is known even for a user without notifications
	for _, counts := range v.Document.Notifications {
		value, older := s.expiry.unexpired(counts, today)
		if value > 0 {
			v.ChangesAt(services.DayStart(today + 1))
		}
		*badges.Notifications.Older.Of(counts.Category) = older
		*badges.Notifications.Of(counts.Category) = source.Exact(value)
		badges.Notifications.Newest = max(badges.Notifications.Newest, counts.Newest)
		badges.Notifications.Version += uint64(counts.Version)
	}
}

// Explain lists the unseen notifications of each category.
func (s Source) Explain(ctx context.Context, of source.Explained) (list []services.Explanation, err error) {
	page, err := readPage(ctx, s.db, listQuery{
		user: of.User, categories: services.Categories, only: onlyUnseen,
		limit: of.Most(), each: true, bare: true, expiry: s.expiry,
	})
	if err != nil {
		return nil, err
	}
	items := map[services.Category][]services.Item{}
	for _, notification := range page.Notifications {
		notification.Reach = 0 // marking one row does not clear others
		items[notification.Category] = append(items[notification.Category], services.Item{
			ID: notification.GlobalID(), At: notification.At, Count: 1,
			ClearedBy: source.Clearing("markNotificationsRead", fmt.Sprintf("ids: [%q]", notification.UpTo())),
		})
	}
	for _, category := range services.Categories {
		list = append(list, services.Explanation{
			Source: services.SourceNotifications, Part: string(category), Count: *of.Badges.Notifications.Of(category), Items: items[category],
		})
	}
	return list, nil
}

// Digest counts the notifications of each category that arrived since a moment, seen or not.
func (s Source) Digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error {
	first := services.PostIDAt(since)
	page, err := readPage(ctx, s.db, listQuery{
		user: user, categories: services.Categories, limit: source.MostExplained, each: true, bare: true, expiry: s.expiry,
	})
	if err != nil {
		return err
	}
	counts := map[services.Category]int{}
	for _, notification := range page.Notifications {
		if notification.Place >= first {
			counts[notification.Category]++
		}
	}
	for _, category := range services.Categories {
		source.Brings(digest, services.SourceNotifications, string(category), counts[category], source.MostExplained)
	}
	return nil
}
