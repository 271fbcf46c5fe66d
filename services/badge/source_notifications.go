package badge

import (
	"context"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/fanout"
	"tidings/services/rdb"
	"tidings/services/store"
)

// notifications is the source of the unseen groups of notifications, by category.
type notifications struct {
	source.Plain
	s *Service
}

func (notifications) Name() string         { return "notifications" }
func (notifications) Key() services.Source { return services.SourceNotifications }

func (notifications) Part(badges *services.Badges, i int) *services.Count {
	if i >= len(services.Categories) {
		return nil
	}
	return badges.Notifications.Of(services.Categories[i])
}

func (notifications) Sum(badges *services.Badges) *services.Count { return &badges.Notifications.Total }

func (notifications) Carry(_ *source.View, badges *services.Badges, earlier source.Shown) {
	badges.Notifications.Newest, badges.Notifications.Version = earlier.Badges.Notifications.Newest, 0
}

func (n notifications) Facts(ctx context.Context, user services.UserID, _ int64, document *rdb.Document) error {
	states, err := n.s.store.NotificationStates(ctx, user)
	for _, state := range states {
		document.Notifications = append(document.Notifications, fanout.CountsOf(state))
	}
	return err
}

// Render counts the unseen groups of the last days, by category. They leave day by day.
func (notifications) Render(v *source.View, badges *services.Badges) {
	today := v.Risen.Truncate(day)
	v.Passed(today.Unix() / int64(day/time.Second))
	for _, category := range services.Categories {
		*badges.Notifications.Of(category) = source.Exact(0)
	}
	badges.Notifications.Version = 1 // known, also of a user without any
	for _, counts := range v.Document.Notifications {
		value, older := v.Expiry.Unexpired(counts, today.Unix()/int64(day/time.Second))
		if value > 0 {
			v.ChangesAt(today.Add(day))
		}
		*badges.Notifications.Older.Of(counts.Category) = older
		*badges.Notifications.Of(counts.Category) = source.Exact(value)
		badges.Notifications.Newest = max(badges.Notifications.Newest, counts.Newest)
		badges.Notifications.Version += uint64(counts.Version)
	}
}

func (n notifications) Explain(ctx context.Context, of source.Explained) (list []services.Explanation, err error) {
	page, err := n.s.store.Notifications(ctx, store.NotificationQuery{
		User: of.User, Categories: services.Categories, Filter: store.UnseenNotifications,
		Limit: source.MostExplained, Each: true, Expiry: n.s.settings.Expiry,
	})
	if err != nil {
		return nil, err
	}
	items := map[services.Category][]services.Item{}
	for _, notification := range page.Notifications {
		notification.Reach = 0 // each row clears itself alone
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

func (n notifications) Digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error {
	first := services.PostIDAt(since)
	page, err := n.s.store.Notifications(ctx, store.NotificationQuery{
		User: user, Categories: services.Categories, Limit: source.MostExplained, Each: true, Expiry: n.s.settings.Expiry,
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
