package badge

import (
	"context"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/rdb"
	"tidings/services/store"
)

// notifications is the source of the unseen groups of notifications, by category.
type notifications struct {
	plain
	s *Service
}

func (notifications) name() string         { return "notifications" }
func (notifications) key() services.Source { return services.SourceNotifications }

func (notifications) part(badges *services.Badges, i int) *services.Count {
	if i >= len(services.Categories) {
		return nil
	}
	return badges.Notifications.Of(services.Categories[i])
}

func (notifications) sum(badges *services.Badges) *services.Count { return &badges.Notifications.Total }

func (notifications) carry(_ *view, badges *services.Badges, earlier known) {
	badges.Notifications.Newest = earlier.badges.Notifications.Newest
}

func (n notifications) facts(ctx context.Context, user services.UserID, _ int64, document *rdb.Document) error {
	states, err := n.s.store.NotificationStates(ctx, user)
	for _, state := range states {
		document.Notifications = append(document.Notifications, fanout.CountsOf(state))
	}
	return err
}

// render counts the unseen groups of the last days, by category. They leave day by day.
func (notifications) render(v *view, badges *services.Badges) {
	today := v.risen.Truncate(day)
	v.passed(today.Unix() / int64(day/time.Second))
	for _, category := range services.Categories {
		*badges.Notifications.Of(category) = exact(0)
	}
	for _, counts := range v.document.Notifications {
		value, older := v.expiry.Unexpired(counts, today.Unix()/int64(day/time.Second))
		if value > 0 {
			v.changesAt(today.Add(day))
		}
		*badges.Notifications.Older.Of(counts.Category) = older
		*badges.Notifications.Of(counts.Category) = exact(value)
		badges.Notifications.Newest = max(badges.Notifications.Newest, counts.Newest)
	}
}

func (n notifications) explain(ctx context.Context, of explained) (list []services.Explanation, err error) {
	page, err := n.s.store.Notifications(ctx, store.NotificationQuery{
		User: of.user, Categories: services.Categories, Filter: store.UnseenNotifications,
		Limit: mostExplained, Each: true, Expiry: n.s.expiry,
	})
	if err != nil {
		return nil, err
	}
	items := map[services.Category][]services.Item{}
	for _, notification := range page.Notifications {
		id := services.GlobalID(services.NotificationType, notification.Place.String())
		items[notification.Category] = append(items[notification.Category], services.Item{
			ID: id, At: notification.At, Count: 1, ClearedBy: clearing("markNotificationsRead", fmt.Sprintf("ids: [%q]", id)),
		})
	}
	for _, category := range services.Categories {
		list = append(list, services.Explanation{
			Source: services.SourceNotifications, Part: string(category), Count: *of.badges.Notifications.Of(category), Items: items[category],
		})
	}
	return list, nil
}

func (n notifications) digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error {
	first := services.PostIDAt(since)
	page, err := n.s.store.Notifications(ctx, store.NotificationQuery{
		User: user, Categories: services.Categories, Limit: mostExplained, Each: true, Expiry: n.s.expiry,
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
		brings(digest, services.SourceNotifications, string(category), counts[category], mostExplained)
	}
	return nil
}
