package messages

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

// Source is the badge source of the unread messages, by type. It implements badge.Source.
type Source struct {
	source.DefaultMethods
	db *sql.DB
	// The types are in the order of the settings, which is also their order in the badges.
	types  []string
	expiry services.SourceExpiry // after how many days a message leaves the count
}

// NewSource makes the source of these types. Rendering needs no database: it is exported for the tests of badges, which render without one.
func NewSource(db *sql.DB, types []string, ages services.SourceExpiry) Source {
	return Source{db: db, types: types, expiry: ages}
}

// Source is the service's badge source.
func (s *Service) Source() Source { return NewSource(s.db, s.types, s.expiry) }

// Name is the source's name in logs.
func (Source) Name() string { return "site messages" }

// Key is SITE_MESSAGES.
func (Source) Key() services.Source { return services.SourceSiteMessages }

// Part is the count of the i-th type.
func (Source) Part(badges *services.Badges, i int) *services.Count {
	// Badges may come from another release, whose settings had fewer types.
	if i >= len(badges.SiteMessages.Types) {
		return nil
	}
	return &badges.SiteMessages.Types[i].Count
}

// Sum is the count of all types.
func (Source) Sum(badges *services.Badges) *services.Count { return &badges.SiteMessages.Total }

// Facts counts the unread messages of every type in SQL and writes the counts into the documents.
func (s Source) Facts(ctx context.Context, users []services.UserID, _ int64, documents []rdb.Document) error {
	states, err := readUserStates(ctx, s.db, users...)
	if err != nil {
		return err
	}
	byUser := make(map[services.UserID][]unreadState, len(users))
	for _, state := range states {
		byUser[state.User] = append(byUser[state.User], state)
	}
	for i, user := range users {
		// A type of which the user never got a message has no state, and its count is 0.
		for _, kind := range s.types {
			shown := services.MessageTypeState{Type: kind}
			for _, state := range byUser[user] {
				if state.Type == kind {
					shown = state.documentState()
				}
			}
			documents[i].Messages = append(documents[i].Messages, shown)
		}
	}
	return nil
}

// Empty gives a document no unread messages of any type.
func (s Source) Empty(document *rdb.Document) {
	for _, kind := range s.types {
		document.Messages = append(document.Messages, services.MessageTypeState{Type: kind})
	}
}

// Render counts the unread messages of each type.
func (Source) Render(v *source.Rendering, badges *services.Badges) {
	oldest, expires := v.Expiry.OldestCountedDay(services.SourceSiteMessages, v.Today()), v.Expiry.Expires(services.SourceSiteMessages)
	for _, state := range v.Document.Messages {
		if expires {
			state.Unread = state.UnreadByDay.CountSince(oldest)
			v.RecordExpiry(services.SourceSiteMessages, state.Unread)
		}
		count := source.ExactCount(state.Unread)
		// SQL counts one more than is shown, to tell an exact count from "or more".
		if state.Unread > services.MaxCountedSiteMessages {
			count = services.NewCount(services.MaxCountedSiteMessages, services.AtLeast, time.Time{})
		}
		badges.SiteMessages.Types = append(badges.SiteMessages.Types, services.MessageTypeCount{Type: state.Type, Count: count, Version: state.Version})
	}
}

// Explain lists the unread messages of each type.
func (s Source) Explain(ctx context.Context, of source.ExplainRequest) (explanations []services.Explanation, err error) {
	// kinds are the types that the badges show, so that each explanation stands beside its count.
	kinds := services.Map(of.Badges.SiteMessages.Types, func(kind services.MessageTypeCount) string { return kind.Type })
	unread, err := s.newest(ctx, of.User, kinds, true, of.MaxItems())
	if err != nil {
		return nil, err
	}
	// aged is an ID: messages up to this ID have left the count.
	aged := ID(s.expiry.ExpiredUpTo(services.SourceSiteMessages, of.Today))
	for _, kind := range of.Badges.SiteMessages.Types {
		explanation := services.Explanation{Source: services.SourceSiteMessages, Part: kind.Type, Count: kind.Count}
		for _, message := range unread[kind.Type] {
			if message <= aged {
				break // so are all that follow
			}
			id := message.GlobalID()
			explanation.Items = append(explanation.Items, services.Item{
				ID: id, At: message.Time(), Count: 1, ClearedBy: source.ClearingMutationWithInput("markSiteMessagesRead", fmt.Sprintf("ids: [%q]", id)),
			})
		}
		explanations = append(explanations, explanation)
	}
	return explanations, nil
}

// Newest lists up to one message more than the types count: with it the caller sees that a message is in SQL and not in the count yet.
func (s Source) Newest(ctx context.Context, of source.ExplainRequest) (explanations []services.Explanation, known bool, err error) {
	for _, kind := range of.Badges.SiteMessages.Types {
		of.Limit = max(of.Limit, kind.Count.Value+1)
	}
	// With more unread messages than are counted, one more says nothing.
	of.Limit = min(of.Limit, services.MaxCountedSiteMessages)
	explanations, err = s.Explain(ctx, of)
	return explanations, true, err
}

// Digest counts the messages of each type that were sent since a moment, read or not.
func (s Source) Digest(ctx context.Context, user services.UserID, since time.Time, digest *services.Digest) error {
	first := ID(services.SortableIDAt(since))
	newest, err := s.newest(ctx, user, s.types, false, source.MaxExplainedItems)
	if err != nil {
		return err
	}
	for _, kind := range s.types {
		messages := newest[kind]
		// The newest come first: all messages before the first older one were sent since the moment.
		older := slices.IndexFunc(messages, func(message ID) bool { return message < first })
		if older < 0 {
			older = len(messages)
		}
		source.AddDigestPart(digest, services.SourceSiteMessages, kind, older, source.MaxExplainedItems)
	}
	return nil
}

// newest reads the IDs of the newest messages of some types, up to limit of each: in one query, unless messages of one type may
// have displaced messages of another. The first query asks for as many as all types together may need.
func (s Source) newest(ctx context.Context, user services.UserID, kinds []string, unreadOnly bool, limit int) (map[string][]ID, error) {
	st, byType := newestOf, map[string][]ID{}
	if unreadOnly {
		st = newestUnreadOf
	}
	read := func(kinds []string, most int) (rows int, err error) {
		err = s.db.Each(ctx, st, []any{user, kinds, most}, func(scan func(...any) error) error {
			var id ID
			var kind string
			err := scan(&id, &kind)
			if rows++; len(byType[kind]) < limit {
				byType[kind] = append(byType[kind], id)
			}
			return err
		})
		return rows, err
	}
	most := limit * len(kinds)
	// With fewer rows than asked for, these are all messages, so no type has displaced another.
	rows, err := read(kinds, most)
	if err != nil || len(kinds) == 1 || rows < most {
		return byType, err
	}
	for _, kind := range kinds {
		// The first query may have brought only some messages of this type.
		byType[kind] = nil
		if _, err := read([]string{kind}, limit); err != nil {
			return nil, err
		}
	}
	return byType, nil
}
