package badge

import (
	"context"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/store"
)

// explained is a user whose numbers are explained, and how far they have looked in views.
type explained struct {
	user   services.UserNumber
	badges *services.Badges
	seen   map[string]services.PostID
	today  int64
}

// explainer lists what is behind the numbers of one source, from the facts.
type explainer func(ctx context.Context, of explained) ([]services.Explanation, error)

// Explain answers "why is my badge 7?": for each number that is not 0, the very items behind it and how each is cleared.
// It reads the facts: while one of them has not been carried into the badges yet, the items are ahead of the number.
func (s *Service) Explain(ctx context.Context, user services.UserNumber) ([]services.Explanation, error) {
	badges, err := s.Read(ctx, user)
	if err != nil {
		return nil, err
	}
	of := explained{user: user, badges: badges, today: s.moment(ctx).today()}
	if of.seen, err = s.store.Positions(ctx, user, store.HomePage, store.LiveBoard); err != nil {
		return nil, err
	}
	explanations := []services.Explanation{}
	for _, source := range []explainer{s.explainHomeFeed, s.explainNotifications, s.explainSiteMessages, s.explainAnnouncements, s.explainConversations, s.explainLiveBoard} {
		found, err := source(ctx, of)
		if err != nil {
			return nil, err
		}
		for _, explanation := range found {
			if len(explanation.Items) > 0 || explanation.Count.Value > 0 {
				explanations = append(explanations, explanation)
			}
		}
	}
	return explanations, nil
}

// clearedBy prints a mutation with one argument, as it can be sent.
func clearedBy(mutation, argument, id string) string {
	return clearing(mutation, fmt.Sprintf("%s: %q", argument, id))
}

// clearing is a whole operation: it can be sent as it is.
func clearing(mutation, input string) string {
	return fmt.Sprintf("mutation { %s(input: {%s}) { badges { version total { value display } } } }", mutation, input)
}

// mostExplained bounds the items of one number. Only numbers far beyond every cap have more.
const mostExplained = 1000

func (s *Service) explainHomeFeed(ctx context.Context, of explained) ([]services.Explanation, error) {
	entries, err := s.store.UnreadFeed(ctx, of.user, max(of.seen[store.HomePage], s.ages.Mark(services.SourceHomeFeed, of.today)), min(s.caps.feedLimit(), mostExplained))
	if err != nil {
		return nil, err
	}
	explanation := services.Explanation{Source: services.SourceHomeFeed, Count: of.badges.HomeFeed}
	for _, entry := range entries {
		id := services.GlobalID(services.PostType, entry.Post.String())
		explanation.Items = append(explanation.Items, services.Item{
			ID: id, At: entry.Post.Time(), Count: 1, ClearedBy: clearedBy("markHomeFeedSeen", "upTo", id),
		})
	}
	return []services.Explanation{explanation}, nil
}

func (s *Service) explainNotifications(ctx context.Context, of explained) (list []services.Explanation, err error) {
	page, err := s.store.Notifications(ctx, store.NotificationQuery{
		User: of.user, Categories: services.Categories, Filter: store.UnseenNotifications,
		Limit: mostExplained, Each: true, Expiry: s.expiry,
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

func (s *Service) explainAnnouncements(ctx context.Context, of explained) ([]services.Explanation, error) {
	notices, err := s.announcements.At(ctx, s.clock.Now())
	if err != nil {
		return nil, err
	}
	standing, err := s.store.UserNotices(ctx, of.user)
	if err != nil {
		return nil, err
	}
	explanation := services.Explanation{Source: services.SourceAnnouncements, Count: of.badges.Announcements}
	for _, announcement := range notices.Unread(s.ages.AgedNotices(standing.NoticeState, of.today), services.SegmentBits(standing.Segments.Bits)) {
		id := announcement.GlobalID()
		explanation.Items = append(explanation.Items, services.Item{
			ID: id, At: time.UnixMicro(int64(announcement.Position)).UTC(), Count: 1, ClearedBy: clearedBy("markAnnouncementsRead", "upTo", id),
		})
	}
	return []services.Explanation{explanation}, nil
}

func (s *Service) explainSiteMessages(ctx context.Context, of explained) (list []services.Explanation, err error) {
	kinds := make([]string, len(of.badges.SiteMessages.Types))
	for i, kind := range of.badges.SiteMessages.Types {
		kinds[i] = kind.Type
	}
	unread, err := s.messagesByType(ctx, of.user, kinds, true)
	if err != nil {
		return nil, err
	}
	aged := s.ages.Mark(services.SourceSiteMessages, of.today)
	for _, kind := range of.badges.SiteMessages.Types {
		explanation := services.Explanation{Source: services.SourceSiteMessages, Part: kind.Type, Count: kind.Count}
		for _, message := range unread[kind.Type] {
			if message.ID <= aged {
				break // so are all that follow
			}
			explanation.Items = append(explanation.Items, services.Item{
				ID: message.GlobalID(), At: message.ID.Time(), Count: 1,
				ClearedBy: clearing("markSiteMessagesRead", fmt.Sprintf("ids: [%q]", message.GlobalID())),
			})
		}
		list = append(list, explanation)
	}
	return list, nil
}

// messagesByType reads the newest site messages of each of some types, up to mostExplained of each: in one query, unless
// one type has so many that they may hide another's.
func (s *Service) messagesByType(ctx context.Context, user services.UserNumber, kinds []string, unreadOnly bool) (map[string][]services.SiteMessage, error) {
	most := mostExplained * len(kinds)
	all, err := s.store.SiteMessages(ctx, user, kinds, unreadOnly, services.MaxPostID, most)
	if err != nil {
		return nil, err
	}
	byType := map[string][]services.SiteMessage{}
	for _, message := range all {
		if len(byType[message.Type]) < mostExplained {
			byType[message.Type] = append(byType[message.Type], message)
		}
	}
	if len(kinds) == 1 || len(all) < most {
		return byType, nil
	}
	for _, kind := range kinds {
		if byType[kind], err = s.store.SiteMessages(ctx, user, []string{kind}, unreadOnly, services.MaxPostID, mostExplained); err != nil {
			return nil, err
		}
	}
	return byType, nil
}
