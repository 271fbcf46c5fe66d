package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// exported is one type of lines of an export. Each row of its statement is one line.
type exported struct {
	kind   string
	fields string // NAME FORM, NAME FORM for the columns, in their order; see exportForms
	sql.Statement
}

func export(kind, fields, text string) exported {
	return exported{kind, fields, sql.NewStatement("export "+kind, text)}
}

// exports are all types of lines, in their order. The user is the parameter $1; other users are given by their keys.
var exports = []exported{
	export("profile", "user user, name text, avatarUrl text, updatedAt time, seenAt time, visitBefore time",
		`SELECT key, name, avatar_url, updated_at, seen_at, visited_before FROM users WHERE number = $1`),
	export("follow", "user user, since moment, shown bool",
		`SELECT u.key, f.since, f.shown FROM follows f JOIN users u ON u.number = f.followee WHERE f.follower = $1 ORDER BY f.followee`),
	export("pastFollow", "user user, until time",
		`SELECT u.key, p.until_at FROM past_follows p JOIN users u ON u.number = p.followee WHERE p.follower = $1 ORDER BY p.followee`),
	export("followers", "count number", `SELECT count(*) FROM follows WHERE followee = $1`),
	export("mute", "user user, at moment, until time",
		`SELECT u.key, m.made, m.until FROM mutes m JOIN users u ON u.number = m.muted WHERE m.muter = $1 ORDER BY m.made`),
	export("block", "user user, at moment",
		`SELECT u.key, b.made FROM blocks b JOIN users u ON u.number = b.blocked WHERE b.blocker = $1 ORDER BY b.made`),
	export("hide", "user user, at moment",
		`SELECT u.key, h.made FROM hides h JOIN users u ON u.number = h.follower WHERE h.author = $1 ORDER BY h.made`),
	export("author", "followers number, countedAt time, mode number, pinned number",
		`SELECT followers, counted_at, mode, pinned FROM authors WHERE author = $1`),
	export("post", "id post, publishedAt moment, key text, kind text, parent post, body text, updatedAt time, deletedAt time",
		`SELECT id, id, import_key, kind, parent, body, updated_at, deleted_at FROM posts WHERE author = $1 ORDER BY id`),
	export("mention", "post post, user user", `SELECT m.post, u.key FROM posts p JOIN mentions m ON m.post = p.id JOIN users u ON u.number = m.mentioned
		WHERE p.author = $1 ORDER BY m.post, m.mentioned`),
	export("like", "post post, at time", `SELECT post, liked_at FROM likes WHERE liker = $1 ORDER BY post`),
	export("show", "id show, key text, title text, coverUrl text, replayUrl text, status showStatus, plannedAt time, startedAt time, endedAt time, cancelledAt time, updatedAt time",
		`SELECT id, import_key, title, cover_url, replay_url, status, planned_at, started_at, ended_at, cancelled_at, updated_at FROM shows
		WHERE host = $1 ORDER BY id`),
	export("reminder", "show show, at time", `SELECT show, made FROM reminders WHERE user_number = $1 ORDER BY show`),
	export("notification", "id notification, category text, post post, show show, user user, answer post, at time, standing bool, seen bool, read bool",
		`SELECT COALESCE(NULLIF(g.first, 0), NULLIF(g.newest, 0), c.place), c.category, CASE WHEN c.category <> 'REMINDER' THEN c.subject END, CASE WHEN c.category = 'REMINDER' THEN c.subject END, u.key, c.object, c.at, c.standing,
			COALESCE(s.seen >= c.place, FALSE), COALESCE(g.read_to >= c.place, FALSE)
		FROM notification_causes c LEFT JOIN users u ON u.number = c.actor
		LEFT JOIN notification_state s ON s.recipient = c.recipient AND s.category = c.category
		LEFT JOIN notification_groups g ON g.recipient = c.recipient AND g.category = c.category AND g.subject = c.subject AND g.bucket = c.bucket
		WHERE c.recipient = $1 ORDER BY c.place`),
	export("notificationMark", "category text, seenUpTo upTo", `SELECT category, seen FROM notification_state WHERE recipient = $1 ORDER BY category`),
	export("position", "view text, id text, position digits, accessedAt time",
		`SELECT view_code, view_id, position, last_access_at FROM user_access_log WHERE user_number = $1 ORDER BY view_code, view_id`),
	export("siteMessage", "id siteMessage, kind text, title text, content text, sentAt time, updatedAt time, readAt time",
		`SELECT m.id, m.type, m.title, m.content, m.created_at, m.updated_at, r.read_at
		FROM site_message_recipients r JOIN site_messages m ON m.id = r.message WHERE r.user_number = $1 ORDER BY m.id`),
	export("announcementMark", "readUpTo time, dotsFrom time", `SELECT position, dots_from FROM user_notices WHERE user_number = $1`),
	export("dot", "name text, clearedAt time", `SELECT dot, seen FROM user_dots WHERE user_number = $1 ORDER BY dot`),
	export("segment", "name text", `SELECT s.name FROM user_segments u JOIN segments s ON ((u.segments >> CAST(s.bit AS INTEGER)) & 1) = 1
		WHERE u.user_number = $1 ORDER BY s.bit`),
	export("displayPolicy", "outOfTotal sources, asDot sources, quietFrom number, quietTo number, offsetEast number",
		`SELECT out_of_total, as_dot, quiet_from, quiet_to, offset_east FROM display_policies WHERE user_number = $1`),
	export("groupPolicy", "policy text", `SELECT policy FROM group_policies WHERE user_number = $1`),
	export("conversation", "id conversation, kind text, title text, joinedAt time, leftAt time, muted bool, readUpTo number, mentions number",
		`SELECT c.id, c.kind, c.title, m.joined_at, m.left_at, m.muted, m.base, m.mentions
		FROM conversation_members m JOIN conversations c ON c.id = m.conversation WHERE m.user_number = $1 ORDER BY c.id`),
	export("message", "conversation conversation, number number, body text, sentAt time, recalledAt time",
		`SELECT s.conversation, s.number, s.body, s.sent_at, s.recalled_at FROM conversation_members m
		JOIN conversation_messages s ON s.conversation = m.conversation AND s.author = m.user_number WHERE m.user_number = $1 ORDER BY s.conversation, s.number`),
	export("messageMention", "conversation conversation, number number",
		`SELECT conversation, number FROM conversation_mentions WHERE user_number = $1 ORDER BY conversation, number`),
	export("device", "conversation conversation, device text, insideUntil time",
		`SELECT conversation, device, until_at FROM conversation_leases WHERE user_number = $1 ORDER BY conversation, device`),
}

// exportForms define how a column is written. An empty value (null, no id, no time) is written as null.
var exportForms = map[string]func(value int64, text string) any{
	"text":   func(_ int64, text string) any { return text },
	"user":   func(_ int64, text string) any { return orNull(services.GlobalID(services.UserType, text), text == "") },
	"number": func(value int64, _ string) any { return value },
	"digits": func(value int64, _ string) any { return fmt.Sprint(value) },
	"bool":   func(value int64, _ string) any { return value != 0 },
	"time": func(value int64, _ string) any {
		return orNull(sql.FromMicros(value).Format(time.RFC3339Nano), value == 0)
	},
	"moment": func(value int64, _ string) any {
		return orNull(services.PostID(value).Time().Format(time.RFC3339Nano), value == 0)
	},
	"post":         placeForm(services.PostType),
	"show":         placeForm(services.ShowType),
	"showStatus":   func(value int64, _ string) any { return services.ShowStatuses[value] },
	"notification": placeForm(services.NotificationType),
	"upTo": func(value int64, _ string) any {
		return orNull(services.UpToText(services.PostID(value)), value == 0)
	},
	"siteMessage": placeForm(services.SiteMessageType),
	"conversation": func(value int64, _ string) any {
		return services.GlobalID(services.ConversationType, fmt.Sprint(value))
	},
	"sources": func(value int64, _ string) any {
		names := []services.Source{}
		for source, has := range services.UnpackSources(uint64(value)) {
			if has {
				names = append(names, source)
			}
		}
		slices.Sort(names)
		return names
	},
}

func placeForm(kind string) func(int64, string) any {
	return func(value int64, _ string) any {
		return orNull(services.GlobalID(kind, services.PostID(value).String()), value == 0)
	}
}

func orNull(text string, nothing bool) any {
	if nothing {
		return nil
	}
	return text
}

// Export passes everything that SQL holds of a user to emit, one JSON object in a line each. An error of emit ends it. Each
// type of lines is one snapshot, and memory use does not grow with their number. It has the keys and ids of others where the
// user did something with them, and nothing of what the others did.
func (s *Store) Export(ctx context.Context, user services.UserID, emit func(line []byte) error) error {
	for _, table := range exports {
		var refused error
		err := s.Each(ctx, table.Statement, []any{user}, func(scan func(...any) error) error {
			line, err := table.line(scan)
			if err == nil {
				err = emit(line)
				refused = err
			}
			return err
		})
		if refused != nil {
			return refused
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// line prints a row: its type first, then the fields in their order.
func (e exported) line(scan func(...any) error) ([]byte, error) {
	fields := strings.Split(e.fields, ", ")
	values, into := make([]any, len(fields)), make([]any, len(fields))
	for i := range values {
		into[i] = &values[i]
	}
	if err := scan(into...); err != nil {
		return nil, err
	}
	var line bytes.Buffer
	fmt.Fprintf(&line, `{"type":%q`, e.kind)
	for i, field := range fields {
		name, form, _ := strings.Cut(field, " ")
		var shown any
		if values[i] != nil {
			number, text := columnValue(values[i])
			shown = exportForms[form](number, text)
		}
		printed, err := json.Marshal(shown)
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", name, e.kind, err)
		}
		fmt.Fprintf(&line, ",%q:%s", name, printed)
	}
	line.WriteString("}\n")
	return line.Bytes(), nil
}

// columnValue is a column in the form in which the engines' drivers return it: a number or a text.
func columnValue(value any) (number int64, text string) {
	switch value := value.(type) {
	case int64:
		return value, ""
	case bool:
		if value {
			return 1, ""
		}
		return 0, ""
	case []byte:
		return 0, string(value)
	case string:
		return 0, value
	}
	return 0, fmt.Sprint(value)
}
