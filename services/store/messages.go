package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// MessageState is the absolute state of one type of site messages of one user: a lower version is an older state.
type MessageState struct {
	User    services.UserID
	Type    string
	Version uint64
	Unread  int                // counted to MessagesCounted + 1, the newest
	Days    services.DayCounts // of the unread: Older and Days together are Unread
}

// MessageMark selects a user's site messages: those of IDs, or, without any, all of Types up to UpTo (0: all at present).
type MessageMark struct {
	IDs   []services.PostID
	Types []string
	UpTo  services.PostID
	// Gen is the generation of the list that showed the messages as unread: a message that was marked unread in a later
	// generation stays unread. AnyGen is the current one.
	Gen uint64
}

var (
	insertMessage = sql.NewStatement("insert a site message", `
INSERT INTO site_messages (id, import_key, type, title, content, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $6)`)

	editMessage = sql.NewStatement("edit a site message", `
UPDATE site_messages SET title = COALESCE(CAST($2 AS TEXT), title), content = COALESCE(CAST($3 AS TEXT), content), updated_at = $4 WHERE id = $1`)

	messageType = sql.NewStatement("the type of a site message", `SELECT type FROM site_messages WHERE id = $1`)

	messageByKey = sql.NewStatement("a site message by its key", `
SELECT id, type, title, content FROM site_messages WHERE import_key = $1 AND import_key <> ''`)

	// An upsert locks the row whether it is there or not, in the order of the rows given.
	lockMessageStates = sql.NewStatement("lock states of site messages", `
INSERT INTO site_message_state AS s (user_number, type, ver)
SELECT user_number, type, 0 FROM {rows $1 n BIGINT, user_number BIGINT, type TEXT} AS c WHERE TRUE ORDER BY n
ON CONFLICT (user_number, type) DO UPDATE SET ver = s.ver`)

	lockMessageTypes = sql.NewStatement("lock a user's states of site messages", `
SELECT type FROM site_message_state WHERE user_number = $1 AND {in type $2 TEXT} ORDER BY type {for update}`)

	messageHolders = sql.NewStatement("recipients of a site message", `
SELECT user_number FROM site_message_recipients WHERE message = $1 AND {in user_number $2 BIGINT}`)

	insertRecipients = sql.NewInsertion("insert recipients", "site_message_recipients", "user_number BIGINT, message BIGINT, type TEXT", "")

	typesOfMessages = sql.NewStatement("types of a user's site messages", `
SELECT message, type FROM site_message_recipients WHERE user_number = $1 AND {in message $2 BIGINT}`)

	readMessages = sql.NewStatement("mark site messages read", `
UPDATE site_message_recipients SET read_at = $3 WHERE user_number = $1 AND {in message $2 BIGINT} AND read_at IS NULL AND unread_gen <= $4 RETURNING type`)

	unreadMessages = sql.NewStatement("mark site messages unread", `
UPDATE site_message_recipients SET read_at = NULL, unread_gen = $3 WHERE user_number = $1 AND {in message $2 BIGINT} AND read_at IS NOT NULL RETURNING type`)

	readMessageTypes = sql.NewStatement("mark site messages of types read", `
UPDATE site_message_recipients SET read_at = $4 WHERE user_number = $1 AND {in type $2 TEXT} AND message <= $3 AND read_at IS NULL AND unread_gen <= $5 RETURNING type`)

	keepMessagesUnread = sql.NewStatement("keep site messages unread", `
UPDATE site_message_recipients SET unread_gen = $3 WHERE user_number = $1 AND {in message $2 BIGINT} AND read_at IS NULL`)

	nextMessageGen = sql.NewStatement("next generation of site messages", `
INSERT INTO site_message_gens AS g (user_number, gen) VALUES ($1, 1) ON CONFLICT (user_number) DO UPDATE SET gen = g.gen + 1 RETURNING gen`)

	messageGen = sql.NewStatement("generation of site messages", `SELECT gen FROM site_message_gens WHERE user_number = $1`)

	raiseMessageVersions = sql.NewStatement("raise versions of site messages", `
UPDATE site_message_state AS s SET ver = s.ver + 1
FROM {rows $1 user_number BIGINT, type TEXT} AS c WHERE s.user_number = c.user_number AND s.type = c.type`)
)

// InsertSiteMessage inserts a message without recipients: see DeliverSiteMessage. importKey is the key that an import gave it,
// "" for none; a key that is taken is an error.
func (tx *Tx) InsertSiteMessage(ctx context.Context, m services.SiteMessage, importKey string) error {
	_, err := tx.Run(ctx, insertMessage, m.ID, importKey, m.Type, m.Title, m.Content, tx.Now)
	return err
}

// SiteMessageByKey finds a message by its import key: its id, type, title and content.
func (s *Store) SiteMessageByKey(ctx context.Context, importKey string) (m services.SiteMessage, found bool, err error) {
	found, err = s.One(ctx, messageByKey, []any{importKey}, &m.ID, &m.Type, &m.Title, &m.Content)
	return m, found, err
}

// EditSiteMessage changes the text for every recipient and leaves their read states; nil leaves a text as it is. NOT_FOUND when
// there is no such message.
func (tx *Tx) EditSiteMessage(ctx context.Context, id services.PostID, title, content *string) error {
	changed, err := tx.Run(ctx, editMessage, id, optional(title), optional(content), tx.Now)
	if err == nil && changed == 0 {
		err = noSiteMessage("id", id)
	}
	return err
}

func noSiteMessage(field string, id services.PostID) error {
	return services.Errorf(services.NotFound, "%s: there is no %s", field, services.GlobalID(services.SiteMessageType, id.String()))
}

// DeliverSiteMessage gives users a message, unread. A user who has it already keeps their read state. It returns the states of
// all users named, in order of user ID, so that a repeated delivery notifies them again.
func (tx *Tx) DeliverSiteMessage(ctx context.Context, id services.PostID, users []services.UserID) ([]MessageState, error) {
	var kind string
	found, err := tx.One(ctx, messageType, []any{id}, &kind)
	if err != nil || len(users) == 0 {
		return nil, err
	}
	if !found {
		return nil, noSiteMessage("id", id)
	}
	users = slices.Compact(slices.Sorted(slices.Values(users))) // all lock in one order
	lock, boxes := make(sql.Rows, len(users)), make(sql.Rows, len(users))
	for i, user := range users {
		lock[i], boxes[i] = []any{i, user, kind}, []any{user, kind}
	}
	if _, err := tx.Run(ctx, lockMessageStates, lock); err != nil {
		return nil, err
	}
	// While the locks are held no other transaction gives or takes a message of this type.
	has := map[services.UserID]bool{}
	err = tx.Each(ctx, messageHolders, []any{id, users}, func(scan func(...any) error) error {
		var user services.UserID
		err := scan(&user)
		has[user] = true
		return err
	})
	if err != nil {
		return nil, err
	}
	var fresh [][]any
	var changed sql.Rows
	for _, user := range users {
		if !has[user] {
			fresh = append(fresh, []any{user, id, kind})
			changed = append(changed, []any{user, kind})
		}
	}
	if _, err := tx.Insert(ctx, insertRecipients, fresh); err != nil {
		return nil, err
	}
	if err := tx.raiseMessageVersions(ctx, changed); err != nil {
		return nil, err
	}
	return messageStates(ctx, tx.Tx.Runner, messageStatesOf, boxes)
}

func (tx *Tx) raiseMessageVersions(ctx context.Context, changed sql.Rows) error {
	if len(changed) == 0 {
		return nil
	}
	_, err := tx.Run(ctx, raiseMessageVersions, changed)
	return err
}

// MarkSiteMessagesRead marks a user's messages read and returns the states of the types concerned, changed or not. NOT_FOUND
// for a message that the user does not have, also when it is UpTo.
func (tx *Tx) MarkSiteMessagesRead(ctx context.Context, user services.UserID, mark MessageMark) ([]MessageState, error) {
	if len(mark.IDs) > 0 {
		return tx.markMessages(ctx, user, mark.IDs, readMessages, tx.Now, int64(mark.Gen))
	}
	upTo := services.MaxPostID
	if mark.UpTo != 0 {
		upTo = mark.UpTo
		if _, err := tx.typesOfMessages(ctx, "upTo", user, []services.PostID{upTo}); err != nil {
			return nil, err
		}
	}
	return tx.changeMessages(ctx, user, mark.Types, readMessageTypes, user, mark.Types, upTo, tx.Now, int64(mark.Gen))
}

// MarkSiteMessagesUnread marks a user's messages unread again and returns the states of their types, changed or not. NOT_FOUND
// for a message that the user does not have.
func (tx *Tx) MarkSiteMessagesUnread(ctx context.Context, user services.UserID, ids []services.PostID) ([]MessageState, error) {
	if _, err := tx.typesOfMessages(ctx, "ids", user, ids); err != nil {
		return nil, err
	}
	var gen int64
	if _, err := tx.One(ctx, nextMessageGen, []any{user}, &gen); err != nil {
		return nil, err
	}
	// What is unread already must also stay unread against older marks; the count does not change.
	if _, err := tx.Run(ctx, keepMessagesUnread, user, ids, gen); err != nil {
		return nil, err
	}
	return tx.markMessages(ctx, user, ids, unreadMessages, gen)
}

// SiteMessageGen is a user's generation of site messages. Read before a list, it is the generation of what the list shows.
func (s *Store) SiteMessageGen(ctx context.Context, user services.UserID) (gen uint64, err error) {
	_, err = s.One(ctx, messageGen, []any{user}, &gen)
	return gen, err
}

func (tx *Tx) markMessages(ctx context.Context, user services.UserID, ids []services.PostID, st sql.Statement, more ...any) ([]MessageState, error) {
	types, err := tx.typesOfMessages(ctx, "ids", user, ids)
	if err != nil {
		return nil, err
	}
	return tx.changeMessages(ctx, user, types, st, append([]any{user, ids}, more...)...)
}

// typesOfMessages lists the types of some messages. The user must have all of them.
func (tx *Tx) typesOfMessages(ctx context.Context, field string, user services.UserID, ids []services.PostID) (types []string, err error) {
	has := map[services.PostID]bool{}
	err = tx.Each(ctx, typesOfMessages, []any{user, ids}, func(scan func(...any) error) error {
		var id services.PostID
		var kind string
		err := scan(&id, &kind)
		has[id] = true
		types = append(types, kind)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if !has[id] {
			return nil, noSiteMessage(field, id)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(types))), nil
}

// changeMessages runs an update of a user's rows, which returns their types, under the locks of all types that it may touch. A
// user without a state of a type has no message of that type.
func (tx *Tx) changeMessages(ctx context.Context, user services.UserID, types []string, st sql.Statement, args ...any) ([]MessageState, error) {
	var boxes sql.Rows
	err := tx.Each(ctx, lockMessageTypes, []any{user, types}, func(scan func(...any) error) error {
		var kind string
		err := scan(&kind)
		boxes = append(boxes, []any{user, kind})
		return err
	})
	if err != nil || len(boxes) == 0 {
		return nil, err
	}
	changed := map[string]bool{}
	err = tx.Each(ctx, st, args, func(scan func(...any) error) error {
		var kind string
		err := scan(&kind)
		changed[kind] = true
		return err
	})
	if err != nil {
		return nil, err
	}
	var raise sql.Rows
	for _, box := range boxes {
		if changed[box[1].(string)] {
			raise = append(raise, box)
		}
	}
	if err := tx.raiseMessageVersions(ctx, raise); err != nil {
		return nil, err
	}
	return messageStates(ctx, tx.Tx.Runner, messageStatesOf, boxes)
}

// sortStates sorts states by user and type.
func sortStates(states []MessageState) []MessageState {
	slices.SortFunc(states, func(a, b MessageState) int { return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Type, b.Type)) })
	return states
}

// readAt is a nullable time; null is the zero time.
func readAt(us sql.NullInt64) time.Time {
	if !us.Valid {
		return time.Time{}
	}
	return sql.FromMicros(us.Int64)
}
