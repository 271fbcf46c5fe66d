package chat

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

var (
	putMember = sql.NewStatement("put a member", `UPDATE conversation_members
		SET base = $3, k = $4, mv = $5, gen = $6, mentions = $7, muted = $8, inside = $9, marked = $10 WHERE conversation = $1 AND user_number = $2`)

	// recountMember counts in three ranges above a position: the member's own messages, recalled messages of others, and mentions. A
	// recalled message of the member is in the first, so the second leaves it out. Members are mostly near the end, so the ranges
	// are short.
	recountMember = sql.NewStatement("recount a member", `SELECT
	(SELECT count(*) FROM conversation_messages WHERE conversation = $1 AND author = $2 AND number > $3) +
	(SELECT count(*) FROM conversation_messages WHERE conversation = $1 AND number > $3 AND recalled_at > 0 AND author <> $2),
	(SELECT count(*) FROM conversation_mentions WHERE conversation = $1 AND user_number = $2 AND number > $3)`)

	putLease = sql.NewStatement("put a lease", `INSERT INTO conversation_leases (conversation, user_number, device, until_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (conversation, user_number, device) DO UPDATE SET until_at = excluded.until_at`)

	// An event of the past shortens no lease that was taken later.
	putPastLease = sql.NewStatement("put a lease of the past", `INSERT INTO conversation_leases AS l (conversation, user_number, device, until_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (conversation, user_number, device) DO UPDATE SET until_at = CASE WHEN excluded.until_at > l.until_at THEN excluded.until_at ELSE l.until_at END`)

	dropLease = sql.NewStatement("drop a lease", `DELETE FROM conversation_leases WHERE conversation = $1 AND user_number = $2 AND device = $3`)

	// A device that left at a past time keeps a lease that it took later, and that so ends after $4.
	dropPastLease = sql.NewStatement("drop a lease of the past", `DELETE FROM conversation_leases
		WHERE conversation = $1 AND user_number = $2 AND device = $3 AND until_at <= $4`)

	dropEndedLeases = sql.NewStatement("drop ended leases", `DELETE FROM conversation_leases
		WHERE conversation = $1 AND user_number = $2 AND until_at <= $3 RETURNING until_at`)

	// leaseEnds reads when the first and the last of a user's leases end, which may be in the past; null without a lease.
	leaseEnds = sql.NewStatement("open leases", `SELECT min(until_at), max(until_at) FROM conversation_leases WHERE conversation = $1 AND user_number = $2`)

	// openLease reads when a device's lease ends, if the lease is not over at the time $4.
	openLease = sql.NewStatement("a device's open lease", `SELECT until_at FROM conversation_leases
		WHERE conversation = $1 AND user_number = $2 AND device = $3 AND until_at > $4`)

	// sent_at rises with number, so this walks backwards only over the messages sent since the time.
	newestMessageUntil = sql.NewStatement("newest message until", `SELECT number FROM conversation_messages
		WHERE conversation = $1 AND sent_at <= $2 ORDER BY number DESC LIMIT 1`)

	leasesOfDevice = sql.NewStatement("leases of a device", `SELECT conversation FROM conversation_leases WHERE user_number = $1 AND device = $2`)
)

// putState writes a member's row back, with the next version, if m differs from before.
func putState(ctx context.Context, tx *sql.Tx, before, m services.Membership) error {
	if m == before {
		return nil
	}
	// The row gets absolute values and the next version: the projection takes the newest whole row, in whatever order rows arrive.
	_, err := tx.Run(ctx, putMember, m.Conversation, m.User, m.ReadUpTo, m.UnreadAdjustment, m.Version+1, m.MarkUnreadGeneration, m.Mentions, m.Muted, m.IsOpen, m.MarkedUnread)
	return err
}

// setReadPosition sets a locked row's position and recounts the messages above it. Counting anew is exact, whatever happened
// meanwhile: nothing is added or subtracted, so no mark can be counted twice.
func setReadPosition(ctx context.Context, tx *sql.Tx, m *services.Membership, number int64) error {
	var skipped int64
	if _, err := tx.One(ctx, recountMember, []any{m.Conversation, m.User, number}, &skipped, &m.Mentions); err != nil {
		return err
	}
	m.ReadUpTo, m.UnreadAdjustment = number, -skipped
	return nil
}

// readUpTo moves a user's position in a conversation forward to a message, 0 for the newest. gen is the generation in which the
// device made the mark, -1 for the present one. A mark of an older generation is late and changes nothing, and so does a mark below
// the position. It reports whether the position moved. INVALID beyond the newest message, or in a generation that was never opened.
func readUpTo(ctx context.Context, tx *sql.Tx, id services.ConversationID, user services.UserID, number, gen int64) (changed bool, err error) {
	m, err := lockState(ctx, tx, id, user)
	if err != nil {
		return false, err
	}
	if number > m.NewestMessageNumber {
		return false, beyondNewestError("upTo", id, number, m.NewestMessageNumber)
	}
	if gen > m.MarkUnreadGeneration {
		return false, services.Errorf(services.Invalid, "readToken: it is of a later generation than the present %d", m.MarkUnreadGeneration)
	}
	// The device made this mark before it learned of a "mark unread" by another device, which the mark would undo.
	if gen >= 0 && gen < m.MarkUnreadGeneration {
		return false, nil
	}
	if number == 0 {
		if number, err = newestAtEvent(ctx, tx, m); err != nil {
			return false, err
		}
	}
	if number <= m.ReadUpTo {
		return false, nil
	}
	before := m
	if err := setReadPosition(ctx, tx, &m, number); err != nil {
		return false, err
	}
	// If the user has read only some of the messages that they marked unread, the others stay so.
	if number == m.NewestMessageNumber {
		if err := endUnreadMark(ctx, tx, &m); err != nil {
			return false, err
		}
	}
	return true, putState(ctx, tx, before, m)
}

// newestAtEvent is the number of the newest message at the time of the event, 0 for none: a mark of the past covers no later
// message.
func newestAtEvent(ctx context.Context, tx *sql.Tx, m services.Membership) (number int64, err error) {
	if tx.EventMoment() == 0 {
		return m.NewestMessageNumber, nil
	}
	_, err = tx.One(ctx, newestMessageUntil, []any{m.Conversation, tx.EventTime()}, &number)
	return number, err
}

// markReadUntilEvent marks a locked row read up to the newest message at the time of the event. A position never moves back.
func markReadUntilEvent(ctx context.Context, tx *sql.Tx, m *services.Membership) error {
	number, err := newestAtEvent(ctx, tx, *m)
	if err != nil || number <= m.ReadUpTo {
		return err
	}
	return setReadPosition(ctx, tx, m, number)
}

// beyondNewestError is the error for an argument that names a message which does not exist yet. A mark up to it would cover
// messages before they are written.
func beyondNewestError(field string, id services.ConversationID, number, last int64) error {
	return services.Errorf(services.Invalid, "%s: %s is beyond the newest message, number %d", field, services.NewMessageID(id, number).GlobalID(), last)
}

// markReadWhileOpen marks a locked row read up to the newest message that was sent while a device was inside: until now, or until
// the last lease expired. After a mark as unread it changes nothing.
func markReadWhileOpen(ctx context.Context, tx *sql.Tx, m *services.Membership) error {
	var first, last sql.NullInt64
	if _, err := tx.One(ctx, leaseEnds, []any{m.Conversation, m.User}, &first, &last); err != nil || !last.Valid || m.MarkedUnread {
		return err
	}
	if last.Int64 > sql.Micros(tx.EventTime()) {
		return markReadUntilEvent(ctx, tx, m)
	}
	var newest int64
	if _, err := tx.One(ctx, newestMessageUntil, []any{m.Conversation, last.Int64}, &newest); err != nil || newest <= m.ReadUpTo {
		return err
	}
	return setReadPosition(ctx, tx, m, newest)
}

// setIsOpen sets whether the user is inside: some device has a lease, and the messages were not marked unread meanwhile. A lease that
// has expired does not keep the user inside, even if the job that ends it has not run yet.
func setIsOpen(ctx context.Context, tx *sql.Tx, m *services.Membership) error {
	var first, last sql.NullInt64
	_, err := tx.One(ctx, leaseEnds, []any{m.Conversation, m.User}, &first, &last)
	m.IsOpen = !m.MarkedUnread && last.Valid && last.Int64 > sql.Micros(tx.Now)
	return err
}

// endUnreadMark ends a mark as unread: the devices that still have the conversation open are inside again.
func endUnreadMark(ctx context.Context, tx *sql.Tx, m *services.Membership) error {
	if !m.MarkedUnread {
		return nil
	}
	m.MarkedUnread = false
	return setIsOpen(ctx, tx, m)
}

// markUnread makes a message and all after it unread again, in a new generation: marks that devices made in the former generation
// are late from now on. Unread messages stay unread. The user is outside, also if a device has the conversation open: until they
// enter again, write, or read all messages, no lease marks any read. INVALID beyond the newest message.
func markUnread(ctx context.Context, tx *sql.Tx, id services.ConversationID, user services.UserID, from int64) error {
	// The lock keeps out a recall. A recall skips the members who have read the message, so no position may move back while one
	// runs.
	if _, err := lock(ctx, tx, id); err != nil {
		return services.WithArgument("fromMessageId", err)
	}
	m, err := lockState(ctx, tx, id, user)
	if err != nil {
		return services.WithArgument("fromMessageId", err)
	}
	if from > m.NewestMessageNumber {
		return beyondNewestError("fromMessageId", id, from, m.NewestMessageNumber)
	}
	before := m
	// No lease marks messages read after this mark, so those that were seen before it are marked read now.
	if err := markReadWhileOpen(ctx, tx, &m); err != nil {
		return err
	}
	// The message may be unread already.
	if from <= m.ReadUpTo {
		if err := setReadPosition(ctx, tx, &m, from-1); err != nil {
			return err
		}
		// The user knows these messages, so they must not alert. The change stream may never have reported the newest of them, for
		// example if it was read at once, and would then take it for a new one.
		if err := people.AlertMessagesFromNow(ctx, tx, user); err != nil {
			return err
		}
	}
	m.MarkUnreadGeneration, m.MarkedUnread, m.IsOpen = m.MarkUnreadGeneration+1, true, false
	return putState(ctx, tx, before, m)
}

// setMuted sets whether a conversation is muted for a user; false when nothing changes.
func setMuted(ctx context.Context, tx *sql.Tx, id services.ConversationID, user services.UserID, muted bool) (changed bool, err error) {
	m, err := lockState(ctx, tx, id, user)
	if err != nil || m.Muted == muted {
		return false, err
	}
	before := m
	m.Muted = muted
	// Unmuting brings old messages into the count. Alerts are for new ones only, so the messages that wait now do not alert.
	if !muted {
		if err := people.AlertMessagesFromNow(ctx, tx, user); err != nil {
			return false, err
		}
	}
	return true, putState(ctx, tx, before, m)
}

// enterOnDevice marks everything read and gives a device a lease on being inside the conversation, or renews it. While any device
// has a lease no message counts as unread. If the user marked messages unread while the device was inside, a renewal does not mark
// them read: the device has not entered since. A lease of a past event may have ended already. It is kept until the messages that
// were sent before its end are reported too, and then endLeases marks them read.
func enterOnDevice(ctx context.Context, tx *sql.Tx, id services.ConversationID, user services.UserID, device string, until time.Time) error {
	m, err := lockState(ctx, tx, id, user)
	if err != nil {
		return err
	}
	before := m
	renews := false
	if m.MarkedUnread {
		var held int64
		if renews, err = tx.One(ctx, openLease, []any{id, user, device, tx.EventTime()}, &held); err != nil {
			return err
		}
	}
	if !renews {
		if err := endUnreadMark(ctx, tx, &m); err != nil {
			return err
		}
		// Entering also marks the messages read that were sent since an earlier lease ended.
		if err := markReadUntilEvent(ctx, tx, &m); err != nil {
			return err
		}
	}
	put := putLease
	if tx.EventMoment() != 0 {
		put = putPastLease
	}
	if _, err := tx.Run(ctx, put, id, user, device, until); err != nil {
		return err
	}
	// Under a lease that has ended already, new messages count as unread.
	m.IsOpen = m.IsOpen || !m.MarkedUnread && until.After(tx.Now)
	return putState(ctx, tx, before, m)
}

// leaveOnDevice marks everything read and ends a device's lease. The user is outside when it was their last lease. What the user
// marked unread stays unread: the device entered before that. changed is false when there was no lease, and nothing to read. An
// event of the past ends no lease that was taken later, and so no lease that ends after until.
func leaveOnDevice(ctx context.Context, tx *sql.Tx, id services.ConversationID, user services.UserID, device string, until time.Time) (changed bool, err error) {
	m, err := lockState(ctx, tx, id, user)
	if err != nil {
		return false, err
	}
	before := m
	drop, lease := dropLease, []any{id, user, device}
	if tx.EventMoment() != 0 {
		drop, lease = dropPastLease, append(lease, until)
	}
	dropped, err := tx.Run(ctx, drop, lease...)
	if err != nil {
		return false, err
	}
	if !m.MarkedUnread {
		if err := markReadUntilEvent(ctx, tx, &m); err != nil {
			return false, err
		}
	}
	// Another device may still have the conversation open.
	if err := setIsOpen(ctx, tx, &m); err != nil {
		return false, err
	}
	return dropped > 0 || m != before, putState(ctx, tx, before, m)
}

// endLeases ends the expired leases of a user who is still a member. When none is left the user is outside, and has read the
// messages that were sent until the last lease expired, except those that they marked unread. next is when the next lease expires,
// zero when there is none.
func endLeases(ctx context.Context, tx *sql.Tx, id services.ConversationID, user services.UserID) (next time.Time, err error) {
	m, err := lockState(ctx, tx, id, user)
	if services.CodeOf(err) == services.NotFound || m.HasLeft {
		return next, nil
	}
	if err != nil {
		return next, err
	}
	var ended int64
	err = tx.Each(ctx, dropEndedLeases, []any{id, user, tx.Now}, func(scan func(...any) error) error {
		var until int64
		err := scan(&until)
		// ended is the latest end of a lease: until then a device was inside.
		ended = max(ended, until)
		return err
	})
	if err != nil {
		return next, err
	}
	var first, last sql.NullInt64
	if _, err := tx.One(ctx, leaseEnds, []any{id, user}, &first, &last); err != nil {
		return next, err
	}
	// A lease remains: a device has renewed its lease, or another device is inside.
	if first.Valid {
		return sql.FromMicros(first.Int64), nil
	}
	// Another job, or a device that left, has ended the leases, or the user has marked messages unread, which stay so. m.IsOpen is
	// no condition: the lease of a past event may have ended before it was reported (enterOnDevice), and so opened nothing.
	if ended == 0 || m.MarkedUnread {
		return next, nil
	}
	before := m
	var newest int64
	if _, err := tx.One(ctx, newestMessageUntil, []any{id, ended}, &newest); err != nil {
		return next, err
	}
	// The position moves only up to the end of the last lease: later messages arrived while no device was inside.
	if newest > m.ReadUpTo {
		if err := setReadPosition(ctx, tx, &m, newest); err != nil {
			return next, err
		}
	}
	m.IsOpen = false
	return next, putState(ctx, tx, before, m)
}

// readLeases lists the conversations in which a user's device has a lease. It includes expired leases that no job has ended yet.
func readLeases(ctx context.Context, db *sql.DB, user services.UserID, device string) (ids []services.ConversationID, err error) {
	return sql.ReadColumn[services.ConversationID](ctx, db, leasesOfDevice, user, device)
}
