package store

import (
	"context"

	"tidings/services"
	"tidings/services/sql"
)

// unreadMessageDays counts the newest unread of states s, one more than MessagesCounted at most, by the day of the message, which its
// id begins with, from site_message_recipients_unread alone. A state and its counts are one snapshot: counts belong to their version.
const (
	unreadMessageDays = `s.user_number, s.type, s.ver, h.message / 181193932800000, count(h.message)`
	unreadMessageRows = `site_message_recipients h ON h.user_number = s.user_number AND h.type = s.type AND h.read_at IS NULL
	AND h.message >= COALESCE((SELECT o.message FROM site_message_recipients o WHERE o.user_number = s.user_number AND o.type = s.type
		AND o.read_at IS NULL ORDER BY o.message DESC LIMIT 1 OFFSET $2), 0)`
)

const messageColumns = `m.id, m.type, m.title, m.content, m.created_at, m.updated_at`

var (
	messageStatesOf = sql.NewStatement("states of site messages", `
SELECT `+unreadMessageDays+`
FROM {rows $1 user_number BIGINT, type TEXT} AS c CROSS JOIN site_message_state s LEFT JOIN `+unreadMessageRows+`
WHERE s.user_number = c.user_number AND s.type = c.type GROUP BY 1, 2, 3, 4`)

	messageStatesOfUser = sql.NewStatement("states of a user's site messages", `
SELECT `+unreadMessageDays+` FROM site_message_state s LEFT JOIN `+unreadMessageRows+` WHERE s.user_number = $1 GROUP BY 1, 2, 3, 4`)

	messagesOf = sql.NewStatement("a user's site messages", `
SELECT `+messageColumns+`, h.read_at FROM site_message_recipients h CROSS JOIN site_messages m
WHERE m.id = h.message AND h.user_number = $1 AND h.message < $2 AND {in h.type $3 TEXT}
ORDER BY h.message DESC LIMIT $4`)

	unreadMessagesOf = sql.NewStatement("a user's unread site messages", `
SELECT `+messageColumns+`, h.read_at FROM site_message_recipients h CROSS JOIN site_messages m
WHERE m.id = h.message AND h.user_number = $1 AND h.message < $2 AND {in h.type $3 TEXT} AND h.read_at IS NULL
ORDER BY h.message DESC LIMIT $4`)

	messagesByID = sql.NewStatement("a user's site messages by id", `
SELECT `+messageColumns+`, h.read_at FROM site_message_recipients h CROSS JOIN site_messages m
WHERE m.id = h.message AND h.user_number = $1 AND {in h.message $2 BIGINT}`)

	oneMessage = sql.NewStatement("a site message", `SELECT `+messageColumns+` FROM site_messages m WHERE m.id = $1`)

	countReads = sql.NewStatement("count reads of a site message", `
SELECT count(*), count(read_at) FROM site_message_recipients WHERE message = $1`)
)

// MessageStates reads a user's states, one for each type of which they ever got a message, in order of type.
func (s *Store) MessageStates(ctx context.Context, user services.UserID) ([]MessageState, error) {
	return messageStates(ctx, s.DB.Runner, messageStatesOfUser, user)
}

func messageStates(ctx context.Context, r sql.Runner, st sql.Statement, which any) (states []MessageState, err error) {
	type box struct {
		user services.UserID
		kind string
	}
	places := map[box]int{}
	err = r.Each(ctx, st, []any{which, services.MessagesCounted}, func(scan func(...any) error) error {
		var state MessageState
		var day sql.NullInt64 // null where nothing is unread
		var unread int
		if err := scan(&state.User, &state.Type, &state.Version, &day, &unread); err != nil {
			return err
		}
		place, known := places[box{state.User, state.Type}]
		if !known {
			place = len(states)
			places[box{state.User, state.Type}] = place
			states = append(states, state)
		}
		if day.Valid {
			states[place].Unread += unread
			states[place].Days.Add(day.Int64, unread)
		}
		return nil
	})
	return sortStates(states), err
}

// SiteMessages lists a user's messages of some types, the newest first, those before one id, at most limit; unreadOnly leaves
// out the read ones.
func (s *Store) SiteMessages(ctx context.Context, user services.UserID, types []string, unreadOnly bool, before services.PostID, limit int) ([]services.SiteMessage, error) {
	st := messagesOf
	if unreadOnly {
		st = unreadMessagesOf
	}
	return s.messages(ctx, st, user, before, types, limit)
}

// SiteMessagesByID reads messages of a user by their ids; one that the user does not have is absent.
func (s *Store) SiteMessagesByID(ctx context.Context, user services.UserID, ids []services.PostID) (map[services.PostID]services.SiteMessage, error) {
	list, err := s.messages(ctx, messagesByID, user, ids)
	byID := make(map[services.PostID]services.SiteMessage, len(list))
	for _, message := range list {
		byID[message.ID] = message
	}
	return byID, err
}

func (s *Store) messages(ctx context.Context, st sql.Statement, args ...any) (list []services.SiteMessage, err error) {
	err = s.Each(ctx, st, args, func(scan func(...any) error) error {
		var m services.SiteMessage
		var created, updated int64
		var read sql.NullInt64
		err := scan(&m.ID, &m.Type, &m.Title, &m.Content, &created, &updated, &read)
		m.CreatedAt, m.UpdatedAt, m.ReadAt = sql.FromMicros(created), sql.FromMicros(updated), readAt(read)
		list = append(list, m)
		return err
	})
	return list, err
}

// SiteMessage reads a message as its sender sees it, with the number of its recipients and how many of them have read it.
// NOT_FOUND when there is none.
func (s *Store) SiteMessage(ctx context.Context, id services.PostID) (report services.SiteMessageReport, err error) {
	var created, updated int64
	m := &report.Message
	found, err := s.One(ctx, oneMessage, []any{id}, &m.ID, &m.Type, &m.Title, &m.Content, &created, &updated)
	if err == nil && !found {
		err = noSiteMessage("id", id)
	}
	if err != nil {
		return report, err
	}
	m.CreatedAt, m.UpdatedAt = sql.FromMicros(created), sql.FromMicros(updated)
	_, err = s.One(ctx, countReads, []any{id}, &report.Recipients, &report.ReadCount)
	return report, err
}
