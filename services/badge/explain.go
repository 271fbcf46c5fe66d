package badge

import (
	"context"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/store"
)

// explainer lists what is behind the numbers of one source, from the facts.
type explainer func(ctx context.Context, user services.UserNumber, badges *services.Badges) ([]services.Explanation, error)

// Explain answers "why is my badge 7?": for each number that is not 0, the very items behind it and how each is cleared.
// It reads the facts: while one of them has not been carried into the badges yet, the items are ahead of the number.
func (s *Service) Explain(ctx context.Context, user services.UserNumber) ([]services.Explanation, error) {
	badges, err := s.Read(ctx, user)
	if err != nil {
		return nil, err
	}
	explained := []services.Explanation{}
	for _, source := range []explainer{s.explainHomeFeed, s.explainNotifications, s.explainSiteMessages, s.explainAnnouncements, s.explainConversations, s.explainLiveBoard} {
		found, err := source(ctx, user, badges)
		if err != nil {
			return nil, err
		}
		for _, explanation := range found {
			if len(explanation.Items) > 0 || explanation.Count.Value > 0 {
				explained = append(explained, explanation)
			}
		}
	}
	return explained, nil
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

func (s *Service) explainHomeFeed(ctx context.Context, user services.UserNumber, badges *services.Badges) ([]services.Explanation, error) {
	seen, err := s.store.Position(ctx, user, store.HomePage, "")
	if err != nil {
		return nil, err
	}
	entries, err := s.store.HomeFeed(ctx, user, services.MaxPostID, services.Retention)
	if err != nil {
		return nil, err
	}
	explanation := services.Explanation{Source: services.SourceHomeFeed, Count: badges.HomeFeed}
	for _, entry := range entries {
		if entry.Counts && entry.Post > seen {
			id := services.GlobalID(services.PostType, entry.Post.String())
			explanation.Items = append(explanation.Items, services.Item{
				ID: id, At: entry.Post.Time(), Count: 1, ClearedBy: clearedBy("markHomeFeedSeen", "upTo", id),
			})
		}
	}
	return []services.Explanation{explanation}, nil
}

func (s *Service) explainNotifications(ctx context.Context, user services.UserNumber, badges *services.Badges) (explained []services.Explanation, err error) {
	for _, category := range services.Categories {
		explanation := services.Explanation{Source: services.SourceNotifications, Part: string(category), Count: *badges.Notifications.Of(category)}
		page, err := s.store.Notifications(ctx, store.NotificationQuery{
			User: user, Categories: []services.Category{category}, Filter: store.UnseenNotifications, Before: services.MaxPostID,
			Limit: mostExplained, Expiry: s.expiry,
		})
		if err != nil {
			return nil, err
		}
		for _, notification := range page.Notifications {
			id := services.GlobalID(services.NotificationType, notification.Place.String())
			explanation.Items = append(explanation.Items, services.Item{
				ID: id, At: notification.Place.Time(), Count: 1, ClearedBy: clearing("markNotificationsRead", fmt.Sprintf("ids: [%q]", id)),
			})
		}
		explained = append(explained, explanation)
	}
	return explained, nil
}

func (s *Service) explainAnnouncements(ctx context.Context, user services.UserNumber, badges *services.Badges) ([]services.Explanation, error) {
	notices, err := s.mirror.Notices(ctx, s.clock.Now())
	if err != nil {
		return nil, err
	}
	standing, err := s.store.UserNotices(ctx, user)
	if err != nil {
		return nil, err
	}
	explanation := services.Explanation{Source: services.SourceAnnouncements, Count: badges.Announcements}
	for _, announcement := range notices.Unread(standing.NoticeState, services.SegmentBits(standing.Segments.Bits)) {
		id := announcement.GlobalID()
		explanation.Items = append(explanation.Items, services.Item{
			ID: id, At: time.UnixMicro(int64(announcement.Position)).UTC(), Count: 1, ClearedBy: clearedBy("markAnnouncementsRead", "upTo", id),
		})
	}
	return []services.Explanation{explanation}, nil
}

func (s *Service) explainSiteMessages(ctx context.Context, user services.UserNumber, badges *services.Badges) (explained []services.Explanation, err error) {
	for _, kind := range badges.SiteMessages.Types {
		explanation := services.Explanation{Source: services.SourceSiteMessages, Part: kind.Type, Count: kind.Count}
		unread, err := s.store.SiteMessages(ctx, user, []string{kind.Type}, true, services.MaxPostID, mostExplained)
		if err != nil {
			return nil, err
		}
		for _, message := range unread {
			explanation.Items = append(explanation.Items, services.Item{
				ID: message.GlobalID(), At: message.ID.Time(), Count: 1,
				ClearedBy: clearing("markSiteMessagesRead", fmt.Sprintf("ids: [%q]", message.GlobalID())),
			})
		}
		explained = append(explained, explanation)
	}
	return explained, nil
}
