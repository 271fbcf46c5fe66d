package badge

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/fanout"
	"tidings/services/rdb"
)

// siteMessages is the source of the unread site messages, by type.
type siteMessages struct {
	source.Plain
	s     *Service
	types []string // those there are
}

func (siteMessages) Name() string         { return "site messages" }
func (siteMessages) Key() services.Source { return services.SourceSiteMessages }

func (siteMessages) Part(badges *services.Badges, i int) *services.Count {
	if i >= len(badges.SiteMessages.Types) {
		return nil
	}
	return &badges.SiteMessages.Types[i].Count
}

func (siteMessages) Sum(badges *services.Badges) *services.Count { return &badges.SiteMessages.Total }

func (m siteMessages) Facts(ctx context.Context, user services.UserID, _ int64, document *rdb.Document) error {
	states, err := m.s.store.MessageStates(ctx, user)
	if err != nil {
		return err
	}
	for _, kind := range m.types {
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

// Empty counts nothing, of every type.
func (m siteMessages) Empty(document *rdb.Document) {
	for _, kind := range m.types {
		document.Messages = append(document.Messages, services.MessageTypeState{Type: kind})
	}
}

// Render counts the unread messages of each type.
func (siteMessages) Render(v *source.View, badges *services.Badges) {
	oldest, expires := v.Ages.OldestDay(services.SourceSiteMessages, v.Today()), v.Ages.Expires(services.SourceSiteMessages)
	for _, state := range v.Document.Messages {
		if expires {
			state.Unread = state.Days.From(oldest)
			v.Expires(services.SourceSiteMessages, state.Unread)
		}
		count := source.Exact(state.Unread)
		if state.Unread > services.MessagesCounted {
			count = services.NewCount(services.MessagesCounted, services.AtLeast, time.Time{})
		}
		badges.SiteMessages.Types = append(badges.SiteMessages.Types, services.MessageTypeCount{Type: state.Type, Count: count})
	}
}

func (m siteMessages) Explain(ctx context.Context, of source.Explained) (list []services.Explanation, err error) {
	kinds := make([]string, len(of.Badges.SiteMessages.Types))
	for i, kind := range of.Badges.SiteMessages.Types {
		kinds[i] = kind.Type
	}
	unread, err := m.byType(ctx, of.User, kinds, true)
	if err != nil {
		return nil, err
	}
	aged := m.s.settings.Ages.Mark(services.SourceSiteMessages, of.Today)
	for _, kind := range of.Badges.SiteMessages.Types {
		explanation := services.Explanation{Source: services.SourceSiteMessages, Part: kind.Type, Count: kind.Count}
		for _, message := range unread[kind.Type] {
			if message.ID <= aged {
				break // so are all that follow
			}
			explanation.Items = append(explanation.Items, services.Item{
				ID: message.GlobalID(), At: message.ID.Time(), Count: 1,
				ClearedBy: source.Clearing("markSiteMessagesRead", fmt.Sprintf("ids: [%q]", message.GlobalID())),
			})
		}
		list = append(list, explanation)
	}
	return list, nil
}

func (m siteMessages) Digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error {
	first := services.PostIDAt(since)
	byType, err := m.byType(ctx, user, m.types, false)
	if err != nil {
		return err
	}
	for _, kind := range m.types {
		messages := byType[kind]
		older := slices.IndexFunc(messages, func(message services.SiteMessage) bool { return message.ID < first })
		if older < 0 {
			older = len(messages)
		}
		source.Brings(digest, services.SourceSiteMessages, kind, older, source.MostExplained)
	}
	return nil
}

// byType reads the newest site messages of some types, up to source.MostExplained of each: in one query, unless one type has so many
// that they may displace another's.
func (m siteMessages) byType(ctx context.Context, user services.UserID, kinds []string, unreadOnly bool) (map[string][]services.SiteMessage, error) {
	most := source.MostExplained * len(kinds)
	all, err := m.s.store.SiteMessages(ctx, user, kinds, unreadOnly, services.MaxPostID, most)
	if err != nil {
		return nil, err
	}
	byType := map[string][]services.SiteMessage{}
	for _, message := range all {
		if len(byType[message.Type]) < source.MostExplained {
			byType[message.Type] = append(byType[message.Type], message)
		}
	}
	if len(kinds) == 1 || len(all) < most {
		return byType, nil
	}
	for _, kind := range kinds {
		if byType[kind], err = m.s.store.SiteMessages(ctx, user, []string{kind}, unreadOnly, services.MaxPostID, source.MostExplained); err != nil {
			return nil, err
		}
	}
	return byType, nil
}
