package badge

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/rdb"
)

// siteMessages is the source of the unread site messages, by type.
type siteMessages struct {
	plain
	s *Service
}

func (siteMessages) name() string         { return "site messages" }
func (siteMessages) key() services.Source { return services.SourceSiteMessages }

func (siteMessages) part(badges *services.Badges, i int) *services.Count {
	if i >= len(badges.SiteMessages.Types) {
		return nil
	}
	return &badges.SiteMessages.Types[i].Count
}

func (siteMessages) sum(badges *services.Badges) *services.Count { return &badges.SiteMessages.Total }

func (m siteMessages) facts(ctx context.Context, user services.UserID, _ int64, document *rdb.Document) error {
	states, err := m.s.store.MessageStates(ctx, user)
	if err != nil {
		return err
	}
	for _, kind := range m.s.redis.MessageTypes() {
		shown := services.MessageTypeState{Type: kind}
		for _, state := range states {
			if state.Type == kind {
				shown = fanout.MessagesOf(state)
			}
		}
		document.Messages = append(document.Messages, shown)
	}
	return nil
}

// render counts the unread messages of each type.
func (siteMessages) render(v *view, badges *services.Badges) {
	oldest, expires := v.ages.OldestDay(services.SourceSiteMessages, v.today()), v.ages.Expires(services.SourceSiteMessages)
	for _, state := range v.document.Messages {
		if expires {
			state.Unread = state.Days.From(oldest)
			v.expires(services.SourceSiteMessages, state.Unread)
		}
		count := exact(state.Unread)
		if state.Unread > services.MessagesCounted {
			count = services.NewCount(services.MessagesCounted, services.AtLeast, time.Time{})
		}
		badges.SiteMessages.Types = append(badges.SiteMessages.Types, services.MessageTypeCount{Type: state.Type, Count: count})
	}
}

func (m siteMessages) explain(ctx context.Context, of explained) (list []services.Explanation, err error) {
	kinds := make([]string, len(of.badges.SiteMessages.Types))
	for i, kind := range of.badges.SiteMessages.Types {
		kinds[i] = kind.Type
	}
	unread, err := m.byType(ctx, of.user, kinds, true)
	if err != nil {
		return nil, err
	}
	aged := m.s.ages.Mark(services.SourceSiteMessages, of.today)
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

func (m siteMessages) digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error {
	first := services.PostIDAt(since)
	byType, err := m.byType(ctx, user, m.s.redis.MessageTypes(), false)
	if err != nil {
		return err
	}
	for _, kind := range m.s.redis.MessageTypes() {
		messages := byType[kind]
		older := slices.IndexFunc(messages, func(message services.SiteMessage) bool { return message.ID < first })
		if older < 0 {
			older = len(messages)
		}
		brings(digest, services.SourceSiteMessages, kind, older, mostExplained)
	}
	return nil
}

// byType reads the newest site messages of some types, up to mostExplained of each: in one query, unless one type has so many
// that they may displace another's.
func (m siteMessages) byType(ctx context.Context, user services.UserID, kinds []string, unreadOnly bool) (map[string][]services.SiteMessage, error) {
	most := mostExplained * len(kinds)
	all, err := m.s.store.SiteMessages(ctx, user, kinds, unreadOnly, services.MaxPostID, most)
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
		if byType[kind], err = m.s.store.SiteMessages(ctx, user, []string{kind}, unreadOnly, services.MaxPostID, mostExplained); err != nil {
			return nil, err
		}
	}
	return byType, nil
}
