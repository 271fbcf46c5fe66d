package messages

import (
	"cmp"
	"context"
	"slices"

	"tidings/services"
	"tidings/services/sql"
)

// unreadDays and unreadRows are parts of the statements that count the newest unread messages of states s, at most
// services.MaxCountedSiteMessages + 1, by the day in a message's ID. The count reads only the index site_message_recipients_unread.
// A state and its counts are one snapshot, so that counts belong to their version.
const (
	// unreadDays are the columns: the state, a day, and the number of its messages.
	unreadDays = `s.user_number, s.type, s.ver, h.message / 181193932800000, count(h.message)`
	// unreadRows are the messages to count.
	unreadRows = `site_message_recipients h ON h.user_number = s.user_number AND h.type = s.type AND h.read_at IS NULL
	AND h.message >= COALESCE((SELECT o.message FROM site_message_recipients o WHERE o.user_number = s.user_number AND o.type = s.type
		AND o.read_at IS NULL ORDER BY o.message DESC LIMIT 1 OFFSET $2), 0)`
)

// messageColumns are the columns of a message's text, in the order in which selectMessages scans them.
const messageColumns = `m.id, m.type, m.title, m.content, m.created_at, m.updated_at`

var (
	// statesOf reads the states of given users and types, statesOfUsers all states of users: a row for each day with unread messages, or
	// one row without a day.
	statesOf = sql.NewStatement("states of site messages", `
SELECT `+unreadDays+`
FROM {rows $1 user_number BIGINT, type TEXT} AS c CROSS JOIN site_message_state s LEFT JOIN `+unreadRows+`
WHERE s.user_number = c.user_number AND s.type = c.type GROUP BY 1, 2, 3, 4`)

	statesOfUsers = sql.NewUserStatement("states of a user's site messages", "states of users' site messages", `
SELECT `+unreadDays+` FROM site_message_state s LEFT JOIN `+unreadRows+` WHERE {user s.user_number} GROUP BY 1, 2, 3, 4`)

	// CROSS JOIN fixes the order of the join: from the user's rows, whose key has the order of messages, to the texts.
	messagesOf = sql.NewStatement("a user's site messages", `
SELECT `+messageColumns+`, h.read_at FROM site_message_recipients h CROSS JOIN site_messages m
WHERE m.id = h.message AND h.user_number = $1 AND h.message < $2 AND {in h.type $3 TEXT}
ORDER BY h.message DESC LIMIT $4`)

	unreadOf = sql.NewStatement("a user's unread site messages", `
SELECT `+messageColumns+`, h.read_at FROM site_message_recipients h CROSS JOIN site_messages m
WHERE m.id = h.message AND h.user_number = $1 AND h.message < $2 AND {in h.type $3 TEXT} AND h.read_at IS NULL
ORDER BY h.message DESC LIMIT $4`)

	newestOf = sql.NewStatement("newest site messages of a user", `
SELECT message, type FROM site_message_recipients WHERE user_number = $1 AND {in type $2 TEXT} ORDER BY message DESC LIMIT $3`)

	newestUnreadOf = sql.NewStatement("newest unread site messages of a user", `
SELECT message, type FROM site_message_recipients WHERE user_number = $1 AND {in type $2 TEXT} AND read_at IS NULL
ORDER BY message DESC LIMIT $3`)

	// CROSS JOIN makes SQLite begin with the user's own rows. Of a message that only others got, nothing is read.
	messagesByID = sql.NewStatement("a user's site messages by id", `
SELECT `+messageColumns+`, h.read_at FROM site_message_recipients h CROSS JOIN site_messages m
WHERE m.id = h.message AND h.user_number = $1 AND {in h.message $2 BIGINT}`)

	// read_at is null while a message is unread, so counting it counts the readers. The index of recipients by message holds both
	// columns.
	reportsOf = sql.NewStatement("reports of site messages", `
SELECT `+messageColumns+`, COALESCE(r.recipients, 0), COALESCE(r.reads, 0) FROM site_messages m LEFT JOIN (
	SELECT message, count(*) AS recipients, count(read_at) AS reads FROM site_message_recipients WHERE {in message $1 BIGINT} GROUP BY message
) r ON r.message = m.id WHERE {in m.id $1 BIGINT}`)

	generationOf = sql.NewStatement("generation of site messages", `SELECT gen FROM site_message_gens WHERE user_number = $1`)
)

// readUserStates reads the states of users, one for each type of which they ever got a message, in order of user ID and type.
func readUserStates(ctx context.Context, db *sql.DB, users ...services.UserID) ([]unreadState, error) {
	st, of := statesOfUsers.ForUsers(users)
	return readStates(ctx, db.Runner, st, of)
}

// readStates reads states from rows that each have one day of a state.
func readStates(ctx context.Context, r sql.Runner, st sql.Statement, which any) (states []unreadState, err error) {
	type key struct {
		user services.UserID
		kind string
	}
	indexes := map[key]int{}
	err = r.Each(ctx, st, []any{which, services.MaxCountedSiteMessages}, func(scan func(...any) error) error {
		var state unreadState
		var day sql.NullInt64 // null if nothing is unread
		var unread int
		if err := scan(&state.User, &state.Type, &state.Version, &day, &unread); err != nil {
			return err
		}
		// The rows of one state need not be together.
		index, known := indexes[key{state.User, state.Type}]
		if !known {
			index = len(states)
			indexes[key{state.User, state.Type}] = index
			states = append(states, state)
		}
		// Each row counts one day of the newest unread messages. Messages beyond services.MaxCountedSiteMessages + 1 are in no row.
		if day.Valid {
			states[index].Unread += unread
			states[index].Days.Add(day.Int64, unread)
		}
		return nil
	})
	// Callers rely on the order by user; the statement returns the groups in no order.
	slices.SortFunc(states, func(a, b unreadState) int { return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Type, b.Type)) })
	return states, err
}

// readGeneration reads a user's generation of messages, which rises with each command that marks some of them unread. Call it before
// the list is read: then the list shows this generation or a later one.
func readGeneration(ctx context.Context, db *sql.DB, user services.UserID) (gen uint64, err error) {
	_, err = db.One(ctx, generationOf, []any{user}, &gen)
	return gen, err
}

// listMessages lists a user's messages of some types before an ID, the newest first, at most limit. unreadOnly leaves out the messages
// that the user has read.
func listMessages(ctx context.Context, db *sql.DB, user services.UserID, types []string, unreadOnly bool, before ID, limit int) ([]Message, error) {
	st := messagesOf
	if unreadOnly {
		st = unreadOf
	}
	return selectMessages(ctx, db, st, user, before, types, limit)
}

// readMessages reads messages of a user by their IDs; a message that the user does not have is absent.
func readMessages(ctx context.Context, db *sql.DB, user services.UserID, ids []ID) (map[ID]Message, error) {
	list, err := selectMessages(ctx, db, messagesByID, user, sql.Numbers(ids))
	return services.KeyBy(list, func(message Message) ID { return message.ID }), err
}

// selectMessages runs a statement that selects messageColumns and the time of reading.
func selectMessages(ctx context.Context, db *sql.DB, st sql.Statement, args ...any) ([]Message, error) {
	return sql.ReadRows(ctx, db, st, args, func(scan sql.Scan, m *Message) error {
		var created, updated int64
		var at sql.NullInt64
		err := scan(&m.ID, &m.Type, &m.Title, &m.Content, &created, &updated, &at)
		m.CreatedAt, m.UpdatedAt, m.ReadAt = sql.FromMicros(created), sql.FromMicros(updated), sql.FromMicrosOrZero(at.Int64)
		return err
	})
}

// readReports reads messages as their senders see them, with the numbers of recipients and of readers. A message that does not exist
// is absent.
func readReports(ctx context.Context, db *sql.DB, ids []ID) (map[ID]SentMessage, error) {
	return sql.ReadByKey(ctx, db, reportsOf, []any{sql.Numbers(ids)}, func(scan sql.Scan, id *ID, report *SentMessage) error {
		var created, updated int64
		m := &report.Message
		err := scan(&m.ID, &m.Type, &m.Title, &m.Content, &created, &updated, &report.Recipients, &report.ReadCount)
		*id, m.CreatedAt, m.UpdatedAt = m.ID, sql.FromMicros(created), sql.FromMicros(updated)
		return err
	})
}

// readReport returns the report of one message. The error is NOT_FOUND if there is no such message. The caller has the scope of the
// application, so there is nothing to hide.
func readReport(ctx context.Context, db *sql.DB, id ID) (SentMessage, error) {
	found, err := readReports(ctx, db, []ID{id})
	one, exists := found[id]
	if err == nil && !exists {
		err = notFound("id", id)
	}
	return one, err
}
