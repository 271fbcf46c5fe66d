package notifications

import (
	"context"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// Source is the badge source of the unseen groups of notifications, by category. It implements badge.Source. Counts are kept by
// day, so that they expire without a write.
type Source struct {
	source.DefaultMethods
	db     *sql.DB
	expiry ExpiryDays
	memory *CategoryMemory // nil: there are no categories of the host application
}

// Source is the service's badge source.
func (s *Service) Source() Source { return Source{db: s.db, expiry: s.expiry, memory: s.Memory} }

// Name returns the name of the source for logs.
func (Source) Name() string { return "notifications" }

// Key returns the key of the source in display policies, caps and the total.
func (Source) Key() services.Source { return services.SourceNotifications }

// Part is the count of the i-th category; the host application's categories come last. nil ends the parts.
func (Source) Part(badges *services.Badges, i int) *services.Count {
	if i < len(services.Categories) {
		return badges.Notifications.Of(services.Categories[i])
	}
	if i -= len(services.Categories); i < len(badges.Notifications.HostCounts) {
		return &badges.Notifications.HostCounts[i].Count
	}
	return nil
}

// Empty fills the document of a user without notifications. The document still has the definitions, whose categories are shown as
// 0.
func (s Source) Empty(document *rdb.Document) {
	document.Notifications, document.Categories = nil, s.memory.Current()
}

// Sum is the count of all categories together.
func (Source) Sum(badges *services.Badges) *services.Count { return &badges.Notifications.Total }

// CopyNonCounts copies the position of the newest notification from earlier badges. It sets the version of the list to 0, unknown,
// so that a watcher of the list reads it again.
func (Source) CopyNonCounts(_ *source.Rendering, badges *services.Badges, earlier source.ShownBadges) {
	badges.Notifications.Newest, badges.Notifications.Version = earlier.Badges.Notifications.Newest, 0
	badges.Notifications.Positions = earlier.Badges.Notifications.Positions
}

// Facts counts every category from its rows, for badges that Redis does not have.
func (s Source) Facts(ctx context.Context, users []services.UserID, _ int64, documents []rdb.Document) error {
	preferences, err := readPreferences(ctx, s.db, selectPreferences, users)
	if err != nil {
		return err
	}
	states, err := statesOfUsers(ctx, s.db, users)
	if err != nil {
		return err
	}
	var hosts *services.HostCategories
	if s.memory != nil {
		if hosts, err = s.memory.definitionsFor(ctx, categoriesOf(states)); err != nil {
			return err
		}
	}
	counts := make(map[services.UserID][]services.CategoryCounts, len(users))
	for _, state := range states {
		if of, shown := state.documentCounts(hosts); shown {
			counts[state.Recipient] = append(counts[state.Recipient], of)
		}
	}
	for i, user := range users {
		document := &documents[i]
		document.Modes, document.Categories, document.Notifications = preferences[user].modes(), hosts, counts[user]
	}
	return nil
}

// Render counts the unseen groups of the last days, by category. Groups expire day by day: while any of them counts, the badges
// change at the next midnight.
func (s Source) Render(v *source.Rendering, badges *services.Badges) {
	today, hosts := v.Today(), v.Document.Categories
	v.AddTimeBoundaries(today)
	// The version of the definitions is a part of the badges' version.
	v.AddSequence(hosts.VersionOrZero())
	shown := &badges.Notifications
	shown.Version, shown.HostCategories = 1, hosts // a version is known even for a user without notifications
	// A category without a field has never had a notification: it is 0, and known.
	for _, category := range services.Categories {
		*shown.Of(category) = source.ExactCount(0)
		shown.Of(category).Mode = v.Document.Modes.EffectiveMode(category, services.CategoryCounted)
	}
	if all := hosts.All(); len(all) > 0 {
		shown.HostCounts = make([]services.CategoryCount, len(all))
		for i, host := range all {
			shown.HostCounts[i] = services.CategoryCount{Category: services.CategoryHost, Name: string(host.Name), Count: source.ExactCount(0)}
			shown.HostCounts[i].Count.Mode = v.Document.Modes.EffectiveMode(host.Name, host.DefaultMode)
		}
	}
	for _, counts := range v.Document.Notifications {
		count, older := shown.Of(counts.Category), shown.Older.Of(counts.Category)
		expiry := s.expiry
		if counts.HostCategoryID > 0 {
			host, defined := hosts.Find(counts.Category)
			if !defined {
				continue
			}
			// The expiry is in the definition and not in the configuration.
			one := shown.HostCount(counts.Category)
			one.Newest = counts.Newest
			count, older, expiry = &one.Count, &one.Older, ExpiryDays{host.Name: host.ExpiryDays}
		}
		value, aged := expiry.splitByExpiry(counts, today)
		// If nothing can expire, midnight changes nothing.
		if value > 0 {
			v.RecordChangeAt(services.DayStart(today + 1))
		}
		// The facts still count the category: a user who turns it on again sees the unseen items.
		if count.Mode == services.CategoryOff {
			value, aged = 0, 0
		}
		*older, count.Value = aged, value
		shown.Newest = max(shown.Newest, counts.Newest)
		if position := shown.Positions.Of(counts.Category); position != nil {
			*position = counts.Newest
		}
		// The versions only rise, so their sum rises with any of them.
		shown.Version += counts.Version
	}
}

// Explain lists the unseen notifications of each category that counts. Each item says which call clears it.
func (s Source) Explain(ctx context.Context, of source.ExplainRequest) ([]services.Explanation, error) {
	return s.explain(ctx, of, of.MaxItems(), func(services.Category) services.NotificationID { return 0 })
}

// maxNewestSearched is the number of unseen notifications of a category among which Newest looks for one that the badges count.
const maxNewestSearched = 4

// Newest explains each category by the newest notifications that the badges count. A notification is in SQL a moment before it is in
// the counts. If it alerted in that moment, the message would have a number without it, and a device that takes only alerts would
// keep this number.
func (s Source) Newest(ctx context.Context, of source.ExplainRequest) (list []services.Explanation, known bool, err error) {
	shown := &of.Badges.Notifications
	list, err = s.explain(ctx, of, maxNewestSearched, func(category services.Category) services.NotificationID {
		if position := shown.Positions.Of(category); position != nil {
			return *position
		}
		if count := shown.HostCount(category); count != nil {
			return count.Newest
		}
		return 0
	})
	return list, true, err
}

// explain lists the unseen notifications of each category that counts, up to a position and at most limit of each. It reads limit
// of each before it leaves out those after the position. Position 0, of badges that know no notification of the category, leaves
// out none.
func (s Source) explain(ctx context.Context, of source.ExplainRequest, limit int, upTo func(category services.Category) services.NotificationID) (list []services.Explanation, err error) {
	preferences, err := preferencesOf(ctx, s.db, of.User)
	if err != nil {
		return nil, err
	}
	all, hosts := preferences.countingCategories(s.memory.allCategories()), s.memory.Current()
	page, err := readPage(ctx, s.db, listQuery{
		user: of.User, categories: all, filter: onlyUnseen, limit: limit, limitPerCategory: true, withoutActors: true, expiry: s.expiry.withHostCategories(hosts),
	})
	if err != nil {
		return nil, err
	}
	items := map[services.Category][]services.Item{}
	for _, notification := range page.Notifications {
		if last := upTo(notification.Category); last > 0 && notification.NewestPosition > last {
			continue
		}
		notification.MarkAllUpTo = 0 // marking one row does not clear others
		items[notification.Category] = append(items[notification.Category], services.Item{
			ID: notification.GlobalID(), At: notification.At, Count: 1,
			ClearedBy: source.ClearingMutationWithInput("markNotificationsRead", fmt.Sprintf("ids: [%q]", notification.UpTo())),
		})
	}
	for _, one := range of.Badges.Notifications.Categories() {
		list = append(list, services.Explanation{
			Source: services.SourceNotifications, Part: one.Name, Count: one.Count, Items: items[services.Category(one.Name)],
		})
	}
	return list, nil
}

// Digest counts the notifications of each category that arrived since a moment, seen or not: up to MaxExplainedItems of each
// category, and none of a category that the user turned off.
func (s Source) Digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error {
	preferences, err := preferencesOf(ctx, s.db, user)
	if err != nil {
		return err
	}
	// A position begins with its time, so the positions of causes since then are at least the first ID of that moment.
	first, all := services.NotificationID(services.SortableIDAt(since)), preferences.countingCategories(s.memory.allCategories())
	page, err := readPage(ctx, s.db, listQuery{
		user: user, categories: all, limit: source.MaxExplainedItems, limitPerCategory: true, withoutActors: true, expiry: s.expiry.withHostCategories(s.memory.Current()),
	})
	if err != nil {
		return err
	}
	counts := map[services.Category]int{}
	for _, notification := range page.Notifications {
		if notification.NewestPosition >= first {
			counts[notification.Category]++
		}
	}
	for _, category := range all {
		source.AddDigestPart(digest, services.SourceNotifications, string(category), counts[category], source.MaxExplainedItems)
	}
	return nil
}
